//! `carry`: the saved copy's customisations onto the new configuration (procedure, 9.3 step 6).

use std::path::{Path as FilePath, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Previous};
use svc_step::lock::Lock;
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, StepResult};

use crate::content::{Content, replace, sha256, shipped};
use crate::layout::{ConfigArgs, Layout};
use crate::merge::{Decision, Outcome, Reason, three_way, two_way};
use crate::redact::Redactor;
use crate::saved::SavedArgs;
use crate::text::{Config, ConfigFile, Format, Written};
use crate::tree::{Flat, Path, WHOLE_FILE, list, names, render};

/// Arguments of `svc-confsave carry`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-confsave carry --from saved.json --base svc.yaml.shipped --dry-run | jq -c .result.keys")]
pub struct CarryArgs {
    #[command(flatten)]
    saved: SavedArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// The file that the saved version had shipped
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "all"])]
    base: Option<PathBuf>,
    /// Without a base: carry this key or group, a.b.c (may be repeated)
    #[arg(long = "key", value_name = "KEY", conflicts_with = "all")]
    keys: Vec<String>,
    /// Without a base: carry all that differs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// What became of every customised key.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Carried {
    /// The saved copy.
    pub saved: ConfigFile,
    /// The new configuration, as it was before.
    pub new: ConfigFile,
    /// The base of the three-way merge; `null` without one.
    pub base: Option<ConfigFile>,
    /// Every customised key, each with one outcome.
    pub keys: Vec<KeyReport>,
    /// The SHA-256 of the configuration with the customisations in it.
    pub sha256: String,
    /// Where the previous file is; `null` if nothing had to be changed.
    pub previous: Option<String>,
    /// What is done; empty if nothing had to be changed.
    pub plan: Vec<Action>,
}

/// A customised key, and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KeyReport {
    /// The keys that lead to it; empty for the whole file.
    pub key: Vec<String>,
    /// The same for people, `a.b.c`.
    pub path: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was not carried; `null` if it was.
    pub reason: Option<Reason>,
    /// The operator's value, as it is written; `null` if the operator removed the key.
    pub saved: Option<Value>,
    /// The value of the base; `null` if there is no base, or no such key in it.
    pub base: Option<Value>,
    /// The value that the new configuration had before; `null` if it had none.
    pub new: Option<Value>,
}

/// The files of a call.
struct Files {
    saved: Config,
    base: Option<Config>,
    new: Config,
}

/// The new content, and where the present one is kept; `None`: nothing changes.
type Write = Option<(Vec<u8>, Previous)>;

pub(crate) fn run(args: &CarryArgs, call: &Call) -> StepResult<Carried> {
    let (copy, config) = args.saved.copy(call, &args.config)?;
    // The document's layout decides between two configuration files.
    let (path, layout) = config.find(copy.saved.as_ref().map(|saved| saved.layout))?;
    let saved = Config::read(copy.content, copy.layout)?;
    refuse_link(&path, layout)?;
    let _lock = Lock::unless_dry(call, "file", &path.display().to_string(), args.dry.dry_run)?;
    let new = Config::read(Content::read_no_link("read the configuration", &path)?, layout)?;
    let files = Files { base: base(args, &saved)?, saved, new };
    let mut carried = Carried {
        saved: files.saved.report(),
        new: files.new.report(),
        base: files.base.as_ref().map(Config::report),
        keys: Vec::new(),
        sha256: files.new.content.sha256(),
        previous: None,
        plan: Vec::new(),
    };
    if let Some((bytes, previous)) = plan(args, call, &files, &mut carried)? {
        carried.plan.insert(0, Action::file(&path, format!("previous file: {}", previous.display())));
        carried.sha256 = sha256(&bytes);
        carried.previous = Some(previous.display());
        if !args.dry.dry_run {
            replace(call, &files.new.content, &bytes, &previous).map_err(|failure| call.stopped(failure, carried.clone()))?;
        }
    }
    warn(&carried, call);
    Ok(carried)
}

fn refuse_link(path: &FilePath, layout: Layout) -> Result<(), Failure> {
    if !path.is_symlink() {
        return Ok(());
    }
    let target = std::fs::canonicalize(path).map_err(|error| Failure::io("follow the link", path, &error))?;
    let message = format!("{} is a symbolic link, which a new file would replace.", path.display());
    let itself = shell_quoted(&["--layout", layout.name(), "--config", &target.display().to_string()]);
    Err(Failure::refused("file_invalid", message).hint(format!("Name the file itself: {itself}")))
}

fn base(args: &CarryArgs, saved: &Config) -> Result<Option<Config>, Failure> {
    let Some(path) = &args.base else { return Ok(None) };
    let content = Content::read_own("read the base", &file::absolute(path)?)?;
    Config::read(content, saved.text.layout()).map(Some)
}

fn plan(args: &CarryArgs, call: &Call, files: &Files, carried: &mut Carried) -> Result<Write, Failure> {
    let Files { saved, base, new } = files;
    if saved.text.layout() != new.text.layout() {
        carried.keys.push(whole_file(Outcome::NotCarried, Some(Reason::OtherLayout)));
        return Ok(None);
    }
    if [Some(saved), base.as_ref(), Some(new)].into_iter().flatten().any(|file| file.text.format() == Format::Text) {
        return as_text(args, files, carried);
    }
    let merge = match base {
        Some(base) => three_way(new.text.layout(), base.text.flat(), saved.text.flat(), new.text.flat()),
        None => two_way(new.text.layout(), saved.text.flat(), new.text.flat(), named(args, saved.text.flat())?),
    };
    let Written { decisions, values, text } = new.text.write(merge, &saved.text, || call.check())?;
    let known: Vec<&Flat> = [saved, new].into_iter().chain(base).map(|file| file.text.flat()).collect();
    let redactor = Redactor::new(false, &known);
    carried.keys = decisions.iter().map(|decision| key_report(decision, files, &redactor)).collect();
    if text.as_bytes() == new.content.bytes {
        return Ok(None);
    }
    let previous = Previous::plan_named(&new.content.path, &new.content.bytes, &format!(".before-{}", call.run_id()))?;
    carried.plan.extend(new.text.differing(&values).iter().map(|path| {
        let change = match values.get(path) {
            Some(value) => format!("set {} to {}", render(&redactor.path(path)), redactor.value(path, value)),
            None => format!("remove {}", render(&redactor.path(path))),
        };
        Action::file(&new.content.path, change)
    }));
    Ok(Some((text.into_bytes(), previous)))
}

/// The keys that are carried without a base; `None`: all. One that the saved copy does not have is an error before anything is done.
fn named<'a>(args: &'a CarryArgs, saved: &Flat) -> Result<Option<&'a [String]>, Failure> {
    if let Some(unknown) = args.keys.iter().find(|name| !saved.keys().any(|path| names(name, path))) {
        return Err(Failure::not_found("options_invalid", format!("The saved copy has no key {unknown}."))
            .hint("svc-confsave diff lists the keys that differ, each as --key takes it in `path`."));
    }
    Ok((!args.all).then_some(args.keys.as_slice()))
}

/// A `svc.conf` with lines that are not understood is never changed by key: with a base or `--all` the saved file takes its place as a
/// whole, and the shipped one stays beside it, as package managers do.
fn as_text(args: &CarryArgs, files: &Files, carried: &mut Carried) -> Result<Write, Failure> {
    let Files { saved, base, new } = files;
    let base_text = base.as_ref().map(|base| base.text.as_str());
    let (outcome, reason) = match base_text {
        Some(base) if base == saved.text.as_str() => return Ok(None),
        _ if saved.text.as_str() == new.text.as_str() => (Outcome::Same, None),
        None if !args.all => (Outcome::NotCarried, Some(Reason::NotRecognised)),
        Some(base) if base != new.text.as_str() => (Outcome::Conflict, None),
        _ => (Outcome::Carried, None),
    };
    carried.keys.push(whole_file(outcome, reason));
    if matches!(outcome, Outcome::Same | Outcome::NotCarried) {
        return Ok(None);
    }
    let change = format!("replace by the whole of {}", saved.content.path.display());
    carried.plan.push(Action::file(&new.content.path, change));
    Ok(Some((saved.content.bytes.clone(), shipped(&new.content)?)))
}

fn key_report(decision: &Decision, files: &Files, redactor: &Redactor) -> KeyReport {
    let Decision { path, outcome, reason } = decision;
    let value = |file: &Config| file.text.flat().get(path).map(|leaf| redactor.value(path, leaf));
    let key = redactor.path(path);
    KeyReport {
        path: render(&key),
        key,
        outcome: *outcome,
        reason: *reason,
        saved: value(&files.saved),
        base: files.base.as_ref().and_then(value),
        new: value(&files.new),
    }
}

/// The report of a file that is not read by key.
fn whole_file(outcome: Outcome, reason: Option<Reason>) -> KeyReport {
    KeyReport { key: Path::new(), path: WHOLE_FILE.to_owned(), outcome, reason, saved: None, base: None, new: None }
}

/// Warns of what a person must look at.
fn warn(carried: &Carried, call: &Call) {
    let list = |wanted: fn(&KeyReport) -> bool| list(carried.keys.iter().filter(|key| wanted(key)).map(|key| &*key.path));
    if let Some(keys) = list(|key| key.outcome == Outcome::Conflict) {
        call.review("conflict", format!("Changed by the operator and by the vendor, the operator's value wins: {keys}."));
    }
    if let Some(keys) = list(|key| key.reason.is_some_and(|reason| reason != Reason::NotNamed)) {
        call.review("not_restored", format!("Customised and not carried, for the reasons in result.keys: {keys}."));
    }
    if let Some(keys) = list(|key| key.reason == Some(Reason::NotNamed)) {
        call.warn("not_restored", format!("These differ too and were not named: {keys}."));
    }
    if let (Some(previous), true) = (&carried.previous, carried.keys.iter().any(|key| key.key.is_empty())) {
        let message = format!("A line is not understood, so the whole saved file is in place and the shipped one is {previous}.");
        call.review("not_restored", message);
    }
}
