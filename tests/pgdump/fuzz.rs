//! The reader of dumps, given dumps that were damaged at random: no input makes it panic or go round in circles, and its pieces,
//! joined, are the input. And psql reads a dump as we do.

use std::convert::Infallible;
use std::io::{Seek, Write};
use std::process::Stdio;

use svc_pgdump::check::Examiner;
use svc_pgdump::check::lexer::{Kind, Lexer, Piece};
use svc_pgdump::check::tokens;
use svc_tests::host::Host;
use svc_tests::postgres::Postgres;
use svc_tests::programs;
use svc_tests::random::Random;
use svc_tests::{rounds, skip};

/// What damage is made of, beside bytes: whatever changes how the rest is read.
const SIGNS: [&str; 22] = [
    "'", "''", "E'", "\\'", "\"", "$$", "$tag$", "$1", "--", "\n", "/*", "*/", "(", ")", ";", "\\", "\\.", "\n\\.\n", "\0", "\r",
    "END;", "CASE",
];
const WORDS: [&str; 14] = [
    "\\.\r\n",
    "\\restrict k\n",
    "COPY t (a) FROM stdin;\n",
    "copy t from stdin with (format csv);\n",
    "COPY t TO stdout;",
    "BEGIN ATOMIC",
    "CREATE FUNCTION f()",
    "SET standard_conforming_strings = off;",
    "\u{feff}",
    "\u{a0}",
    "INSERT INTO t VALUES (1);",
    "-- PostgreSQL database dump complete\n--\n",
    "CREATE INDEX i ON t USING btree (a);",
    "1\t2\n",
];

/// Dumps with all that is odd, by hand.
const SEEDS: [&str; 3] = [
    include_str!("../pgrestore/every_kind.sql"),
    "--\n-- PostgreSQL database dump\n--\n\n\\restrict K\n\n-- Dumped from database version 15.18\n-- Dumped by pg_dump version 15.18\n\nSET client_encoding = 'UTF8';\n\
     COPY public.\"a b\" (x, \"y;\") FROM stdin;\n1\t\\\\.\n\\N\tCOPY q FROM stdin;\n\\.\n\nCOMMENT ON TABLE t IS 'COPY x (a) FROM stdin;\n1\n\\.\n';\n\
     CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT CASE WHEN true THEN 1 ELSE 2 END; END;\n\
     CREATE FUNCTION g() RETURNS void LANGUAGE plpgsql AS $_$ BEGIN -- '\n /* /* */ */ END $_$;\n\
     ALTER TABLE ONLY t ADD CONSTRAINT k PRIMARY KEY (a);\nGRANT SELECT ON t TO \"r;ole\";\n--\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict K\n\n",
    "\u{feff}SET standard_conforming_strings = off;\nSELECT 'a\\'b;', E'\\\\', U&'\\0041', $a$b$a$;;\n/* -- */ SELECT 1;\nCOPY t FROM stdin;\r\n1\r\n\\.\r\nSELECT 2;",
];

fn damaged(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        let size = random.below(64).min(bytes.len() - at);
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + size)),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 => drop(bytes.splice(at..at, random.pick(&[&SIGNS[..], &WORDS].concat()).bytes())),
            4 => {
                let part = bytes[at..at + size].to_vec();
                let other = random.below(bytes.len() + 1);
                drop(bytes.splice(other..other, part));
            }
            5 => {
                let seed = &seeds[random.below(seeds.len())];
                let from = random.below(seed.len());
                let until = (from + random.below(512)).min(seed.len());
                drop(bytes.splice(at..at, seed[from..until].iter().copied()));
            }
            _ => drop(bytes.splice(at..at + size, (0..random.below(9)).map(|n| (n * 37) as u8).collect::<Vec<_>>())),
        }
    }
    bytes
}

/// Splits and joins; what the statements are, by their last bytes.
fn read(bytes: &[u8], mut chunk: impl FnMut() -> usize) -> (Vec<u8>, Vec<u64>) {
    let (mut joined, mut ends) = (Vec::new(), Vec::new());
    let mut lexer = Lexer::default();
    let mut take = |piece: Piece<'_>| {
        assert_eq!(piece.at.byte, joined.len() as u64);
        joined.extend_from_slice(piece.bytes);
        if piece.kind == Kind::Statement && piece.last {
            ends.push(joined.len() as u64);
        }
        Ok::<(), Infallible>(())
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(chunk().clamp(1, rest.len()));
        lexer.feed(head, &mut take).unwrap();
        rest = tail;
    }
    lexer.finish(&mut take).unwrap();
    (joined, ends)
}

#[test]
fn damaged_dumps_are_split_and_joined_again_whatever_they_hold() {
    let seeds: Vec<Vec<u8>> = SEEDS.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    for seed in 1..=rounds("damaged dumps, split and joined", 4000, 600_000) as u64 {
        let mut random = Random::of(seed);
        let bytes = damaged(&mut random, &seeds);
        let (whole, ends) = read(&bytes, || usize::MAX);
        assert!(whole == bytes, "seed {seed}: what is joined is not the input");
        let (pieces, same) = read(&bytes, || 1 + random.below(40));
        assert!(pieces == bytes && same == ends, "seed {seed}: in other chunks it is read otherwise");
        let mut examiner = Examiner::default();
        examiner.feed(&bytes, &mut |_| ());
        let dump = examiner.finish(String::new());
        assert!(dump.size_bytes == bytes.len() as u64 && dump.statement_count == ends.len() as u64, "seed {seed}: {dump:?}");
        if let Ok(text) = std::str::from_utf8(&bytes) {
            drop(tokens::tokens(text));
        }
    }
}

/// What strings, comments and commands are made of.
const SCRAPS: [&str; 47] = [
    "'", "'", "'", "''", "\"", "\\", "\\'", "\\\\", "\\! :", "E'", "e'", " E'a'", "U&'", "U&\"", "b'", "X'", "N'", "1", "1e",
    "1ae", "0x", ".", "$", "$$", "$t$", "$1", "$1$t$", "--", "-", "/*", "*/", "/", "*", "(", ")", ";", ";\n", "\n", "\n", "\r",
    " ", "\u{b}", "\u{c}", "&", ":", ":'x'", "\u{e9}",
];
/// The same, as a whole. Bodies of `BEGIN ATOMIC` are not among them: psql guesses where one begins, by the first letters of words.
const WHOLE: [&str; 6] = [
    "SELECT 'a'",
    "SET standard_conforming_strings = off;",
    "SET standard_conforming_strings = on;",
    "SELECT E'a\\'b';",
    "SELECT $t$ ' $$ $t$;",
    "SELECT 'a\\\\';",
];

/// A dump of scraps that is complete to us, without its comments, and how many statements that is. Behind each of them stands one
/// that tells that psql has got there.
fn scraps(seed: u64) -> Option<(Vec<u8>, usize)> {
    let mut random = Random::of(seed);
    let mut inner = String::new();
    for _ in 0..2 + random.below(24) {
        inner += if random.below(12) == 0 { random.pick(&WHOLE) } else { random.pick(&SCRAPS) };
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
            Kind::Comment | Kind::Command => sent.write_all(b"\n")?,
            _ => sent.write_all(piece.bytes)?,
        }
        if piece.kind == Kind::Statement && piece.last {
            count += 1;
            write!(sent, "SELECT 'got to {count}';")?;
        }
        Ok::<(), std::io::Error>(())
    };
    let mut lexer = Lexer::default();
    lexer.feed(dump.as_bytes(), &mut take).unwrap();
    lexer.finish(&mut take).unwrap();
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
fn psql_reads_a_dump_as_we_do() {
    let mut postgres = Host::shared().unwrap().postgres;
    let mut clients = vec![postgres.bin_dir.clone()];
    for version in [16, 18] {
        match programs::client(version) {
            Ok(bin_dir) => clients.push(bin_dir),
            Err(error) => skip(&format!("what psql {version} reads: it cannot be had: {error:#}")),
        }
    }
    let dumps_each = rounds("dumps that each psql reads as we do", 25, 1000);
    let mut seeds = 1_u64..;
    for client in clients {
        postgres.bin_dir = client;
        let dumps = seeds.by_ref().filter_map(|seed| Some((seed, scraps(seed)?))).take(dumps_each);
        dumps.for_each(|(seed, (sent, count))| psql_agrees(&postgres, seed, &sent, count));
    }
}
