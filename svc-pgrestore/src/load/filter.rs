//! What of a dump is sent to psql: statements and rows, and nothing that is for psql itself. Comments, its commands, a parameter
//! that an older server does not know, and subscriptions are left out.

use std::io::{self, Write};

use svc_pgdump::check::lexer::{Kind, Piece};

/// pg_dump 17 and later sets this to its default; servers before 17 do not know it.
const TRANSACTION_TIMEOUT: &[u8] = b"SET transaction_timeout = 0;";
const SERVER_WITH_TRANSACTION_TIMEOUT: u32 = 170_000;

/// Subscriptions are not restored: a database that has one cannot be dropped, so that a load which fails, or a copy that is not
/// wanted any more, could not be cleaned up; and two databases would share one slot of the publishing server.
const OF_SUBSCRIPTIONS: [&[u8]; 3] = [b"CREATE SUBSCRIPTION ", b"ALTER SUBSCRIPTION ", b"COMMENT ON SUBSCRIPTION "];

#[derive(Debug)]
pub struct Filter {
    server: u32,
    statement: Passing,
}

#[derive(Debug)]
enum Passing {
    /// These first bytes of it do not tell yet.
    Held(Vec<u8>),
    Sent,
    LeftOut,
}

impl Filter {
    /// For a server of that `server_version_num`.
    pub fn new(server: u32) -> Self {
        Self { server, statement: Passing::Held(Vec::new()) }
    }

    /// Sends what is to be sent of a piece.
    pub fn pass(&mut self, piece: Piece<'_>, out: &mut impl Write) -> io::Result<()> {
        match piece.kind {
            Kind::Command | Kind::Comment => lines_of(piece.bytes, out),
            Kind::Unread => Err(io::Error::new(io::ErrorKind::InvalidData, "it is not what it was when it was examined")),
            // A byte-order mark, which psql knows only where the database is in UTF-8.
            Kind::Space if !piece.bytes.iter().all(u8::is_ascii_whitespace) => Ok(()),
            Kind::Statement => self.statement(piece, out),
            _ => out.write_all(piece.bytes),
        }
    }

    fn statement(&mut self, piece: Piece<'_>, out: &mut impl Write) -> io::Result<()> {
        match &mut self.statement {
            Passing::Sent => out.write_all(piece.bytes)?,
            Passing::LeftOut => lines_of(piece.bytes, out)?,
            Passing::Held(held) => {
                held.extend_from_slice(piece.bytes);
                if !piece.last && may_be_left_out(held) {
                    return Ok(());
                }
                let leaves_out = left_out(held, self.server);
                if leaves_out {
                    lines_of(held, out)?
                } else {
                    out.write_all(held)?
                }
                self.statement = if leaves_out { Passing::LeftOut } else { Passing::Sent };
            }
        }
        if piece.last {
            self.statement = Passing::Held(Vec::new());
        }
        Ok(())
    }

    pub fn finish(self, out: &mut impl Write) -> io::Result<()> {
        if let Passing::Held(held) = self.statement {
            out.write_all(&held)?;
        }
        out.flush()
    }
}

/// The line ends of what is left out, so that the numbers of the lines stay right.
fn lines_of(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    memchr::memchr_iter(b'\n', bytes).try_for_each(|_| out.write_all(b"\n"))
}

/// Whether these first bytes of a statement are those of one that is left out.
fn may_be_left_out(start: &[u8]) -> bool {
    OF_SUBSCRIPTIONS.iter().chain([&TRANSACTION_TIMEOUT]).any(|whole| whole.starts_with(start))
}

/// Whether a statement, of which at least so much is given as tells, is left out for a server of that `server_version_num`.
pub(crate) fn left_out(statement: &[u8], server: u32) -> bool {
    let starts = |start: &&[u8]| statement.starts_with(start);
    (statement == TRANSACTION_TIMEOUT && leaves_timeout_out(server)) || OF_SUBSCRIPTIONS.iter().any(starts)
}

/// Whether the parameter is left out for a server of that `server_version_num`.
pub(crate) const fn leaves_timeout_out(server: u32) -> bool {
    server < SERVER_WITH_TRANSACTION_TIMEOUT
}

#[cfg(test)]
mod tests {
    use super::*;
    use svc_pgdump::check::lexer::Lexer;

    fn filtered(server: u32, dump: &str, chunk: usize) -> String {
        let mut out = Vec::new();
        let mut filter = Filter::new(server);
        let mut lexer = Lexer::default();
        let mut take = |piece: Piece<'_>| filter.pass(piece, &mut out);
        for part in dump.as_bytes().chunks(chunk) {
            lexer.feed(part, &mut take).unwrap();
        }
        lexer.finish(&mut take).unwrap();
        filter.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn comments_and_what_cannot_be_read_are_not_sent() {
        let dump = "-- a\r\\! id\nSELECT 1; -- b\n/* c\n\\! id */ SELECT 2;\n";
        for chunk in [1, 2, 7, 4096] {
            assert_eq!(filtered(180_000, dump, chunk), "\nSELECT 1; \n\n SELECT 2;\n", "in pieces of {chunk}");
        }
        let unread = Piece { kind: Kind::Unread, bytes: b"\\! id", last: false, at: svc_pgdump::check::lexer::Position::START };
        assert!(Filter::new(180_000).pass(unread, &mut Vec::new()).is_err());
    }

    const DUMP: &str = "--\n-- PostgreSQL database dump\n--\n\n\\restrict k\n\nSET statement_timeout = 0;\nSET transaction_timeout = 0;\n\
        SELECT E'SET transaction_timeout = 0;';\nCOPY a (b) FROM stdin;\nSET transaction_timeout = 0;\n\\\\restrict\n\\.\n\n\\unrestrict k\n\n";

    #[test]
    fn orders_to_psql_and_the_unknown_parameter_are_left_out_and_lines_keep_their_numbers() {
        let uncommented = DUMP.replace("--\n-- PostgreSQL database dump\n--\n", "\n\n\n");
        let wanted = uncommented.replace("\\restrict k\n\nSET", "\n\nSET").replace("\\unrestrict k", "").replacen(
            "\nSET transaction_timeout = 0;\n",
            "\n\n",
            1,
        );
        for chunk in [1, 2, 7, 29, 4096] {
            assert_eq!(filtered(150_018, DUMP, chunk), wanted, "in pieces of {chunk}");
        }
        assert_eq!(wanted.lines().count(), DUMP.lines().count());
    }

    #[test]
    fn subscriptions_are_left_out_with_their_lines_kept_and_nothing_else_is() {
        let dump = "CREATE SUBSCRIPTION s CONNECTION 'host=a\nuser=b;' PUBLICATION p;\nALTER SUBSCRIPTION s OWNER TO a;\n\
            COMMENT ON SUBSCRIPTION s IS 'a;\n\n';\nCOMMENT ON SCHEMA s IS 'CREATE SUBSCRIPTION ';\nALTER SUB";
        for chunk in [1, 2, 7, 29, 4096] {
            let wanted = "\n\n\n\n\n\nCOMMENT ON SCHEMA s IS 'CREATE SUBSCRIPTION ';\nALTER SUB";
            assert_eq!(filtered(180_000, dump, chunk), wanted, "in pieces of {chunk}");
        }
    }

    #[test]
    fn a_server_that_knows_the_parameter_gets_it_and_another_value_is_never_left_out() {
        assert!(filtered(180_004, DUMP, 64).contains("\nSET transaction_timeout = 0;\nSELECT"));
        let meant = "SET transaction_timeout = 5;\n";
        assert_eq!(filtered(150_018, meant, 3), meant);
    }
}
