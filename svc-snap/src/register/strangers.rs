//! What lies in the folder of a repository already, and whether this server may write beside it.
//!
//! A server takes any folder. But Elasticsearch that writes where OpenSearch wrote leaves a list of snapshots that OpenSearch
//! cannot read, or whose snapshots it does not find any more (both seen); an older server that writes beside a newer one's
//! snapshots relies on a format that it does not know.

use svc_step::{Call, Failure};

use crate::server::Server;
use crate::snapshot::fit::{self, Fit};
use crate::snapshot::{self, Snapshot};

/// Looks through the snapshots of a repository that was just registered.
///
/// # Errors
/// It is for writing, and the other product or a newer server has written to it; or this server cannot read it at all (3).
pub(super) fn check(call: &Call, server: &Server, repository: &str, readonly: bool) -> Result<(), Failure> {
    let all = match snapshot::all(server, repository) {
        Ok(all) => all,
        Err(failure) if UNREADABLE.contains(&failure.code.as_str()) => return Err(failure),
        Err(failure) => {
            call.warn("snapshots_not_read", format!("What the repository {repository} holds could not be read: {failure}"));
            return Ok(());
        }
    };
    let strangers = |fit: Fit| -> Vec<&Snapshot> { all.iter().filter(|snapshot| snapshot.fit == fit).collect() };
    for (fit, code) in [(Fit::Other, UNREADABLE[0]), (Fit::Newer, UNREADABLE[1])] {
        let strangers = strangers(fit);
        let Some(failure) = strangers.last().and_then(|last| fit::check(server, repository, last).err()) else { continue };
        if readonly {
            let more = strangers.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" So were {more} others.") };
            call.warn(&failure.code, format!("{}{more}", failure.message));
        } else {
            return Err(Failure::refused(code, failure.message).hint(
                "Two search databases must never write to one folder: register it with --readonly, and another folder for this one's own snapshots.",
            ));
        }
    }
    Ok(())
}

/// The codes of a folder that another search database has written to.
const UNREADABLE: [&str; 2] = ["repository_of_other_product", "repository_newer_than_server"];
