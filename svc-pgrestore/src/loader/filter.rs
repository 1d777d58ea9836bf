//! What of a dump is not sent to psql: lines that are orders to psql itself, and a parameter that an older server does not know.
//!
//! `\restrict` and `\unrestrict` guard against other orders in a dump; since none is ever sent, the guard is not needed, and a
//! psql older than August 2025 need not know it.

use std::io::{self, Write};

use svc_pgdump::lexer::{Kind, Piece};

/// pg_dump 17 and later sets this to its default; servers before 17 do not know it.
const TRANSACTION_TIMEOUT: &[u8] = b"SET transaction_timeout = 0;";
const SERVER_WITH_TRANSACTION_TIMEOUT: u32 = 170_000;

/// Passes a dump on, piece by piece.
#[derive(Debug)]
pub(crate) struct Filter {
    leaves_timeout_out: bool,
    /// A statement's first bytes, as long as it may be the one that is left out.
    held: Vec<u8>,
    holding: bool,
}

impl Filter {
    /// For a server of that `server_version_num`.
    pub(crate) fn new(server: u32) -> Self {
        let leaves_timeout_out = leaves_timeout_out(server);
        Self { leaves_timeout_out, held: Vec::new(), holding: leaves_timeout_out }
    }

    /// Sends what is to be sent of a piece.
    ///
    /// # Errors
    /// `out` takes no more.
    pub(crate) fn pass(&mut self, piece: Piece<'_>, out: &mut impl Write) -> io::Result<()> {
        match piece.kind {
            // The numbers of the lines stay right.
            Kind::Command if piece.bytes.ends_with(b"\n") => out.write_all(b"\n"),
            Kind::Command => Ok(()),
            // A byte-order mark, which psql knows only where the database is in UTF-8.
            Kind::Space if !piece.bytes.iter().all(u8::is_ascii_whitespace) => Ok(()),
            Kind::Statement if self.holding => self.hold(piece, out),
            Kind::Statement => {
                self.holding = piece.last && self.leaves_timeout_out;
                out.write_all(piece.bytes)
            }
            _ => out.write_all(piece.bytes),
        }
    }

    fn hold(&mut self, piece: Piece<'_>, out: &mut impl Write) -> io::Result<()> {
        self.held.extend_from_slice(piece.bytes);
        if !piece.last && TRANSACTION_TIMEOUT.starts_with(&self.held) {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        self.holding = piece.last;
        if piece.last && held == TRANSACTION_TIMEOUT { Ok(()) } else { out.write_all(&held) }
    }

    /// The dump has ended.
    ///
    /// # Errors
    /// `out` takes no more.
    pub(crate) fn finish(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.held)?;
        out.flush()
    }
}

/// Whether this statement is left out for a server of that `server_version_num`.
pub(crate) fn left_out(statement: &[u8], server: u32) -> bool {
    statement == TRANSACTION_TIMEOUT && leaves_timeout_out(server)
}

/// Whether the parameter is left out for a server of that `server_version_num`.
pub(crate) const fn leaves_timeout_out(server: u32) -> bool {
    server < SERVER_WITH_TRANSACTION_TIMEOUT
}

#[cfg(test)]
mod tests {
    use super::*;
    use svc_pgdump::lexer::Lexer;

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

    const DUMP: &str = "--\n-- PostgreSQL database dump\n--\n\n\\restrict k\n\nSET statement_timeout = 0;\nSET transaction_timeout = 0;\n\
        SELECT E'SET transaction_timeout = 0;';\nCOPY a (b) FROM stdin;\nSET transaction_timeout = 0;\n\\\\restrict\n\\.\n\n\\unrestrict k\n\n";

    #[test]
    fn orders_to_psql_and_the_unknown_parameter_are_left_out_and_lines_keep_their_numbers() {
        let wanted = DUMP.replace("\\restrict k\n\nSET", "\n\nSET").replace("\\unrestrict k", "").replacen(
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
    fn a_server_that_knows_the_parameter_gets_it_and_another_value_is_never_left_out() {
        assert!(filtered(180_004, DUMP, 64).contains("\nSET transaction_timeout = 0;\nSELECT"));
        let meant = "SET transaction_timeout = 5;\n";
        assert_eq!(filtered(150_018, meant, 3), meant);
    }
}
