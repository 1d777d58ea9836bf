//! Policies of OpenSearch's index state management: the server has them by an index's `uuid`, in an index of its own.

use std::collections::BTreeMap;

use serde_json::json;
use svc_step::{Call, Failure, Status};

use crate::client::{Product, Server, list, members, path, text};
use crate::index::{Found, list_of, portions};

/// Adds the policy that each of these indices is attached to.
pub(crate) fn fill(call: &Call, server: &Server, found: &mut Found) -> Result<(), Failure> {
    let mut attached = attached(call, server, &found.keys().map(String::as_str).collect::<Vec<_>>())?;
    found.iter_mut().for_each(|(name, index)| index.metadata.policy = attached.remove(name));
    Ok(())
}

/// The policies that these indices are attached to; none if the server has no index state management.
fn attached(call: &Call, server: &Server, names: &[&str]) -> Result<BTreeMap<String, String>, Failure> {
    let mut attached = BTreeMap::new();
    if server.product != Product::OpenSearch {
        return Ok(attached);
    }
    for names in portions(names) {
        match server.get(&path(&["_plugins", "_ism", "explain", &list_of(&names)])) {
            Ok(answer) => {
                let policy = |(name, one)| Some((String::clone(name), text(one, "/policy_id")?.to_owned()));
                attached.extend(members(&answer).filter_map(policy));
            }
            // The plugin is not there.
            Err(failure) if failure.causes.iter().any(|cause| cause.starts_with("no handler found for uri")) => break,
            Err(failure) if matches!(failure.status, Status::Refused | Status::Failed | Status::NotFound) => {
                let why = failure.causes.last().unwrap_or(&failure.message);
                call.warn("not_checked", format!("The indices' policies of index state management could not be read: {why}"));
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(attached)
}

/// Attaches indices to the policies that they had, if they are attached to none. What cannot be attached is a warning.
pub(crate) fn attach<'a>(call: &Call, server: &Server, wanted: impl IntoIterator<Item = (&'a str, String)>) {
    let mut alike = BTreeMap::<String, Vec<&str>>::new();
    wanted.into_iter().for_each(|(index, policy)| alike.entry(policy).or_default().push(index));
    for (policy, names) in alike {
        let now = attached(call, server, &names).unwrap_or_default();
        let names: Vec<&str> = names.into_iter().filter(|name| now.get(*name).is_none_or(|now| *now != policy)).collect();
        for names in portions(names) {
            let body = json!({ "policy_id": policy });
            let warn = |names: &[&str], why: &str| {
                let left: Vec<String> = names.iter().map(|name| format!("{name} (policy {policy})")).collect();
                warn_left(call, &left, why);
            };
            match server.change(call, "POST", &path(&["_plugins", "_ism", "add", &list_of(&names)]), Some(&body)) {
                Ok(answer) => list(&answer, "/failed_indices").for_each(|one| {
                    warn(&[text(one, "/index_name").unwrap_or("?")], text(one, "/reason").unwrap_or("no reason"));
                }),
                Err(failure) => warn(&names, failure.causes.last().unwrap_or(&failure.message)),
            }
        }
    }
}

/// Warns of indices that are live without the lifecycle policy that they had.
pub(crate) fn warn_left(call: &Call, left: &[String], why: &str) {
    let left = left.join(", ");
    let message = format!("These had a lifecycle policy that the server does not take again; attach it by hand: {left}. {why}");
    call.review("not_restored", message);
}
