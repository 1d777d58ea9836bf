//! What must hold before a request of a swap that cannot be taken back.

use std::collections::BTreeMap;

use svc_step::Failure;

use super::act::Swapping;
use super::next::Next;
use super::turn::Step;
use crate::index::act::Act;
use crate::index::clone::same_count;
use crate::index::count::counts;
use crate::index::portions;
use crate::runs::swapped::{State, SwapIndex, Swapped};

impl Swapping<'_> {
    /// The steps that may be done, and of the indices that are not live those that may not, with what speaks against it.
    ///
    /// # Errors
    /// Something speaks against the exchange of what is live.
    pub(super) fn prove(&self, swapped: &Swapped, steps: Vec<Step>) -> Result<(Vec<Step>, BTreeMap<usize, Failure>), Failure> {
        let items = |wanted: fn(&Step) -> bool| -> Vec<(usize, &SwapIndex)> {
            let steps = steps.iter().filter(|step| wanted(step));
            steps.filter_map(|step| Some((step.at, swapped.indices.get(step.at)?))).collect()
        };
        self.prove_exchange(&items(|step| step.state == State::Old && matches!(step.next, Next::Do(Act::Exchange(_)))))?;
        let unproven = self.unproven_clones(&items(|step| matches!(step.next, Next::Do(Act::Settle { .. }))))?;
        let proven = steps.into_iter().filter(|step| !unproven.contains_key(&step.at)).collect();
        Ok((proven, unproven))
    }

    /// What is kept holds as much as what is live, and what becomes live as much as when it was proven.
    fn prove_exchange(&self, items: &[(usize, &SwapIndex)]) -> Result<(), Failure> {
        let kept: Vec<(&str, &str)> =
            items.iter().filter_map(|(_, item)| Some((item.index.as_str(), item.kept.as_deref()?))).collect();
        for live in portions(&kept.iter().map(|(live, _)| *live).collect::<Vec<_>>()) {
            self.server.refresh(&live.join(","))?;
        }
        let sources: Vec<_> = items.iter().filter_map(|(_, item)| item.source.as_ref()).collect();
        let names = kept.iter().flat_map(|(live, kept)| [*live, *kept]).chain(sources.iter().map(|source| source.name.as_str()));
        let counts = counts(self.server, &names.collect::<Vec<_>>())?;
        let of = |name: &str| counts.get(name).copied().unwrap_or_default();
        kept.iter().try_for_each(|(live, kept)| same_count(live, of(live), kept, of(kept)))?;
        sources.iter().try_for_each(|source| source.same_as_proven(of(&source.name)))
    }

    /// The clones under the live names that hold something else than what they are of.
    fn unproven_clones(&self, items: &[(usize, &SwapIndex)]) -> Result<BTreeMap<usize, Failure>, Failure> {
        let counts = counts(self.server, &items.iter().map(|(_, item)| item.index.as_str()).collect::<Vec<_>>())?;
        let unproven = items.iter().filter_map(|(at, item)| {
            let count = counts.get(item.index.as_str()).copied().unwrap_or_default();
            let source = item.source.as_ref()?;
            same_count(&source.name, source.docs_count, &item.index, count).err().map(|failure| (*at, failure))
        });
        Ok(unproven.collect())
    }
}
