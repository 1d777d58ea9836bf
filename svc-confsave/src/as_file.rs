//! A `svc.conf` with lines that are not understood is never changed by key: the saved file takes its place as a whole, and
//! the shipped one goes beside it, as package managers do.

use svc_step::Failure;
use svc_step::file::Previous;

use crate::config::Config;
use crate::key::{KeyReport, Outcome};
use crate::merge::Reason;
use crate::replace::shipped;

/// What is to become of the file.
#[derive(Debug)]
pub(crate) struct AsFile {
    /// One entry, or none where nothing is customised.
    pub keys: Vec<KeyReport>,
    /// Where the shipped file goes; `None`: it stays in its place.
    pub aside: Option<Previous>,
}

/// Decides: with a base, or where all is to be carried, the operator's file wins as a whole.
pub(crate) fn plan(saved: &Config, base: Option<&Config>, new: &Config, all: bool) -> Result<AsFile, Failure> {
    let stays = |outcome, reason| Ok(AsFile { keys: vec![KeyReport::of_whole_file(outcome, reason)], aside: None });
    if base.is_some_and(|base| base.text.as_str() == saved.text.as_str()) {
        return Ok(AsFile { keys: Vec::new(), aside: None });
    }
    if saved.text.as_str() == new.text.as_str() {
        return stays(Outcome::Same, None);
    }
    let outcome = match base {
        None if all => Outcome::Carried,
        None => return stays(Outcome::NotCarried, Some(Reason::NotRecognised)),
        Some(base) if base.text.as_str() == new.text.as_str() => Outcome::Carried,
        Some(_) => Outcome::Conflict,
    };
    let aside = shipped(&new.content)?;
    Ok(AsFile { keys: vec![KeyReport::of_whole_file(outcome, None)], aside: Some(aside) })
}
