//! Policies of OpenSearch's index state management, which are not among an index's settings: the server keeps them by the index's `uuid`,
//! in an index of its own.

use std::collections::BTreeMap;

use serde_json::json;
use svc_step::{Call, Failure, Status};

use crate::index::{Index, portions};
use crate::server::json::{list, members, text};
use crate::server::path::path;
use crate::server::{Product, Server};

/// Notes in what was seen of these indices which policy each is attached to.
pub(crate) fn fill(call: &Call, server: &Server, found: &mut BTreeMap<String, Index>) -> Result<(), Failure> {
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let mut attached = attached(call, server, &names)?;
    found.iter_mut().for_each(|(name, index)| index.shape.policy = attached.remove(name));
    Ok(())
}

/// The policies that these indices are attached to; none where the server has no index state management.
fn attached(call: &Call, server: &Server, names: &[&str]) -> Result<BTreeMap<String, String>, Failure> {
    let mut attached = BTreeMap::new();
    if server.product != Product::OpenSearch {
        return Ok(attached);
    }
    for names in portions(names) {
        match server.get(&path(&["_plugins", "_ism", "explain", &names.join(",")])) {
            Ok(answer) => {
                let policy = |(name, one)| Some((String::clone(name), text(one, "/policy_id")?.to_owned()));
                attached.extend(members(&answer).filter_map(policy));
            }
            Err(failure) if is_unserved(&failure) => break,
            Err(failure) if matches!(failure.status, Status::Refused | Status::Failed | Status::NotFound) => {
                let why = failure.causes.last().unwrap_or(&failure.message);
                call.warn(
                    "policies_not_seen",
                    format!("Which policies of index state management the indices have is not seen: {why}"),
                );
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(attached)
}

/// Whether nobody serves that path, since the plugin is not there.
fn is_unserved(failure: &Failure) -> bool {
    failure.causes.iter().any(|cause| cause.starts_with("no handler found for uri"))
}

/// Attaches indices to the policies that they had, as far as they are attached to none. What cannot be is told: the indices are live
/// without it.
pub(crate) fn attach<'a>(call: &Call, server: &Server, wanted: impl IntoIterator<Item = (&'a str, Option<String>)>) {
    let mut alike = BTreeMap::<String, Vec<&str>>::new();
    for (index, policy) in wanted.into_iter().filter_map(|(index, policy)| Some((index, policy?))) {
        alike.entry(policy).or_default().push(index);
    }
    for (policy, names) in alike {
        let now = attached(call, server, &names).unwrap_or_default();
        let names: Vec<&str> = names.into_iter().filter(|name| now.get(*name).is_none_or(|now| *now != policy)).collect();
        for names in portions(&names) {
            let body = json!({ "policy_id": policy });
            let added = server.change(call, "POST", &path(&["_plugins", "_ism", "add", &names.join(",")]), Some(&body));
            let told = |name: &str| format!("{name} (policy {policy})");
            match added {
                Ok(answer) => {
                    let failed = list(&answer, "/failed_indices");
                    let failed: Vec<(&str, &str)> = failed
                        .map(|one| (text(one, "/index_name").unwrap_or("?"), text(one, "/reason").unwrap_or("no reason")))
                        .collect();
                    failed.iter().for_each(|(name, why)| tell_left(call, &[told(name)], why));
                }
                Err(failure) => {
                    let why = failure.causes.last().unwrap_or(&failure.message);
                    tell_left(call, &names.iter().map(|name| told(name)).collect::<Vec<_>>(), why);
                }
            }
        }
    }
}

/// Tells people of indices that are live without the lifecycle policy that they had.
pub(crate) fn tell_left(call: &Call, left: &[String], why: &str) {
    call.review(
        "policy_not_attached",
        format!(
            "These had a lifecycle policy that the server does not take again; attach it by hand: {}. {why}",
            left.join(", ")
        ),
    );
}
