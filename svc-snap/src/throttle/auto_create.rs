//! Clients are kept from creating indices of the live names by writing to them while a swap is between its exchange and its end. It is
//! noted and put back as a throttle is, by the same call or the next.

use svc_step::Call;
use svc_step::action::Action;

use super::{Change, Target, why};
use crate::client::Server;

/// The setting is changed, or may be: its answer was lost.
#[derive(Debug)]
pub(crate) struct AutoCreate(Change<'static>);

impl AutoCreate {
    /// The requests of a plan, between those that change the setting and put it back.
    pub(crate) fn around(call: &Call, server: &Server, names: &[&str], requests: Vec<Action>) -> Vec<Action> {
        match plan(call, server, names) {
            Some(change) => change.around(requests),
            None => requests,
        }
    }

    /// Keeps clients from creating indices of these names. `None` where the server does not let us, or another run has changed the
    /// setting: then what a client creates is kept as a conflicting index.
    pub(crate) fn exclude(call: &Call, server: &Server, names: &[&str]) -> Option<Self> {
        let made = plan(call, server, names)?.make(server);
        made.map_err(|failure| call.people().detail(&format!("Clients may create indices meanwhile: {}", why(&failure))))
            .ok()
            .map(Self)
    }

    /// Puts it back; where that fails, the next call does.
    pub(crate) fn put_back(self, call: &Call, server: &Server) {
        self.0.put_back(call, server);
    }
}

fn plan(call: &Call, server: &Server, names: &[&str]) -> Option<Change<'static>> {
    let found = Target::AutoCreate.get(|path| server.get(path)).ok().filter(|found| found.obstacle(call, server).is_none())?;
    let set = excluding(found.was().as_deref(), names)?;
    Some(Change::of(call, found, set))
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
