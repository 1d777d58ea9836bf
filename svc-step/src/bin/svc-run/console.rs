//! What people see: the only writer to stderr and stdout of svc-run.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use svc_step::Failure;
use svc_step::document::Document;

use super::report::RunResult;
use super::run::{Check, Run};

/// A line of a script.
pub fn line(script: &str, text: &str) {
    plain(&format!("{script}: {text}"));
}

/// A line as it stands. Whoever listened may be gone.
pub fn plain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Lines on stdout. A reader that has gone is no failure.
pub fn lines(lines: &[String]) -> ExitCode {
    let mut out = std::io::stdout().lock();
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
    let _ = out.flush();
    ExitCode::SUCCESS
}

/// The two lines of a failure.
pub fn failed(program: &str, failure: &Failure) -> ExitCode {
    line(program, &failure.message);
    if let Some(hint) = &failure.hint {
        plain(&format!("hint: {hint}"));
    }
    ExitCode::from(failure.exit_code())
}

/// A step begins.
pub fn begins(run: &Run, files: &Path) {
    if run.verbose {
        let name = files.file_name().unwrap_or_default().to_string_lossy().replacen('-', " ", 1);
        line(&run.script, &format!("{name} …"));
    }
}

/// A step has ended.
pub fn ended(run: &Run, files: &Path, document: Option<&Document<Value>>, failure: Option<&Failure>) {
    let name = files
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .split_once('-')
        .map(|(_, name)| name.to_owned())
        .unwrap_or_default();
    let mut text: Vec<String> =
        document.iter().flat_map(|document| &document.warnings).map(|warning| format!("warning: {} ", warning.message)).collect();
    text.push(match (failure, document) {
        (Some(failure), _) => format!("failed: {}", failure.message),
        (None, Some(document)) => {
            format!("ok, {}{} ms", if document.changed == Some(true) { "changed, " } else { "" }, document.duration_ms)
        }
        (None, None) => "ok".to_owned(),
    });
    run.say(&format!("{name}: {}", text.concat()));
}

/// The checks of the preflight, each once.
pub fn preflight(run: &Run, checks: &[Check]) {
    let width = checks.iter().map(|check| check.check.len()).max().unwrap_or(0);
    for Check { check, verdict, says } in checks {
        run.say(&format!("preflight  {check:width$}  {verdict}  {says}"));
    }
    let count = |verdict: &str| checks.iter().filter(|check| check.verdict == verdict).count();
    run.say(&format!(
        "preflight: {} checks: {} pass, {} warn, {} fail",
        checks.len(),
        count("pass"),
        count("warn"),
        count("fail")
    ));
}

/// What a check has found, in a few words.
pub fn found(_document: &Document<Value>) -> String {
    String::new()
}

/// What helps after a step that failed, where its own hint names a flag that the scripts do not have.
pub fn hint_of(_document: Option<&Document<Value>>) -> Option<String> {
    None
}

/// The end of a run: its document, or a few lines on a terminal.
pub fn last(run: &Run, document: &Document<RunResult>, silent: bool) {
    if silent && document.ok && !document.dry_run {
        return;
    }
    print(&run.script, document);
}

/// The document, and the two lines of a failure.
pub fn print(script: &str, document: &Document<RunResult>) {
    let text =
        if std::io::stdout().is_terminal() { serde_json::to_string_pretty(document) } else { serde_json::to_string(document) };
    lines(&[text.unwrap_or_default()]);
    if let Some(error) = &document.error {
        line(script, &error.message);
        if let Some(hint) = &error.hint {
            plain(&format!("hint: {hint}"));
        }
    }
}
