//! Which indices of a swap stand against which others over an alias, found out once for the whole swap.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Map, Value};

use crate::index::Index;
use crate::index::shape::is_write_index;
use crate::runs::seen::Rival;
use crate::runs::swapped::SwapIndex;

/// By alias: the indices that give it up, or give up being its write index, or become that. Until its own swap each of them stands
/// against another index that is to have the alias.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    givers: BTreeMap<String, BTreeSet<usize>>,
}

impl Rivals {
    pub(super) fn of(all: &[SwapIndex]) -> Self {
        let mut givers: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (at, item) in all.iter().enumerate() {
            for (alias, had) in item.was.iter().flat_map(|was| &was.aliases) {
                if changes(item.wanted(alias), had) {
                    givers.entry(alias.clone()).or_default().insert(at);
                }
            }
        }
        Self { givers }
    }

    /// Those that may stand against the item at that place.
    fn against<'a>(&self, at: usize, all: &'a [SwapIndex]) -> Vec<&'a SwapIndex> {
        let wanted = all.get(at).and_then(|item| item.becomes.as_ref()).into_iter().flat_map(|becomes| becomes.aliases.keys());
        let others: BTreeSet<usize> = wanted.filter_map(|alias| self.givers.get(alias)).flatten().copied().collect();
        others.into_iter().filter(|other| *other != at).filter_map(|other| all.get(other)).collect()
    }

    /// The names of the indices that may stand against one of those at these places.
    pub(super) fn names<'a>(&self, places: Range<usize>, all: &'a [SwapIndex]) -> BTreeSet<&'a str> {
        places.flat_map(|at| self.against(at, all)).map(|other| other.index.as_str()).collect()
    }

    /// Other indices of the swap that hold an alias which the item at that place is to have alone, or as its write index.
    pub(super) fn standing(&self, at: usize, all: &[SwapIndex], seen: &BTreeMap<String, Index>) -> Vec<Rival> {
        let Some(becomes) = all.get(at).and_then(|item| item.becomes.as_ref()) else { return Vec::new() };
        let mut rivals = Vec::new();
        for other in self.against(at, all) {
            let Some(live) = seen.get(&other.index) else { continue };
            for (alias, properties) in live.shape.aliases.iter().filter(|(alias, _)| becomes.aliases.contains_key(*alias)) {
                let wanted = other.wanted(alias);
                if changes(wanted, properties) {
                    rivals.push(Rival { index: other.index.clone(), alias: alias.clone(), becomes: wanted.cloned() });
                }
            }
        }
        rivals
    }
}

/// Whether an index gives the alias up by its swap, or its being the write index of it, or becomes that.
fn changes(wanted: Option<&Map<String, Value>>, had: &Map<String, Value>) -> bool {
    wanted.is_none_or(|wanted| is_write_index(wanted) != is_write_index(had))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::index::shape::Shape;
    use crate::runs::swapped::State;

    fn shape(aliases: &Value) -> Shape {
        let aliases = aliases.as_object().unwrap().iter().map(|(name, alias)| (name.clone(), alias.as_object().unwrap().clone()));
        Shape { aliases: aliases.collect(), ..Shape::default() }
    }

    fn item(index: &str, was: Option<&Value>, becomes: Option<&Value>) -> SwapIndex {
        SwapIndex {
            index: index.to_owned(),
            state: State::Old,
            source: None,
            live_uuid: None,
            live_closed: false,
            kept: None,
            strays: Vec::new(),
            was: was.map(shape),
            becomes: becomes.map(shape),
            holder: None,
        }
    }

    #[test]
    fn who_gives_an_alias_up_stands_against_who_is_to_have_it() {
        let (writes, reads) = (json!({"a": {"is_write_index": true}}), json!({"a": {}}));
        let all = [
            item("new", None, Some(&writes)),
            item("stays", Some(&reads), Some(&reads)),
            item("steps-down", Some(&writes), Some(&reads)),
            item("goes", Some(&reads), None),
            item("elsewhere", Some(&json!({"b": {}})), None),
        ];
        let rivals = Rivals::of(&all);
        let names = |at| rivals.against(at, &all).iter().map(|other| other.index.as_str()).collect::<Vec<_>>();
        assert_eq!(names(0), ["steps-down", "goes"]);
        assert_eq!(names(2), ["goes"], "none against itself");
        assert_eq!(names(3), Vec::<&str>::new());
    }
}
