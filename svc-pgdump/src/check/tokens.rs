//! The tokens of one short statement, as far as names need them: which roles and extensions a dump speaks of.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    Word(String),
    Name(String),
    /// A string, unquoted as far as doubled quotes go.
    Text(String),
    Mark(char),
}

impl Token {
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    fn name_or_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { self.name() }
    }

    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) | Self::Name(name) => Some(name),
            Self::Text(_) | Self::Mark(_) => None,
        }
    }
}

pub fn tokens(statement: &str) -> Vec<Token> {
    scan(statement).collect()
}

/// Splits a statement. Comments and dollar quotes do not occur in the statements that this is for; they come out as marks
/// and words.
fn scan(mut rest: &str) -> impl Iterator<Item = Token> {
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let (token, after) = match first {
            '"' | '\'' => quoted(rest, first),
            letter if is_word(letter) => {
                let end = rest.find(|letter| !is_word(letter) && letter != '$').unwrap_or(rest.len());
                let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
                (Some(Token::Word(word.to_lowercase())), after)
            }
            other => (Some(Token::Mark(other)), rest.strip_prefix(other).unwrap_or_default()),
        };
        rest = after;
        token
    })
}

/// Whether a statement changes what belongs to the whole server: its other databases, roles and tablespaces, and what may be done
/// with them.
pub(super) fn is_of_server(statement: &str) -> bool {
    const KINDS: [&str; 7] = ["database", "group", "parameter", "role", "system", "tablespace", "user"];
    let mut tokens = scan(statement);
    let mut word = || tokens.next().and_then(|token| token.name().map(str::to_owned)).unwrap_or_default();
    let verb = word();
    let kind = match verb.as_str() {
        "reassign" => return true,
        "alter" | "create" | "drop" => word(),
        "comment" if word() == "on" => word(),
        // GRANT role TO role has no ON.
        "grant" | "revoke" | "security" => match tokens.find(|token| token.is("on")) {
            Some(_) => tokens.next().and_then(|token| token.name().map(str::to_owned)).unwrap_or_default(),
            None => return true,
        },
        _ => return false,
    };
    let is_mapping = kind == "user" && tokens.next().is_some_and(|token| token.is("mapping"));
    (KINDS.contains(&kind.as_str()) && !is_mapping) || (verb == "drop" && kind == "owned")
}

/// Whether a statement starts with that keyword, which ends there.
pub(super) fn starts_with_word(statement: &str, word: &str) -> bool {
    let first = statement.split(|letter: char| !is_word(letter)).next().unwrap_or_default();
    first.eq_ignore_ascii_case(word)
}

fn quoted(text: &str, quote: char) -> (Option<Token>, &str) {
    let mut inner = String::new();
    let mut rest = text.strip_prefix(quote).unwrap_or_default();
    while let Some((part, after)) = rest.split_once(quote) {
        inner.push_str(part);
        rest = after;
        match rest.strip_prefix(quote) {
            Some(after) => {
                inner.push(quote);
                rest = after;
            }
            None => return (Some(if quote == '"' { Token::Name(inner) } else { Token::Text(inner) }), rest),
        }
    }
    (None, "")
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || !letter.is_ascii()
}

/// Words that stand where a role could and name none.
const NO_ROLES: [&str; 6] = ["public", "current_user", "session_user", "current_role", "none", "default"];

/// The roles that a statement of a dump needs to be there.
pub(super) fn roles(tokens: &[Token]) -> Vec<String> {
    let word = |at: usize| tokens.get(at).and_then(Token::name).unwrap_or_default();
    match (word(0), word(1)) {
        // ALTER DEFAULT PRIVILEGES FOR ROLE x … GRANT … TO y
        ("alter", "default") => [list(behind("role", tokens)), list(grantees(tokens))].concat(),
        ("alter", _) => {
            let owner = tokens.windows(2).position(|pair| matches!(pair, [owner, to] if owner.is("owner") && to.is("to")));
            list(owner.and_then(|at| tokens.get(at + 2..)).unwrap_or_default())
        }
        ("grant" | "revoke", _) => list(grantees(tokens)),
        ("create", "schema") | ("set", "session") => list(behind("authorization", tokens)),
        // What stands in parentheses are conditions: `interval year to month`.
        ("create", "policy") => list(behind("to", tokens.split(|token| *token == Token::Mark('(')).next().unwrap_or_default())),
        ("create", "user") => list(behind("for", tokens)),
        _ => Vec::new(),
    }
}

fn behind<'a>(word: &str, tokens: &'a [Token]) -> &'a [Token] {
    let at = tokens.iter().position(|token| token.is(word));
    at.and_then(|at| tokens.get(at + 1..)).unwrap_or_default()
}

/// What follows the last TO (or FROM) outside of parentheses: keywords are quoted if they are names.
fn grantees(tokens: &[Token]) -> &[Token] {
    let mut depth = 0_u32;
    let mut found = None;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => depth = depth.saturating_sub(1),
            token if depth == 0 && (token.is("to") || token.is("from")) => found = tokens.get(at + 1..),
            _ => {}
        }
    }
    found.unwrap_or_default()
}

/// The roles between commas; one is a string in `SET SESSION AUTHORIZATION 'x'`.
fn list(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    for pair in tokens.chunks(2) {
        match pair.first() {
            Some(Token::Word(word)) if NO_ROLES.contains(&word.as_str()) => {}
            Some(token) => found.extend(token.name_or_text().map(str::to_owned)),
            None => {}
        }
        if pair.get(1) != Some(&Token::Mark(',')) {
            break;
        }
    }
    found
}

pub fn extension(tokens: &[Token]) -> Option<String> {
    match tokens {
        [create, kind, rest @ ..] if create.is("create") && kind.is("extension") => {
            let at = if rest.first().is_some_and(|token| token.is("if")) { 3 } else { 0 };
            rest.get(at)?.name().map(str::to_owned)
        }
        _ => None,
    }
}

/// The schema and the name of the table behind the first words of a statement: `COPY schema.table (a, b) FROM stdin;`.
pub(super) fn target(statement: &str, words: &[&str]) -> Option<(Option<String>, String)> {
    let mut tokens = scan(statement);
    let is_it = words.iter().all(|word| tokens.next().is_some_and(|token| token.is(word)));
    let mut first = tokens.next().filter(|_| is_it)?.name().map(str::to_owned);
    let schema = if tokens.next() == Some(Token::Mark('.')) { first.take() } else { None };
    let name = if schema.is_some() { tokens.next()?.name().map(str::to_owned) } else { first };
    Some((schema, name?))
}

/// The encoding of `SET client_encoding = 'NAME'`, where the name may stand without quotes too.
pub fn client_encoding(tokens: &[Token]) -> Option<&str> {
    let [set, name, rest @ ..] = tokens else { return None };
    let is_name = |token: &&Token| **token != Token::Mark('=') && !token.is("to");
    rest.iter().find(is_name).filter(|_| set.is("set") && name.is("client_encoding"))?.name_or_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_found_where_a_dump_names_them() {
        for (sql, wanted) in [
            ("ALTER TABLE public.items OWNER TO svc;", vec!["svc"]),
            ("ALTER TABLE public.\"owner to x\" OWNER TO \"My \"\"Role\";", vec!["My \"Role"]),
            ("GRANT SELECT,INSERT(a) ON TABLE public.t TO app, \"App 2\" WITH GRANT OPTION;", vec!["app", "App 2"]),
            ("GRANT ALL ON FUNCTION public.f(\"to\" integer) TO PUBLIC;", vec![]),
            ("REVOKE ALL ON SCHEMA public FROM reader;", vec!["reader"]),
            ("ALTER DEFAULT PRIVILEGES FOR ROLE a IN SCHEMA s GRANT SELECT ON TABLES TO b;", vec!["a", "b"]),
            ("CREATE SCHEMA s AUTHORIZATION owner1;", vec!["owner1"]),
            ("CREATE POLICY p ON public.t FOR SELECT TO r1, r2 USING ((a = 'to x'::text));", vec!["r1", "r2"]),
            ("CREATE POLICY p ON public.t USING (true);", vec![]),
            ("CREATE POLICY p ON public.t USING ((x > '1-2'::interval year to month));", vec![]),
            ("CREATE USER MAPPING FOR m SERVER s;", vec!["m"]),
            ("SET SESSION AUTHORIZATION 'boss';", vec!["boss"]),
            ("SET SESSION AUTHORIZATION DEFAULT;", vec![]),
            ("ALTER TABLE ONLY public.t ADD CONSTRAINT c CHECK (true);", vec![]),
        ] {
            assert_eq!(roles(&tokens(sql)), wanted, "{sql}");
        }
    }

    #[test]
    fn server_wide_statements_are_recognized() {
        for sql in [
            "DROP DATABASE IF EXISTS svc_db;",
            "create database svc_db WITH TEMPLATE = template0;",
            "ALTER DATABASE svc_db OWNER TO svc;",
            "ALTER SYSTEM SET fsync = off;",
            "ALTER ROLE svc IN DATABASE svc_db SET a.b = '1';",
            "DROP USER svc;",
            "CREATE GROUP g;",
            "CREATE TABLESPACE t LOCATION '/t';",
            "DROP OWNED BY svc;",
            "REASSIGN OWNED BY svc TO other;",
            "COMMENT ON DATABASE svc_db IS 'x';",
            "COMMENT ON ROLE svc IS 'x';",
            "SECURITY LABEL FOR p ON DATABASE svc_db IS 'x';",
            "GRANT CREATE,TEMPORARY ON DATABASE svc_db TO svc;",
            "REVOKE ALL ON TABLESPACE t FROM PUBLIC;",
            "GRANT SET ON PARAMETER work_mem TO svc;",
            "GRANT a TO \"on\" WITH ADMIN OPTION;",
            "REVOKE a FROM b;",
        ] {
            assert!(is_of_server(sql), "{sql}");
        }
        for sql in [
            "CREATE TABLE database (a int);",
            "CREATE USER MAPPING FOR m SERVER s;",
            "ALTER TABLE public.role OWNER TO svc;",
            "ALTER DEFAULT PRIVILEGES FOR ROLE a GRANT SELECT ON TABLES TO b;",
            "COMMENT ON TABLE public.x IS 'ON DATABASE';",
            "COMMENT ON COLUMN public.x.user IS 'x';",
            "SECURITY LABEL ON TABLE public.x IS 'x';",
            "GRANT SELECT(a) ON TABLE public.\"user\" TO svc;",
            "GRANT USAGE ON SCHEMA \"database\" TO svc;",
            "DROP TABLE owned;",
            "SET role TO none;",
        ] {
            assert!(!is_of_server(sql), "{sql}");
        }
    }

    #[test]
    fn extension_and_target_table_are_parsed() {
        assert_eq!(
            extension(&tokens("CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\" WITH SCHEMA public;")).as_deref(),
            Some("uuid-ossp")
        );
        assert_eq!(extension(&tokens("CREATE EXTENSION pg_trgm;")).as_deref(), Some("pg_trgm"));
        assert_eq!(extension(&tokens("COMMENT ON EXTENSION x IS 'y';")), None);
        let (schema, table) = target("COPY \"S.\"\"1\".t (a, \"b c\") FROM stdin;", &["copy"]).unwrap();
        assert_eq!((schema.as_deref(), table.as_str()), (Some("S.\"1"), "t"));
        assert_eq!(target("COPY t FROM stdin;", &["copy"]).unwrap().1, "t");
        assert_eq!(target("INSERT INTO t(a) VALUES (1);", &["insert", "into"]).unwrap().1, "t");
    }
}
