//! What is to become of a throttle, decided by what the server has of it; nothing is sent here.

use svc_step::action::Action;

use crate::rate::Note;
use crate::rate::throttle::Seen;

/// A change that is taken back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub note: Note,
    pub off: Action,
    pub back: Action,
}

/// What is to become of a throttle.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decided {
    /// It is as it was asked for.
    AsAsked,
    /// It is left as it is, and why.
    Leave(String),
    /// It is changed.
    Change(Box<Change>),
}

/// Decides it. `why_not` says why it must be left as it is, `is_foreign` whether a note is that of a run that has not ended (as
/// far as is known), and `note` makes ours, given what was set before and whether as a transient setting.
pub(super) fn decide(
    seen: &Seen,
    wanted: &str,
    why_not: Option<&str>,
    is_foreign: impl Fn(&Note) -> bool,
    note: impl FnOnce(Option<String>, bool) -> Note,
) -> Decided {
    let was = seen.was();
    let foreign = seen.note().filter(|note| seen.is_changed() && is_foreign(note));
    if was.as_deref() == Some(wanted) {
        Decided::AsAsked
    } else if let Some(note) = foreign {
        Decided::Leave(format!("the run {} on {} has changed it, and puts it back", note.run, note.host))
    } else if let Some(why) = why_not.map(str::to_owned).or_else(|| seen.obstacle()) {
        Decided::Leave(why)
    } else {
        let note = note(was.clone(), seen.is_transient());
        let off = seen.with(Some(wanted), Some(&note));
        Decided::Change(Box::new(Change { off, back: seen.with(was.as_deref(), None), note }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(settings: Value) -> Seen {
        Seen::Repository("r".to_owned(), json!({"type": "fs", "settings": settings}))
    }

    fn ours(was: Option<String>, transient: bool) -> Note {
        let text = |text: &str| text.to_owned();
        Note { run: text("run"), host: text("far"), token: text("t"), was, set: text("0"), transient }
    }

    fn decided(seen: &Seen, why_not: Option<&str>, is_foreign: bool) -> Decided {
        decide(seen, "0", why_not, |_| is_foreign, ours)
    }

    #[test]
    fn a_throttle_is_changed_unless_it_is_as_asked_or_somebody_or_something_speaks_against_it() {
        let plain = seen(json!({"location": "/x", "max_snapshot_bytes_per_sec": "5mb"}));
        let Decided::Change(change) = decided(&plain, None, false) else { panic!("it is not changed") };
        assert_eq!((change.note.was.as_deref(), &change.off), (Some("5mb"), &plain.with(Some("0"), Some(&change.note))));
        assert_eq!(change.back, plain.with(Some("5mb"), None));

        let off = seen(json!({"max_snapshot_bytes_per_sec": "0"}));
        assert_eq!(decided(&off, Some("why"), false), Decided::AsAsked);
        assert_eq!(decided(&plain, Some("why"), false), Decided::Leave("why".to_owned()));
        let secret = seen(json!({"endpoint": "http://me:s3cret@host/"}));
        let Decided::Leave(why) = decided(&secret, None, false) else { panic!("it is changed") };
        assert!(why.contains("secrets") && !why.contains("s3cret"), "{why}");
    }

    #[test]
    fn what_another_run_has_changed_is_left_alone_until_that_run_has_ended() {
        let note = Note { set: "9mb".to_owned(), ..ours(None, false) };
        let changed = seen(json!({"max_snapshot_bytes_per_sec": "9mb", "svc_tools_rate": note.text()}));
        let Decided::Leave(why) = decided(&changed, None, true) else { panic!("it is changed") };
        assert!(why.contains("run on far"), "{why}");
        // What it says was there before is what is put back in the end.
        let Decided::Change(change) = decided(&changed, None, false) else { panic!("it is not changed") };
        assert_eq!(change.note.was, None);
    }
}
