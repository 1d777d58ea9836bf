//! The errors that mean “I will not”, as opposed to “I could not”.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

/// A rule said no, and nothing was changed.
#[derive(Debug)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal with its sentence, ready to be returned.
    pub fn because(sentence: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(sentence.into()))
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The exit status of an error: 3 for a refusal, else 1.
pub fn status(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(if error.is::<Refusal>() { 3 } else { 1 })
}
