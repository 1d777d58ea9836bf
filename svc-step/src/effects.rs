//! Whether this call has changed anything: the document's `changed`.

use std::sync::Mutex;

#[derive(Debug, Default)]
struct State {
    happened: bool,
    stays: bool,
    unknown: bool,
    attempts: u32,
}

/// Records effects while they are made, so that `changed` is true to the facts whatever way a step ends.
///
/// Before a request that changes something: [`Effects::attempt`]. When its answer is there: [`Attempt::happened`] or
/// [`Attempt::refused`]. An attempt that is dropped without either leaves `changed` unknown.
#[derive(Debug, Default)]
pub struct Effects(Mutex<State>);

/// One effect whose outcome is not known yet.
#[derive(Debug)]
#[must_use = "say whether it happened"]
pub struct Attempt<'a>(&'a Effects);

impl Effects {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Something is about to be tried whose outcome may never be known.
    pub fn attempt(&self) -> Attempt<'_> {
        self.with(|state| state.attempts += 1);
        Attempt(self)
    }

    /// Something was changed, and this is known at once (a file of this host).
    pub fn happened(&self) {
        self.with(|state| state.happened = true);
    }

    /// What was changed so far is not among what [`Effects::undone`] speaks of later.
    pub fn stays(&self) {
        self.with(|state| state.stays = state.happened);
    }

    /// Something was tried whose outcome will never be known, whatever [`Effects::undone`] says of the rest.
    pub fn unknown(&self) {
        self.with(|state| state.unknown = true);
    }

    /// All that this call did since [`Effects::stays`] has been taken back.
    pub fn undone(&self) {
        self.with(|state| *state = State { happened: state.stays, attempts: 0, ..*state });
    }

    /// As the document has it: `false` also if it was so already, `None` if a request was sent and its answer never came.
    pub fn changed(&self) -> Option<bool> {
        self.with(|state| match state {
            State { happened: true, .. } => Some(true),
            State { attempts: 0, unknown: false, .. } => Some(false),
            State { .. } => None,
        })
    }
}

impl Attempt<'_> {
    /// It took place.
    pub fn happened(self) {
        self.0.with(|state| {
            state.happened = true;
            state.attempts = state.attempts.saturating_sub(1);
        });
    }

    /// It surely did not take place, or it was so already.
    pub fn refused(self) {
        self.0.with(|state| state.attempts = state.attempts.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_effect_survives_undo_and_later_lost_attempt() {
        let effects = Effects::default();
        effects.happened();
        effects.stays();
        let _lost = effects.attempt();
        effects.undone();
        assert_eq!(effects.changed(), Some(true));
        let _later = effects.attempt();
        assert_eq!(effects.changed(), Some(true));
    }
}
