//! What a statement of a dump is to the loader, by its first tokens. What is not surely one of these is [`StatementKind::Other`].

use svc_pgdump::check::tokens::{Token, tokens};
use svc_pgdump::pg::escape_identifier;

/// A table, as SQL names it: `public.items`.
pub(crate) type Table = String;

/// What a statement does, as far as its place among the others depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatementKind {
    /// `COPY table [(columns)] FROM stdin`, without anything more.
    Copy(Table),
    /// `CREATE [UNIQUE] INDEX`: others may be built on that table at the same time.
    Index(Table),
    /// `ADD CONSTRAINT … PRIMARY KEY` or `UNIQUE`: nobody else is at the table meanwhile.
    Key(Table),
    /// `ADD CONSTRAINT … FOREIGN KEY`: the table, and the one that it refers to.
    ForeignKey(Table, Table),
    Begin,
    End,
    /// A setting of the session, which holds for every statement after it; `false` for another encoding of the dump than UTF-8.
    Setting {
        is_utf8: bool,
    },
    Sequence,
    /// Something is dropped, which in a fresh database is not there (`--clean`).
    Drop,
    Other,
}

pub(crate) fn kind_of(statement: &str) -> StatementKind {
    const FIRST: [&str; 11] =
        ["COPY", "CREATE", "ALTER", "SET", "RESET", "SELECT", "BEGIN", "START", "COMMIT", "END", "ROLLBACK"];
    let first = statement.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    if first.eq_ignore_ascii_case("DROP") {
        return StatementKind::Drop;
    }
    if !FIRST.iter().any(|word| first.eq_ignore_ascii_case(word)) || is_of_no_interest(first, statement) {
        return StatementKind::Other;
    }
    let tokens = tokens(statement);
    let readings = [copy, index, constraint, transaction, sequence, setting];
    readings.iter().find_map(|read| read(Words(&tokens))).unwrap_or(StatementKind::Other)
}

/// Most statements, and the longest, are of a few kinds that need not be taken apart.
fn is_of_no_interest(first: &str, statement: &str) -> bool {
    let rest = statement.get(first.len()..).unwrap_or_default().trim_start();
    let starts = |word: &&str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let of_interest: &[&str] = match first.to_ascii_uppercase().as_str() {
        "CREATE" => &["INDEX", "UNIQUE"],
        "ALTER" => &["TABLE"],
        "SELECT" => &["pg_catalog.set_config", "pg_catalog.setval"],
        _ => return false,
    };
    !of_interest.iter().any(starts)
}

#[derive(Debug, Clone, Copy)]
struct Words<'a>(&'a [Token]);

impl Words<'_> {
    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn word(&mut self, word: &str) -> bool {
        let here = self.0.first().is_some_and(|token| token.is(word));
        if here {
            self.next();
        }
        here
    }

    fn mark(&mut self, mark: char) -> bool {
        let here = self.0.first() == Some(&Token::Mark(mark));
        if here {
            self.next();
        }
        here
    }

    fn words(&mut self, words: &[&str]) -> Option<()> {
        words.iter().all(|word| self.word(word)).then_some(())
    }

    fn name(&mut self) -> Option<String> {
        self.next()?.name().map(escape_identifier)
    }

    fn table(&mut self) -> Option<Table> {
        let first = self.name()?;
        if self.mark('.') { Some(format!("{first}.{}", self.name()?)) } else { Some(first) }
    }

    fn names(&mut self) -> Option<()> {
        if !self.mark('(') {
            return None;
        }
        loop {
            self.name()?;
            if self.mark(')') {
                return Some(());
            }
            if !self.mark(',') {
                return None;
            }
        }
    }

    fn is_over(mut self) -> bool {
        self.mark(';') && self.0.is_empty()
    }

    /// Whether a comma stands outside of parentheses: a second subcommand.
    fn has_more_parts(self) -> bool {
        let mut depth = 0_u32;
        self.0.iter().any(|token| {
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && *token == Token::Mark(',')
        })
    }
}

fn copy(mut words: Words<'_>) -> Option<StatementKind> {
    words.words(&["copy"])?;
    let table = words.table()?;
    if words.0.first() == Some(&Token::Mark('(')) {
        words.names()?;
    }
    words.words(&["from", "stdin"])?;
    words.is_over().then_some(StatementKind::Copy(table))
}

fn index(mut words: Words<'_>) -> Option<StatementKind> {
    words.words(&["create"])?;
    words.word("unique");
    words.words(&["index"])?;
    words.name()?;
    words.words(&["on"])?;
    // Of a partitioned table: the index is made without those of its partitions.
    words.word("only");
    let table = words.table()?;
    words.word("using").then_some(StatementKind::Index(table))
}

fn constraint(mut words: Words<'_>) -> Option<StatementKind> {
    words.words(&["alter", "table"])?;
    // Without ONLY it reaches down to partitions, each of which is locked too.
    words.words(&["only"])?;
    let table = words.table()?;
    words.words(&["add", "constraint"])?;
    words.name()?;
    if words.has_more_parts() {
        return None;
    }
    if words.word("unique") || (words.word("primary") && words.word("key")) {
        return Some(StatementKind::Key(table));
    }
    words.words(&["foreign", "key"])?;
    words.names()?;
    words.words(&["references"])?;
    Some(StatementKind::ForeignKey(table, words.table()?))
}

fn transaction(mut words: Words<'_>) -> Option<StatementKind> {
    match words.next()? {
        word if word.is("begin") || word.is("start") => Some(StatementKind::Begin),
        word if word.is("commit") || word.is("end") || word.is("rollback") => Some(StatementKind::End),
        _ => None,
    }
}

fn sequence(mut words: Words<'_>) -> Option<StatementKind> {
    words.words(&["select", "pg_catalog"])?;
    let begins = words.mark('.') && words.word("setval") && words.mark('(');
    let text = begins && matches!(words.next(), Some(Token::Text(_)));
    // A number, and whether it was used; nothing that could call anything.
    let plain = |token: &Token| !matches!(token, Token::Mark('(') | Token::Mark(';'));
    let rest = words.0.split_last().and_then(|(end, rest)| Some((end, rest.split_last()?)));
    match rest {
        Some((Token::Mark(';'), (Token::Mark(')'), inner))) if text && inner.iter().all(plain) => Some(StatementKind::Sequence),
        _ => None,
    }
}

/// Whether a statement that builds something looks at nothing but columns: no parenthesis within another one, where an expression
/// would stand, and no condition.
pub(crate) fn is_of_columns(statement: &str) -> bool {
    let mut depth = 0_u32;
    tokens(statement).iter().all(|token| {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth < 2 && !token.is("where")
    })
}

fn setting(mut words: Words<'_>) -> Option<StatementKind> {
    if words.word("reset") {
        return Some(StatementKind::Setting { is_utf8: true });
    }
    if words.word("select") {
        let set = words.word("pg_catalog") && words.mark('.') && words.word("set_config");
        return set.then_some(StatementKind::Setting { is_utf8: true });
    }
    words.words(&["set"])?;
    if !words.word("client_encoding") {
        return Some(StatementKind::Setting { is_utf8: true });
    }
    if !words.mark('=') {
        words.word("to");
    }
    let is_utf8 = match words.next()? {
        Token::Text(name) => name.eq_ignore_ascii_case("UTF8") || name.eq_ignore_ascii_case("UNICODE"),
        _ => false,
    };
    Some(StatementKind::Setting { is_utf8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Table {
        name.split('.').map(escape_identifier).collect::<Vec<_>>().join(".")
    }

    #[test]
    fn what_may_run_beside_others_is_told_by_its_first_tokens() {
        for (sql, wanted) in [
            ("COPY public.items (id, \"odd; name\") FROM stdin;", StatementKind::Copy(table("public.items"))),
            ("COPY \"S.\"\"1\".\"T\"  FROM stdin;", StatementKind::Copy("\"S.\"\"1\".\"T\"".to_owned())),
            ("CREATE INDEX i ON public.t USING btree (a, lower(b));", StatementKind::Index(table("public.t"))),
            ("CREATE UNIQUE INDEX \"ON\" ON ONLY public.\"on\" USING btree (a);", StatementKind::Index(table("public.on"))),
            ("ALTER TABLE ONLY public.t\n    ADD CONSTRAINT t_pkey PRIMARY KEY (a, b);", StatementKind::Key(table("public.t"))),
            (
                "ALTER TABLE ONLY public.t ADD CONSTRAINT u UNIQUE NULLS NOT DISTINCT (a) INCLUDE (b) DEFERRABLE;",
                StatementKind::Key(table("public.t")),
            ),
            (
                "ALTER TABLE ONLY public.t\n    ADD CONSTRAINT f FOREIGN KEY (a, \"B\") REFERENCES o.u(x, y) ON DELETE CASCADE;",
                StatementKind::ForeignKey(table("public.t"), table("o.u")),
            ),
        ] {
            assert_eq!(kind_of(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn what_is_not_surely_such_a_statement_is_none() {
        for sql in [
            "COPY public.items (id) FROM stdin WITH (FORMAT csv);",
            "COPY public.items (id /* one */) FROM stdin;",
            "COPY (SELECT 1) TO stdout;",
            "CREATE INDEX CONCURRENTLY i ON public.t USING btree (a);",
            "CREATE INDEX IF NOT EXISTS i ON public.t USING btree (a);",
            "CREATE INDEX i -- ON public.a USING\n ON public.t USING btree (a);",
            "ALTER TABLE public.parted ADD CONSTRAINT p PRIMARY KEY (a);",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT p PRIMARY KEY (a), ADD FOREIGN KEY (a) REFERENCES public.u(b);",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT c CHECK ((a > 0));",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT e EXCLUDE USING gist (a WITH &&);",
            "ALTER TABLE public.t OWNER TO svc;",
            "COMMENT ON INDEX public.i IS 'CREATE INDEX i ON t USING btree (a)';",
            "SELECT pg_catalog.setval('public.s', (SELECT 1), true);",
            "SELECT pg_catalog.setval('public.s', 1, true), public.f();",
            "create function f() returns int language sql begin atomic select 1; end;",
        ] {
            assert_eq!(kind_of(sql), StatementKind::Other, "{sql}");
        }
    }

    #[test]
    fn an_index_of_an_expression_or_with_a_condition_is_told_from_one_of_columns() {
        assert_eq!(kind_of("SELECT pg_catalog.setval('public.\"S\"', -7, false);"), StatementKind::Sequence);
        for (columns, of_columns) in [
            ("(a, \"where\" DESC NULLS LAST)", true),
            ("(doc jsonb_path_ops) WITH (fastupdate='off')", true),
            ("(a) INCLUDE (b) TABLESPACE t", true),
            ("(lower(a))", false),
            ("(((a)::text))", false),
            ("(a) WHERE b", false),
        ] {
            let sql = format!("CREATE INDEX i ON public.t USING btree {columns};");
            assert_eq!((kind_of(&sql), is_of_columns(&sql)), (StatementKind::Index(table("public.t")), of_columns), "{columns}");
        }
    }

    #[test]
    fn settings_and_transactions_are_known() {
        let setting = |sql: &str| kind_of(sql) == StatementKind::Setting { is_utf8: true };
        assert!(setting("SET statement_timeout = 0;") && setting("SET default_tablespace = '';") && setting("RESET ROLE;"));
        assert!(setting("SELECT pg_catalog.set_config('search_path', '', false);"));
        assert_eq!(kind_of("SET client_encoding = 'UTF8';"), StatementKind::Setting { is_utf8: true });
        assert_eq!(kind_of("SET client_encoding = 'LATIN1';"), StatementKind::Setting { is_utf8: false });
        assert_eq!(
            (kind_of("BEGIN;"), kind_of("COMMIT;"), kind_of("START TRANSACTION;")),
            (StatementKind::Begin, StatementKind::End, StatementKind::Begin)
        );
        assert_eq!(kind_of("DROP TABLE public.t;"), StatementKind::Drop);
    }
}
