//! A planned swap carried out, index by index, each proven before the next request that cannot be taken back.

use svc_step::progress::Unit;
use svc_step::{Call, Failure, swaps};

use super::foresee::MOST;
use super::next::{Next, next, stray_name, undo};
use super::rivals::Rivals;
use crate::index::act::Act;
use crate::index::clone::{same_count, wait_whole};
use crate::index::copies::Way;
use crate::index::count::{count, counts};
use crate::index::{look, only};
use crate::runs::seen::Seen;
use crate::runs::swapped::{State, SwapIndex, Swapped};
use crate::server::Server;

/// How often a client may be faster with the live name than the clone, or an answer be lost.
const RACES: u32 = 5;

/// A swap under way.
pub(crate) struct Swapping<'a> {
    pub call: &'a Call,
    pub server: &'a Server,
    pub way: &'a Way,
}

impl Swapping<'_> {
    /// Carries out what is not done yet. A signal does not cut it; the time limit does, between two indices. An index whose
    /// swap fails before it was exchanged is put back as it was.
    ///
    /// # Errors
    /// Whatever stopped it; the states of `swapped` say how things stand.
    pub(crate) fn carry_out(&self, swapped: &mut Swapped) -> Result<(), Failure> {
        self.take_back_begun(swapped).map_err(|failure| self.cut(failure))?;
        let progress = self.call.progress("swap", Unit::Items("indices"));
        let total = swapped.indices.len() as u64;
        let rivals = Rivals::of(&swapped.indices);
        for at in 0..swapped.indices.len() {
            progress.set(at as u64, total);
            if self.call.deadline().passed() {
                return Err(self.cut(Failure::timeout("timeout", "The swap did not end within the time limit.")));
            }
            let ended = self.one(swapped, at, &rivals);
            if let Err(failure) = ended {
                self.settle_state(swapped, at);
                return Err(self.cut(failure));
            }
        }
        Ok(())
    }

    /// Every failure of a swap names what goes on with it.
    pub(crate) fn cut(&self, mut failure: Failure) -> Failure {
        let way = format!(
            "When it is mended, svc-snap swap --run {0} finishes the swap; svc-snap swap --run {0} --back takes it back.",
            self.way.run
        );
        failure.hint = Some(match failure.hint {
            Some(hint) => format!("{hint} {way}"),
            None => way,
        });
        failure
    }

    fn one(&self, swapped: &mut Swapped, at: usize, rivals: &Rivals) -> Result<(), Failure> {
        let mut races = 0;
        let mut blocked = false;
        for _ in 0..MOST {
            let Some(item) = swapped.indices.get(at) else { return Ok(()) };
            let seen = self.see(swapped, at, rivals)?;
            let state = seen.state(self.way, item);
            let step = next(self.way, item, &seen);
            self.note_stray(swapped, at, &seen, &step)?;
            let Some(item) = swapped.indices.get_mut(at) else { return Ok(()) };
            item.state = state;
            match step {
                // Another host was faster, and what is live now is not what was to be blocked.
                Next::Finished if blocked && seen.is_blocked_against(item) => {
                    return Act::Unblock(item.index.clone()).send(self.call, self.server);
                }
                Next::Finished => return Ok(()),
                Next::Stuck(why) => return Err(stuck(item, &why)),
                // Neither a signal nor the time limit ends it: the swap of an index is finished.
                Next::Wait(name) => wait_whole(self.server, &name, || Ok(()))?,
                Next::Do(act) => {
                    self.prove(item, &act)?;
                    blocked |= matches!(act, Act::Block(_));
                    match act.send(self.call, self.server) {
                        // What the server shows says what became of a request whose answer was lost; and an index that a
                        // client made just now under the name of the clone is kept.
                        Err(failure) if races < RACES && (is_lost(&failure) || is_taken(&act, &failure)) => races += 1,
                        ended => ended?,
                    }
                }
            }
        }
        Err(Failure::failed("swap_goes_round", "The swap does not come to an end."))
    }

    /// What the server shows of the names that the item at that place speaks of.
    fn see(&self, swapped: &Swapped, at: usize, rivals: &Rivals) -> Result<Seen, Failure> {
        let Some(item) = swapped.indices.get(at) else { return Ok(Seen::default()) };
        let mut indices = look(self.server, &item.names())?;
        // The name of a stray follows from what is live; so it is looked up in a second step, which is rare.
        if let Some(live) = indices.get(&item.index).filter(|live| Some(&live.uuid) != item.live_uuid.as_ref()) {
            let stray = stray_name(self.way, item, live);
            indices.extend(look(self.server, &[&stray])?);
        }
        Ok(Seen { indices, rivals: rivals.look(self.server, at, &swapped.indices)? })
    }

    /// A stray is noted before it is kept: nobody could name it afterwards.
    fn note_stray(&self, swapped: &mut Swapped, at: usize, seen: &Seen, step: &Next) -> Result<(), Failure> {
        let Next::Do(Act::Keep { from, to, .. }) = step else { return Ok(()) };
        let Some(item) = swapped.indices.get_mut(at) else { return Ok(()) };
        if item.kept.as_ref() == Some(to) || item.strays.contains(to) || seen.get(from).is_none() {
            return Ok(());
        }
        item.strays.push(to.clone());
        self.call.review(
            "stray_index",
            format!("While {from} was not there, a client created an index of that name; it is kept as {to}."),
        );
        swaps::write(self.call, &self.way.run, "swap", swapped)
    }

    /// What must hold before a request that cannot be taken back.
    fn prove(&self, item: &SwapIndex, act: &Act) -> Result<(), Failure> {
        match (act, &item.kept, &item.source) {
            (Act::Exchange(_), kept, source) if item.state == State::Old => {
                let mut names = Vec::new();
                if let Some(kept) = kept {
                    self.server.refresh(&item.index)?;
                    names.extend([item.index.as_str(), kept]);
                }
                names.extend(source.as_ref().map(|source| source.name.as_str()));
                let counts = counts(self.server, &names)?;
                let of = |name: &str| counts.get(name).copied().unwrap_or_default();
                if let Some(kept) = kept {
                    same_count(&item.index, of(&item.index), kept, of(kept))?;
                }
                source.as_ref().map_or(Ok(()), |source| source.same_as_proven(of(&source.name)))
            }
            (Act::Settle { .. }, _, Some(source)) => {
                same_count(&source.name, source.docs_count, &item.index, count(self.server, &item.index)?)
            }
            _ => Ok(()),
        }
    }

    /// Takes back what an earlier swap began. It is noted of each index where anything was left: until then neither this swap is
    /// finished nor may another one touch the index.
    fn take_back_begun(&self, swapped: &mut Swapped) -> Result<(), Failure> {
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

    /// Takes back what was begun at an index that has not been exchanged: its copy, its block.
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

    /// After a failure: an index that was not exchanged yet is put back, and its state read again as far as the server answers.
    fn settle_state(&self, swapped: &mut Swapped, at: usize) {
        for _ in 0..MOST {
            let Some(item) = swapped.indices.get(at) else { return };
            let Ok(indices) = look(self.server, &item.names()) else { return };
            let seen = Seen { indices, rivals: Vec::new() };
            let (state, act) = (seen.state(self.way, item), undo(item, &seen));
            if let Some(item) = swapped.indices.get_mut(at) {
                item.state = state;
            }
            match act {
                Some(act) if act.send(self.call, self.server).is_ok() => {}
                _ => return,
            }
        }
    }
}

fn stuck(item: &SwapIndex, why: &str) -> Failure {
    Failure::invalid("swap_stuck", format!("The swap of {} cannot go on.", item.index))
        .cause(why)
        .hint("Look at the indices that the plan names; stage the snapshot again if its copy is gone.")
}

/// Whether nobody knows what became of the request.
fn is_lost(failure: &Failure) -> bool {
    failure.code == "answer_lost"
}

/// Whether the server refused to clone since an index of that name is there.
fn is_taken(act: &Act, failure: &Failure) -> bool {
    let clones = matches!(act, Act::Clone { .. } | Act::Keep { .. });
    clones && failure.causes.iter().any(|cause| cause.contains("already_exists") || cause.contains("already exists"))
}
