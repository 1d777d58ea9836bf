//! The places of a password: `--password-file`, `PGPASSWORD`, libpq's password file, the terminal. Never argv.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use svc_step::secret::Secret;
use svc_step::user::OsUser;
use svc_step::{Call, Failure, file};

use crate::connection::PasswordSource;
use crate::environment::Environment;
use crate::{pgpass, terminal};

/// More of a password file than this is not read.
const LONGEST: u64 = 1024 * 1024;

/// What is known of passwords before the first connection.
#[derive(Debug)]
pub(crate) struct Passwords {
    fixed: OnceLock<Secret>,
    entries: Vec<pgpass::Entry>,
    may_ask: bool,
}

impl Passwords {
    pub(crate) fn find(
        source: &PasswordSource,
        env: &Environment,
        os_user: Option<&OsUser>,
        call: &Call,
    ) -> Result<Self, Failure> {
        let none = |may_ask| Self { fixed: OnceLock::new(), entries: Vec::new(), may_ask };
        match source {
            PasswordSource::File(path) => Ok(Self { fixed: OnceLock::from(Secret::from_file("password", path)?), ..none(false) }),
            PasswordSource::Prompt => Ok(Self { fixed: OnceLock::from(terminal::ask(call)?), ..none(false) }),
            PasswordSource::Places | PasswordSource::PlacesOnly => {
                let may_ask = *source == PasswordSource::Places;
                if let Some(user) = os_user {
                    let entries = user.act_as(|| read_entries(&user.home.join(".pgpass"), false, call))?;
                    return Ok(Self { entries, ..none(may_ask) });
                }
                if let Some(password) = env.text("PGPASSWORD") {
                    return Ok(Self { fixed: OnceLock::from(Secret::new(password)), ..none(may_ask) });
                }
                let entries = match (env.path("PGPASSFILE"), env.home()) {
                    (Some(path), _) => read_entries(&path, true, call)?,
                    (None, Some(home)) => read_entries(&home.join(".pgpass"), false, call)?,
                    (None, None) => Vec::new(),
                };
                Ok(Self { entries, ..none(may_ask) })
            }
        }
    }

    /// The password for one connection.
    pub(crate) fn of(&self, wanted: &pgpass::Wanted<'_>) -> Option<Secret> {
        self.fixed.get().cloned().or_else(|| pgpass::lookup(&self.entries, wanted))
    }

    /// Asks on the terminal, once, where that is allowed and there is one.
    pub(crate) fn ask(&self, call: &Call) -> Result<Option<Secret>, Failure> {
        if !self.may_ask || self.fixed.get().is_some() || !terminal::is_there() {
            return Ok(None);
        }
        let secret = terminal::ask(call)?;
        Ok(Some(self.fixed.get_or_init(|| secret).clone()))
    }
}

/// Reads a password file as libpq does: one that others can read is passed over, and a person is told. One that was named
/// and is not there is passed over too, since libpq does the same, with a word about it.
fn read_entries(path: &Path, named: bool, call: &Call) -> Result<Vec<pgpass::Entry>, Failure> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => {
            if named {
                call.warn("password_file_unusable", format!("The password file {} is not used: {error}.", path.display()));
            }
            return Ok(Vec::new());
        }
    };
    if !meta.is_file() {
        call.warn("password_file_unusable", format!("The password file {} is not used: it is no regular file.", path.display()));
        return Ok(Vec::new());
    }
    if meta.permissions().mode() & 0o077 != 0 {
        call.warn(
            "password_file_open",
            format!("The password file {} is not used, since others can read it: chmod 600 {0}.", path.display()),
        );
        return Ok(Vec::new());
    }
    let action = "read the password file";
    let mut bytes = Vec::new();
    let file = file::open_regular(action, path)?;
    file.take(LONGEST).read_to_end(&mut bytes).map_err(|error| Failure::io(action, path, &error))?;
    let (entries, odd) = pgpass::parse(&bytes);
    if odd > 0 {
        call.warn("password_line_not_text", format!("{odd} lines of {} are not UTF-8 text and are not used.", path.display()));
    }
    Ok(entries)
}
