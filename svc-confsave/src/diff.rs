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
use crate::tree::{Flat, Tree, WHOLE_FILE, list, render};

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
    /// same: exit with 9 if they differ; kept: warn of what the new one lacks, or has with another value
    #[arg(long, value_name = "same|kept", value_parser = ["same", "kept"])]
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
    let (was, is) = (&diff.saved.path, &diff.new.path);
    let lost = list(diff.changed.iter().chain(&diff.only_saved).map(|key| &*key.path));
    let lost = lost.or_else(|| (!diff.same && diff.only_new.is_empty()).then(|| WHOLE_FILE.to_owned()));
    if args.expect.as_deref() == Some("same") && !diff.same {
        call.review("content_differs", format!("The configuration {is} was changed since {was} was saved."));
    }
    if let (Some("kept"), Some(keys)) = (args.expect.as_deref(), lost) {
        call.warn("content_differs", format!("The configuration {is} lacks, or has with another value, of {was}: {keys}."));
    }
    Ok(diff)
}

impl Diff {
    fn of((saved, new): (ConfigFile, ConfigFile), same: bool) -> Self {
        Self { saved, new, same, changed: Vec::new(), only_saved: Vec::new(), only_new: Vec::new(), text_diff: None }
    }

    fn compare(&mut self, saved: &Config, new: &Config, redactor: &Redactor) {
        // Nothing in the older layout tells a word from a number.
        let two_layouts = saved.text.layout() != new.text.layout();
        let is_same = |was: &Tree, is: &Tree| was == is || two_layouts && was.text().is_some_and(|text| is.text() == Some(text));
        let (saved, new) = (saved.text.flat(), new.text.flat());
        for path in saved.keys().chain(new.keys().filter(|path| !saved.contains_key(*path))) {
            let list = match (saved.get(path), new.get(path)) {
                (Some(was), Some(is)) if is_same(was, is) => continue,
                (Some(_), Some(_)) => &mut self.changed,
                (Some(_), None) => &mut self.only_saved,
                (None, _) => &mut self.only_new,
            };
            let value = |flat: &Flat| flat.get(path).map(|leaf| redactor.value(path, leaf));
            let key = redactor.path(path);
            list.push(Difference { path: render(&key), key, saved: value(saved), new: value(new) });
        }
        self.same = self.changed.is_empty() && self.only_saved.is_empty() && self.only_new.is_empty();
    }
}
