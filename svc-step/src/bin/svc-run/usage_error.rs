//! A tool of ours that was called wrongly ends with 2 and a sentence on stderr, before it has begun anything and without a document. Here
//! it gets one.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use svc_step::document::{Document, ErrorPart};
use svc_step::redact::without_secrets;
use svc_step::settings::{self, table, variable};
use svc_step::tool::OF_SETTING;

use super::protocol::Step;
use super::run::Run;

/// How much of what a step has printed is read.
const READ: u64 = 64 * 1024;

/// A file that a step's stderr goes to, and how long it was before.
pub struct Printed(PathBuf, u64);

impl Printed {
    pub fn from_here(file: PathBuf) -> Self {
        let length = fs::metadata(&file).map_or(0, |data| data.len());
        Self(file, length)
    }

    /// What was printed since; nothing if that is no file (a terminal).
    pub fn text(&self) -> String {
        let mut text = Vec::new();
        if fs::metadata(&self.0).is_ok_and(|data| data.is_file())
            && let Ok(mut file) = File::open(&self.0)
            && file.seek(SeekFrom::Start(self.1)).is_ok()
        {
            let _ = file.take(READ).read_to_end(&mut text);
        }
        without_secrets(&String::from_utf8_lossy(&text))
    }
}

/// The document of such a step; none if the program is not ours.
pub fn document(run: &Run, step: &Step, printed: &str) -> Option<Document<Value>> {
    let program = Path::new(step.command.first()?).file_name()?.to_string_lossy().into_owned();
    if !program.starts_with("svc-") {
        return None;
    }
    let (sentence, hint) = said(&program, printed);
    let named = hint.as_ref().and_then(|hint| hint.strip_prefix(OF_SETTING)?.split(' ').next());
    // One that the script passes as an option, unless the script itself was called with that value.
    let arguments = run.journal().plan().arguments;
    let is_passed = |value: &String| !arguments.iter().any(|one| one == value || one.ends_with(&format!("={value}")));
    let is_refused = |value: &String| sentence.contains(&format!("'{value}'"));
    let of_setting = |name: &&str| variable(name).is_some_and(|value| is_refused(&value) && is_passed(&value));
    let setting = named.or_else(|| table::all().map(|setting| setting.name).find(of_setting));
    let script = if run.script.starts_with("svc-") { &run.script } else { &program };
    let (code, message, helps) = match setting {
        // The program has it from its environment, and says so, whichever place the run has it from.
        Some(name) => {
            let helps = format!("Correct {name} in {}, or in the environment.", settings::environment_file().display());
            ("settings_invalid", format!("{name}: {sentence}"), helps)
        }
        None => ("options_invalid", sentence, hint.unwrap_or_else(|| format!("Its options:\n  {script} --help"))),
    };
    let error = ErrorPart { code: code.to_owned(), message, hint: Some(helps), retryable: false, causes: Vec::new() };
    Some(Document { ok: false, error: Some(error), ..Document::new("svc-run", "command", &run.id, Timestamp::now()) })
}

/// The sentence and the hint of a wrong call: clap's, or those of a script of ours. Other steps may have printed to the same file.
fn said(program: &str, printed: &str) -> (String, Option<String>) {
    let own = format!("{program}: ");
    let begun = printed.lines().skip_while(|line| !line.starts_with("error: ") && !line.starts_with(&own));
    let lines: Vec<&str> = begun.take_while(|line| !line.is_empty() && !line.starts_with("hint: ")).map(str::trim).collect();
    let text = lines.join(" ");
    let sentence = text.strip_prefix("error: ").or(text.strip_prefix(&own)).unwrap_or_default();
    let mut letters = sentence.chars();
    let sentence = match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str().trim_end_matches('.')),
        None => "The command does not accept an option or a setting that it was given: its output names it.".to_owned(),
    };
    let hint = printed.lines().find_map(|line| line.strip_prefix("hint: "));
    (sentence, hint.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_error_and_hint_are_read_from_output() {
        for (printed, sentence, hint) in [
            (
                "2026 step x\nerror: invalid value 'a' for '--kind <KIND>'\n  [possible values: b, c]\n\nFor more information, try '--help'.\n",
                "Invalid value 'a' for '--kind <KIND>' [possible values: b, c].",
                None,
            ),
            (
                "error: invalid value 'a' for '--age <AGE>': no age\n\nFor more.\nhint: That is the value of SVC_X in /e.\n",
                "Invalid value 'a' for '--age <AGE>': no age.",
                Some("That is the value of SVC_X in /e."),
            ),
            ("svc-x: `--y` needs a value.\nhint: svc-x --help\n", "`--y` needs a value.", Some("svc-x --help")),
            ("", "The command does not accept an option or a setting that it was given: its output names it.", None),
        ] {
            assert_eq!(said("svc-x", printed), (sentence.to_owned(), hint.map(str::to_owned)), "{printed}");
        }
    }
}
