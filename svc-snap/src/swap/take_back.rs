//! What a swap began at indices that were not exchanged, taken back: their copies, their blocks.

use std::ops::Range;

use svc_step::{Failure, swaps};

use super::act::Swapping;
use super::foresee::MOST;
use super::next::undo;
use crate::index::{look, only};
use crate::runs::seen::Seen;
use crate::runs::swapped::{SwapIndex, Swapped};

impl Swapping<'_> {
    /// Takes back what an earlier swap began. It is noted of each index where anything was left: until then neither this swap is
    /// finished nor may another one touch the index.
    pub(super) fn take_back_begun(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        let names: Vec<&str> = swapped.begun.iter().flat_map(SwapIndex::names).collect();
        let seen = look(self.server, &names)?;
        let is_as_it_was = |item: &SwapIndex| {
            let seen = Seen { indices: only(&seen, &item.names()), rivals: Vec::new() };
            undo(item, &seen).is_none()
        };
        let (done, left) = std::mem::take(&mut swapped.begun).into_iter().partition(is_as_it_was);
        swapped.begun = left;
        swapped.taken_back.extend::<Vec<_>>(done);
        while let Some(item) = swapped.begun.last() {
            self.take_back(item)?;
            swapped.taken_back.extend(swapped.begun.pop());
            swaps::write(self.call, &self.way.run, "swap", swapped)?;
        }
        Ok(())
    }

    /// Takes back what was begun at an index that has not been exchanged.
    ///
    /// # Errors
    /// The server refuses or does not answer.
    fn take_back(&self, item: &SwapIndex) -> Result<(), Failure> {
        for _ in 0..MOST {
            let seen = Seen { indices: look(self.server, &item.names())?, rivals: Vec::new() };
            match undo(item, &seen) {
                Some(act) => act.send(self.call, self.server)?,
                None => break,
            }
        }
        Ok(())
    }

    /// After a failure: what was not exchanged yet is put back, and the states are read again, as far as the server answers.
    pub(super) fn settle_states(&self, swapped: &mut Swapped, places: Range<usize>) {
        let Some(items) = swapped.indices.get_mut(places) else { return };
        for _ in 0..MOST {
            let names: Vec<&str> = items.iter().flat_map(SwapIndex::names).collect();
            let Ok(world) = look(self.server, &names) else { return };
            let mut undone = 0;
            for item in items.iter_mut() {
                let seen = Seen { indices: only(&world, &item.names()), rivals: Vec::new() };
                item.state = seen.state(self.way, item);
                let act = undo(item, &seen);
                undone += usize::from(act.is_some_and(|act| act.send(self.call, self.server).is_ok()));
            }
            if undone == 0 {
                return;
            }
        }
    }
}
