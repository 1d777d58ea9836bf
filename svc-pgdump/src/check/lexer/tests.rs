use super::sql::{BACKSLASH, QUOTE, VERTICAL_TAB};
use super::*;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The units of a dump, each with its bytes, however the input was cut.
fn units(input: &[u8], chunk: usize) -> (Vec<(Kind, String)>, Option<&'static str>) {
    let mut units: Vec<(Kind, Vec<u8>)> = Vec::new();
    let mut open = false;
    let mut take = |piece: Piece<'_>| {
        match units.last_mut() {
            Some((kind, bytes)) if *kind == piece.kind && open => bytes.extend_from_slice(piece.bytes),
            _ => units.push((piece.kind, piece.bytes.to_vec())),
        }
        open = !piece.last;
    };
    let mut lexer = Lexer::default();
    input.chunks(chunk).for_each(|piece| lexer.feed(piece, &mut take));
    let Ended { reason, .. } = lexer.finish(&mut take);
    (units.into_iter().map(|(kind, bytes)| (kind, String::from_utf8_lossy(&bytes).into_owned())).collect(), reason)
}

fn only(input: &str, wanted: Kind) -> Vec<String> {
    let (all, end) = units(input.as_bytes(), 7);
    assert_eq!(end, None, "{all:?}");
    all.into_iter().filter(|(kind, _)| *kind == wanted).map(|(_, text)| text).collect()
}

fn statements(input: &str) -> Vec<String> {
    only(input, Kind::Statement)
}

#[test]
fn quotes_of_every_kind_hide_semicolons() {
    for statement in [
        "SELECT 'a;b''c;d';",
        r"SELECT E'a\';b', 'c\';",
        "SELECT E'a''\\';b';",
        r"SELECT e'\\', ';';",
        r"SELECT ne'\';",
        "SELECT \"a;\"\"b;\";",
        "SELECT $$a;'b$$;",
        "SELECT $tag$a;$$;$ta$;$tag $;$tag$;",
        "SELECT $a$x$$a$;",
        "SELECT $é$;$é$;",
        "SELECT a$b$c, ';' , d$b$;",
        "SELECT $1, ';';",
        "SELECT 1 -- ; no end'\n;",
        "SELECT 1 /* ; /* ; */ ' ; */ ;",
        "SELECT 1 */* ; */ 2;",
        "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);",
        "- 1;",
        "/ 1;",
    ] {
        assert_eq!(statements(&format!("{statement}\nSELECT 2;\n")), [statement, "SELECT 2;"], "{statement}");
    }
}

#[test]
fn begin_atomic_body_is_one_statement() {
    let body = "CREATE FUNCTION public.f(a integer DEFAULT (CASE WHEN true THEN 1 END)) RETURNS integer\n    LANGUAGE sql\n    BEGIN /* c */ ATOMIC\n \
                SELECT CASE WHEN (a > 0) THEN 1 ELSE 2 END;\n INSERT INTO t VALUES (1);\n END;";
    let procedure = "create or replace procedure p() begin atomic select 1; end;";
    assert_eq!(statements(&format!("{body}\n{procedure}\nSELECT 3;")), [body, procedure, "SELECT 3;"]);
    // A function whose name is a keyword is no body.
    let named = ["CREATE FUNCTION public.begin() RETURNS integer LANGUAGE sql AS $$ SELECT 1; $$;", "BEGIN;", "COMMIT;"];
    assert_eq!(statements(&named.join("\n")), named);
}

#[test]
fn backslashes_escape_everywhere_where_the_dump_says_so() {
    let text = "SET standard_conforming_strings = off;\nSELECT 'a\\';b';\nSET standard_conforming_strings = on;\nSELECT 'a\\';";
    let found = statements(text);
    assert_eq!(found.get(1).map(String::as_str), Some("SELECT 'a\\';b';"));
    assert_eq!(found.len(), 4);
}

#[test]
fn copy_rows_end_only_at_end_marker_line() {
    let dump = "COPY public.t (a, b) FROM stdin;\n1\t\\\\.\n\\.x\n\\\\.\n2\tCOPY x FROM stdin;\n\\.\nSELECT 1;\n";
    assert_eq!(only(dump, Kind::Rows), ["1\t\\\\.\n\\.x\n\\\\.\n2\tCOPY x FROM stdin;\n"]);
    assert_eq!(only(dump, Kind::RowsEnd), ["\\.\n"]);
    assert_eq!(statements(dump), ["COPY public.t (a, b) FROM stdin;", "SELECT 1;"]);
}

#[test]
fn empty_copy_block_has_no_rows() {
    let dump = "COPY t (a) FROM stdin;\n\\.\n\nCOPY u (a) FROM stdin;\r\n1\n\\.\r\n";
    assert_eq!(only(dump, Kind::Rows), ["1\n"]);
    assert_eq!(only(dump, Kind::RowsEnd).len(), 2);
}

#[test]
fn dump_like_text_in_literal_or_comment_has_no_rows() {
    let fake = "-- Name: x; Type: TABLE DATA; Schema: public; Owner: -\nCOPY public.q (a) FROM stdin;\n1\n\\.\n\\connect x\n";
    let comment = format!("COMMENT ON TABLE t IS '{fake}';");
    let function = format!("CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $_$\n{fake}$_$;");
    let dump = format!("{comment}\n/* {fake} */\n{function}\nSELECT 1;");
    assert_eq!(statements(&dump), [comment.as_str(), &function, "SELECT 1;"]);
    assert!(only(&dump, Kind::Rows).is_empty() && only(&dump, Kind::Command).is_empty());
}

#[test]
fn only_copy_from_stdin_statement_begins_rows() {
    for text in ["COPY t TO stdout;", "COPY t FROM '/f';", "SELECT copy FROM stdin;", "COPY \"from stdin\" TO stdout;"] {
        assert_eq!(statements(&format!("{text}\nSELECT 1;")).len(), 2, "{text}");
    }
    let quoted = "COPY \"a\"\"b;c\".\"from stdin\" (\"x;y\") FROM stdin;";
    assert_eq!(statements(&format!("-- c\n {quoted}\n\\.\n")), [quoted]);
}

#[test]
fn unsupported_syntax_ends_reading_with_reason() {
    let end = |text: &str| units(text.as_bytes(), 3).1;
    assert_eq!(end("COPY t FROM stdin WITH (FORMAT csv);\n1\n\\.\n"), Some(COPY_OPTIONS));
    assert_eq!(end("COPY t FROM stdin; SELECT 1;\n1\n\\.\n"), Some(LINE));
    assert_eq!(end("SET standard_conforming_strings = off;SELECT '\\'; \\! id #';\n"), Some(LINE));
    assert_eq!(end("SELECT 1 \\gset\n"), Some(BACKSLASH));
    assert_eq!(end("SELECT 1;\0"), Some(ZERO));
    assert_eq!(end("COPY t FROM stdin;\na\0\n\\.\n"), Some(ZERO));
    for text in ["\x0bCOPY t FROM PROGRAM 'id';", "SELECT 1;\n\x0b", "COPY\x0bt FROM stdin;", "SELECT 1 /\x0b 2;"] {
        assert_eq!(end(text), Some(VERTICAL_TAB), "{text:?}");
    }
    assert_eq!(end("SELECT '\x0b', \"\x0b\" -- \x0b\n, $$\x0b$$ /* \x0b */;\n/* \x0b */ -- \x0b\n"), None);
    assert_eq!(end("COPY t FROM stdin;\n\x0b\n\\.\n"), None);
}

#[test]
fn ambiguous_quote_is_refused() {
    let tag = "t".repeat(1100);
    for text in [
        "SELECT E'a'\n  'b\\';c';",
        "SELECT E'a' /* c */ -- c\n 'b';",
        "SELECT 1e'a';",
        "SELECT 1.e'a';",
        "SELECT :e'a';",
        "SELECT :a$b$ $b$;",
        "SELECT 1e-- \\! id\n;",
        "SELECT 1.e-- \\! id\n;",
        "SELECT 0x1e+'a';",
        "SELECT 1$a$ $a$;",
        "SELECT $1$a$ $a$;",
        &format!("SELECT ${tag}$ ${tag}$;"),
        "SET standard_conforming_strings = off;\nSELECT U&'a\\';",
    ] {
        assert_eq!(units(text.as_bytes(), 3).1, Some(QUOTE), "{text}");
    }
    let told = [
        "SELECT 1e-5, 1.5E+3--c\n, a.e-1;",
        "SELECT E'a', 'b';",
        "SELECT B'1', x'F', N'a\\', date'2020-01-01', U&'\\0041', E'a''b';",
        "SELECT 'a'\n'b';",
    ];
    assert_eq!(statements(&told.join("\n")), told);
}

#[test]
fn carriage_return_ends_comment() {
    assert_eq!(only("-- a\r\\! id\nSELECT 1;", Kind::Command), ["\\! id\n"]);
    assert_eq!(units(b"SELECT 1 -- a\r\\! id\n;", 3).1, Some(BACKSLASH));
}

#[test]
fn where_the_input_ends_is_known() {
    let end = |text: &str| units(text.as_bytes(), 2).1;
    for (text, wanted) in [
        ("", None),
        ("SELECT 1; \n", None),
        ("SELECT 1", Some(IN_STATEMENT)),
        ("-", Some(IN_STATEMENT)),
        ("SELECT 'x;", Some(IN_STATEMENT)),
        ("-- half", Some(IN_COMMENT)),
        ("/* ;", Some(IN_COMMENT)),
        ("\\restrict ab", Some(IN_COMMAND)),
        ("COPY t FROM stdin;", Some(IN_ROWS)),
        ("COPY t FROM stdin;\n", Some(IN_ROWS)),
        ("COPY t FROM stdin;\n1\n\\.", Some(IN_ROWS)),
        ("COPY t FROM stdin;\n1\n\\.\n", None),
    ] {
        assert_eq!(end(text), wanted, "{text:?}");
    }
}

#[test]
fn commands_are_lines() {
    let dump = "\\restrict k;'x\nSELECT 1;\n\\unrestrict k;'x\n";
    assert_eq!(only(dump, Kind::Command), ["\\restrict k;'x\n", "\\unrestrict k;'x\n"]);
}

#[test]
fn pieces_and_end_carry_line_and_byte_positions() {
    let dump = "-- c\nSELECT 1,\n 2;\nCOPY t FROM stdin;\n1\n2\n\\.\n\nSELECT 'half\n\n";
    for chunk in [1, 2, 5, 4096] {
        let mut starts = Vec::new();
        let mut open = false;
        let mut take = |piece: Piece<'_>| {
            if !open && piece.kind != Kind::Space {
                starts.push((piece.kind, piece.at.line));
            }
            let at = usize::try_from(piece.at.byte).unwrap();
            assert_eq!(dump.as_bytes().get(at..at + piece.bytes.len()), Some(piece.bytes));
            open = !piece.last && piece.kind != Kind::Space;
        };
        let mut lexer = Lexer::default();
        dump.as_bytes().chunks(chunk).for_each(|part| lexer.feed(part, &mut take));
        let ended = lexer.finish(&mut take);
        let wanted = [(Kind::Comment, 1), (Kind::Statement, 2), (Kind::Statement, 4), (Kind::Rows, 5), (Kind::Statement, 9)];
        assert_eq!(starts, wanted);
        assert_eq!((ended.reason, ended.at.line, ended.at.byte), (Some(IN_STATEMENT), 9, 46));
    }
    let begun = |text: &str| {
        let mut lexer = Lexer::default();
        lexer.feed(text.as_bytes(), &mut |_| ());
        let ended = lexer.finish(&mut |_| ());
        (ended.reason, ended.at.line)
    };
    // Of a COPY block, the statement is what began.
    assert_eq!(begun("\nCOPY t FROM stdin;\n1\n2\n"), (Some(IN_ROWS), 2));
    assert_eq!(begun("\n\nSELECT 1;\n\n/* a\nb"), (Some(IN_COMMENT), 5));
    assert_eq!(begun("SELECT 1;\n\n"), (None, 3));
    assert_eq!(begun("SELECT 1;\nSELECT 2 \\gx\nSELECT 3;\n"), (Some(BACKSLASH), 2));
}

/// Input of the parts that dumps and traps are made of.
fn nasty() -> impl Strategy<Value = Vec<u8>> {
    let marks = [
        "'", "''", "\"", "$", "$$", "$t$", "E'", "\\", "\\.", "\\.\n", "\n\\.\n", "\r\n", "\n", ";", "--", "-", "/*", "*/", "/",
        "(", ")", " ", "CASE ", "END", "é", "1", "e", "\0", "\u{feff}",
    ];
    let statements = [
        "COPY t FROM stdin;\n",
        "COPY t FROM stdin",
        "CREATE FUNCTION f() ",
        "BEGIN ATOMIC ",
        "SET standard_conforming_strings = off;",
    ];
    let part = prop_oneof![
        proptest::sample::select(marks.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        proptest::sample::select(statements.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

/// The same cases in every run; `tests/run --deep` tries a hundred times as many, and others each time.
fn cases() -> ProptestConfig {
    let deep = std::env::var_os("SVC_TEST_DEEP").is_some_and(|value| !value.is_empty());
    let (cases, rng_seed) = if deep { (200_000, RngSeed::Random) } else { (2000, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn pieces_rejoin_to_input_for_any_chunk_size(input in nasty(), chunk in 1_usize..9) {
        let mut joined = Vec::new();
        let mut lexer = Lexer::default();
        let mut take = |piece: Piece<'_>| joined.extend_from_slice(piece.bytes);
        input.chunks(chunk).for_each(|piece| lexer.feed(piece, &mut take));
        lexer.finish(&mut take);
        prop_assert_eq!(&joined, &input);
        prop_assert_eq!(units(&input, chunk), units(&input, usize::MAX));
    }
}
