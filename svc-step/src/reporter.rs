//! Lines on stderr. The progress bar, clap's errors and the output of a followed run are written elsewhere.

use std::io::{ErrorKind, IsTerminal, Write};

use crate::common::{Common, ProgressMode};
use crate::failure::Failure;

/// Set if stderr is a file that another process copies to a terminal.
pub const WATCHED: &str = "SVC_WATCHED";

/// Whether somebody watches stderr: it is a terminal, or is copied to one.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal() || std::env::var_os(WATCHED).is_some()
}

/// A command as a shell takes it. What no shell can be told (a zero byte) is left as it is.
pub fn shell_quoted(arguments: &[impl AsRef<str>]) -> String {
    let plain =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte));
    let quote = |text: &str| {
        if plain(text) { text.to_owned() } else { shlex::try_quote(text).map_or_else(|_| text.to_owned(), Into::into) }
    };
    arguments.iter().map(|argument| quote(argument.as_ref())).collect::<Vec<_>>().join(" ")
}

/// A number of bytes, for people.
pub fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// What this call writes to stderr, and whether it does.
#[derive(Debug, Clone)]
pub struct Reporter {
    tool: &'static str,
    quiet: bool,
    verbose: bool,
    progress: ProgressMode,
    watched: bool,
}

impl Reporter {
    pub(crate) fn new(tool: &'static str, common: &Common) -> Self {
        Self {
            tool,
            quiet: common.quiet,
            verbose: common.verbose,
            progress: if common.quiet { ProgressMode::None } else { common.progress },
            watched: is_watched(),
        }
    }

    /// How progress is to be shown, `Auto` being resolved: a bar (`Auto`) only if somebody watches.
    pub const fn progress(&self) -> ProgressMode {
        match self.progress {
            ProgressMode::Auto if !self.watched => ProgressMode::None,
            mode => mode,
        }
    }

    /// A line that is wanted only with `--verbose`.
    pub fn detail(&self, text: &str) {
        if self.verbose && !self.quiet {
            self.line(text);
        }
    }

    /// The two lines of a failure: what is wrong, and what helps.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.quiet {
            return;
        }
        self.line(&failure.message);
        if let Some(hint) = &failure.hint {
            write_line(&format!("hint: {hint}"));
        }
        if self.verbose {
            for cause in &failure.causes {
                write_line(&format!("cause: {cause}"));
            }
        }
    }

    /// A warning, for somebody who sits at a terminal; cron reads it in the document.
    pub(crate) fn warning(&self, message: &str) {
        if self.watched && !self.quiet {
            self.line(&format!("warning: {message}"));
        }
    }

    fn line(&self, text: &str) {
        write_line(&format!("{}: {text}", self.tool));
    }
}

/// Whether stdout has taken what a program printed. A reader that has gone (`| head`) is no failure; anything else is told.
pub fn is_printed(program: &str, what: &str, printed: std::io::Result<()>) -> bool {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            write_line(&format!("{program}: {what} could not be written: {error}"));
            false
        }
        _ => true,
    }
}

/// Writes one line, without anything that a terminal would obey; a closed stderr is nobody's failure.
pub fn write_line(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", crate::clean::clean_lines(text));
}
