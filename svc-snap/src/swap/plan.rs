//! The plan of a swap: what becomes live in whose place, under which name that is kept, and what it has when it is done.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::Failure;

use super::foresee::foresee;
use crate::guard;
use crate::index::Index;
use crate::index::act::Act;
use crate::index::copies::{Way, is_marker};
use crate::index::shape::{Shape, is_write_index};
use crate::runs::swapped::{Source, State, SwapIndex, Swapped};

/// What is asked for under one live name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    /// The live name.
    pub index: String,
    /// What is to become live; `None`: it is to be taken away.
    pub source: Option<Source>,
    /// What it is to have beside its documents; `None`: as what is live has it.
    pub becomes: Option<Shape>,
    /// A copy that an unfinished swap may have left the aliases with.
    pub holder: Option<String>,
}

/// A doubt that a person should know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Nothing noted what it has to have; it is taken from what is live.
    FromLive(String),
    /// Nothing notes it and nothing is live: it comes without aliases and replicas.
    Unknown(String),
}

/// Lays out the swap: what comes first, what is taken away last, so that an alias goes over before its index goes.
///
/// # Errors
/// A safety rule says no (3): a name that is in use, an index that cannot be kept.
pub(crate) fn lay_out(
    way: &Way,
    wishes: Vec<Wish>,
    seen: &BTreeMap<String, Index>,
    drop_old: bool,
) -> Result<(Vec<SwapIndex>, Vec<Doubt>), Failure> {
    let (mut indices, mut doubts) = (Vec::new(), Vec::new());
    for wish in wishes {
        let live = seen.get(&wish.index);
        let was = live.map(|live| without_markers(&live.shape));
        let becomes = wish.source.as_ref().map(|_| match (&wish.becomes, &was) {
            (Some(becomes), _) => becomes.clone(),
            (None, Some(was)) => {
                doubts.push(Doubt::FromLive(wish.index.clone()));
                // A block says how things stand with what is live, and nothing of the backup.
                Shape { blocks: BTreeSet::new(), ..was.clone() }
            }
            (None, None) => {
                doubts.push(Doubt::Unknown(wish.index.clone()));
                Shape::default()
            }
        });
        let kept = way.kept(&wish.index);
        indices.push(SwapIndex {
            state: if live.is_some() { State::Old } else { State::Absent },
            source: wish.source,
            live_uuid: live.map(|live| live.uuid.clone()),
            live_closed: live.is_some_and(|live| live.closed),
            // A copy of that name beside no live index is what an earlier call had kept.
            kept: (!drop_old && (live.is_some() || seen.contains_key(&kept))).then_some(kept),
            strays: Vec::new(),
            was,
            becomes,
            holder: wish.holder,
            index: wish.index,
        });
    }
    indices.sort_by(|one, other| (one.source.is_none(), &one.index).cmp(&(other.source.is_none(), &other.index)));
    let in_use = indices.iter().filter(|item| item.live_uuid.is_some()).filter_map(|item| item.kept.as_deref());
    let in_use: Vec<&str> = in_use.filter(|kept| seen.contains_key(*kept)).collect();
    guard::refuse_in_use("what is live", &in_use)?;
    refuse_unkeepable(&indices, seen)?;
    Ok((indices, doubts))
}

fn without_markers(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    shape.aliases.retain(|alias, _| !is_marker(alias));
    shape
}

/// A red index has shards that nobody can copy.
fn refuse_unkeepable(indices: &[SwapIndex], seen: &BTreeMap<String, Index>) -> Result<(), Failure> {
    let red = |item: &&SwapIndex| item.kept.is_some() && seen.get(&item.index).is_some_and(|live| !live.whole && !live.closed);
    let red: Vec<&str> = indices.iter().filter(red).map(|item| item.index.as_str()).collect();
    if red.is_empty() {
        return Ok(());
    }
    Err(Failure::refused("live_index_red", format!("What is live cannot be kept, since it lacks shards: {}.", red.join(", ")))
        .hint("Mend it (GET /_cluster/allocation/explain), or say --drop-old to give it up."))
}

/// Aliases that would have two write indices: one of the swap's and one that the swap does not touch.
///
/// # Errors
/// There are such (3), all named.
pub(crate) fn refuse_second_write_index(indices: &[SwapIndex], holders: &BTreeMap<String, Vec<String>>) -> Result<(), Failure> {
    let ours: BTreeSet<&str> = indices.iter().flat_map(SwapIndex::names).collect();
    let conflicts: Vec<String> = write_aliases(indices)
        .iter()
        .flat_map(|alias| {
            let others = holders.get(*alias).into_iter().flatten().filter(|holder| !ours.contains(holder.as_str()));
            others.map(move |other| format!("{alias} ({other})"))
        })
        .collect();
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(
        "alias_has_write_index",
        format!("An index that is not part of the swap is the write index of an alias of the backup: {}.", conflicts.join(", ")),
    )
    .hint("Say --exact to take away the indices of the scope that the backup does not hold, or change that alias."))
}

/// The aliases that say which index is written to, among those that the swap gives.
pub(crate) fn write_aliases(indices: &[SwapIndex]) -> BTreeSet<&str> {
    let given = indices.iter().flat_map(|item| &item.becomes).flat_map(|becomes| &becomes.aliases);
    given.filter(|(_, properties)| is_write_index(properties)).map(|(alias, _)| alias.as_str()).collect()
}

/// The wishes that take back an earlier swap, from what it had come to. What it had not come to is not among them.
///
/// # Errors
/// What was live was not kept (4).
pub(crate) fn wishes_back(
    before: &Swapped,
    seen: &BTreeMap<String, Index>,
    counts: &BTreeMap<&str, u64>,
) -> Result<Vec<Wish>, Failure> {
    let mut lost = Vec::new();
    let mut wishes = Vec::new();
    for item in before.indices.iter().filter(|item| item.state != State::Old) {
        let holder = item.source.as_ref().map(|source| source.name.clone()).filter(|name| seen.contains_key(name));
        if item.live_uuid.is_none() && item.was.is_none() {
            if seen.contains_key(&item.index) {
                wishes.push(Wish { index: item.index.clone(), source: None, becomes: None, holder });
            }
            continue;
        }
        match item.kept.as_ref().and_then(|kept| Some((kept, seen.get(kept)?))) {
            Some((kept, copy)) => {
                let docs_count = counts.get(kept.as_str()).copied().unwrap_or_default();
                let source = Source { name: kept.clone(), uuid: copy.uuid.clone(), docs_count };
                wishes.push(Wish { index: item.index.clone(), source: Some(source), becomes: item.was.clone(), holder });
            }
            None => lost.push(item.index.as_str()),
        }
    }
    if lost.is_empty() {
        return Ok(wishes);
    }
    Err(Failure::not_found(
        "nothing_kept",
        format!("The swap cannot be taken back: what was live was not kept, or was removed: {}.", lost.join(", ")),
    )
    .hint("Restore a snapshot of that time instead: svc-snap restore."))
}

/// The requests of the whole swap, in their order.
pub(crate) fn requests(way: &Way, indices: &[SwapIndex], seen: &BTreeMap<String, Index>) -> Vec<svc_step::action::Action> {
    foresee(way, indices, seen).iter().map(Act::action).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn way(back: bool) -> Way {
        Way { run: "20261120t020003z-hand".parse().unwrap(), back }
    }

    fn index(uuid: &str, aliases: &serde_json::Value) -> Index {
        let aliases = aliases.as_object().unwrap().iter().map(|(name, alias)| (name.clone(), alias.as_object().unwrap().clone()));
        let shape = Shape { aliases: aliases.collect(), number_of_replicas: 1, ..Shape::default() };
        Index { uuid: uuid.to_owned(), closed: false, whole: true, shape }
    }

    fn wish(name: &str) -> Wish {
        let source = Source { name: format!("svc-staged-20261120t020003z-hand-{name}"), uuid: "s".to_owned(), docs_count: 1 };
        Wish { index: name.to_owned(), source: Some(source), becomes: None, holder: None }
    }

    fn taken(name: &str) -> Wish {
        Wish { source: None, ..wish(name) }
    }

    fn live(names: &[&str]) -> BTreeMap<String, Index> {
        names.iter().map(|&name| (name.to_owned(), index(name, &json!({"all": {}})))).collect()
    }

    #[test]
    fn what_comes_is_first_and_what_is_taken_away_last() {
        let (items, doubts) = lay_out(&way(false), vec![taken("a"), wish("c"), wish("b")], &live(&["a", "b"]), false).unwrap();
        assert_eq!(items.iter().map(|item| item.index.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        assert_eq!(doubts, [Doubt::Unknown("c".to_owned()), Doubt::FromLive("b".to_owned())]);
        let kept: Vec<_> = items.iter().map(|item| item.kept.as_deref()).collect();
        assert_eq!(kept, [Some("svc-before-20261120t020003z-hand-b"), None, Some("svc-before-20261120t020003z-hand-a")]);
        assert_eq!(items[0].becomes, items[0].was);
        assert_eq!(items[2].becomes, None);
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_all_its_names() {
        let mut seen = live(&["a", "b"]);
        for name in ["a", "b"] {
            seen.insert(way(false).kept(name), index("k", &json!({})));
        }
        let failure = lay_out(&way(false), vec![wish("a"), wish("b")], &seen, false).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (3, "name_in_use"));
        assert!(failure.message.contains("hand-a, svc-before"));
        let mut red = live(&["a", "b"]);
        red.values_mut().for_each(|index| index.whole = false);
        assert_eq!(lay_out(&way(false), vec![wish("a"), wish("b")], &red, false).unwrap_err().code, "live_index_red");
        assert!(lay_out(&way(false), vec![wish("a"), wish("b")], &red, true).is_ok());
    }

    #[test]
    fn a_finished_swap_is_taken_back_to_what_was() {
        let (mut items, _) = lay_out(
            &way(false),
            vec![wish("a"), wish("fresh"), taken("gone"), wish("later")],
            &live(&["a", "gone", "later"]),
            false,
        )
        .unwrap();
        for item in &mut items {
            item.state = if item.index == "later" { State::Old } else { item.goal() };
        }
        let mut seen = live(&["a", "fresh", "later"]);
        for name in ["a", "gone"] {
            seen.insert(way(false).kept(name), index(&format!("kept {name}"), &json!({})));
        }
        let before = Swapped {
            cluster_uuid: "c".to_owned(),
            run: "20261120t020003z-hand".to_owned(),
            snapshot_uuid: None,
            back: false,
            exact: false,
            drop_old: false,
            straight: Vec::new(),
            indices: items,
            begun: Vec::new(),
            taken_back: Vec::new(),
            streams: Vec::new(),
            skipped: Vec::new(),
            plan: Vec::new(),
        };
        let wishes = wishes_back(&before, &seen, &BTreeMap::new()).unwrap();
        let told: Vec<_> =
            wishes.iter().map(|wish| (wish.index.as_str(), wish.source.as_ref().map(|copy| copy.uuid.as_str()))).collect();
        assert_eq!(told, [("a", Some("kept a")), ("fresh", None), ("gone", Some("kept gone"))]);
        let (back, doubts) = lay_out(&way(true), wishes, &seen, false).unwrap();
        assert!(doubts.is_empty());
        assert_eq!(back[0].kept.as_deref(), Some("svc-replaced-20261120t020003z-hand-a"));
        assert_eq!(back[0].becomes, before.indices[0].was);
        seen.remove(&way(false).kept("gone"));
        let failure = wishes_back(&before, &seen, &BTreeMap::new()).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (4, "nothing_kept"));
    }

    #[test]
    fn a_second_write_index_outside_the_swap_is_refused() {
        let mut seen = live(&["a"]);
        seen.insert("a".to_owned(), index("a", &json!({"write": {"is_write_index": true}})));
        let (items, _) = lay_out(&way(false), vec![wish("a")], &seen, false).unwrap();
        let holders =
            |names: &[&str]| BTreeMap::from([("write".to_owned(), names.iter().map(|&name| name.to_owned()).collect())]);
        assert!(refuse_second_write_index(&items, &holders(&["a"])).is_ok());
        assert_eq!(refuse_second_write_index(&items, &holders(&["a", "b"])).unwrap_err().code, "alias_has_write_index");
    }
}
