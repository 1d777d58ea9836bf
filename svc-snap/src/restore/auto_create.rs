//! Clients create no indices of the live names while a swap is between its exchange and its end (`action.auto_create_index`).

use svc_step::Call;

use crate::client::{Server, setting};
use crate::index::copies;
use crate::restore::Swapped;
use crate::temporary::{Change, Target, why};

/// Excludes them if the scope is `*`. `None` if that cannot be: then what a client creates is cloned as a conflicting index.
pub(super) fn exclude(call: &Call, server: &Server, swapped: &Swapped) -> Option<Change<'static>> {
    let made = exclusion(call, server, swapped)?.make(server);
    made.map_err(|failure| call.reporter().detail(&format!("Clients may create indices meanwhile: {}", why(&failure)))).ok()
}

/// The change, as it is planned.
pub(super) fn exclusion(call: &Call, server: &Server, swapped: &Swapped) -> Option<Change<'static>> {
    let names = swapped.live_names();
    if !swapped.alone || names.is_empty() {
        return None;
    }
    let all = server.get("/_cluster/settings?include_defaults=true&flat_settings=true").ok()?;
    // Be it set in a node's own configuration file.
    let set = excluding(setting(&all, Target::AutoCreate.keys().0), &names)?;
    let found = Target::AutoCreate.read(all);
    let other = found.record.as_ref().filter(|record| record.swap.as_ref() != Some(&swapped.run));
    // It may be of a swap between its exchange and its end.
    if other.is_some() && !copies::marked(server).ok()?.is_empty() {
        return None;
    }
    match (found.why_not_changeable(call, server), found.record.clone()) {
        (None, _) => Some(found.change(call, set, Some(&swapped.run))),
        // Another host has begun the same swap: whoever ends it puts it back.
        (Some(_), Some(record)) if other.is_none() => Some(Change { found, record, is_answered: false }),
        _ => None,
    }
}

/// The setting with these names excluded: the first pattern that fits counts. `None` if no client creates any index.
fn excluding(was: Option<&str>, names: &[&str]) -> Option<String> {
    let rest = match was {
        Some("false") => return None,
        None | Some("true") => "+*",
        Some(patterns) => patterns,
    };
    Some(names.iter().map(|name| format!("-{name},")).collect::<String>() + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_names_precede_auto_create_patterns() {
        let names = ["docs", "more"];
        assert_eq!(excluding(None, &names).as_deref(), Some("-docs,-more,+*"));
        assert_eq!(excluding(Some("true"), &names).as_deref(), Some("-docs,-more,+*"));
        assert_eq!(excluding(Some("-x*,+y*"), &names).as_deref(), Some("-docs,-more,-x*,+y*"));
        assert_eq!(excluding(Some("false"), &names), None);
    }
}
