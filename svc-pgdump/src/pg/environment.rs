//! libpq's environment variables.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use svc_step::Failure;
use svc_step::user::OsUser;

/// The environment; an empty variable counts as unset, as in libpq.
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// That of this process; what is not UTF-8 is left out.
    pub(super) fn of_process() -> Self {
        Self(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect(),
        )
    }

    #[cfg(test)]
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Refuses what one of these variables asks of libpq and is not done here: it is about who is on the other end of a connection, so
    /// ignoring it would be worse than stopping. `harmless` are the values that ask for nothing.
    pub(super) fn refuse(&self, names: &[&str], harmless: &[&str]) -> Result<(), Failure> {
        let set = names.iter().find(|name| self.text(name).is_some_and(|value| !harmless.contains(&value.as_str())));
        match set {
            None => Ok(()),
            Some(name) => Err(Failure::usage("settings_invalid", format!("{name} is set, and is not supported.")).hint(format!(
                "Unset {name} for this call, if the connection may do without it; PGSSLMODE=verify-full verifies the server."
            ))),
        }
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The caller's home directory, where libpq's own files lie.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.path("HOME").or_else(|| OsUser::current().map(|user| user.home))
    }

    /// One of libpq's own files, such as `~/.postgresql/root.crt`, if it is there.
    pub(super) fn of_home(&self, name: &str) -> Option<PathBuf> {
        self.home().map(|home| home.join(".postgresql").join(name)).filter(|path| path.exists())
    }

    pub(super) fn value<T: FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| {
            Failure::usage("settings_invalid", format!("The variable {name} has the invalid value `{text}`."))
                .hint(format!("Correct {name}, or unset it."))
        })
    }
}
