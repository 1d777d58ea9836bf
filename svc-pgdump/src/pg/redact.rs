//! What the server says, without what stands in rows: documents go into logs and mails, and rows hold addresses and hashes. Which
//! table, row, column and constraint it is may be told; who may read the dump finds the rest there.
//!
//! The fields of an answer decide (SQLSTATE first), never its words: they come in the language of the server. `DETAIL`, `CONTEXT`
//! (but the name of a function) and the query never pass.

use postgres::error::DbError;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerMessage {
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
    pub context: String,
    pub table: Option<String>,
    pub column: Option<String>,
    pub data_type: Option<String>,
    pub constraint: Option<String>,
    /// The server's function that says it, and its file.
    pub routine: String,
    pub file: String,
}

impl From<&DbError> for ServerMessage {
    fn from(said: &DbError) -> Self {
        let owned = |field: Option<&str>| field.map(str::to_owned);
        Self {
            code: said.code().code().to_owned(),
            message: said.message().to_owned(),
            hint: owned(said.hint()),
            context: said.where_().unwrap_or_default().to_owned(),
            table: owned(said.table()),
            column: owned(said.column()),
            data_type: owned(said.datatype()),
            constraint: owned(said.constraint()),
            routine: said.routine().unwrap_or_default().to_owned(),
            file: said.file().unwrap_or_default().to_owned(),
        }
    }
}

/// Classes of errors that quote a value, a row, a part of the statement, or what a function of the database chose to say; and the codes of
/// warnings and errors that have no other, as those of functions in PL/Python and PL/Perl, and of extensions.
const OF_VALUES: [&str; 10] = ["01000", "21", "22", "23", "2F", "38", "39", "44", "P0", "XX000"];
/// A syntax error quotes the statement's own text.
const SYNTAX: &str = "42601";
/// Of a class that quotes values, and yet only of columns.
const HARMLESS: [&str; 1] = ["22P04"];
/// Where the server checks settings, definitions and versions of collations (of a database that is cloned, without a code): a name or a
/// setting is quoted then, and never what stands in a row.
const DEFINITIONS: &str = "dbcommands.c define.c foreigncmds.c guc.c option.c pg_locale.c postinit.c reloptions.c seclabel.c";
/// What says the words of `RAISE`, whatever their code.
const RAISED: &str = "exec_stmt_raise";

/// In our words.
const WORDS: [(&str, &str); 14] = [
    ("01000", "a warning"),
    ("22001", "value too long for its type"),
    ("22003", "value out of range"),
    ("22007", "invalid date or time"),
    ("22012", "division by zero"),
    ("22021", "invalid byte sequence for the encoding"),
    ("22023", "invalid value of a parameter"),
    ("22P02", "invalid input syntax for the type"),
    ("23502", "no value where there must be one"),
    ("23503", "foreign key violated"),
    ("23505", "not unique"),
    ("23514", "check violated"),
    ("42601", "syntax error"),
    ("XX000", "internal error of the server or an extension"),
];

impl ServerMessage {
    /// Whether the message may quote what stands in a row.
    fn quotes(&self) -> bool {
        let code = self.code.as_str();
        let of_values = OF_VALUES.iter().any(|class| code.starts_with(class)) && !HARMLESS.contains(&code);
        (of_values && !DEFINITIONS.split(' ').any(|file| file == self.file)) || code == SYNTAX || self.routine == RAISED
    }

    /// The message, or in its place what kind of error it is.
    pub fn message(&self) -> String {
        if !self.quotes() {
            return self.message.trim_end_matches('.').to_owned();
        }
        let by = if self.routine.is_empty() { String::new() } else { format!(", said by {}", self.routine) };
        match WORDS.iter().find(|(code, _)| *code == self.code) {
            _ if self.routine == RAISED => format!("a function of the database raised {}", self.code),
            Some(("01000" | "XX000", words)) => format!("{words}{by}"),
            Some((_, words)) => (*words).to_owned(),
            None => format!("error {}{by}", self.code),
        }
    }

    /// What else may be told: what it is about, the hint, and the row of a COPY.
    pub fn more(&self) -> Vec<String> {
        let names =
            [("table", &self.table), ("column", &self.column), ("type", &self.data_type), ("constraint", &self.constraint)];
        let named: Vec<String> =
            names.iter().filter_map(|(what, name)| name.as_ref().map(|name| format!("{what} {name}"))).collect();
        let about = (!named.is_empty()).then(|| named.join(", "));
        let hint = self.hint.clone().filter(|_| !self.quotes());
        [about, hint, self.row().map(|(row, _)| row)].into_iter().flatten().collect()
    }

    /// The function in which it happened, by the context's first line: `SQL function "f" …`, `PL/pgSQL function f(integer) …`; only a
    /// name that means the same without quotes.
    pub fn function(&self) -> Option<&str> {
        let line = self.context.lines().next()?;
        let name = match line.strip_prefix("SQL") {
            Some(rest) => rest.split(['"', '\u{bb}', '\u{ab}']).nth(1)?,
            None => line.strip_prefix("PL/pgSQL")?.split_once('(')?.0.rsplit(' ').next()?,
        };
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte)).then_some(name)
    }

    /// The row of a COPY that it is about (`COPY items, line 5, column id: "x"`, in whatever language; the value follows the colon), and
    /// its line in the block; the first one is 1.
    pub fn row(&self) -> Option<(String, u64)> {
        let line = self.context.lines().find_map(|line| line.strip_prefix("COPY "))?;
        let place = line.split(':').next().unwrap_or_default().trim_end();
        let mut parts = place.split(", ");
        let (table, line, column) = (parts.next()?, parts.next()?, parts.next());
        // A name that holds what separates them is not taken apart.
        if parts.next().is_some() {
            return None;
        }
        let number = line.split(|letter: char| !letter.is_ascii_digit()).find(|digits| !digits.is_empty())?;
        let column = column.and_then(|column| column.split_once(' ')).map(|(_, name)| format!(", column {name}"));
        let row = format!("COPY {table}, line {number}{}", column.unwrap_or_default());
        Some((row, number.parse().ok().filter(|line| *line > 0)?))
    }
}

pub fn severity(said: &DbError) -> String {
    said.parsed_severity().map_or_else(|| "ERROR".to_owned(), |severity| severity.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str, message: &str) -> ServerMessage {
        ServerMessage { code: code.to_owned(), message: message.to_owned(), ..ServerMessage::default() }
    }

    #[test]
    fn values_are_left_out_in_every_language() {
        for (code, message, told) in [
            ("22P02", "invalid input syntax for type integer: \"a\"b\"", "invalid input syntax for the type"),
            ("22003", "value \"99\" is out of range for type integer", "value out of range"),
            ("P0001", "hunter2 is no password", "error P0001"),
            ("22023", "time zone \"hunter2\" not recognized", "invalid value of a parameter"),
            ("22P04", "missing data for column \"name\"", "missing data for column \"name\""),
            ("42P01", "Relation \u{bb}a\u{ab} existiert nicht", "Relation \u{bb}a\u{ab} existiert nicht"),
        ] {
            assert_eq!(said(code, message).message(), told);
        }
        let extension = ServerMessage { routine: "lwpgerror".to_owned(), ..said("XX000", "hunter2") };
        assert_eq!(extension.message(), "internal error of the server or an extension, said by lwpgerror");
        let python = ServerMessage { routine: "PLy_output".to_owned(), ..said("01000", "hunter2") };
        assert_eq!(python.message(), "a warning, said by PLy_output");
        for (file, code) in [("guc.c", "22023"), ("pg_locale.c", "01000"), ("dbcommands.c", "XX000")] {
            let definition = ServerMessage { file: file.to_owned(), ..said(code, "the setting or collation \"x\"") };
            assert_eq!(definition.message(), definition.message);
        }
    }

    #[test]
    fn place_of_error_is_shown_without_values() {
        let within = |context: &str| ServerMessage { context: context.to_owned(), ..ServerMessage::default() };
        let row = |context: &str| within(context).row().map(|(row, _)| row);
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(row("COPY users, line 5, column id: \"a\nPL/hash\""), told("COPY users, line 5, column id"));
        assert_eq!(row("COPY users, Zeile 5, Spalte id: \u{bb}x\u{ab}"), told("COPY users, line 5, column id"));
        assert_eq!(row("COPY users, ligne 12 : \u{ab} 1, line 9 \u{bb}"), told("COPY users, line 12"));
        assert_eq!(
            row("JSON data, line 1: {\"a\nPL/pgSQL function f() line 3 at RAISE\nCOPY users, line 7: \"1\""),
            told("COPY users, line 7")
        );
        assert_eq!(row("COPY a, line 3, line 5, column id: \"x\""), None);
        assert_eq!(row("SQL statement \"INSERT INTO users VALUES ('x')\""), None);
        assert_eq!(within("SQL-Funktion \u{bb}f\u{ab} Anweisung 1\nCOPY t").function(), Some("f"));
        assert_eq!(within("PL/pgSQL function s.f(integer) line 3 at RETURN").function(), Some("s.f"));
        assert_eq!(within("SQL function \"MyFunc\" statement 1").function(), None);
        assert_eq!(within("SQL statement \"SELECT f(x)\"\nSQL function \"hunter2\" statement 1").function(), None);
        let key = ServerMessage { table: told("t"), constraint: told("i"), hint: told("hunter2"), ..said("23505", "x") };
        assert_eq!(key.more(), ["table t, constraint i"]);
        let missing = ServerMessage { hint: told("Perhaps you meant a."), ..said("42703", "x") };
        assert_eq!(missing.more(), ["Perhaps you meant a."]);
    }
}
