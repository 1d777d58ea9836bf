//! Somebody who works with the live database all the time while it is restored, or is not: what he is told must be the same.

use std::cell::RefCell;

use postgres::Client;

use crate::pg_case::Case;

/// What the service asks: its rows, its view, its properties, and whether it may write.
const QUESTIONS: [&str; 6] = [
    "SELECT count(*)::text || ' ' || md5(string_agg(i::text, ',' ORDER BY id)) FROM items i",
    "SELECT count(*)::text || ' ' || md5(string_agg(n::text, ',' ORDER BY item)) FROM notes n",
    "SELECT count(*)::text FROM named",
    "SELECT oid::text || ' ' || datdba::regrole || ' ' || datconnlimit || ' ' || encoding FROM pg_database WHERE datname = current_database()",
    "SELECT coalesce(string_agg(c.relname || ' ' || c.relkind, ',' ORDER BY c.relname), '') FROM pg_class c WHERE relnamespace = 'public'::regnamespace",
    "INSERT INTO notes VALUES (1, 'for a moment') RETURNING note",
];

/// A session of the owner's in the live database of a filled case.
pub struct Witness<'a> {
    case: &'a Case,
    session: RefCell<Client>,
    before: Vec<String>,
}

impl<'a> Witness<'a> {
    pub fn of(case: &'a Case) -> Self {
        let mut session = case.owners_session(&case.database).unwrap();
        let before = answers(&mut session);
        Self { case, session: RefCell::new(session), before }
    }

    /// Asserts that nothing has happened to the live database: the same session still gets the same answers, a new one is let in,
    /// and no copy lies beside. `when` says after what.
    #[track_caller]
    pub fn assert_unchanged(&self, when: &str) {
        assert_eq!(answers(&mut self.session.borrow_mut()), self.before, "the session that was there all the time, {when}");
        assert_eq!(self.case.copies(), "", "copies beside the live database, {when}");
        self.is_let_in(when);
    }

    #[track_caller]
    pub fn is_let_in(&self, when: &str) {
        assert_eq!(answers(&mut self.case.owners_session(&self.case.database).unwrap()), self.before, "a new session, {when}");
    }
}

fn answers(session: &mut Client) -> Vec<String> {
    let mut transaction = session.transaction().unwrap();
    let answer = |question| {
        // What a database lacks is an answer too.
        let answer = transaction.transaction().and_then(|mut part| {
            let answer = part.query_one(question, &[]).map(|row| row.get::<_, String>(0));
            part.rollback().and(answer)
        });
        answer.unwrap_or_else(|error| error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned()))
    };
    QUESTIONS.map(answer).to_vec()
}
