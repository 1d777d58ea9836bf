//! Clients are kept from creating indices of the live names by writing to them while a swap is between its exchange and its end. It is
//! noted and put back as a throttle is, by the same call or the next.

use std::time::Duration;

use svc_step::Call;
use svc_step::action::Action;
use svc_step::lock::Lock;

use super::back::{Back, PutBack, by_hand, sent};
use super::throttle::{Seen, Throttle};
use super::{LOCK, Life, Note};
use crate::server::Server;
use crate::server::transport::Fate;

/// How long the server may take to put it back, and how long it is asked again while it is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// The setting is changed, or may be: its answer was lost.
#[derive(Debug)]
pub(crate) struct AutoCreate {
    /// As long as it is held, other runs know that this one is at work.
    _lock: Lock,
    note: Note,
}

impl AutoCreate {
    /// The requests of a plan, between those that change the setting and put it back.
    pub(crate) fn around(call: &Call, server: &Server, names: &[&str], requests: Vec<Action>) -> Vec<Action> {
        let planned = decide(call, server, names);
        let off = planned.as_ref().map(|(seen, note)| seen.with(Some(&note.set), Some(note)));
        let back = planned.as_ref().map(|(seen, note)| seen.with(note.was.as_deref(), None));
        off.into_iter().chain(requests).chain(back).collect()
    }

    /// Keeps clients from creating indices of these names. `None` where the server does not let us, or another run has changed the
    /// setting: then what a client creates is kept as a conflicting index.
    pub(crate) fn exclude(call: &Call, server: &Server, names: &[&str]) -> Option<Self> {
        let (seen, note) = decide(call, server, names)?;
        let lock = Lock::take(call, LOCK, &note.token).ok()?;
        match sent(&seen.with(Some(&note.set), Some(&note)), |method, path, body| server.attempt(method, path, body)) {
            Err(trouble) if trouble.fate == Fate::NoEffect => {
                Lock::forget(call, LOCK, &note.token);
                call.people().detail(&format!("Clients may create indices meanwhile: {}", trouble.failure));
                None
            }
            Ok(_) | Err(_) => Some(Self { _lock: lock, note }),
        }
    }

    /// Puts it back; where that fails, the next call does.
    pub(crate) fn put_back(self, call: &Call, server: &Server) {
        let throttle = Throttle::AutoCreate;
        let failed = |why: &str| {
            call.effects().happened();
            let by_hand = throttle.look(server).map(|seen| by_hand(server, &seen)).unwrap_or_default();
            call.warn(
                "rate_not_put_back",
                format!(
                    "{} could not be put back ({why}); the next call of svc-snap puts it back, or by hand: {by_hand}",
                    throttle.what()
                ),
            );
        };
        match (PutBack { throttle, note: &self.note, patience: PATIENCE, unanswered: None }).run(call, server) {
            Ok(Back::Whole | Back::NotThere) => Lock::forget(call, LOCK, &self.note.token),
            Ok(Back::NoteStays) => {}
            Ok(Back::Harm(why)) => failed(&why),
            Err(failure) => failed(&failure.to_string()),
        }
    }
}

/// What the server has of the setting, and our note of its change; `None` where it is left as it is.
fn decide(call: &Call, server: &Server, names: &[&str]) -> Option<(Seen, Note)> {
    let seen = Throttle::AutoCreate.look(server).ok()?;
    let is_others = seen.is_changed() && seen.note().is_some_and(|note| note.life(call) != Life::Dead);
    if is_others || seen.is_transient() {
        return None;
    }
    let was = seen.was();
    let set = excluding(was.as_deref(), names)?;
    Some((seen, Note::of(call, was, set, false)))
}

/// The setting with these names excluded: the first pattern that fits counts. `None` where no client creates any index.
fn excluding(was: Option<&str>, names: &[&str]) -> Option<String> {
    let rest = match was {
        Some("false") => return None,
        None | Some("true") => "+*",
        Some(patterns) => patterns,
    };
    let excluded: String = names.iter().map(|name| format!("-{name},")).collect();
    Some(excluded + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_excluded_before_whatever_was_set() {
        let names = ["docs", "more"];
        assert_eq!(excluding(None, &names).as_deref(), Some("-docs,-more,+*"));
        assert_eq!(excluding(Some("true"), &names).as_deref(), Some("-docs,-more,+*"));
        assert_eq!(excluding(Some("-x*,+y*"), &names).as_deref(), Some("-docs,-more,-x*,+y*"));
        assert_eq!(excluding(Some("false"), &names), None);
    }
}
