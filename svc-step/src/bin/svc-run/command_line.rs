//! The command line of a run, as it is typed again in whatever directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use svc_step::journal::Plan;
use svc_step::redact::arguments_without_secrets;
use svc_step::reporter::shell_quoted;
use svc_step::secret::REDACTED;

/// Options whose value is no file.
const NO_FILE: &str = "--installer-arg --to --last-minor --layout --uninstall --resume --kind --version --because --delete --host \
    --min-count --keep-runs --max-";

/// How the hint of a run begins that left everything as it was.
pub const NOTHING_CHANGED: &str = "Nothing was changed.";
/// What helps a run that left everything as it was.
pub const SAME_COMMAND: &str = "Run the same command again";

/// To run a run's command again, as it is typed.
pub fn hint(plan: &Plan) -> String {
    let mut arguments = vec![plan.program().to_owned()];
    if arguments == [""] {
        return format!("{SAME_COMMAND}; it was not recorded.");
    }
    arguments.extend(without_redacted(plan));
    let is_lost = plan.arguments.iter().any(|argument| argument.contains(REDACTED));
    let with = if is_lost { ", with its --installer-arg or other secrets, which are not recorded" } else { "" };
    format!("{SAME_COMMAND}{with}:\n  {}", shell_quoted(&arguments))
}

/// The arguments of a run without those that were not recorded in full; a file has its absolute path.
pub fn without_redacted(plan: &Plan) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    for argument in absolute(&plan.arguments, &plan.directory) {
        if !argument.contains(REDACTED) {
            arguments.push(argument);
        } else if !argument.starts_with('-') {
            // Without the option whose value it is.
            arguments.pop_if(|option| option.starts_with("--"));
        }
    }
    arguments
}

/// The arguments of a call; a file that was named relative to its directory has its absolute path.
pub fn absolute(arguments: &[String], directory: &str) -> Vec<String> {
    let mut before = "";
    let mut absolute = Vec::new();
    for argument in arguments {
        let joined = argument.strip_prefix("--").and_then(|_| argument.split_once('='));
        let (option, value) = joined.unwrap_or((before, argument));
        let prefix = joined.map_or_else(String::new, |(option, _)| format!("{option}="));
        let is_named = NO_FILE.split(' ').any(|no| if no.ends_with('-') { option.starts_with(no) } else { option == no });
        let is_kept = value.is_empty() || value.starts_with(['-', '/']) || directory.is_empty();
        let path = Path::new(directory).join(value);
        absolute.push(if !is_named && !is_kept && path.exists() {
            format!("{prefix}{}", path.display())
        } else {
            argument.clone()
        });
        before = argument;
    }
    absolute
}

pub fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

/// The arguments of a command as text, which is what the journal holds.
pub fn texts(command: &[OsString]) -> Vec<String> {
    command.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// How a script is called again: those of the product by their names, an operator's own by its path.
pub fn program(script: &[OsString]) -> String {
    let path = script.first().map(Path::new).unwrap_or(Path::new(""));
    let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("svc-"));
    path.file_name().filter(|_| is_ours).map_or(path.as_os_str(), |name| name).to_string_lossy().into_owned()
}

/// The values of the script's private options.
pub fn private_values(arguments: &[String], options: &[String]) -> Vec<String> {
    let flags: Vec<String> = options.iter().map(|option| format!("--{option}")).collect();
    let mut values = Vec::new();
    for (number, argument) in arguments.iter().enumerate() {
        if flags.contains(argument) {
            values.extend(arguments.get(number + 1).cloned());
        } else if let Some((flag, value)) = argument.split_once('=')
            && flags.iter().any(|known| known == flag)
        {
            values.push(value.to_owned());
        }
    }
    values
}

/// The arguments as they are written: without private values, and without the secrets in the others.
pub fn recorded(arguments: &[String], private: &[String]) -> Vec<String> {
    let flags: Vec<String> = private.iter().map(|option| format!("--{option}")).collect();
    let mut after_flag = false;
    let recorded = arguments.iter().zip(arguments_without_secrets(arguments)).map(|(argument, shown)| {
        let shown = match argument.split_once('=') {
            _ if after_flag => REDACTED.to_owned(),
            Some((flag, _)) if flags.iter().any(|known| known == flag) => format!("{flag}={REDACTED}"),
            _ => shown,
        };
        after_flag = !after_flag && flags.contains(argument);
        shown
    });
    recorded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_command_has_absolute_file_paths() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["2.0.1", "there", "a b.run", "remove", "nightly"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        for (given, expected, lost) in [
            (
                &["--to", "2.0.1", "--uninstall", "remove", "--from-dir", "there"][..],
                "--to 2.0.1 --uninstall remove --from-dir THEN/there",
                false,
            ),
            (
                &["--to=2.0.1", "--from-dir=there", "--clone", "there", "missing"],
                "--to=2.0.1 --from-dir=THEN/there --clone THEN/there missing",
                false,
            ),
            (&["--kind", "nightly", "a b.run"], "--kind nightly 'THEN/a b.run'", false),
            (
                &["--installer", "there", "--last-minor", "2.0.1", "--layout", "remove", "--because", "nightly"],
                "--installer THEN/there --last-minor 2.0.1 --layout remove --because nightly",
                false,
            ),
            (&["--installer-arg", REDACTED, "--clone", "--installer-arg=<redacted>", "there"], "--clone THEN/there", true),
        ] {
            let arguments = given.iter().map(ToString::to_string).collect();
            let plan =
                Plan { script: "svc-x".to_owned(), directory: folder.path().display().to_string(), arguments, ..Plan::default() };
            let again = hint(&plan).replace(&folder.path().display().to_string(), "THEN");
            assert!(again.ends_with(&format!(":\n  svc-x {expected}")) && again.contains("not recorded") == lost, "{again}");
        }
        assert_eq!(hint(&Plan::default()), "Run the same command again; it was not recorded.");
    }
}
