//! `diff`: the new configuration against the saved copy, by key (procedure, 9.3 step 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::{Call, StepResult};

use crate::config::{Config, ConfigFile};
use crate::content::Content;
use crate::key::shown;
use crate::layout::{ConfigArgs, Layout};
use crate::redact::Redactor;
use crate::saved::{Copy, SavedArgs};
use crate::text::Format;
use crate::text_diff::{self, Side};
use crate::tree::{Path, Tree, render};

/// Arguments of `svc-confsave diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-confsave diff --from saved.json | jq -r .result.text_diff
  svc-confsave diff --from saved.json --expect same    9 where it was changed since")]
pub struct DiffArgs {
    #[command(flatten)]
    saved: SavedArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// Show passwords, keys and tokens as they are
    #[arg(long)]
    show_secrets: bool,
    /// A person must look (9) where the two do not say the same
    #[arg(long, value_name = "same", value_enum)]
    expect: Option<Expected>,
}

/// What the caller relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Expected {
    /// Both say the same
    Same,
}

/// How two configurations differ. Formatting, order and comments are no difference.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The saved copy.
    pub saved: ConfigFile,
    /// The new configuration.
    pub new: ConfigFile,
    /// Whether both say the same.
    pub same: bool,
    /// Whether they were compared by key; `false`: as text, since one of them has lines that are not understood, or as bytes
    /// (`--expect same`, and they are the same).
    pub by_key: bool,
    /// Keys that both have, with different values.
    pub changed: Vec<Difference>,
    /// Keys that only the saved copy has.
    pub only_saved: Vec<Difference>,
    /// Keys that only the new configuration has.
    pub only_new: Vec<Difference>,
    /// The difference of the texts, for people; empty where the lines are the same.
    pub text_diff: String,
    /// Whether secrets are shown.
    pub secrets_shown: bool,
}

/// A key whose value is not the same.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The keys that lead to it.
    pub key: Vec<String>,
    /// The same for people, `a.b.c`.
    pub path: String,
    /// The saved value as it is written, a list or a group as a whole; `null` where there is none.
    pub saved: Option<Value>,
    /// The new value; `null` where there is none.
    pub new: Option<Value>,
    /// Whether a secret was left out of a value here.
    pub redacted: bool,
}

pub(crate) fn run(args: &DiffArgs, call: &Call) -> StepResult<Diff> {
    let copy = args.saved.copy(call, &args.config)?;
    let config = args.config.of_saved(copy.saved.as_ref());
    let (path, layout) = config.find(args.saved.decides().then_some(copy.layout))?;
    let new = Content::read("read the configuration", &path)?;
    // The same bytes are the same, whatever they say.
    if args.expect.is_some() && copy.content.bytes == new.bytes {
        return Ok(same_bytes(args, &copy, &new, layout));
    }
    let saved = Config::read(copy.content, copy.layout)?;
    let new = Config::read(new, layout)?;
    call.check()?;
    let redactor = Redactor::new(args.show_secrets, &[saved.text.flat(), new.text.flat()]);
    let by_key = saved.text.format() != Format::Text && new.text.format() != Format::Text;
    let mut diff = Diff {
        saved: saved.report(),
        new: new.report(),
        same: saved.text.as_str() == new.text.as_str(),
        by_key,
        changed: Vec::new(),
        only_saved: Vec::new(),
        only_new: Vec::new(),
        text_diff: text_diff::unified(side(&saved), side(&new), &redactor),
        secrets_shown: args.show_secrets,
    };
    if by_key {
        compare(&saved, &new, &redactor, &mut diff);
    }
    if args.expect.is_some() && !diff.same {
        let (path, saved) = (&diff.new.path, &diff.saved.path);
        call.review("configuration_changed_since", format!("The configuration {path} was changed since {saved} was saved."));
    }
    Ok(diff)
}

fn same_bytes(args: &DiffArgs, copy: &Copy, new: &Content, layout: Layout) -> Diff {
    let file = |content: &Content, layout| ConfigFile {
        path: content.path.display().to_string(),
        layout,
        format: Format::Text,
        unknown_line: None,
        sha256: content.sha256(),
        size_bytes: content.bytes.len() as u64,
    };
    Diff {
        saved: file(&copy.content, copy.layout),
        new: file(new, layout),
        same: true,
        by_key: false,
        changed: Vec::new(),
        only_saved: Vec::new(),
        only_new: Vec::new(),
        text_diff: String::new(),
        secrets_shown: args.show_secrets,
    }
}

/// A file as one side of a text diff.
pub(crate) fn side(config: &Config) -> Side<'_> {
    Side {
        name: config.content.path.to_str().unwrap_or("configuration"),
        text: config.text.as_str(),
        hidden: config.text.hidden(),
    }
}

fn compare(saved: &Config, new: &Config, redactor: &Redactor, diff: &mut Diff) {
    let (saved, new) = (&saved.text, &new.text);
    // Across layouts there are no quotes on one side that could tell a number from a text.
    let same = |one: &Tree, other: &Tree| one == other || (saved.layout() != new.layout() && one.to_json() == other.to_json());
    for (path, leaf) in saved.flat() {
        match new.flat().get(path) {
            None => diff.only_saved.push(difference(path, Some(leaf), None, redactor)),
            Some(other) if same(leaf, other) => {}
            Some(other) => diff.changed.push(difference(path, Some(leaf), Some(other), redactor)),
        }
    }
    for (path, leaf) in new.flat().iter().filter(|(path, _)| !saved.flat().contains_key(*path)) {
        diff.only_new.push(difference(path, None, Some(leaf), redactor));
    }
    diff.same = diff.changed.is_empty() && diff.only_saved.is_empty() && diff.only_new.is_empty();
}

fn difference(path: &Path, saved: Option<&Tree>, new: Option<&Tree>, redactor: &Redactor) -> Difference {
    let (saved, saved_cut) = saved.map(|leaf| shown(redactor, path, leaf)).unzip();
    let (new, new_cut) = new.map(|leaf| shown(redactor, path, leaf)).unzip();
    let key = redactor.path(path);
    let redacted = saved_cut == Some(true) || new_cut == Some(true) || key != *path;
    Difference { path: render(&key), key, saved, new, redacted }
}
