//! A failure as a value: it carries its exit status, a full sentence, and a hint that names what helps.

use std::fmt;
use std::io;
use std::path::Path;

use crate::status::Status;

/// Why a step did not do what it was asked, made at the place where it is understood.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The exit status.
    pub status: Status,
    /// A lower_snake name for programs, such as `search_unreachable`.
    pub code: String,
    /// A full sentence for people.
    pub message: String,
    /// The exact command or setting that helps.
    pub hint: Option<String>,
    /// Whether the same call may succeed later without anybody changing anything.
    pub retryable: bool,
    /// What lay behind it, outermost first; a server's own words stand here.
    pub causes: Vec<String>,
    /// The signal that ended the call, for code `interrupted`.
    pub signal: Option<i32>,
}

impl Failure {
    /// A failure of any status; the named constructors below read better.
    pub fn new(status: Status, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
            hint: None,
            retryable: matches!(status, Status::Unavailable | Status::Timeout | Status::Locked),
            causes: Vec::new(),
            signal: None,
        }
    }

    /// Anything that no other status names (1).
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Failed, code, message)
    }

    /// A fault of the tool's, or of the machine's (1).
    pub fn fault(message: impl Into<String>) -> Self {
        Self::failed("failed", message)
    }

    /// A bad command line or `--from` document (2).
    pub fn usage(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Usage, code, message)
    }

    /// A safety rule said no, and nothing was changed (3).
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Refused, code, message)
    }

    /// What was asked for is not there (4).
    pub fn not_found(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::NotFound, code, message)
    }

    /// The same of what a setting names: that it is not there is wrong (2), and not the answer to what was asked for (4).
    #[must_use]
    pub fn of_setting(self) -> Self {
        if self.status == Status::NotFound {
            Self { code: "settings_invalid".to_owned(), status: Status::Usage, ..self }
        } else {
            self
        }
    }

    /// A server cannot be reached or is busy (5).
    pub fn unavailable(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Unavailable, code, message)
    }

    /// Gave up waiting; the work may continue (6).
    pub fn timeout(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Timeout, code, message)
    }

    /// It exists but is invalid (7).
    pub fn invalid(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Invalid, code, message)
    }

    /// Another run holds the lock (8).
    pub fn locked(code: &str, message: impl Into<String>) -> Self {
        Self::new(Status::Locked, code, message)
    }

    /// The call was ended by `signal`; its exit status is 128+n.
    pub fn interrupted(signal: i32) -> Self {
        let mut failure = Self::failed("interrupted", format!("The call was ended by {}.", crate::signals::name(signal)));
        failure.signal = Some(signal);
        failure.retryable = true;
        failure.hint("Running the same command again is safe and finds out where things stand.")
    }

    /// A file operation that failed: a missing file is 4, missing rights are 3, everything else is 1.
    ///
    /// `action` completes the sentence "Cannot …", for example `read the version marker`.
    pub fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let folder = path.parent().unwrap_or(path).to_string_lossy();
        let path = path.to_string_lossy();
        let failure = match error.kind() {
            io::ErrorKind::NotFound => Self::not_found("file_not_found", format!("Cannot {action}: there is no {path}."))
                .hint("Check the path, or name the right one."),
            io::ErrorKind::PermissionDenied => {
                let hint = if nix::unistd::geteuid().is_root() {
                    let attributes = shlex::try_join(["lsattr", "-d", &folder, &path]).unwrap_or_default();
                    format!("Even root may not; see its attributes, or the export of a network disk:\n  {attributes}")
                } else {
                    "Run the command as root (sudo), or as the owner of that path.".to_owned()
                };
                Self::refused("permission_denied", format!("Cannot {action}: no rights to {path}.")).hint(hint)
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                Self::refused("permission_denied", format!("Cannot {action}: the disk that holds {path} is read-only."))
                    .hint("Mount it writable, or name another directory.")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::failed("out_of_space", format!("Cannot {action}: the disk that holds {path} is full."))
                    .hint("Free disk space there, or name another directory, and run the same command again.")
            }
            io::ErrorKind::InvalidFilename => Self::fault(format!("Cannot {action}: the name {path} is too long."))
                .hint("Name another one; a file is first written beside it, under a name that is a little longer."),
            _ => Self::fault(format!("Cannot {action} at {path}."))
                .hint("Read the cause; when that is fixed, run the same command again."),
        };
        failure.cause(error.to_string())
    }

    /// A directory that `setting` names cannot be used: 3, or 1 if its disk is full.
    pub fn directory(path: &Path, setting: &str, error: &io::Error) -> Self {
        let (code, hint) = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let own = format!("or set {setting} to a directory of your own (the same one for every call)");
                ("permission_denied", format!("Run the command as root, {own}."))
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => return Self::io("use the directory", path, error),
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                ("name_in_use", format!("Move away what is there, or set {setting} to another directory."))
            }
            _ => ("settings_invalid", format!("Set {setting} to another directory, or repair this one.")),
        };
        Self::refused(code, format!("The directory {} cannot be used.", path.display())).hint(hint).cause(error.to_string())
    }

    /// Adds the command or setting that helps.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what helps too, behind the hint that it has.
    pub fn further_hint(self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        let hint = self.hint.as_ref().map_or(hint.clone(), |first| format!("{first} {hint}"));
        self.hint(hint)
    }

    /// Adds what lay behind it; a program that has said nothing adds nothing.
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        let cause = cause.into();
        if !cause.trim().is_empty() {
            self.causes.push(cause);
        }
        self
    }

    /// Says that the same call may succeed later by itself, or not.
    pub const fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// The number that the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self.signal {
            Some(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            None => self.status.code(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A failure together with what had been done by then, so that the document can say it.
#[derive(Debug)]
pub struct Stopped<T> {
    /// Why it stopped.
    pub failure: Failure,
    /// What is done, under way and untouched; never `None` once something was changed.
    pub result: Option<T>,
}

impl<T> Stopped<T> {
    /// Stops with `failure`, `result` being what had been done.
    pub fn with(failure: Failure, result: T) -> Self {
        Self { failure, result: Some(result) }
    }

    /// The end of a step whose `result` is known, however it ended.
    ///
    /// # Errors
    /// That of `ended`, with the result.
    pub fn ended(ended: Result<(), Failure>, result: T) -> StepResult<T> {
        match ended {
            Ok(()) => Ok(result),
            Err(failure) => Err(Self::with(failure, result)),
        }
    }
}

impl<T> From<Failure> for Stopped<T> {
    fn from(failure: Failure) -> Self {
        Self { failure, result: None }
    }
}

/// What a step gives: its result, or why it stopped and what had been done by then.
pub type StepResult<T> = Result<T, Stopped<T>>;
