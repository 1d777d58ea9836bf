//! `diff`: the new configuration against the saved copy, by key (procedure, 9.3 step 6).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::TextDiff;
use svc_step::{Call, StepResult};

use crate::content::Content;
use crate::layout::ConfigArgs;
use crate::redact::Redactor;
use crate::saved::SavedArgs;
use crate::text::{Config, ConfigFile, Format};
use crate::tree::{Path, Tree, render};

/// Beyond this the text diff becomes coarser, not wrong.
const TEXT_DIFF_TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of `svc-confsave diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-confsave diff --from saved.json | jq -c '.result.changed[]'
  svc-confsave diff --from saved.json --expect same  # 9 if it was changed since")]
pub struct DiffArgs {
    #[command(flatten)]
    saved: SavedArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// Show passwords, keys and tokens, and the lines of a file that is not understood
    #[arg(long)]
    show_secrets: bool,
    /// Exit with 9 if they differ
    #[arg(long, value_name = "same", value_parser = ["same"])]
    expect: Option<String>,
}

/// How two configurations differ. Formatting, order and comments are no difference.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The saved copy.
    pub saved: ConfigFile,
    /// The new configuration.
    pub new: ConfigFile,
    /// Whether both have the same values; of a file that is not read by key, the same text.
    pub same: bool,
    /// Keys that both have, with different values.
    pub changed: Vec<Difference>,
    /// Keys that only the saved copy has.
    pub only_saved: Vec<Difference>,
    /// Keys that only the new configuration has.
    pub only_new: Vec<Difference>,
    /// With `--show-secrets`, of files that are not read by key: a unified diff of their lines. Else `null`.
    pub text_diff: Option<String>,
}

/// A key whose value is not the same.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The keys that lead to it.
    pub key: Vec<String>,
    /// The same for people, `a.b.c`.
    pub path: String,
    /// The saved value as it is written, a list or a group as a whole; `null` if there is none.
    pub saved: Option<Value>,
    /// The new value; `null` if there is none.
    pub new: Option<Value>,
}

pub(crate) fn run(args: &DiffArgs, call: &Call) -> StepResult<Diff> {
    let (copy, config) = args.saved.copy(call, &args.config)?;
    let (path, layout) = config.find(copy.saved.as_ref().map(|saved| saved.layout))?;
    let new = Content::read("read the configuration", &path)?;
    // The same bytes are the same, whatever they are.
    if copy.content.bytes == new.bytes {
        let files = (ConfigFile::unread(&copy.content, copy.layout), ConfigFile::unread(&new, layout));
        return Ok(Diff::of(files, true));
    }
    let (saved, new) = (Config::read(copy.content, copy.layout)?, Config::read(new, layout)?);
    call.check()?;
    let mut diff = Diff::of((saved.report(), new.report()), saved.text.as_str() == new.text.as_str());
    if saved.text.format() != Format::Text && new.text.format() != Format::Text {
        diff.compare(&saved, &new, &Redactor::new(args.show_secrets, &[saved.text.flat(), new.text.flat()]));
    } else if args.show_secrets {
        let lines = TextDiff::configure().timeout(TEXT_DIFF_TIMEOUT).diff_lines(saved.text.as_str(), new.text.as_str());
        diff.text_diff = Some(lines.unified_diff().header(&diff.saved.path, &diff.new.path).to_string());
    }
    if args.expect.is_some() && !diff.same {
        let message = format!("The configuration {} was changed since {} was saved.", diff.new.path, diff.saved.path);
        call.review("content_differs", message);
    }
    Ok(diff)
}

impl Diff {
    fn of((saved, new): (ConfigFile, ConfigFile), same: bool) -> Self {
        Self { saved, new, same, changed: Vec::new(), only_saved: Vec::new(), only_new: Vec::new(), text_diff: None }
    }

    fn compare(&mut self, saved: &Config, new: &Config, redactor: &Redactor) {
        let (saved, new) = (saved.text.flat(), new.text.flat());
        for (path, leaf) in saved {
            match new.get(path) {
                None => self.only_saved.push(difference(path, Some(leaf), None, redactor)),
                Some(other) if leaf == other => {}
                Some(other) => self.changed.push(difference(path, Some(leaf), Some(other), redactor)),
            }
        }
        for (path, leaf) in new.iter().filter(|(path, _)| !saved.contains_key(*path)) {
            self.only_new.push(difference(path, None, Some(leaf), redactor));
        }
        self.same = self.changed.is_empty() && self.only_saved.is_empty() && self.only_new.is_empty();
    }
}

fn difference(path: &Path, saved: Option<&Tree>, new: Option<&Tree>, redactor: &Redactor) -> Difference {
    let value = |leaf: Option<&Tree>| leaf.map(|leaf| redactor.value(path, leaf));
    let key = redactor.path(path);
    Difference { path: render(&key), key, saved: value(saved), new: value(new) }
}
