//! libpq's environment variables, read through one place so that they can be tested.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use svc_step::Failure;
use svc_step::user::OsUser;

/// The environment; an empty variable counts as unset, as in libpq.
#[derive(Clone)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// That of this process; what is not UTF-8 is left out.
    pub(crate) fn of_process() -> Self {
        Self(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect(),
        )
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// The same with these variables in the place of what they were.
    pub(crate) fn with(&self, variables: &[(&'static str, String)]) -> Self {
        let mut all = self.0.clone();
        all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Self(all)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Refuses what a person has asked libpq for, by one of these variables, and what is not done here: it is about who is on
    /// the other end of a connection, so passing over it would be worse than stopping. `harmless` are the values that ask for
    /// nothing.
    ///
    /// # Errors
    /// One of them is set (2).
    pub(crate) fn refuse(&self, names: &[&str], harmless: &[&str]) -> Result<(), Failure> {
        let set = names.iter().find(|name| self.text(name).is_some_and(|value| !harmless.contains(&value.as_str())));
        match set {
            None => Ok(()),
            Some(name) => {
                Err(Failure::usage("environment_unsupported", format!("{name} is set, and is not supported.")).hint(format!(
                    "Unset {name} for this call, if the connection may do without it; PGSSLMODE=verify-full proves the server."
                )))
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The caller's home folder, where libpq's own files lie.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.path("HOME").or_else(|| OsUser::current().map(|user| user.home))
    }

    /// One of libpq's own files, such as `~/.postgresql/root.crt`, where it is there.
    pub(crate) fn of_home(&self, name: &str) -> Option<PathBuf> {
        self.home().map(|home| home.join(".postgresql").join(name)).filter(|path| path.exists())
    }

    /// # Errors
    /// The variable holds no such number or address (2).
    pub(crate) fn value<T: FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| {
            Failure::usage("environment_invalid", format!("The variable {name} is `{text}`, which it cannot be."))
                .hint(format!("Set {name} right, or unset it."))
        })
    }
}
