//! Compressed dumps: complete or not there, verified, and loaded as they are.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use svc_tests::content::{of_copy, postgres_dump};
use svc_tests::pg_case::Case;
use svc_tests::rounds;
use svc_tests::tool::{Ran, Tool};

const METHODS: [(&str, &str); 2] = [("zstd", "zst"), ("gzip", "gz")];

fn tool(case: &Case) -> Tool {
    Tool::new("svc-pgdump")
        .env("PGHOST", &case.pg.socket_dir)
        .env("PGPORT", case.pg.port.to_string())
        .env("SVC_STATE_DIR", case.dir.path().join("state"))
        .dir(case.dir.path())
}

fn dump(case: &Case, method: &str) -> Ran {
    tool(case).args(["--as", "postgres", "--dbname", &case.database, "--compress", method]).run().ok().changed()
}

fn verify(case: &Case, path: &Path) -> Ran {
    tool(case).arg("verify").arg(path).run()
}

/// A program's output for that input.
fn piped(program: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program[0]).args(&program[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    assert!(output.status.success(), "{program:?}: {}", output.status);
    output.stdout
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A case whose dump is of several frames, with small tables behind a large one.
fn large(name: &str) -> (Case, PathBuf) {
    let (case, plain) = Case::filled(name);
    case.sql("CREATE TABLE public.large AS SELECT n, md5(n::text) || repeat(' ', n % 50) AS t FROM generate_series(1, 60000) n");
    case.sql("CREATE INDEX large_n ON public.large (n)");
    for n in 0..20 {
        case.sql(&format!("CREATE TABLE public.small_{n} AS SELECT {n} AS a"));
    }
    (case, plain)
}

#[test]
fn a_compressed_dump_is_the_plain_one_and_is_loaded_as_it_is() {
    let (case, _) = large("pgc_same");
    let before = case.text();
    for (method, suffix) in METHODS {
        let ran = dump(&case, method);
        let result = ran.result().clone();
        let path = case.dir.path().join(format!("{}.backup.sql.{suffix}", case.database));
        let file = fs::read(&path).unwrap();
        assert_eq!((&result["compression"], &result["path"]), (&Value::from(method), &Value::from(path.display().to_string())));
        assert_eq!((&result["sha256"], &result["size_bytes"]), (&Value::from(sha256(&file)), &Value::from(file.len())));
        // What the world's own tool reads is the SQL that the document speaks of.
        let text = if method == "gzip" { piped(&["gzip", "-dc"], &file) } else { zstd(&file) };
        assert_eq!(result["text_sha256"], sha256(&text));
        assert!(text.len() > 2 * 1024 * 1024 && file.len() * 2 < text.len(), "{} of {}", file.len(), text.len());
        let document = case.keep("pgdump.json", &ran);
        let verified = tool(&case).args(["verify", "--from"]).arg(&document).run().ok();
        assert_eq!(
            (&verified.result()["as_documented"], &verified.result()["text_sha256"]),
            (&true.into(), &result["text_sha256"])
        );
        let ran = case.tool().args(["stage", "--from"]).arg(&document);
        let ran = ran.args(["--run-id", &format!("20300101t000000z-{method}")]).run().ok().changed();
        let name = ran.result()["staged"]["name"].as_str().unwrap().to_owned();
        assert_eq!(ran.result()["dump"]["compression"], method);
        let after = of_copy(&case.pg, &name, || postgres_dump(&case.pg, &name)).unwrap();
        assert!(sorted(&after) == sorted(&before), "{method} is not the same");
        case.pg.drop_database(&name).unwrap();
    }
}

/// The lines of a dump: the server puts a row now and then where there is room, and not behind the one before it.
fn sorted(dump: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = dump.lines().collect();
    lines.sort_unstable();
    lines
}

/// Refused since the file is invalid, whatever is wrong with it.
fn invalid(ran: Ran) {
    assert_eq!(ran.status, 7, "{ran}");
    ran.unchanged();
}

fn verify_text(ran: &Ran) -> &Value {
    &ran.result()["text_sha256"]
}

fn zstd(file: &[u8]) -> Vec<u8> {
    // Debian's package has the program of the format's own makers.
    piped(&["zstd", "-dc"], file)
}

#[test]
fn a_compressed_dump_that_is_cut_or_changed_is_refused_before_anything() {
    let (case, _) = large("pgc_damage");
    let rounds = rounds("a compressed dump cut and with a flipped bit", 8, 200);
    for (method, _) in METHODS {
        let dumped = dump(&case, method);
        let document = case.keep("pgdump.json", &dumped);
        let path = PathBuf::from(dumped.result()["path"].as_str().unwrap());
        let whole = fs::read(&path).unwrap();
        for round in 0..rounds {
            let at = (round * 7919 + 7) * 31 % whole.len();
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (round % 8);
            for (what, damaged) in [("cut", &whole[..at]), ("flipped", &flipped[..])] {
                fs::write(&path, damaged).unwrap();
                let ran = verify(&case, &path);
                // A bit that says nothing about the text (the time in gzip's heads, for example) is found by the file's hash alone.
                if ran.status == 0 {
                    let same = verify_text(&ran) == verify_text(&dumped);
                    assert!(what == "flipped" && same, "{method} at {at}: {ran}");
                } else {
                    ran.fails(7, "dump_invalid");
                }
                invalid(tool(&case).args(["verify", "--from"]).arg(&document).run());
                if round % 4 == 0 {
                    invalid(case.tool().args(["stage", "--from"]).arg(&document).run());
                }
            }
        }
        // Whole frames that are missing, and something behind the last one.
        let more = [&whole[..], b"more"].concat();
        fs::write(&path, more).unwrap();
        verify(&case, &path).fails(7, "dump_invalid");
        fs::write(&path, &whole).unwrap();
        verify(&case, &path).ok();
    }
    assert_eq!(case.copies(), "");
}

#[test]
fn what_others_compress_in_one_piece_is_loaded_after_the_command_of_the_hint() {
    let (case, _) = large("pgc_foreign");
    // More than a frame that would be worth reading from within.
    case.sql("INSERT INTO public.large SELECT n, repeat(md5(n::text), 8) FROM generate_series(1, 40000) n");
    let plain = case.dump();
    let text = fs::read(&plain).unwrap();
    let before = case.text();
    for (suffix, program) in [("zst", &["zstd", "-c"][..]), ("gz", &["gzip", "-c"])] {
        let path = case.dir.path().join(format!("foreign.sql.{suffix}"));
        fs::write(&path, piped(program, &text)).unwrap();
        let verified = verify(&case, &path).ok();
        assert_eq!(verified.result()["text_sha256"], sha256(&text));
        let stage = |path: &Path| {
            case.tool().arg("stage").arg(path).args(["--run-id", &format!("20300101t000000z-foreign-{suffix}")]).run()
        };
        let refused = stage(&path).refused("file_invalid");
        let (_, command) = refused.doc()["error"]["hint"].as_str().unwrap().split_once(": ").unwrap();
        piped(&["sh", "-c", command], b"");
        let ran = stage(&path.with_extension("")).ok();
        fs::remove_file(path.with_extension("")).unwrap();
        let name = ran.result()["staged"]["name"].as_str().unwrap();
        let after = of_copy(&case.pg, name, || postgres_dump(&case.pg, name)).unwrap();
        assert!(sorted(&after) == sorted(&before));
    }
    let path = case.dir.path().join("dump.sql.xz");
    fs::write(&path, b"\xfd7zXZ\0\0").unwrap();
    let ran = verify(&case, &path).fails(7, "dump_invalid");
    assert!(ran.doc()["error"]["message"].as_str().unwrap().contains("does not start"), "{ran}");
}

#[test]
fn a_compressed_dump_that_fails_leaves_nothing() {
    let (case, _) = large("pgc_fails");
    case.sql("CREATE VIEW public.broken AS SELECT 1/(n - n) FROM public.large; CREATE MATERIALIZED VIEW public.m AS SELECT 1");
    let existing = dump(&case, "zstd");
    let path = PathBuf::from(existing.result()["path"].as_str().unwrap());
    let whole = fs::read(&path).unwrap();
    // pg_dump waits for a lock that it does not get.
    let mut blocker = case.session(&case.database, "BEGIN; LOCK TABLE public.large; SELECT pg_sleep(600)");
    case.wait_for("the lock", "wait_event = 'PgSleep'");
    let args = ["--as", "postgres", "--dbname", &case.database, "--compress", "zstd", "--force", "--lock-wait-timeout", "200ms"];
    tool(&case).args(args).run().fails(5, "postgres_busy").unchanged();
    let _ = blocker.kill();
    let _ = blocker.wait();
    assert!(fs::read(&path).unwrap() == whole);
    assert!(!path.with_extension("zst.partial").exists());
}
