//! Compressed dumps: complete or not there, verified, and loaded as they are.

use svc_tests::pg_case::prelude::*;

/// The methods, and the programs of the formats' own makers.
const METHODS: [(&str, &str); 2] = [("zstd", "zst"), ("gzip", "gz")];

fn dump(case: &Case, method: &str) -> Ran {
    case.dumper().args(["--as", "postgres", "--compress", method]).run().ok().changed()
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

/// The lines of a dump, sorted: the server puts a row now and then where there is space, and not behind the one before it.
fn sorted(dump: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<_> = dump.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// Stages a dump, and asserts that it is all there.
#[track_caller]
fn comes_back(case: &Case, stage: Tool) {
    let ran = stage.run().ok().changed();
    assert!(sorted(&case.take(&ran.result()["staged"], &case.pg)) == sorted(&case.bytes()), "it is not the same: {ran}");
}

#[test]
fn compressed_dump_is_staged_without_unpacking() {
    let case = large("pgc_same");
    for (method, suffix) in METHODS {
        let ran = dump(&case, method);
        let path = case.path(&format!("{}.backup.sql.{suffix}", case.database));
        let file = fs::read(&path).unwrap();
        let text = os::run(Command::new(method).arg("-dc").arg(&path)).unwrap();
        assert!(text.len() > 2 * 1024 * 1024 && file.len() * 2 < text.len(), "{} of {}", file.len(), text.len());
        let ran = ran.has(&json!({"compression": method, "path": path, "sha256": sha256(&file), "size_bytes": file.len(),
            "text_sha256": sha256(text.as_bytes())}));
        let document = case.keep("pgdump.json", &ran);
        case.dumper().args(["verify", "--from"]).arg(&document).run().ok().has(&json!({"as_documented": true}));
        comes_back(&case, case.tool().args(["stage", "--from"]).arg(&document));
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
    let dump = case.dump();
    let whole = sha256(&fs::read(&dump).unwrap());
    for (method, suffix) in METHODS {
        os::run(Command::new(method).args(["-q", "-k"]).arg(&dump)).unwrap();
        // Neither program takes a file without its suffix by itself.
        let path = case.path("it's packed");
        fs::rename(format!("{}.{suffix}", dump.display()), &path).unwrap();
        assert_eq!(verify(&path).ok().result()["text_sha256"], whole.as_str());
        let stage = |path: &Path| case.tool().arg("stage").arg(path);
        let refused = stage(&path).run().refused("file_invalid");
        let (_, command) = refused.hint().split_once(": ").unwrap();
        let unpack = || os::run(Command::new("sh").args(["-c", command]));
        let plain = case.write("it's packed.plain.sql", "another dump");
        assert!(unpack().is_err() && fs::read_to_string(&plain).unwrap() == "another dump");
        fs::remove_file(&plain).unwrap();
        unpack().unwrap();
        comes_back(&case, stage(&plain));
        fs::remove_file(&plain).unwrap();
    }
}
