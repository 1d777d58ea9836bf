//! Names of our own copies of indices: staged, previous, replaced, cloned; and how they are told from those of others.

use std::collections::BTreeMap;

use svc_step::file::hex;
use svc_step::reporter::shell_quoted;
use svc_step::run_id::fit;
use svc_step::{Call, Failure, RunId};

use crate::client::{Server, members, path};

/// The longest name of an index, in bytes, on every server.
const LONGEST: usize = 255;

/// What the names of our own copies start with. Such an index is never part of the scope.
const OWN: [&str; 4] = ["svc-staged-", "svc-before-", "svc-replaced-", "svc-clone-"];

/// The command that removes the copies of `run`. Without their record it would know of no block.
pub(crate) fn discard(call: &Call, run: &str) -> String {
    let command = ["svc-snap", "discard", "--run", run].map(str::to_owned);
    shell_quoted(&[command.to_vec(), call.state_dir_option()].concat())
}

pub(crate) fn is_own(name: &str) -> bool {
    OWN.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether `name` is one of our own copies that `run` made, such as may be removed.
pub(crate) fn is_own_of(name: &str, run: &str) -> bool {
    copied_from(name, run).is_some()
}

/// Whether `name` is a copy that `run` made of an index that `wanted` says yes to; a [`conflict`] copy counts as one.
pub(crate) fn is_copy_of(name: &str, run: &str, wanted: impl Fn(&str) -> bool) -> bool {
    let rest = copied_from(name, run);
    let is_conflict = |index: &str| {
        let (index, mark) = index.rsplit_once("-conflict-")?;
        (mark.len() == 12 && mark.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| wanted(index))
    };
    rest.is_some_and(|index| wanted(index) || is_conflict(index) == Some(true))
}

/// Whether a copy may be one of an index that `wanted` says yes to: runs and indices may have a `-`, so every part is asked for.
pub(crate) fn may_be_of(name: &str, wanted: impl Fn(&str) -> bool) -> bool {
    let dashes = name.match_indices('-').filter_map(|(at, _)| name.get(at + 1..));
    dashes.skip(3).any(wanted)
}

/// The run that made a copy of one of the `live` indices, by the copy's name.
pub(crate) fn run_of(name: &str, live: &[String]) -> Option<String> {
    let rest = OWN.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let runs = live.iter().filter_map(|index| rest.strip_suffix(index.as_str())?.strip_suffix('-'));
    // The longest index leaves the shortest run.
    runs.filter(|run| run.parse::<RunId>().is_ok()).min_by_key(|run| run.len()).map(str::to_owned)
}

/// The index that this copy of `run` was made of. For a conflict copy or a shortened name: a name that no index has.
pub(crate) fn copied_from<'a>(name: &'a str, run: &str) -> Option<&'a str> {
    OWN.iter().find_map(|prefix| name.strip_prefix(prefix)?.strip_prefix(run)?.strip_prefix('-'))
}

/// Where `index` of a snapshot is restored beside the live one.
pub(crate) fn staged(run: &str, index: &str) -> String {
    fit(&format!("svc-staged-{run}-{index}"), LONGEST)
}

/// The copy of an index that a client made under the name of a live one while that was not there; `previous` is the name of that.
pub(crate) fn conflict(previous: &str, uuid: &str) -> String {
    let mark = hex(&uuid.bytes().take(6).collect::<Vec<_>>());
    fit(&format!("{previous}-conflict-{mark}"), LONGEST)
}

pub(crate) fn cloned(run: &str, index: &str) -> String {
    fit(&format!("svc-clone-{run}-{index}"), LONGEST)
}

/// The previous copy of the live `index` when a copy takes its name in a swap, or in one that goes back.
pub(crate) fn previous(run: &str, back: bool, index: &str) -> String {
    fit(&format!("{}-{run}-{index}", if back { "svc-replaced" } else { "svc-before" }), LONGEST)
}

/// What the aliases of unfinished swaps start with.
const MARKERS: [&str; 2] = ["svc-swapping-", "svc-swapping-back-"];

/// The alias of what has been exchanged in an unfinished swap: of its copies, and of the clones under the live names.
pub(crate) fn marker(run: &str, back: bool) -> String {
    let [forward, backward] = MARKERS;
    format!("{}{run}", if back { backward } else { forward })
}

/// The runs of swaps that are exchanged and not finished, each with its indices and copies: some indices may not be live. Says whether
/// the swap goes back.
pub(crate) fn marked(server: &Server) -> Result<BTreeMap<(String, String), bool>, Failure> {
    let [pattern, back] = MARKERS;
    let found = server.find(&format!("{}?expand_wildcards=all", path(&["_alias", &format!("{pattern}*")])))?.unwrap_or_default();
    let mut marked = BTreeMap::new();
    for (name, index) in members(&found) {
        for (alias, _) in index.get("aliases").into_iter().flat_map(members) {
            let Some(run) = marked_run(alias) else { continue };
            *marked.entry((run.to_owned(), name.clone())).or_default() |= alias.starts_with(back);
        }
    }
    Ok(marked)
}

pub(crate) fn marked_run(alias: &str) -> Option<&str> {
    MARKERS.iter().rev().find_map(|prefix| alias.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "20261120t020003z-hand";

    #[test]
    fn run_of_copy_is_derived_from_live_index_names() {
        let live = ["docs".to_owned(), "my-docs".to_owned()];
        let name = staged(RUN, "my-docs");
        assert_eq!(run_of(&name, &live).as_deref(), Some("20261120t020003z-hand"));
        assert_eq!(run_of(&name, &["other".to_owned()]), None);
        assert!(may_be_of(&name, |index| index == "my-docs") && !may_be_of(&name, |index| index == "other"));
        let is_copy = |name: &str, index: &str| is_copy_of(name, RUN, |asked| asked == index);
        assert!(is_copy(&name, "my-docs") && !is_copy(&name, "docs"), "no index outside the scope by the end of its name");
        assert!(is_copy(&conflict(&previous(RUN, false, "docs"), "aZ-_9xyz"), "docs"));
    }

    #[test]
    fn own_copies_are_known_by_name_and_run() {
        for name in [previous(RUN, false, "docs"), previous(RUN, true, "docs"), staged(RUN, "docs"), cloned(RUN, "docs")] {
            assert_eq!((is_own(&name), copied_from(&name, RUN)), (true, Some("docs")), "{name}");
        }
        let conflict = conflict(&previous(RUN, false, "docs"), "aZ-_9xyz");
        assert!(is_own(&conflict) && is_own_of(&conflict, RUN) && copied_from(&conflict, RUN) != Some("docs"));
        assert!(!is_own("docs") && !is_own("svc-docs") && !is_own_of("docs", RUN));
        for other in ["svc-staged-20261120t020003z-handy-docs", "svc-before-20261120t020003z-other-docs"] {
            assert!(!is_own_of(other, RUN), "{other}");
        }
    }

    #[test]
    fn longest_index_name_has_distinct_staged_name() {
        let long = format!("{}a", "x".repeat(254));
        let other = format!("{}b", "x".repeat(254));
        assert_eq!(staged(RUN, &long).len(), 255);
        assert_ne!(staged(RUN, &long), staged(RUN, &other));
        assert!(is_own_of(&staged(RUN, &long), RUN));
        let before = previous(RUN, false, &long);
        assert!(conflict(&before, "aZ").len() <= 255);
        assert_ne!(conflict(&before, "aZ"), before);
        assert_ne!(marker(RUN, false), marker(RUN, true));
        assert_eq!(marked_run("docs"), None);
        assert_eq!([true, false].map(|back| marked_run(&marker(RUN, back)).unwrap().to_owned()), [RUN; 2]);
    }
}
