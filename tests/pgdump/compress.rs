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

/// The methods, and the programs of the formats' own makers.
const METHODS: [(&str, &str); 2] = [("zstd", "zst"), ("gzip", "gz")];

fn dump(case: &Case, method: &str) -> Ran {
    case.dumper().args(["--as", "postgres", "--compress", method]).run().ok().changed()
}

fn verify(path: &Path) -> Ran {
    Tool::new("svc-pgdump").arg("verify").arg(path).run()
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

/// A case whose dump is of several frames, with a small table behind a large one.
fn large(name: &str) -> Case {
    let (case, _) = Case::filled(name);
    case.sql("CREATE TABLE public.large AS SELECT n, md5(n::text) || repeat(' ', n % 50) AS t FROM generate_series(1, 60000) n");
    case.sql("CREATE INDEX large_n ON public.large (n); CREATE TABLE public.small AS SELECT 1 AS a");
    case
}

/// Stages a dump, and gives the lines of the copy, sorted: the server puts a row now and then where there is space, and not behind
/// the one before it.
fn staged(case: &Case, tool: Tool) -> Vec<String> {
    let ran = tool.run().ok().changed();
    let name = ran.result()["staged"]["name"].as_str().unwrap();
    let after = of_copy(&case.pg, name, || postgres_dump(&case.pg, name)).unwrap();
    case.pg.drop_database(name).unwrap();
    sorted(&after)
}

fn sorted(dump: &str) -> Vec<String> {
    let mut lines: Vec<String> = dump.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn compressed_dump_is_staged_without_unpacking() {
    let case = large("pgc_same");
    let before = sorted(&case.text());
    for (method, suffix) in METHODS {
        let ran = dump(&case, method);
        let result = ran.result();
        let path = case.path(&format!("{}.backup.sql.{suffix}", case.database));
        let file = fs::read(&path).unwrap();
        let text = piped(&[method, "-dc"], &file);
        assert!(text.len() > 2 * 1024 * 1024 && file.len() * 2 < text.len(), "{} of {}", file.len(), text.len());
        for (key, wanted) in [
            ("compression", Value::from(method)),
            ("path", path.display().to_string().into()),
            ("sha256", sha256(&file).into()),
            ("size_bytes", file.len().into()),
            ("text_sha256", sha256(&text).into()),
        ] {
            assert_eq!(result[key], wanted, "{method}: {key}");
        }
        let document = case.keep("pgdump.json", &ran);
        let verified = case.dumper().args(["verify", "--from"]).arg(&document).run().ok();
        assert_eq!(verified.result()["as_documented"], true);
        let stage = case.tool().args(["stage", "--run-id", &format!("20300101t000000z-{method}"), "--from"]).arg(&document);
        assert!(staged(&case, stage) == before, "{method} is not the same");
    }
}

#[test]
fn damaged_compressed_dump_is_refused_before_load() {
    let case = large("pgc_damage");
    let rounds = rounds("a compressed dump cut and with a flipped bit", 4, 200);
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
                let ran = verify(&path);
                // A bit that says nothing about the text (the time in gzip's heads, for example) is found by the file's hash alone.
                if ran.status == 0 {
                    let same = ran.result()["text_sha256"] == dumped.result()["text_sha256"];
                    assert!(what == "flipped" && same, "{method} at {at}: {ran}");
                } else {
                    ran.fails(7, "dump_invalid");
                }
                let steps = [case.dumper().arg("verify"), case.tool().arg("stage")];
                for step in steps.into_iter().take(if round % 4 == 0 { 2 } else { 1 }) {
                    let ran = step.arg("--from").arg(&document).run().unchanged();
                    assert_eq!(ran.status, 7, "{method}, {what} at {at}: {ran}");
                }
            }
        }
        fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
        verify(&path).fails(7, "dump_invalid");
        fs::write(&path, &whole).unwrap();
        verify(&path).ok();
    }
    assert_eq!(case.copies(), "");
}

#[test]
fn dump_compressed_in_one_piece_is_unpacked_by_hint() {
    let case = large("pgc_foreign");
    // More than a frame that would be worth reading from within.
    case.sql("INSERT INTO public.large SELECT n, repeat(md5(n::text), 8) FROM generate_series(1, 40000) n");
    let text = fs::read(case.dump()).unwrap();
    let before = sorted(&case.text());
    for (method, suffix) in METHODS {
        let path = case.write(&format!("foreign.sql.{suffix}"), piped(&[method, "-c"], &text));
        assert_eq!(verify(&path).ok().result()["text_sha256"], sha256(&text));
        let stage = |path: &Path| case.tool().args(["stage", "--run-id", &format!("20300101t000000z-{suffix}")]).arg(path);
        let refused = stage(&path).run().refused("file_invalid");
        let (_, command) = refused.hint().split_once(": ").unwrap();
        piped(&["sh", "-c", command], b"");
        assert!(staged(&case, stage(&path.with_extension(""))) == before, "{method}");
        fs::remove_file(path.with_extension("")).unwrap();
    }
}
