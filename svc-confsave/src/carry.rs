//! `carry`: the saved copy's customisations onto the new configuration (procedure, 9.3 step 6).

use std::path::{Path, PathBuf};

use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Previous};
use svc_step::lock::Lock;
use svc_step::{Call, Failure, StepResult};

use crate::carried::{BaseUsed, Carried};
use crate::config::Config;
use crate::content::{Content, sha256};
use crate::diff::side;
use crate::key::{KeyReport, Outcome, Sides};
use crate::layout::ConfigArgs;
use crate::merge::{Choice, Reason, three_way, two_way};
use crate::redact::Redactor;
use crate::replace::replace;
use crate::saved::SavedArgs;
use crate::text::Format;
use crate::tree::{Flat, names, render};
use crate::write::{Written, write};
use crate::{as_file, cross, text_diff};

/// Arguments of `svc-confsave carry`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  svc-confsave carry --base svc.yaml.shipped --dry-run | jq -r '.result.keys[] | \"\\(.outcome) \\(.path)\"'"
)]
pub struct CarryArgs {
    #[command(flatten)]
    saved: SavedArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// What the saved version had shipped
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "all"])]
    base: Option<PathBuf>,
    /// Without a base: carry this key or group, a.b.c (may be repeated)
    #[arg(long = "key", value_name = "KEY", conflicts_with = "all")]
    keys: Vec<String>,
    /// Without a base: carry all that differs
    #[arg(long)]
    all: bool,
    /// Show passwords, keys and tokens as they are
    #[arg(long)]
    show_secrets: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// The files of a call.
struct Files {
    saved: Config,
    base: Option<Config>,
    new: Config,
}

/// What is to be written, and what is said of it.
struct Plan {
    keys: Vec<KeyReport>,
    /// The new content and where the present one is kept; `None`: nothing changes.
    write: Option<(Vec<u8>, Previous)>,
    plan: Vec<Action>,
}

pub(crate) fn run(args: &CarryArgs, call: &Call) -> StepResult<Carried> {
    let (saved, config) = args.saved.read(call, &args.config)?;
    let (path, layout) = config.find(args.saved.decides().then_some(saved.text.layout()))?;
    refuse_link(&path)?;
    let _lock = Lock::unless_dry(call, "file", &path.display().to_string(), args.dry.dry_run)?;
    let new = Config::read(Content::read_no_link("read the configuration", &path)?, layout)?;
    let files = Files { base: base(args, &saved)?, saved, new };
    let known: Vec<&Flat> = [&files.saved, &files.new].into_iter().chain(&files.base).map(|file| file.text.flat()).collect();
    let redactor = Redactor::new(args.show_secrets, &known);
    let plan = plan(args, call, &files, &redactor)?;
    let carried = report(args, &files, &plan, &redactor)?;
    if let (Some((bytes, aside)), false) = (&plan.write, args.dry.dry_run) {
        replace(call, &files.new.content, bytes, aside).map_err(|failure| call.stopped(failure, carried.clone()))?;
    }
    carried.say(call);
    Ok(carried)
}

fn refuse_link(path: &Path) -> Result<(), Failure> {
    if !path.is_symlink() {
        return Ok(());
    }
    let target = std::fs::canonicalize(path).map_err(|error| Failure::io("follow the link", path, &error))?;
    Err(Failure::refused(
        "config_is_link",
        format!("{} is a symbolic link, and a file put in its place would end it.", path.display()),
    )
    .hint(format!("Name the file itself: --config {}", target.display())))
}

fn base(args: &CarryArgs, saved: &Config) -> Result<Option<Config>, Failure> {
    let Some(path) = &args.base else { return Ok(None) };
    let content = Content::read_own("read the base", &file::absolute(path)?)?;
    Config::read(content, saved.text.layout()).map(Some)
}

fn plan(args: &CarryArgs, call: &Call, files: &Files, redactor: &Redactor) -> Result<Plan, Failure> {
    let Files { saved, new, .. } = files;
    let across = saved.text.layout() != new.text.layout();
    let base = files.base.as_ref();
    let sides = Sides { saved: saved.text.flat(), base: base.map(|base| base.text.flat()), new: new.text.flat() };
    let as_text = [Some(saved), base, Some(new)].into_iter().flatten().any(|file| file.text.format() == Format::Text);
    if across {
        let keys = if as_text {
            vec![KeyReport::of_whole_file(Outcome::NotCarried, Some(Reason::OtherLayout))]
        } else {
            cross::keys(sides, redactor)
        };
        return Ok(Plan { keys, write: None, plan: Vec::new() });
    }
    if as_text {
        return replaced_as_file(args, files, base);
    }
    let merge = match sides.base {
        Some(base) => three_way(new.text.layout(), base, sides.saved, sides.new),
        None => two_way(new.text.layout(), sides.saved, sides.new, choice(args, sides.saved)?),
    };
    let Written { decisions, values, text } = write(merge, &saved.text, &new.text, || call.check())?;
    let keys = decisions.iter().map(|decision| KeyReport::of(decision, sides, redactor)).collect();
    if text.as_bytes() == new.content.bytes {
        return Ok(Plan { keys, write: None, plan: Vec::new() });
    }
    let run = call.run_id();
    let aside = Previous::plan(&new.content.path, &new.content.bytes, |number| match number {
        1 => format!(".before-{run}"),
        more => format!(".before-{run}.{more}"),
    })?;
    let mut plan = vec![Action::file(&new.content.path, format!("keep as {}", aside.display()))];
    plan.extend(new.text.differing(&values).iter().map(|path| {
        let change = match values.get(path) {
            Some(value) => format!("set {} to {}", render(&redactor.path(path)), redactor.value(path, value)),
            None => format!("remove {}", render(&redactor.path(path))),
        };
        Action::file(&new.content.path, change)
    }));
    Ok(Plan { keys, write: Some((text.into_bytes(), aside)), plan })
}

/// What is carried without a base. Names that the saved copy does not know are told before anything is done.
fn choice<'a>(args: &'a CarryArgs, saved: &Flat) -> Result<Choice<'a>, Failure> {
    if let Some(unknown) = args.keys.iter().find(|name| !saved.keys().any(|path| names(name, path))) {
        return Err(Failure::not_found("key_not_found", format!("The saved copy has no key {unknown}."))
            .hint("svc-confsave diff lists the keys that differ, each as --key wants it in `path`."));
    }
    Ok(match (args.all, args.keys.is_empty()) {
        (true, _) => Choice::All,
        (false, false) => Choice::Named(&args.keys),
        (false, true) => Choice::Nothing,
    })
}

fn replaced_as_file(args: &CarryArgs, files: &Files, base: Option<&Config>) -> Result<Plan, Failure> {
    let Files { saved, new, .. } = files;
    let as_file::AsFile { keys, aside } = as_file::plan(saved, base, new, args.all)?;
    let Some(aside) = aside else { return Ok(Plan { keys, write: None, plan: Vec::new() }) };
    let plan = vec![
        Action::file(&new.content.path, format!("keep as {}", aside.display())),
        Action::file(&new.content.path, format!("replace by the whole of {}", saved.content.path.display())),
    ];
    Ok(Plan { keys, write: Some((saved.content.bytes.clone(), aside)), plan })
}

fn report(args: &CarryArgs, files: &Files, plan: &Plan, redactor: &Redactor) -> Result<Carried, Failure> {
    let Files { saved, base, new } = files;
    let count = |outcome| plan.keys.iter().filter(|key| key.outcome == outcome).count() as u64;
    let (hash, text_diff) = match &plan.write {
        Some((bytes, _)) => {
            let Content { path, meta, rights, .. } = &new.content;
            let content = Content { path: path.clone(), bytes: bytes.clone(), meta: meta.clone(), rights: rights.clone() };
            let after = Config::read(content, new.text.layout())?;
            (sha256(bytes), text_diff::unified(side(new), side(&after), redactor))
        }
        None => (new.content.sha256(), String::new()),
    };
    Ok(Carried {
        saved: saved.report(),
        new: new.report(),
        base: match base {
            Some(base) => BaseUsed::File { file: base.report() },
            None => BaseUsed::None,
        },
        carried_count: count(Outcome::Carried),
        same_count: count(Outcome::Same),
        conflict_count: count(Outcome::Conflict),
        not_carried_count: count(Outcome::NotCarried),
        keys: plan.keys.clone(),
        sha256: hash,
        kept_as: plan.write.as_ref().map(|(_, aside)| aside.display()),
        text_diff,
        secrets_shown: args.show_secrets,
        plan: plan.plan.clone(),
    })
}
