//! Several connections for the same work, or as many as the server has room for.

use postgres::Client;
use svc_step::Failure;

/// The one that there is at least, and those beside it: up to so many in all, and fewer where the server has no room for more.
///
/// # Errors
/// What `connect` says, unless one is there already and the server is full.
pub(crate) fn up_to(wanted: usize, connect: impl Fn() -> Result<Client, Failure>) -> Result<(Client, Vec<Client>), Failure> {
    let first = connect()?;
    let mut others = Vec::new();
    while others.len() + 1 < wanted {
        match connect() {
            Ok(client) => others.push(client),
            Err(failure) if failure.code == "postgres_busy" => break,
            Err(failure) => return Err(failure),
        }
    }
    Ok((first, others))
}
