//! libpq's environment variables, read through one place so that they can be tested.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use svc_step::Failure;

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

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// # Errors
    /// The variable holds no such number (2).
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| {
            Failure::usage("environment_invalid", format!("The variable {name} is `{text}`, which is no such number."))
                .hint(format!("Set {name} right, or unset it."))
        })
    }
}
