//! Clients are kept from creating indices of the live names by writing to them while a swap is between its exchange and its end. It is
//! noted and put back as a throttle is, by the same call or the next.

use svc_step::Call;
use svc_step::action::Action;
use svc_step::lock::Lock;

use super::{Back, Found, LOCK, Note, PATIENCE, Target, sent};
use crate::server::Server;
use crate::server::client::Effect;

/// The setting is changed, or may be: its answer was lost.
#[derive(Debug)]
pub(crate) struct AutoCreate {
    /// As long as it is held, other runs know that this one is running.
    _lock: Lock,
    note: Note,
}

impl AutoCreate {
    /// The requests of a plan, between those that change the setting and put it back.
    pub(crate) fn around(call: &Call, server: &Server, names: &[&str], requests: Vec<Action>) -> Vec<Action> {
        let planned = decide(call, server, names);
        let off = planned.as_ref().map(|(found, note)| found.request(Some(&note.set), Some(note)));
        let back = planned.as_ref().map(|(found, note)| found.request(note.was.as_deref(), None));
        off.into_iter().chain(requests).chain(back).collect()
    }

    /// Keeps clients from creating indices of these names. `None` where the server does not let us, or another run has changed the
    /// setting: then what a client creates is kept as a conflicting index.
    pub(crate) fn exclude(call: &Call, server: &Server, names: &[&str]) -> Option<Self> {
        let (found, note) = decide(call, server, names)?;
        let lock = Lock::take(call, LOCK, &note.token).ok()?;
        match sent(&found.request(Some(&note.set), Some(&note)), |method, path, body| server.attempt(method, path, body)) {
            Err(error) if error.effect == Effect::None => {
                note.forget(call);
                call.people().detail(&format!("Clients may create indices meanwhile: {}", error.failure));
                None
            }
            Ok(_) | Err(_) => Some(Self { _lock: lock, note }),
        }
    }

    /// Puts it back; where that fails, the next call does.
    pub(crate) fn put_back(self, call: &Call, server: &Server) {
        let target = Target::AutoCreate;
        let why = match target.put_back(call, server, &self.note.token, PATIENCE) {
            Ok(Back::Done | Back::NotThere) => return self.note.forget(call),
            Ok(Back::Not(why)) => why,
            Err(failure) => format!("{failure}; the next call of svc-snap puts it back"),
        };
        call.effects().happened();
        call.warn("rate_not_put_back", format!("{} could not be put back: {why}.", target.what()));
    }
}

/// What the server has of the setting, and our note of its change; `None` where it is left as it is.
fn decide(call: &Call, server: &Server, names: &[&str]) -> Option<(Found<'static>, Note)> {
    let found = Target::AutoCreate.get(|path| server.get(path)).ok()?;
    if found.note().is_some_and(|note| note.is_alive(call) != Some(false)) || found.obstacle().is_some() {
        return None;
    }
    let was = found.was();
    let set = excluding(was.as_deref(), names)?;
    Some((found, Note::of(call, was, set)))
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
