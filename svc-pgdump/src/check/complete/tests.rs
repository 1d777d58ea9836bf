use proptest::test_runner::{Config, RngSeed};
use svc_step::file;

use super::*;

const RESTRICTED: &str = r#"--
-- PostgreSQL database dump
--

\restrict KeyOfThisDump1

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;
CREATE TABLE public."order" (a integer, "b;c" text);
ALTER TABLE public."order" OWNER TO svc;
COPY public."order" (a, "b;c") FROM stdin;
1	x
2	\N
\.
COPY public.empty  FROM stdin;
\.
COMMENT ON TABLE public.empty IS '
-- PostgreSQL database dump complete
--
';
GRANT SELECT ON TABLE public."order" TO reader;
--
-- PostgreSQL database dump complete
--

\unrestrict KeyOfThisDump1

"#;

fn dump(text: &str) -> Dump {
    let mut examiner = Examiner::default();
    text.as_bytes().chunks(5).for_each(|chunk| examiner.feed(chunk, &mut |_| ()));
    examiner.finish(file::sha256(text.as_bytes()))
}

#[test]
fn truncated_dump_with_or_without_restrict_key_is_incomplete() {
    let plain: String = RESTRICTED.lines().filter(|line| !line.contains("restrict")).map(|line| format!("{line}\n")).collect();
    for text in [RESTRICTED, &plain] {
        for cut in 0..=text.trim_end().len() {
            let (text, _) = text.split_at(cut);
            assert!(!dump(text).is_complete(), "cut at {cut}: {:?}", text.lines().last());
        }
        // Only white space behind the last line may be missing.
        assert!(dump(&format!("{}\n", text.trim_end())).is_complete());
    }
}

#[test]
fn something_behind_the_end_or_another_key_is_seen() {
    assert!(!dump(&format!("{RESTRICTED}DROP TABLE x;\n")).is_complete());
    assert!(!dump(&format!("{RESTRICTED}\\! id\n")).is_complete());
    assert!(!dump(&RESTRICTED.replace("\\unrestrict KeyOfThisDump1", "\\unrestrict KeyOfThisDump2")).is_complete());
    assert!(!dump(&format!("{RESTRICTED}{}", RESTRICTED.split_at(400).0)).is_complete());
}

#[test]
fn unsafe_string_settings_and_server_copy_are_refused() {
    let with =
        |statement: &str| dump(&RESTRICTED.replacen("SET statement_timeout", &format!("{statement}\nSET statement_timeout"), 1));
    for statement in [
        "SET SESSION standard_conforming_strings = off;",
        "SET standard_conforming_strings TO 'off';",
        "RESET ALL;",
        "reset standard_conforming_strings;",
        "DISCARD ALL;",
        "SELECT set_config('standard_conforming_strings', 'off', false);",
        "SELECT pg_catalog.set_config ( lower('X'), 'off', false);",
        "DO $$ BEGIN PERFORM set_config($1, 'off', false); END $$;",
        "DO $$ BEGIN SET standard_conforming_strings = off; END $$;",
        "UPDATE pg_settings SET setting = 'off' WHERE name = 'standard_conforming_strings';",
        &format!("SELECT /* {} */ 1;", "x".repeat(300_000)),
        "COPY public.t FROM PROGRAM 'id';",
        "copy(SELECT 1) TO '/f';",
        "COPY public.t FROM '/f' ;",
    ] {
        let reason = with(statement).reason.unwrap_or_default();
        assert!(reason.contains("pg_dump"), "{statement}: {reason}");
    }
    for statement in [
        "SET standard_conforming_strings = on;",
        "SET standard_conforming_strings = off;",
        "SELECT pg_catalog.set_config('search_path', '', false);",
        "RESET ROLE;",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql SET standard_conforming_strings TO 'off' AS 'SELECT 1';",
        "COMMENT ON TABLE t IS 'COPY t FROM PROGRAM';",
    ] {
        assert_eq!(with(statement).reason, None, "{statement}");
    }
}

#[test]
fn other_kinds_of_files_are_named() {
    assert!(dump("").reason.unwrap().contains("empty"));
    let custom = dump("PGDMP\u{1}").require_complete(Path::new("d")).unwrap_err();
    assert_eq!(custom.message, "The dump d cannot be used: it is in pg_dump's custom format, not plain SQL.");
    assert!(dump("hello\n").reason.unwrap().contains("does not start"));
    assert!(dump("-- PostgreSQL database cluster dump\n").reason.unwrap().contains("of one database"));
}

proptest::proptest! {
    #![proptest_config(Config { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_statement_makes_the_reader_of_names_panic(
        start in "(ALTER|GRANT|CREATE (EXTENSION|POLICY|SCHEMA|USER)|COPY|SET SESSION) ",
        rest in "([\"'(),.;$ a-zA-Z]|TO |FROM |OWNER |ROLE |stdin|é){0,30}",
    ) {
        dump(&format!("{start}{rest};\n1\n\\.\n"));
    }
}
