//! One entry for the six tools and `svc-point`: parse, catch signals, run the step, print the document, end.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};

use crate::call::{Call, Finished};
use crate::common::Common;
use crate::pages;
use crate::redact::without_secrets;
use crate::reporter::{self, Reporter};
use crate::schema::Schemas;
use crate::settings;
use crate::signals::{self, Signals};
use crate::status::Status;
use crate::table;

/// One of the six tools, or `svc-point`: its parsed command line, which knows how to run itself.
pub trait Tool: Parser {
    /// The tool's name, as it is typed.
    const NAME: &'static str;
    /// The time limit of a step without `--timeout`: none, save for tools whose steps have no right to take for ever.
    const TIMEOUT: Option<Duration> = None;

    /// The flags that every step takes.
    fn common(&self) -> &Common;

    /// The schemas of its steps.
    fn schemas() -> Schemas;

    /// Runs the step that was asked for: one match from step to function.
    fn run(self, call: &Call) -> Finished;
}

/// The definition of a tool's command line, with its schema and the table of exit statuses at the end of its long help. Man pages and
/// completions come from the same.
pub fn command<T: Tool>() -> clap::Command {
    let command = with_help_of_settings(without_empty_settings(T::command()));
    let own = command.get_after_long_help().map(|own| format!("{own}\n\n")).unwrap_or_default();
    let schema = format!("`{} schema` prints the JSON Schema of the documents.", T::NAME);
    let help = format!("{own}{schema}\n\n{}", Status::table());
    command.after_long_help(help)
}

/// An environment variable that is set and empty is a setting that is not made, as libpq has it.
fn without_empty_settings(command: clap::Command) -> clap::Command {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| match arg.get_env() {
            Some(name) if is_empty(name) => arg.env(clap::builder::Resettable::Reset),
            _ => arg,
        })
        .mut_subcommands(without_empty_settings)
}

/// An option that is a setting has its help from the table of the settings, unless it says more of itself than the setting's name.
fn with_help_of_settings(command: clap::Command) -> clap::Command {
    let help = |arg: &clap::Arg| {
        let setting = settings::table::find(arg.get_env()?.to_str()?)?;
        let says_its_own = arg.get_help().is_some_and(|help| help.to_string() != format!("`{}`", setting.name));
        (!says_its_own).then(|| setting.help(!arg.get_default_values().is_empty()))
    };
    command
        .mut_args(|arg| match help(&arg) {
            Some(text) => arg.help(text),
            None => arg,
        })
        .mut_subcommands(with_help_of_settings)
}

/// What `main` of every tool calls.
pub fn main<T: Tool>() -> ExitCode {
    // First of all: clap reads the environment, and no other thread may exist while the file is read into it.
    let loaded = settings::load();
    let command = command::<T>();
    if let Some(ended) = pages::asked(&command, T::schemas) {
        return ended;
    }
    let parsed = command.clone().try_get_matches().and_then(|matches| T::from_arg_matches(&matches));
    let cli = match (parsed, loaded) {
        (Ok(cli), Ok(_)) => cli,
        (Ok(cli), Err(failure)) => {
            Reporter::new(T::NAME, cli.common()).failure(&failure);
            return ExitCode::from(failure.exit_code());
        }
        // What the command line lacks may be in the file.
        (Err(text), Err(failure)) if text.use_stderr() => {
            reporter::write_line(&format!("{}: {}", T::NAME, failure.message));
            reporter::write_line(&format!("hint: {}", failure.hint.unwrap_or_default()));
            return ExitCode::from(failure.status.code());
        }
        (Err(text), loaded) => {
            if text.use_stderr() {
                // clap repeats the value that it refuses.
                reporter::write_line(without_secrets(&text.render().to_string()).trim_end());
            } else {
                // --help and --version come this way too; a closed pipe is no failure of theirs.
                let _ = text.print();
            }
            if let Some(hint) = named_setting(command, &text, &loaded.unwrap_or_default()) {
                reporter::write_line(&hint);
            }
            return ExitCode::from(u8::try_from(text.exit_code()).unwrap_or(Status::Usage.code()));
        }
    };
    let signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => {
            reporter::write_line(&format!("{}: signals cannot be caught: {error}", T::NAME));
            return ExitCode::from(Status::Failed.code());
        }
    };
    let pretty = cli.common().pretty || std::io::stdout().is_terminal();
    let mut common = cli.common().clone();
    common.timeout = common.timeout.or(T::TIMEOUT);
    let call = Call::new(T::NAME, &common, signals);
    let finished = cli.run(&call);
    let for_people = || common.table.then(|| table::document(&finished.document, finished.exit_code));
    let printed = match finished.text.clone().or_else(for_people) {
        Some(text) => std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()),
        None => print(&finished.document, pretty),
    };
    if let Some(failure) = &finished.failure {
        call.reporter().failure(failure);
        if let Some(signal) = failure.signal {
            signals::die_of(signal);
        }
    }
    let is_printed = reporter::is_printed(T::NAME, "the document", printed);
    ExitCode::from(if is_printed { finished.exit_code } else { Status::Failed.code() })
}

/// How the hint begins that names a setting, for `svc-run`.
pub const OF_SETTING: &str = "That is the value of ";

/// Which setting has the value that clap refuses, and where it stands: clap names the flag alone.
fn named_setting(mut command: clap::Command, error: &clap::Error, from_file: &[String]) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (flag, value) = (context(ContextKind::InvalidArg)?, context(ContextKind::InvalidValue)?);
    command.build();
    let name = setting_of(&command, flag).filter(|name| settings::variable(name).as_deref() == Some(value))?;
    let place =
        if from_file.contains(&name) { settings::environment_file().display().to_string() } else { "the environment".to_owned() };
    Some(format!("hint: {OF_SETTING}{name} in {place}."))
}

/// The variable of a flag, as clap writes the flag in its errors.
fn setting_of(command: &clap::Command, flag: &str) -> Option<String> {
    let own = command.get_arguments().filter(|arg| arg.to_string() == flag).find_map(clap::Arg::get_env);
    let own = own.map(|name| name.to_string_lossy().into_owned());
    own.or_else(|| command.get_subcommands().find_map(|step| setting_of(step, flag)))
}

fn print(document: &str, pretty: bool) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if pretty {
        let document: serde_json::Value = serde_json::from_str(document)?;
        stdout.write_all(serde_json::to_string_pretty(&document)?.as_bytes())?;
    } else {
        stdout.write_all(document.as_bytes())?;
    }
    stdout.write_all(b"\n")?;
    stdout.flush()
}
