//! Whoever reads dumps reads them as psql does: made of random scraps, they have the same statements for both.

use std::io::{Seek, Write};
use std::process::Stdio;

use svc_pgdump::check::Examiner;
use svc_pgdump::check::lexer::{Kind, Lexer, Piece};
use svc_tests::pg_case::prelude::*;

/// What strings, comments and commands are made of.
const SCRAPS: [&str; 47] = [
    "'", "'", "'", "''", "\"", "\\", "\\'", "\\\\", "\\! :", "E'", "e'", " E'a'", "U&'", "U&\"", "b'", "X'", "N'", "1", "1e",
    "1ae", "0x", ".", "$", "$$", "$t$", "$1", "$1$t$", "--", "-", "/*", "*/", "/", "*", "(", ")", ";", ";\n", "\n", "\n", "\r",
    " ", "\u{b}", "\u{c}", "&", ":", ":'x'", "\u{e9}",
];
/// The same, as a whole. Bodies of `BEGIN ATOMIC` are not among them: psql guesses where one begins, by the first letters of words.
const WHOLE: [&str; 6] = [
    "SELECT 'a'",
    "SET standard_conforming_strings = off;\n",
    "SET standard_conforming_strings = on;",
    "SELECT E'a\\'b';",
    "SELECT $t$ ' $$ $t$;",
    "SELECT 'a\\\\';",
];

/// A dump of scraps that is complete to us, without its comments, and how many statements that is. Behind each of them stands one
/// that tells that psql has got there.
fn scraps(seed: u64) -> Option<(Vec<u8>, usize)> {
    let mut random = Random::with_seed(seed);
    let mut inner = String::new();
    for _ in 0..2 + random.usize(..24) {
        inner += if random.usize(..12) == 0 { random.choice(WHOLE).unwrap() } else { random.choice(SCRAPS).unwrap() };
    }
    let dump = format!("--\n-- PostgreSQL database dump\n--\n\n{inner}\n--\n-- PostgreSQL database dump complete\n--\n");
    let mut examiner = Examiner::default();
    examiner.feed(dump.as_bytes(), &mut |_| ());
    let examined = examiner.finish(String::new());
    if !examined.is_complete() || !examined.commands.is_empty() || examined.statement_count == 0 {
        return None;
    }
    let (mut sent, mut count) = (Vec::new(), 0);
    let mut take = |piece: Piece<'_>| {
        match piece.kind {
            Kind::Comment | Kind::Command => sent.push(b'\n'),
            _ => sent.extend_from_slice(piece.bytes),
        }
        if piece.kind == Kind::Statement && piece.last {
            count += 1;
            sent.extend(format!("SELECT 'got to {count}';").bytes());
        }
    };
    let mut lexer = Lexer::default();
    lexer.feed(dump.as_bytes(), &mut take);
    lexer.finish(&mut take);
    Some((sent, count))
}

fn psql_agrees(pg: &Postgres, seed: u64, sent: &[u8], count: usize) {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(b"\\restrict key \\\\ ").and_then(|()| input.write_all(sent)).and_then(|()| input.rewind()).unwrap();
    let mut psql = pg.administrator("psql");
    psql.args(["-XAtq", "-d", "postgres", "-f", "-"]).stdin(Stdio::from(input));
    let ran = psql.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let seen = || format!("seed {seed}, {}:\n{}\n{out}\n{err}", pg.bin_dir.display(), String::from_utf8_lossy(sent));
    assert!(!err.contains("restricted") && !err.contains("invalid command"), "a command came through: {}", seen());
    let got: Vec<&str> = out.lines().filter(|line| line.starts_with("got to ")).collect();
    let wanted: Vec<String> = (1..=count).map(|number| format!("got to {number}")).collect();
    assert!(got == wanted, "the statements are not the same: {}", seen());
}

#[test]
fn random_dump_has_same_statements_for_psql() {
    let mut postgres = Host::shared().unwrap().postgres;
    let mut clients = vec![postgres.bin_dir.clone()];
    for version in [16, 18] {
        clients.extend(had(&format!("what psql {version} reads"), programs::client(version)));
    }
    let dumps_each = rounds("dumps that each psql reads as we do", 25, 1000);
    let mut seeds = 1_u64..;
    for client in clients {
        postgres.bin_dir = client;
        let dumps = seeds.by_ref().filter_map(|seed| Some((seed, scraps(seed)?))).take(dumps_each);
        dumps.for_each(|(seed, (sent, count))| psql_agrees(&postgres, seed, &sent, count));
    }
}
