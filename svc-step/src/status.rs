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

/// Every status but the death by a signal, with its name on the pages, and what it means, for `--help`.
const TABLE: [(&str, Status, &str); 10] = [
    ("ok", Status::Ok, "done, or already so"),
    ("failed", Status::Failed, "anything not below"),
    ("usage", Status::Usage, "bad command line, or a bad --from document"),
    ("refused", Status::Refused, "a safety rule refuses it; nothing was changed"),
    ("not_found", Status::NotFound, "the snapshot, dump, unit, file or database is not there"),
    ("unavailable", Status::Unavailable, "a server cannot be reached, or is busy; try again later"),
    ("timeout", Status::Timeout, "gave up waiting; the work may still be running: ask for its status"),
    ("invalid", Status::Invalid, "exists but is invalid"),
    ("locked", Status::Locked, "another run holds the lock"),
    ("review", Status::Review, "done, and a person must read the warnings"),
];

impl Status {
    /// That of a call that failed with this number; `Failed` if it is none of the table's.
    pub fn of_failure(code: i32) -> Self {
        let statuses = TABLE.into_iter().map(|(_, status, _)| status);
        statuses.skip(1).find(|status| i32::from(status.code()) == code).unwrap_or(Self::Failed)
    }

    /// The number that the process ends with.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The table that ends every tool's long help.
    pub fn table() -> String {
        let mut table = String::from("Exit status:\n");
        for (name, status, meaning) in TABLE {
            table.push_str(&format!("  {:<5} {name:<12} {meaning}\n", status.code()));
        }
        table.push_str("  128+n              ended by signal n, after the document was printed");
        table
    }
}
