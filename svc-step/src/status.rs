//! The exit statuses of every tool and script: one enum, one table.

/// How a call ended, as scripts see it. A death by signal n is 128+n and is no `Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done, or already so.
    Ok = 0,
    /// Anything that no other status names.
    Failed = 1,
    /// A bad command line, or a bad `--from` document.
    Usage = 2,
    /// A safety rule said no; nothing was changed.
    Refused = 3,
    /// The snapshot, dump, unit, file or database is not there.
    NotFound = 4,
    /// A server cannot be reached, or says that it is busy.
    Unavailable = 5,
    /// Gave up waiting; the work may continue.
    Timeout = 6,
    /// It exists but is invalid.
    Invalid = 7,
    /// Another run holds the lock.
    Locked = 8,
    /// Done, and a person must read the warnings.
    Review = 9,
}

impl Status {
    /// Every status, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::Refused,
        Self::NotFound,
        Self::Unavailable,
        Self::Timeout,
        Self::Invalid,
        Self::Locked,
        Self::Review,
    ];

    /// That of a call that failed with this number; `Failed` where it is none of the table's.
    #[must_use]
    pub fn of_failure(code: i32) -> Self {
        Self::ALL.into_iter().skip(1).find(|status| i32::from(status.code()) == code).unwrap_or(Self::Failed)
    }

    /// The number that the process ends with.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The name that the pages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::NotFound => "not_found",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Invalid => "invalid",
            Self::Locked => "locked",
            Self::Review => "review",
        }
    }

    /// What it means, for `--help`.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done, or already so",
            Self::Failed => "anything not below",
            Self::Usage => "bad command line, or a bad --from document",
            Self::Refused => "a safety rule refuses it; nothing was changed",
            Self::NotFound => "the snapshot, dump, unit, file or database is not there",
            Self::Unavailable => "a server cannot be reached, or is busy; try again later",
            Self::Timeout => "gave up waiting; the work may still be running: ask for its status",
            Self::Invalid => "exists but is invalid",
            Self::Locked => "another run holds the lock",
            Self::Review => "done, and a person must read the warnings",
        }
    }

    /// The table that ends every tool's long help.
    #[must_use]
    pub fn table() -> String {
        let mut table = String::from("Exit status:\n");
        for status in Self::ALL {
            table.push_str(&format!("  {:<5} {:<12} {}\n", status.code(), status.name(), status.meaning()));
        }
        table.push_str("  128+n              ended by signal n, after the document was printed");
        table
    }
}
