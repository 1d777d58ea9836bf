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

    pub fn name_or_text(&self) -> Option<&str> {
        self.name().or(self.text())
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

/// What follows the last TO (or FROM) outside of parentheses: keywords are quoted where they are names.
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
