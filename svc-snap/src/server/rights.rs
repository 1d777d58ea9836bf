//! Missing rights: the action that was refused, to whom and on what, out of the server's own sentence.

use svc_step::Failure;

/// What a server says of a right that is missing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lack<'a> {
    /// The action, or several, as the server calls them.
    actions: &'a str,
    /// Who lacks it.
    user: Option<&'a str>,
    /// On which indices.
    indices: Option<&'a str>,
    /// Privileges of which any would do.
    privileges: Option<&'a str>,
}

/// Makes the sentence of a refusal say which right it is, where the server says it.
pub(crate) fn name(failure: &mut Failure, reasons: &[String]) {
    let Some(lack) = reasons.iter().find_map(|reason| read(reason)) else { return };
    let user = lack.user.map(|user| format!(" {user}")).unwrap_or_default();
    let on = lack.indices.map(|indices| format!(" on {indices}")).unwrap_or_default();
    let any = lack.privileges.map(|some| format!(", by one of the privileges {some}")).unwrap_or_default();
    failure.message = format!("The search database's user{user} has no right to {}{on}.", lack.actions);
    failure.hint = Some(format!("Give that user a role with it{any}; svc-snap/roles has one with the least rights."));
}

/// Elasticsearch: `action [a] is unauthorized for user [u] with effective roles [r] on indices [i], this action is granted by
/// the index privileges [p]`. OpenSearch: `no permissions for [a] and User [name=u, …]`.
fn read(reason: &str) -> Option<Lack<'_>> {
    if let Some(rest) = after(reason, "no permissions for ") {
        return Some(Lack {
            actions: bracket(rest)?,
            user: after(rest, "User [name=").and_then(|rest| rest.split([',', ']']).next()),
            ..Lack::default()
        });
    }
    if !reason.contains("is unauthorized") {
        return None;
    }
    Some(Lack {
        actions: bracket(after(reason, "action ")?)?,
        user: ["user ", "service account ", "API key id "].iter().find_map(|who| bracket(after(reason, who)?)),
        indices: after(reason, " on indices ").and_then(bracket),
        privileges: after(reason, "granted by the ").and_then(|rest| bracket(after(rest, "privileges ")?)),
    })
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// What stands between the brackets with which the text begins.
fn bracket(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.split_once(']').map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_right_is_named_in_either_servers_words() {
        let named = |reason: &str| {
            let mut failure = Failure::refused("search_forbidden", "No.").hint("Nothing.");
            name(&mut failure, &[reason.to_owned()]);
            (failure.message, failure.hint.unwrap())
        };
        let cluster = "action [cluster:admin/snapshot/create] is unauthorized for user [reader] with effective roles [viewer], this action is granted by the cluster privileges [create_snapshot,manage_slm,manage,all]";
        assert_eq!(named(cluster).0, "The search database's user reader has no right to cluster:admin/snapshot/create.");
        let index = "action [indices:monitor/stats] is unauthorized for user [reader] with effective roles [none] on indices [a,b], this action is granted by the index privileges [monitor,manage,all]";
        let (message, hint) = named(index);
        assert_eq!(message, "The search database's user reader has no right to indices:monitor/stats on a,b.");
        assert!(hint.contains("one of the privileges monitor,manage,all"));
        let other =
            "no permissions for [cluster:admin/snapshot/create] and User [name=reader, backend_roles=[], requestedTenant=null]";
        assert_eq!(named(other).0, "The search database's user reader has no right to cluster:admin/snapshot/create.");
        assert_eq!(named("no").0, "No.");
    }
}
