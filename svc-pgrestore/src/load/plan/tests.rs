use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use svc_pgdump::check::lexer::Units;

use super::*;

fn plan(dump: &str) -> Plan {
    let (mut planner, mut units) = (Planner::default(), Units::default());
    dump.as_bytes().chunks(7).for_each(|chunk| units.feed(chunk, &mut |unit| planner.unit(unit)));
    planner.finish()
}

fn text(dump: &str, span: Span) -> &str {
    let start = usize::try_from(span.at.byte).unwrap();
    dump.get(start..start + usize::try_from(span.size).unwrap()).unwrap()
}

/// The plan, each item as a line of what is in it.
fn shown(dump: &str) -> Vec<String> {
    let plan = plan(dump);
    let spans = |spans: &[Span]| spans.iter().map(|span| text(dump, *span)).collect::<Vec<_>>().join(" | ");
    let builds = |builds: &[Build]| {
        builds.iter().map(|build| format!("{}@{}", text(dump, build.statement), build.weight)).collect::<Vec<_>>().join(" | ")
    };
    let copy = |block: &CopyBlock| format!("{} {}", block.table.as_deref().unwrap_or("?"), block.rows_count);
    let mut lines = Vec::new();
    for item in &plan.items {
        match item {
            Item::Serial(statements) => lines.push(format!("one by one: {}", spans(statements))),
            Item::Copy(block) => lines.push(format!("copy: {}", copy(block))),
            Item::Parallel(group) => {
                lines.push(format!("copy: {}", group.copies.iter().map(copy).collect::<Vec<_>>().join(", ")));
                lines.push(format!("build: {}", builds(&group.indexes)));
                lines.push(format!("refer: {}", builds(&group.foreign_keys)));
                lines.push(format!("later: {}", spans(&group.later)));
            }
        }
    }
    lines.retain(|line| !line.ends_with(": "));
    lines
}

const DUMP: &str = "\
SET client_encoding = 'UTF8';
-- Name: items; Type: TABLE
CREATE TABLE public.items (a int);
COPY public.items (a) FROM stdin;
1
2
\\.


-- Name: t2; Type: TABLE DATA
COPY public.t2 (a, b) FROM stdin;
\\.
SELECT pg_catalog.setval('public.s', 2, true);
SELECT pg_catalog.setval('public.t', 1, false);
ALTER TABLE ONLY public.items ADD CONSTRAINT k PRIMARY KEY (a);
COMMENT ON CONSTRAINT k ON public.items IS 'the key';
CREATE INDEX i ON public.items USING btree (a);
ALTER TABLE ONLY public.t2 ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES public.items(a);
CREATE TRIGGER t BEFORE UPDATE ON public.items EXECUTE FUNCTION public.f();
ALTER TABLE ONLY public.t2 ADD CONSTRAINT g FOREIGN KEY (b) REFERENCES public.items(a);
";

#[test]
fn rows_keys_and_foreign_keys_are_grouped_in_order() {
    assert_eq!(
        shown(DUMP),
        [
            "one by one: SET client_encoding = 'UTF8'; | CREATE TABLE public.items (a int);",
            "copy: \"public\".\"items\" 2, \"public\".\"t2\" 0",
            "build: ALTER TABLE ONLY public.items ADD CONSTRAINT k PRIMARY KEY (a);@4 | CREATE INDEX i ON public.items USING btree (a);@4",
            "refer: ALTER TABLE ONLY public.t2 ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES public.items(a);@4",
            "later: SELECT pg_catalog.setval('public.s', 2, true); | SELECT pg_catalog.setval('public.t', 1, false); | COMMENT ON CONSTRAINT k ON public.items IS 'the key';",
            "one by one: CREATE TRIGGER t BEFORE UPDATE ON public.items EXECUTE FUNCTION public.f();",
            "refer: ALTER TABLE ONLY public.t2 ADD CONSTRAINT g FOREIGN KEY (b) REFERENCES public.items(a);@4",
        ]
    );
    assert_eq!((plan(DUMP).widest(), plan("SELECT 1;").widest(), plan("").widest()), (5, 1, 1));
}

#[test]
fn index_inside_transaction_is_not_built_in_parallel() {
    let dump = "BEGIN;\nCOPY public.t (a) FROM stdin;\n1\n\\.\nCREATE INDEX i ON public.t USING btree (a);\nCOMMIT;\n\
                CREATE INDEX j ON public.t USING btree (a);\n";
    let wanted = [
        "one by one: BEGIN;",
        "copy: ? 1",
        "one by one: CREATE INDEX i ON public.t USING btree (a); | COMMIT;",
        "build: CREATE INDEX j ON public.t USING btree (a);@0",
    ];
    assert_eq!(shown(dump), wanted);
}

#[test]
fn dump_not_in_utf8_is_planned_in_its_order() {
    let latin =
        "SET client_encoding = 'LATIN1';\nCOPY s.\u{e4} (a) FROM stdin;\n1\n\\.\nCREATE INDEX i ON s.\u{e4} USING btree (a);\n";
    let wanted =
        ["one by one: SET client_encoding = 'LATIN1';", "copy: ? 1", "one by one: CREATE INDEX i ON s.\u{e4} USING btree (a);"];
    assert_eq!(shown(latin), wanted);
}

/// The parts of a dump in any order, whole and broken.
fn parts() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "COPY public.t (a) FROM stdin;\n1\n2\n\\.\n",
        "COPY public.t (a) FROM stdin;\n\\.\n",
        "COPY public.t FROM '/f';",
        "COPY public.t (a) FROM stdin;",
        "\n1\t2\n",
        "\\.\n",
        "CREATE INDEX i ON public.t USING btree (a);",
        "ALTER TABLE ONLY public.t ADD CONSTRAINT k PRIMARY KEY (a);",
        "ALTER TABLE ONLY public.t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES public.u(a);",
        "BEGIN;",
        "COMMIT;",
        "SELECT 1;",
        "INSERT INTO t VALUES (1);\n",
        "SELECT pg_catalog.setval('public.s', 2, true);",
        "COMMENT ON INDEX public.i IS 'x';",
        "SET client_encoding = 'UTF8';",
        "-- c\n",
        "'",
        "$$",
        "/*",
        "\\restrict k\n",
        "\n",
        ";",
        "\u{feff}",
    ]);
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(Config { cases: 1000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_statement_is_planned_once_in_dump_order(dump in parts()) {
        let mut spans = Vec::new();
        for item in plan(&dump).items {
            match item {
                Item::Serial(statements) => spans.extend(statements),
                Item::Copy(block) => spans.push(block.statement),
                Item::Parallel(group) => {
                    let mut of_group = group.later;
                    of_group.extend(group.copies.iter().map(|block| block.statement));
                    of_group.extend(group.indexes.iter().chain(&group.foreign_keys).map(|build| build.statement));
                    of_group.sort_by_key(|span| span.at.byte);
                    spans.extend(of_group);
                }
            }
        }
        let mut end = 0;
        for span in &spans {
            prop_assert!(span.at.byte >= end, "{:?}", spans);
            end = span.at.byte + span.size;
        }
        prop_assert!(end <= dump.len() as u64);
        // Whole statements, and none left out: the same as one by one.
        let (mut wanted, mut units) = (Vec::new(), Units::default());
        units.feed(dump.as_bytes(), &mut |unit| {
            if unit.kind == Kind::Statement {
                wanted.push(unit.at.byte + unit.size);
            }
        });
        let whole = units.finish().reason.is_none();
        let inside = |end: &&u64| spans.iter().any(|span| span.at.byte < **end && **end <= span.at.byte + span.size);
        if whole {
            prop_assert_eq!(wanted.iter().filter(inside).count(), wanted.len());
        }
    }
}
