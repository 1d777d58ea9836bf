//! What a statement of a dump is to the loader, by its first tokens. What is not surely one of these is [`StatementKind::Other`].

use svc_pgdump::check::tokens::{Token, client_encoding, tokens};
use svc_pgdump::pg::escape_identifier;

/// A table, as SQL names it: `public.items`.
pub(crate) type Table = String;

/// An index, a primary key, a unique constraint or a foreign key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Built {
    /// Two of a foreign key.
    pub(crate) tables: Vec<Table>,
    /// Whether nothing else may run at its tables meanwhile.
    pub(crate) is_exclusive: bool,
    /// Whether it reads nothing but columns of its tables. What the function of an expression reads is not known.
    pub(crate) is_of_columns: bool,
    /// Whether a row is more work than a B-tree of columns makes of it.
    pub(crate) is_heavy: bool,
}

/// What a statement does, as far as its place among the others depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatementKind {
    /// A COPY, with its table if it is `COPY table [(columns)] FROM stdin`, without anything more.
    Copy(Option<Table>),
    Build(Built),
    /// Where a sequence stands, the comment on an index or a constraint, or what an index is to its table: no index or key needs it.
    Later,
    Begin,
    End,
    /// A setting of the session, which holds for every statement after it.
    Setting,
    /// `SET client_encoding`: the encoding of what follows, `None` for UTF-8.
    Encoding(Option<String>),
    Other,
}

pub(crate) fn kind_of(statement: &str) -> StatementKind {
    let first = statement.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    let rest = statement.get(first.len()..).unwrap_or_default().trim_start();
    // Most statements, and the longest, are of kinds that need not be taken apart.
    let continues = |start: &str| rest.get(..start.len()).is_some_and(|rest| rest.eq_ignore_ascii_case(start));
    let read: fn(Words<'_>) -> Option<StatementKind> = match first.to_ascii_uppercase().as_str() {
        "COPY" => |words| Some(StatementKind::Copy(copied(words))),
        "CREATE" if continues("INDEX") || continues("UNIQUE") => index,
        "ALTER" if continues("TABLE") => of_table,
        "COMMENT" if continues("ON INDEX ") || continues("ON CONSTRAINT ") => return StatementKind::Later,
        "SELECT" if continues("pg_catalog.set_config") => return StatementKind::Setting,
        "SELECT" if continues("pg_catalog.setval") => sequence,
        "SET" => setting,
        "RESET" => return StatementKind::Setting,
        "BEGIN" | "START" => return StatementKind::Begin,
        "COMMIT" | "END" | "ROLLBACK" => return StatementKind::End,
        _ => return StatementKind::Other,
    };
    read(Words(&tokens(statement))).unwrap_or(StatementKind::Other)
}

#[derive(Debug, Clone, Copy)]
struct Words<'a>(&'a [Token]);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn is_next(&mut self, wanted: impl Fn(&Token) -> bool) -> bool {
        self.0.first().is_some_and(wanted) && self.next().is_some()
    }

    fn word(&mut self, word: &str) -> bool {
        self.is_next(|token| token.is(word))
    }

    fn mark(&mut self, mark: char) -> bool {
        self.is_next(|token| *token == Token::Mark(mark))
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

    /// Names in parentheses.
    fn names(&mut self) -> Option<()> {
        let mut separator = '(';
        while !self.mark(')') {
            self.mark(separator).then_some(())?;
            self.name()?;
            separator = ',';
        }
        (separator == ',').then_some(())
    }

    fn is_over(mut self) -> bool {
        self.mark(';') && self.0.is_empty()
    }

    /// Whether they have nothing but columns: no parenthesis within another one, where an expression would stand, and no condition.
    fn are_of_columns(self) -> bool {
        self.depths().all(|(depth, _)| depth < 2) && !self.0.iter().any(|token| token.is("where"))
    }

    /// The depth of parentheses behind each token, and whether it is a comma.
    fn depths(self) -> impl Iterator<Item = (u32, bool)> {
        self.0.iter().scan(0_u32, |depth, token| {
            match token {
                Token::Mark('(') => *depth += 1,
                Token::Mark(')') => *depth = depth.saturating_sub(1),
                _ => {}
            }
            Some((*depth, *token == Token::Mark(',')))
        })
    }
}

fn copied(mut words: Words<'_>) -> Option<Table> {
    words.words(&["copy"])?;
    let table = words.table()?;
    if words.0.first() == Some(&Token::Mark('(')) {
        words.names()?;
    }
    words.words(&["from", "stdin"])?;
    words.is_over().then_some(table)
}

fn index(mut words: Words<'_>) -> Option<StatementKind> {
    let is_of_columns = words.are_of_columns();
    words.words(&["create"])?;
    words.word("unique");
    words.words(&["index"])?;
    words.name()?;
    words.words(&["on"])?;
    // Of a partitioned table: the index is made without those of its partitions.
    words.word("only");
    let tables = vec![words.table()?];
    words.words(&["using"])?;
    let is_heavy = !is_of_columns || ["gin", "gist", "spgist"].iter().any(|method| words.word(method));
    Some(StatementKind::Build(Built { tables, is_exclusive: false, is_of_columns, is_heavy }))
}

fn of_table(mut words: Words<'_>) -> Option<StatementKind> {
    words.words(&["alter", "table"])?;
    // Without ONLY it reaches down to partitions, and each is locked too.
    let is_only = words.word("only");
    let mut tables = vec![words.table()?];
    let is_index_marked = |mut words: Words<'_>, start| words.words(start).is_some() && words.name().is_some() && words.is_over();
    if is_index_marked(words, &["cluster", "on"]) || is_index_marked(words, &["replica", "identity", "using", "index"]) {
        return Some(StatementKind::Later);
    }
    words.words(&["add", "constraint"]).filter(|()| is_only)?;
    words.name()?;
    // A comma outside of parentheses: a second subcommand.
    if words.depths().any(|(depth, is_comma)| depth == 0 && is_comma) {
        return None;
    }
    let is_of_columns = words.are_of_columns();
    if !words.word("unique") && words.words(&["primary", "key"]).is_none() {
        words.words(&["foreign", "key"])?;
        words.names()?;
        words.words(&["references"])?;
        tables.push(words.table()?);
    }
    Some(StatementKind::Build(Built { tables, is_exclusive: true, is_of_columns, is_heavy: false }))
}

fn sequence(mut words: Words<'_>) -> Option<StatementKind> {
    words.words(&["select", "pg_catalog"])?;
    let begins = words.mark('.') && words.word("setval") && words.mark('(');
    // A number, and whether it was used; nothing that could call anything.
    let is_plain = |token: &Token| !matches!(token, Token::Mark('(' | ';'));
    let [Token::Text(_), inner @ .., Token::Mark(')'), Token::Mark(';')] = words.0 else { return None };
    (begins && inner.iter().all(is_plain)).then_some(StatementKind::Later)
}

fn setting(words: Words<'_>) -> Option<StatementKind> {
    let is_other = |name: &&str| !["UTF8", "UTF-8", "UNICODE"].iter().any(|utf8| name.eq_ignore_ascii_case(utf8));
    Some(match client_encoding(words.0) {
        Some(name) => StatementKind::Encoding(Some(name).filter(is_other).map(str::to_owned)),
        None => StatementKind::Setting,
    })
}

/// The first words of a statement, as progress shows them. Values of rows stand behind a quote, a parenthesis or a dollar.
pub(crate) fn shown(statement: &str) -> String {
    let start = statement.split(['\'', '(', '$', ';']).next().unwrap_or_default();
    let words: Vec<&str> = start.split_whitespace().take(8).collect();
    words.join(" ").chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Table {
        name.split('.').map(escape_identifier).collect::<Vec<_>>().join(".")
    }

    fn built(tables: &[&str], is_exclusive: bool, is_of_columns: bool) -> StatementKind {
        let tables = tables.iter().map(|name| table(name)).collect();
        StatementKind::Build(Built { tables, is_exclusive, is_of_columns, is_heavy: !is_of_columns })
    }

    #[test]
    fn parallel_statement_kinds_are_recognized() {
        for (sql, wanted) in [
            ("COPY public.items (id, \"odd; name\") FROM stdin;", StatementKind::Copy(Some(table("public.items")))),
            ("COPY \"S.\"\"1\".\"T\"  FROM stdin;", StatementKind::Copy(Some("\"S.\"\"1\".\"T\"".to_owned()))),
            ("CREATE INDEX i ON public.t USING btree (a, lower(b));", built(&["public.t"], false, false)),
            ("CREATE UNIQUE INDEX \"ON\" ON ONLY public.\"on\" USING btree (a);", built(&["public.on"], false, true)),
            ("ALTER TABLE ONLY public.t\n    ADD CONSTRAINT t_pkey PRIMARY KEY (a, b);", built(&["public.t"], true, true)),
            (
                "ALTER TABLE ONLY public.t ADD CONSTRAINT u UNIQUE NULLS NOT DISTINCT (a) INCLUDE (b) DEFERRABLE;",
                built(&["public.t"], true, true),
            ),
            (
                "ALTER TABLE ONLY public.t\n    ADD CONSTRAINT f FOREIGN KEY (a, \"B\") REFERENCES o.u(x, y) ON DELETE CASCADE;",
                built(&["public.t", "o.u"], true, true),
            ),
        ] {
            assert_eq!(kind_of(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn uncertain_statement_is_other_or_copy_without_table() {
        for sql in [
            "CREATE INDEX CONCURRENTLY i ON public.t USING btree (a);",
            "CREATE INDEX IF NOT EXISTS i ON public.t USING btree (a);",
            "CREATE INDEX i -- ON public.a USING\n ON public.t USING btree (a);",
            "ALTER TABLE public.parted ADD CONSTRAINT p PRIMARY KEY (a);",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT p PRIMARY KEY (a), ADD FOREIGN KEY (a) REFERENCES public.u(b);",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT c CHECK ((a > 0));",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT e EXCLUDE USING gist (a WITH &&);",
            "ALTER TABLE public.t OWNER TO svc;",
            "SELECT pg_catalog.setval('public.s', (SELECT 1), true);",
            "SELECT pg_catalog.setval('public.s', 1, true), public.f();",
            "create function f() returns int language sql begin atomic select 1; end;",
        ] {
            assert_eq!(kind_of(sql), StatementKind::Other, "{sql}");
        }
        for sql in
            ["COPY t (id) FROM stdin WITH (FORMAT csv);", "COPY t (id /* one */) FROM stdin;", "COPY (SELECT 1) TO stdout;"]
        {
            assert_eq!(kind_of(sql), StatementKind::Copy(None), "{sql}");
        }
    }

    #[test]
    fn expression_or_partial_index_is_not_of_columns() {
        for (columns, of_columns) in [
            ("(a, \"where\" DESC NULLS LAST)", true),
            ("(doc jsonb_path_ops) WITH (fastupdate='off')", true),
            ("(a) INCLUDE (b) TABLESPACE t", true),
            ("(lower(a))", false),
            ("(((a)::text))", false),
            ("(a) WHERE b", false),
        ] {
            let sql = format!("CREATE INDEX i ON public.t USING btree {columns};");
            assert_eq!(kind_of(&sql), built(&["public.t"], false, of_columns), "{columns}");
        }
        let gin = kind_of("CREATE INDEX i ON public.t USING gin (a);");
        assert!(matches!(gin, StatementKind::Build(Built { is_heavy: true, is_of_columns: true, .. })), "{gin:?}");
    }

    #[test]
    fn later_setting_and_transaction_kinds_are_known() {
        let later = [
            "SELECT pg_catalog.setval('public.\"S\"', -7, false);",
            "COMMENT ON INDEX public.i IS 'CREATE INDEX i ON t USING btree (a)';",
            "COMMENT ON CONSTRAINT k ON public.t IS 'x';",
            "ALTER TABLE public.t CLUSTER ON i;",
            "ALTER TABLE ONLY public.t REPLICA IDENTITY USING INDEX i;",
        ];
        let settings = [
            "SET statement_timeout = 0;",
            "SET default_tablespace = '';",
            "RESET ROLE;",
            "SELECT pg_catalog.set_config('search_path', '', false);",
        ];
        let encoding = |name: Option<&str>| StatementKind::Encoding(name.map(str::to_owned));
        for (kind, statements) in [
            (StatementKind::Later, &later[..]),
            (StatementKind::Other, &["ALTER TABLE public.t CLUSTER ON i, ADD CHECK (public.f());", "INSERT INTO t VALUES (1);"]),
            (StatementKind::Setting, &settings),
            (encoding(None), &["SET client_encoding = 'UTF8';", "SET client_encoding TO unicode;"]),
            (encoding(Some("LATIN1")), &["SET client_encoding = 'LATIN1';"]),
            (encoding(Some("latin1")), &["SET client_encoding = LATIN1;"]),
            (StatementKind::Begin, &["BEGIN;", "START TRANSACTION;"]),
            (StatementKind::End, &["COMMIT;"]),
        ] {
            statements.iter().for_each(|sql| assert_eq!(kind_of(sql), kind, "{sql}"));
        }
    }

    #[test]
    fn no_value_of_a_row_is_shown() {
        let inserted = "INSERT INTO t\nVALUES (1, 'alice');";
        let told = [inserted, "SELECT pg_catalog.lowrite(0, '\\x61');", "SET a.b = 'alice';", "DO $$ alice $$;"].map(shown);
        assert_eq!(told, ["INSERT INTO t VALUES", "SELECT pg_catalog.lowrite", "SET a.b =", "DO"]);
    }
}
