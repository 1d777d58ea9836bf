//! What `svc-pgdump` saves and `svc-pgrestore` restores is the same, byte for byte as `pg_dump` writes it: databases in other
//! encodings and locales, with settings that decide what is in them, in other tablespaces, and PostgreSQL's own regression database.

use anyhow::Context;
use svc_tests::download::{cached, readable};
use svc_tests::pg_case::prelude::*;

fn made(name: &str, clause: &str) -> Case {
    let case = Case::new(name);
    case.pg.drop_database(&case.database).unwrap();
    case.admin(&format!("CREATE DATABASE {} OWNER {} {clause}", identifier(&case.database), identifier(&case.owner)));
    case
}

/// Backup, loss, restore: the same bytes.
#[track_caller]
fn comes_back(case: &Case) -> Ran {
    let before = (case.bytes(), case.properties(&case.database));
    let document = case.backup();
    case.pg.drop_database(&case.database).unwrap();
    let ran = case.from(&[], &document).ok().changed();
    same(&before.0, &case.bytes(), "restored");
    assert_eq!(case.properties(&case.database), before.1);
    ran
}

#[test]
fn non_utf8_names_and_rows_are_restored_exactly() {
    // Statements of their own: the server reads the second one in the encoding that the first one sets.
    let named = |word: &str| {
        format!(
            "SET client_encoding = 'UTF8';\nCREATE SCHEMA {word} AUTHORIZATION :\"owner\"; \
             CREATE TABLE {word}.{word} ({word} text PRIMARY KEY); INSERT INTO {word}.{word} VALUES ('{word}'), (E'\\\\.'); \
             GRANT SELECT ON {word}.{word} TO :\"owner\"; COMMENT ON TABLE {word}.{word} IS '{word}'"
        )
    };
    for (encoding, script) in [
        ("LATIN1", named("stra\u{df}e")),
        ("EUC_JP", named("\u{65e5}\u{672c}")),
        ("KOI8R", named("\u{43c}\u{438}\u{440}")),
        ("SQL_ASCII", "CREATE TABLE t (x text); INSERT INTO t VALUES (E'\\xff\\xfe'), (E'\u{fc}\\x80\\\\.')".to_owned()),
    ] {
        let case = made("pgf_enc", &format!("TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"));
        case.script(&script);
        assert_eq!(comes_back(&case).result()["stage"]["verification"]["rows_count"], 2, "{encoding}");
    }
}

#[test]
fn icu_locale_odd_roles_and_privileges_are_restored() {
    let case = made(
        "pgf_icu",
        "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-u-co-phonebk' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' CONNECTION LIMIT 7",
    );
    let (name, owner) = (identifier(&case.database), identifier(&case.owner));
    let odd = identifier(&format!("{} \"odd'; \\ -- r\u{f4}le", case.database));
    case.admin(&format!("CREATE ROLE {odd}; REVOKE ALL ON DATABASE {name} FROM PUBLIC; GRANT TEMPORARY ON DATABASE {name} TO {odd} WITH GRANT OPTION"));
    case.admin(&format!(
        "ALTER ROLE {odd} IN DATABASE {name} SET search_path TO {odd}, public; COMMENT ON DATABASE {name} IS E'\\\\.\\n''; --'"
    ));
    case.admin(&format!("ALTER DATABASE {name} SET app.key TO E'a\\\\b''c \u{fc}'"));
    case.admin(&format!("SET ROLE {owner}; REVOKE TEMPORARY ON DATABASE {name} FROM {owner}"));
    case.sql(&format!("CREATE TABLE t (a text); INSERT INTO t VALUES ('\u{e4}'), ('az'); CREATE INDEX ON t (a); ALTER TABLE t OWNER TO {odd}; GRANT SELECT ON t TO {owner}"));
    comes_back(&case);
}

/// What a database can be set to (the last from 17 on) that changes what is read from a dump, or what fills a materialized view.
const DECIDING: &str = "datestyle TO 'SQL, DMY' | intervalstyle TO 'sql_standard' | \"TimeZone\" TO 'Asia/Tokyo' \
    | timezone_abbreviations TO 'India' | extra_float_digits TO -3 | bytea_output TO 'escape' \
    | xmlbinary TO 'hex' | xmloption TO 'document' | search_path TO '\"$user\"', 'odd schema' \
    | default_tablespace TO 'pg_default' | default_toast_compression TO 'lz4' \
    | standard_conforming_strings TO off | backslash_quote TO off | array_nulls TO off \
    | transform_null_equals TO on | lc_monetary TO 'C.UTF-8' | lc_numeric TO 'C.UTF-8' | lc_time TO 'C.UTF-8' \
    | default_text_search_config TO 'pg_catalog.german' | app.tenant TO 'it''s; ours' | row_security TO off \
    | default_transaction_read_only TO on | default_transaction_isolation TO 'serializable' \
    | session_replication_role TO 'replica' | check_function_bodies TO on \
    | default_table_access_method TO 'heap' | statement_timeout TO '3s' | lock_timeout TO '1ms' | transaction_timeout TO '3s'";

/// Takes off, for what the test itself asks, what the database is set to.
const UNLIMITED: &str = "SET default_transaction_read_only TO off; SET transaction_read_only TO off; SET statement_timeout TO 0; SET lock_timeout TO 0; \
    SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'";

/// What takes longer to load than the limits above allow, a body that is wrong by itself, and a trigger that must not see the rows.
const AT_ODDS: &str = "CREATE MATERIALIZED VIEW public.slow AS SELECT 1 AS a FROM pg_sleep(3.5); \
    SET check_function_bodies TO off; CREATE FUNCTION public.odd() RETURNS int LANGUAGE sql AS 'SELECT a FROM nowhere'; \
    CREATE TABLE public.parent (a int PRIMARY KEY); CREATE TABLE public.child (a int REFERENCES public.parent); \
    INSERT INTO public.parent VALUES (1); INSERT INTO public.child VALUES (1); \
    CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
    CREATE TRIGGER no BEFORE INSERT ON public.child FOR EACH ROW EXECUTE FUNCTION public.no(); \
    ALTER TABLE public.child ENABLE REPLICA TRIGGER no";

/// Columns of text that a materialized view reads as the database's settings have it.
const READ: &str = "CREATE TABLE public.said (day text, span text, at timestamptz, zone text, number float8, bytes bytea, body text, list text, names text[]); \
    INSERT INTO public.said VALUES ('03/02/2020', '-1 2:00:00', '2026-01-01 20:00+00', '2026-01-01 00:00 IST', 0.1::float8 + 0.2, 'a\u{e4}', \
        'die Katzen', '{NULL}', ARRAY['a', NULL]); \
    CREATE TABLE public.big AS SELECT repeat('die Katzen ', 1000) AS body FROM generate_series(1, 50); \
    CREATE MATERIALIZED VIEW public.seen AS SELECT day::date AS day, day::date::text AS day_text, span::interval AS span, \
        (interval '1 year -2 days')::text AS span_text, at::date AS at, at::text AS at_text, zone::timestamptz AS zone, number::text AS number, \
        bytes::text AS bytes, xmlelement(name a, bytes)::text AS xml, to_tsvector(body) AS words, current_setting('app.tenant', true) AS tenant, \
        list::text[] AS list, names, 1234.5::numeric::money::text AS money FROM public.said";

/// What of it can be compared whatever a session is set to.
const CONTENT: &str = "SET datestyle TO 'ISO, YMD'; SET intervalstyle TO 'postgres_verbose'; SET \"TimeZone\" TO 'UTC'; \
    SET extra_float_digits TO 3; SET bytea_output TO 'hex'; SET array_nulls TO on; \
    SELECT to_jsonb(s) FROM public.seen s; SELECT to_jsonb(s) FROM public.said s; \
    SELECT pg_column_compression(body), count(*) FROM public.big GROUP BY 1";

#[test]
fn content_depending_on_database_settings_is_restored() {
    let own = Host::shared().unwrap().postgres_server().unwrap();
    // The default of initdb in most locales.
    own.sql("postgres", "ALTER SYSTEM SET datestyle TO 'ISO, DMY'").unwrap();
    own.sql("postgres", "SELECT pg_reload_conf()").unwrap();
    for settings in [Vec::new(), DECIDING.split(" | ").collect()] {
        let case = Case::on(own.clone(), format!("pgf_all_{}", settings.len()));
        let is_17 = case.admin("SELECT current_setting('server_version_num')::int >= 170000") == "t";
        for setting in settings.iter().filter(|setting| is_17 || !setting.starts_with("transaction_timeout")) {
            case.admin(&format!("ALTER DATABASE {} SET {setting}", identifier(&case.database)));
        }
        let sql = |sql: &str| case.sql(&format!("{UNLIMITED}; {sql}"));
        sql(READ);
        if !settings.is_empty() {
            sql(AT_ODDS);
        }
        let before = case.text();
        let (content, properties_before) = (sql(CONTENT), case.properties(&case.database));
        assert!(content.contains("\"day\": \"2020-02-03\""), "{content}");
        let document = case.backup();
        case.from(&["--drop-old"], &document).ok().changed();
        assert_eq!(sql(CONTENT), content, "{} settings", settings.len());
        assert_eq!(case.text(), before, "{} settings", settings.len());
        assert_eq!(case.properties(&case.database), properties_before);
    }
}

/// Empty, and with strings in which a backslash escapes.
#[test]
fn empty_database_and_escaped_strings_are_restored() {
    let case = Case::new("pgf_bs");
    assert_eq!(comes_back(&case).result()["stage"]["verification"]["tables_count"], 0);
    case.admin(&format!("ALTER DATABASE {} SET standard_conforming_strings TO off", identifier(&case.database)));
    case.sql(
        "SET escape_string_warning = off; CREATE TABLE t (a text DEFAULT 'it\\'s; \\\\.', CHECK (a <> '\\\\')); INSERT INTO t DEFAULT VALUES; \
         CREATE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT \\'\\\\\\\\\\''; COMMENT ON TABLE t IS 'a\\\\\\'; COPY t FROM stdin;\\n\\\\.\\n'",
    );
    comes_back(&case);
}

#[test]
fn tables_in_other_tablespaces_come_back_into_them() {
    let case = Case::new("pgf_space");
    let space = format!("{}_s", case.database);
    case.script(&format!("SET allow_in_place_tablespaces = on;\nCREATE TABLESPACE {space} LOCATION '';"));
    case.sql(&format!(
        "CREATE TABLE t (a int PRIMARY KEY USING INDEX TABLESPACE {space}); INSERT INTO t VALUES (1); \
         CREATE TABLE u (a int, b int REFERENCES t) TABLESPACE {space}; INSERT INTO u VALUES (1, 1); CREATE INDEX ON u (a); \
         CREATE INDEX there ON u (b) TABLESPACE {space}; CREATE TABLE p (a int) PARTITION BY LIST (a) TABLESPACE {space}; \
         CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE MATERIALIZED VIEW m TABLESPACE {space} AS SELECT 1 AS a"
    ));
    comes_back(&case);
    case.pg.drop_database(&case.database).unwrap();
    let whole = made("pgf_space", &format!("TEMPLATE template0 TABLESPACE {space}"));
    whole.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    comes_back(&whole);
    whole.pg.drop_database(&whole.database).unwrap();
    case.admin(&format!("DROP TABLESPACE {space}"));
}

#[test]
fn subscription_is_not_restored_into_staged_copy() {
    let case = Case::new("pgf_sub");
    case.sql(
        "SET client_min_messages = error; CREATE TABLE t (a int); \
         CREATE SUBSCRIPTION pgf_sub CONNECTION E'host=127.0.0.1 \n port=1' PUBLICATION p WITH (connect = false); \
         COMMENT ON SUBSCRIPTION pgf_sub IS 'a; COPY t (a) FROM stdin;'",
    );
    let dump = case.dump();
    case.sql("ALTER SUBSCRIPTION pgf_sub SET (slot_name = NONE); DROP SUBSCRIPTION pgf_sub");
    let ran = case.tool().arg("stage").arg(&dump).run().review("not_restored");
    same(&case.bytes(), &case.take(&ran.result()["staged"], &case.pg), "without its subscription");
}

/// PostgreSQL's own regression database has every kind of object that its makers thought of testing. Its scripts come from the source package
/// of Debian's server and are run as `pg_regress` would, except that nobody looks at what they print. This is what that sets.
const REGRESSION: &str = "
    ALTER DATABASE regression SET lc_messages TO 'C';
    ALTER DATABASE regression SET lc_monetary TO 'C';
    ALTER DATABASE regression SET lc_numeric TO 'C';
    ALTER DATABASE regression SET lc_time TO 'C';
    ALTER DATABASE regression SET bytea_output TO 'hex';
    ALTER DATABASE regression SET timezone_abbreviations TO 'Default'";
/// Fetches the scripts, and builds the library of functions in C that they use, in a folder that is given. What is installed may be older
/// than what there is, and was made of the sources of its own release. Few machines list sources, and only Debian's are wanted.
const FETCH: &str = r#"
    folder=$1 version=$2 installed=$3 work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    mkdir -p lists/partial parts
    for list in $(grep -ls debian.org /etc/apt/sources.list /etc/apt/sources.list.d/*); do
        sed 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" >"parts/${list##*/}"
    done
    release=$(dpkg-query --show --showformat='${Version}' "postgresql-$version")
    sources() {
        apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts" -o Dir::State::Lists="$work/lists" "$@"
    }
    sources update
    sources source --download-only "postgresql-$version=$release"
    tar --wildcards --strip-components=4 -xf *.orig.tar.*[!c] -C "$folder" '*/src/test/regress/*'
    apt-get -q download "postgresql-server-dev-$version=$release"
    dpkg -x postgresql-server-dev-*.deb headers
    mkdir "$folder/lib"
    gcc -shared -fPIC -O1 -w -I "headers/usr/include/postgresql/$version/server" -o "$folder/lib/regress.so" "$folder/regress.c"
    ln -s "$installed/autoinc.so" "$installed/refint.so" "$folder/lib"
"#;

/// The scripts, and the library of functions in C that they use, for Debian's server.
fn fetch() -> anyhow::Result<PathBuf> {
    let debian = Programs::debian()?;
    let version = debian.version.to_string();
    let installed = debian.server_dir.parent().context("the programs are in no folder")?.join("lib");
    cached(&format!("postgresql-{version}-regress"), |folder| {
        os::run(Command::new("bash").args(["-ec", FETCH, "fetch"]).arg(folder).arg(&version).arg(&installed))?;
        readable(folder)
    })
}

/// Makes the database `regression` on a server that lets everybody in, by all scripts in the order of their schedule; returns
/// how many they were.
fn build(postgres: &Postgres, fetched: &Path, folder: &Path) -> anyhow::Result<usize> {
    let user = os::system_user(ADMINISTRATOR)?;
    os::folder(folder, 0o755, Some(&user))?;
    os::folder(&folder.join("results"), 0o755, Some(&user))?;
    postgres.sql("postgres", "CREATE DATABASE regression TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")?;
    postgres.sql("postgres", REGRESSION)?;
    let schedule = fs::read_to_string(fetched.join("parallel_schedule"))?;
    let tests: Vec<&str> =
        schedule.lines().filter_map(|line| line.strip_prefix("test: ")).flat_map(str::split_whitespace).collect();
    for test in &tests {
        let text = fs::read(fetched.join("sql").join(format!("{test}.sql"))).with_context(|| format!("no script {test}"))?;
        let mut psql = postgres.administrator("psql");
        psql.args(["-X", "-q", "-d", "regression", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"]);
        psql.env("PG_ABS_SRCDIR", fetched).env("PG_ABS_BUILDDIR", folder).env("PG_LIBDIR", fetched.join("lib"));
        psql.env("PG_DLSUFFIX", ".so").env("PGTZ", "PST8PDT").env("PGDATESTYLE", "Postgres, MDY");
        psql.env("PGOPTIONS", "-c intervalstyle=postgres_verbose");
        // Statements that fail are what many of them are for; a lost connection is not.
        os::fed(&mut psql, text).with_context(|| format!("the script {test} did not run to its end"))?;
    }
    Ok(tests.len())
}

#[test]
#[ignore = "takes minutes"]
fn postgresql_regression_database_survives_staging() {
    let Some(fetched) = had("PostgreSQL's own regression database", fetch()) else { return };
    let host = Host::shared().unwrap();
    let server = host.postgres_server().unwrap();
    let user = os::system_user(ADMINISTRATOR).unwrap();
    os::file(&server.data_dir.join("pg_hba.conf"), "local all all trust\n", 0o600, Some(&user)).unwrap();
    server.sql("postgres", "SELECT pg_reload_conf()").unwrap();
    let case = Case::on(server.server.clone(), "regression".to_owned());
    case.pg.drop_database("regression").unwrap();
    let scripts = build(&server, &fetched, &host.dir.join("own").join("regression")).unwrap();
    assert!(scripts > 150, "{scripts} scripts");
    let staged = |generation: &[u8], run: &str| {
        let dump = case.dir.path().join(run);
        fs::write(&dump, generation).unwrap();
        let ran = case.tool().args(["stage", "--run-id", &format!("20300101t000000z-{run}")]).arg(dump).run().ok();
        case.take(&ran.changed().result()["staged"], &case.pg)
    };
    let before = case.bytes();
    let first = staged(&before, "first");
    // If a table inherits columns that it was also made with, no dump tells in which order they were: PostgreSQL's own tests
    // of pg_dump allow for that too.
    assert!(unordered(&before) == unordered(&first));
    same(&first, &staged(&first, "again"), "again");
}

/// The lines of a dump, whatever the order of the words in each and of the lines themselves.
fn unordered(dump: &[u8]) -> Vec<Vec<&[u8]>> {
    let words = |line| {
        let split = <[u8]>::split(line, |byte: &u8| b" \t,()".contains(byte));
        let mut words: Vec<&[u8]> = split.filter(|word| !word.is_empty()).collect();
        words.sort_unstable();
        words
    };
    let mut lines: Vec<Vec<&[u8]>> = dump.split(|byte| *byte == b'\n').map(words).collect();
    lines.sort_unstable();
    lines
}
