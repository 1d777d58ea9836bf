//! `svc-run`: the run of a script, and what the script asks of it.

mod arguments;
mod begin;
mod command_line;
mod console;
mod end;
mod external;
#[cfg(test)]
mod fixture;
mod guess;
mod hold;
mod hooks;
mod own_steps;
mod private_arguments;
mod protocol;
mod query;
mod recover;
mod report;
mod resume;
mod run;
mod status;
mod step;
mod supervise;
mod terminal;
mod undo;
mod usage_error;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use command_line::here;
use protocol::Request;
use serde_json::json;
use svc_step::document::Document;
use svc_step::journal::Attempt;
use svc_step::redact::without_secrets;
use svc_step::reporter::shell_quoted;
use svc_step::schema::Schemas;
use svc_step::{Failure, Status, settings};

/// The run of a script: its lock, journal, signals and undo list
///
/// A script calls `svc-run supervise`, which runs the script again as its child; the script's own calls (step, undo, commit, …) go to that
/// supervisor. Outside a run `svc-run step NAME -- COMMAND` runs the command alone.
#[derive(Debug, Parser)]
#[command(
    name = "svc-run",
    version,
    args_override_self = true,
    after_help = "Examples: where the last run stands; what a killed run has left is undone; a line of a script
  svc-run status
  svc-run recover
  svc-run step stop -- svc-unit stop
A whole script of your own: the recipe my-own-run in docs/recipes.md."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a script as a run
    Supervise(arguments::SuperviseArgs),
    #[command(flatten)]
    Ask(Request),
    /// Print the file of the newest document of a step
    Document {
        #[arg(long)]
        run: Option<String>,
        step: String,
    },
    /// Print the value at a path of a step's document: value new .result.version
    Value {
        #[arg(long)]
        run: Option<String>,
        step: String,
        path: String,
    },
    /// End with 0 if all these steps are ok
    IsDone {
        #[arg(long)]
        run: Option<String>,
        /// If their commands have begun, whatever came of them
        #[arg(long)]
        begun: bool,
        #[arg(required = true)]
        steps: Vec<String>,
    },
    /// Print a setting: from the environment, the settings file, or its default; without NAME a settings file with every default
    Setting { name: Option<String> },
    /// Propose the settings of this host, each with its reason
    Guess {
        /// Write them to the settings file, if it has no settings yet
        #[arg(long)]
        write: bool,
    },
    /// Print words of a command line as they may be written anywhere: one that holds a secret is COMMAND
    Shown {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print the step and the file of each hook that is run after an installer
    Hooks,
    /// Print the name of the run's snapshot of that kind
    SnapshotName { kind: String },
    /// Refuse if the last run of these scripts passed its point of no return and did not end well
    RefuseUnfinished { scripts: Vec<String> },
    /// Find what the last rollback, or the named one, replaced and left in place
    Previous { run: Option<String> },
    /// Print the state of a run, and what to run next
    Status(status::Arguments),
    /// Undo what killed runs have left
    Recover {
        /// Print no document, and nothing if another run is in progress (for cron)
        #[arg(long)]
        silent: bool,
    },
    /// Run restic with the off-site repository, and with every variable of the settings file
    Restic {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    #[command(hide = true)]
    Hold(hold::HoldArgs),
}

fn main() -> ExitCode {
    // What an external command gets, before the settings file is read.
    let caller = run::Caller::now();
    // That environment is the holder's own: what it holds inherits it.
    let holds = std::env::args_os().nth(1).is_some_and(|verb| verb == "hold");
    let loaded = if holds { Ok(Vec::new()) } else { settings::load() };
    if let Some(ended) = svc_step::pages::asked(&Cli::command(), schemas) {
        return ended;
    }
    let cli = Cli::parse();
    let of_file = match loaded {
        Ok(names) => names,
        // It is written by that.
        Err(failure) if failure.status == Status::NotFound && matches!(cli.verb, Verb::Guess { .. }) => Vec::new(),
        Err(_) if matches!(cli.verb, Verb::Setting { name: None }) => Vec::new(),
        Err(failure) => return console::failed("svc-run", &failure),
    };
    match cli.verb {
        Verb::Supervise(args) => supervise::supervise(&args, caller, &of_file),
        Verb::Ask(request) => ask(request),
        Verb::Document { run, step } => tell(
            query::journal(run.as_deref())
                .and_then(|run| query::document(&run, &step, query::is_dry()))
                .map(|path| vec![path.display().to_string()]),
        ),
        Verb::Value { run, step, path } => tell(query::journal(run.as_deref()).and_then(|run| query::value(&run, &step, &path))),
        Verb::IsDone { run, begun, steps } => match query::journal(run.as_deref()) {
            Ok(run) => {
                let has_begun = |step: &String| run.attempts_of(step).iter().any(Attempt::command_has_begun);
                let is_so = |step: &String| if begun { has_begun(step) } else { run.is_done(step) };
                ExitCode::from(u8::from(!steps.iter().all(is_so)))
            }
            Err(failure) => console::failed("svc-run", &failure),
        },
        Verb::Setting { name: None } => console::lines(&[settings::table::file(&settings::product()).trim_end().to_owned()]),
        Verb::Setting { name: Some(name) } if !settings::known().any(|known| known == name) => {
            let failure = Failure::usage("options_invalid", format!("{name} is not a setting."));
            console::failed("svc-run", &failure.hint("All settings and what they are:\n  svc-run setting"))
        }
        Verb::Setting { name: Some(name) } => {
            let value = settings::setting(&name);
            console::lines(&Some(value).filter(|value| !value.is_empty()).into_iter().collect::<Vec<_>>())
        }
        Verb::Shown { mut words } => {
            words.iter_mut().filter(|word| without_secrets(word) != **word).for_each(|word| "COMMAND".clone_into(word));
            console::lines(&[shell_quoted(&words)])
        }
        Verb::Guess { write } => tell(guess::guess(write)),
        Verb::SnapshotName { kind } => {
            let run = std::env::var("SVC_RUN_ID").unwrap_or_default();
            console::lines(&[svc_step::run_id::snapshot_name(&settings::product(), &run, &kind)])
        }
        Verb::Hooks => match hooks_after_install() {
            // The run ends with what is wrong with the hook.
            Err(Failure { code, message, hint, status, .. }) if std::env::var_os("SVC_RUN_DIR").is_some() => {
                ask(Request::Fail { status: status.code(), code, text: message, hint: hint.unwrap_or_default() })
            }
            hooks => tell(hooks),
        },
        Verb::RefuseUnfinished { scripts } => own_steps::unfinished(&scripts),
        Verb::Previous { run } => own_steps::previous(run.as_deref()),
        Verb::Status(args) => show_status(&args),
        Verb::Recover { silent } => own_steps::recover(&caller, silent),
        Verb::Restic { arguments } => match svc_step::restic::command() {
            Ok(mut restic) => become_program(restic.args(arguments)),
            Err(failure) => console::failed("svc-run", &failure),
        },
        Verb::Hold(args) => hold::run(&args),
    }
}

fn hooks_after_install() -> Result<Vec<String>, Failure> {
    let hooks = hooks::of("post-install")?;
    Ok(hooks.iter().map(|hook| format!("{} {}", hooks::step_of(hook), hook.display())).collect())
}

fn show_status(args: &status::Arguments) -> ExitCode {
    let started = jiff::Timestamp::now();
    match status::status(&query::state_dir(), args) {
        Ok(found) if args.json => {
            let envelope = Document::new("svc-run", "status", &found.run, started);
            let document = Document { result: Some(found), ..envelope };
            console::lines(&[serde_json::to_string(&document).unwrap_or_default()])
        }
        Ok(found) => console::lines(&[status::text(&found).trim_end().to_owned()]),
        Err(failure) => console::failed(args.script.as_deref().unwrap_or("svc-run"), &failure),
    }
}

/// Runs a program in the place of this one.
fn become_program(command: &mut Command) -> ExitCode {
    let error = command.exec();
    let message = format!("{} cannot be started: {error}.", command.get_program().to_string_lossy());
    console::failed("svc-run", &Failure::not_found("file_not_found", message).hint("Install the package that has it."))
}

/// In a run the supervisor does it; outside one a step is its command alone, so that a line of a script can be typed as it stands.
fn ask(mut request: Request) -> ExitCode {
    let run = std::env::var_os("SVC_RUN_DIR");
    match &mut request {
        Request::Step(step) | Request::Start(step) if run.is_none() => {
            let Some((program, arguments)) = step.command.split_first() else { return ExitCode::from(2) };
            return become_program(Command::new(program).args(arguments));
        }
        Request::Step(step) | Request::Start(step) => {
            (step.directory, step.environment) = (here(), std::env::vars_os().collect());
        }
        Request::Undo(undo) => undo.directory = here(),
        _ => {}
    }
    let Some(run) = run else {
        let failure = Failure::usage("options_invalid", "Not inside a run.");
        return console::failed("svc-run", &failure.hint("svc-run supervise --help"));
    };
    match protocol::ask(run.as_ref(), &request) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(failure) => console::failed("svc-run", &failure),
    }
}

/// Lines on stdout, for the script.
fn tell(found: Result<Vec<String>, Failure>) -> ExitCode {
    match found {
        Ok(lines) => console::lines(&lines),
        Err(failure) => console::failed("svc-run", &failure),
    }
}

/// The documents of `svc-run`, and the last one of every script.
fn schemas() -> Schemas {
    let of_a_script = json!({"type": "string", "pattern": "^[a-z0-9.-]+\\.run/1$"});
    Schemas::of("svc-run")
        .named::<report::RunResult>("run", of_a_script)
        .step::<external::CommandResult>("command")
        .step::<status::StatusResult>("status")
        .step::<own_steps::Found>("refuse-unfinished")
        .step::<own_steps::Found>("previous")
        .step::<own_steps::Recovered>("recover")
}
