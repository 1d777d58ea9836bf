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

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Word(_) | Self::Name(_) | Self::Mark(_) => None,
        }
    }

    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) | Self::Name(name) => Some(name),
            Self::Text(_) | Self::Mark(_) => None,
        }
    }
}

/// Splits a statement. Comments and dollar quotes do not occur in the statements that this is for; they come out as marks
/// and words.
pub fn tokens(statement: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = statement;
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '"' | '\'' => quoted(rest, first),
            letter if is_word(letter) => {
                let end = rest.find(|letter| !is_word(letter) && letter != '$').unwrap_or(rest.len());
                let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
                (Some(Token::Word(word.to_lowercase())), after)
            }
            other => {
                let after = rest.strip_prefix(other).unwrap_or_default();
                ((!other.is_whitespace()).then_some(Token::Mark(other)), after)
            }
        };
        out.extend(token);
        rest = after;
    }
    out
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
const NO_ROLES: [&str; 5] = ["public", "current_user", "session_user", "current_role", "none"];

/// The roles that a statement of a dump needs to be there.
pub(super) fn roles(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    let first = tokens.first().and_then(Token::name).unwrap_or_default();
    let behind = |word: &str, from: &[Token]| from.iter().position(|token| token.is(word)).map(|at| at + 1);
    match first {
        "alter" => {
            let pairs = tokens.windows(2).position(|pair| matches!(pair, [owner, to] if owner.is("owner") && to.is("to")));
            found.extend(pairs.and_then(|at| role_at(tokens, at + 2)));
            // ALTER DEFAULT PRIVILEGES FOR ROLE x … GRANT … TO y
            if tokens.get(1).is_some_and(|token| token.is("default")) {
                found.extend(behind("role", tokens).map(|at| list(tokens, at)).unwrap_or_default());
                found.extend(grantees(tokens));
            }
        }
        "grant" | "revoke" => found.extend(grantees(tokens)),
        "create" => {
            let kind = tokens.get(1).and_then(Token::name).unwrap_or_default();
            match kind {
                "schema" => found.extend(behind("authorization", tokens).and_then(|at| role_at(tokens, at))),
                // What stands in parentheses are conditions: `interval year to month`.
                "policy" => found.extend(behind("to", before_parentheses(tokens)).map(|at| list(tokens, at)).unwrap_or_default()),
                "user" => found.extend(behind("for", tokens).and_then(|at| role_at(tokens, at))),
                _ => {}
            }
        }
        // SET SESSION AUTHORIZATION 'x'
        "set" if tokens.get(1).is_some_and(|token| token.is("session")) => {
            found.extend(behind("authorization", tokens).and_then(|at| match tokens.get(at) {
                Some(Token::Text(name)) => Some(name.clone()),
                _ => role_at(tokens, at).filter(|role| role != "default"),
            }));
        }
        _ => {}
    }
    found
}

fn before_parentheses(tokens: &[Token]) -> &[Token] {
    tokens.split(|token| *token == Token::Mark('(')).next().unwrap_or_default()
}

/// The last TO (or FROM) outside of parentheses starts the list: keywords are quoted where they are names.
fn grantees(tokens: &[Token]) -> Vec<String> {
    let mut depth = 0_u32;
    let mut at = None;
    for (here, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => depth = depth.saturating_sub(1),
            token if depth == 0 && (token.is("to") || token.is("from")) => at = Some(here + 1),
            _ => {}
        }
    }
    at.map(|at| list(tokens, at)).unwrap_or_default()
}

fn list(tokens: &[Token], start: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = start;
    loop {
        found.extend(role_at(tokens, at));
        if tokens.get(at + 1) != Some(&Token::Mark(',')) {
            return found;
        }
        at += 2;
    }
}

fn role_at(tokens: &[Token], at: usize) -> Option<String> {
    match tokens.get(at)? {
        Token::Word(word) if NO_ROLES.contains(&word.as_str()) => None,
        token => token.name().map(str::to_owned),
    }
}

/// Whether a statement sets an option of that name: `… SET (n_distinct=5, option=7)`.
pub(super) fn sets_option(tokens: &[Token], option: &str) -> bool {
    let options = tokens.windows(2).position(|pair| matches!(pair, [set, Token::Mark('(')] if set.is("set")));
    let options = options.and_then(|at| tokens.get(at + 2..)).unwrap_or_default();
    options.windows(2).any(|pair| matches!(pair, [name, Token::Mark('=')] if name.name() == Some(option)))
}

pub(super) fn extension(tokens: &[Token]) -> Option<String> {
    match tokens {
        [create, kind, rest @ ..] if create.is("create") && kind.is("extension") => {
            let at = if rest.first().is_some_and(|token| token.is("if")) { 3 } else { 0 };
            rest.get(at)?.name().map(str::to_owned)
        }
        _ => None,
    }
}

/// The schema and the name of the table in `COPY schema.table (a, b) FROM stdin;`.
pub(super) fn copy_target(tokens: &[Token]) -> Option<(Option<String>, String)> {
    let [copy, first, rest @ ..] = tokens else { return None };
    let first = first.name().filter(|_| copy.is("copy"))?.to_owned();
    match rest {
        [Token::Mark('.'), table, ..] => Some((Some(first), table.name()?.to_owned())),
        _ => Some((None, first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles_of(sql: &str) -> Vec<String> {
        roles(&tokens(sql))
    }

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
            assert_eq!(roles_of(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn an_option_that_is_set_is_told_from_a_column_of_that_name() {
        for (sql, sets) in [
            ("ALTER TABLE ONLY public.t ALTER COLUMN a SET (pg_attver=22158952);", true),
            ("ALTER TABLE ONLY public.t ALTER COLUMN a SET (n_distinct=5, pg_attver=22305640);", true),
            ("ALTER TABLE ONLY public.t ALTER COLUMN pg_attver SET (n_distinct=5);", false),
            ("ALTER TABLE ONLY public.t ALTER COLUMN pg_attver SET STATISTICS 7;", false),
        ] {
            assert_eq!(sets_option(&tokens(sql), "pg_attver"), sets, "{sql}");
        }
    }

    #[test]
    fn extensions_and_copy_targets_are_read() {
        assert_eq!(
            extension(&tokens("CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\" WITH SCHEMA public;")).as_deref(),
            Some("uuid-ossp")
        );
        assert_eq!(extension(&tokens("CREATE EXTENSION pg_trgm;")).as_deref(), Some("pg_trgm"));
        assert_eq!(extension(&tokens("COMMENT ON EXTENSION x IS 'y';")), None);
        let (schema, table) = copy_target(&tokens("COPY \"S.\"\"1\".t (a, \"b c\") FROM stdin;")).unwrap();
        assert_eq!((schema.as_deref(), table.as_str()), (Some("S.\"1"), "t"));
        assert_eq!(copy_target(&tokens("COPY t FROM stdin;")).unwrap().1, "t");
    }
}
