//! Files that are invalid, too large or too deep, and calls that are interrupted.

use nix::sys::signal::Signal;
use svc_tests::disk::SmallDisk;

use crate::site::*;

#[test]
fn invalid_yaml_is_reported_by_line_without_its_content() {
    let site = Site::new();
    let valid = site.write("valid.yaml", SHIPPED);
    let deep: String = (0..5000).map(|depth| format!("{}k:\n", " ".repeat(depth))).collect();
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("a: 1\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    // Each list is ten times the one before.
    let lists = (1..9).map(|level| format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(10)));
    let bomb: String = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned()].into_iter().chain(lists).collect();
    let cases: [(Vec<u8>, &str); 14] = [
        (deep.into_bytes(), "line 101"),
        (format!("a: {}", "[".repeat(100_000)).into_bytes(), "line 1"),
        (format!("a: {}x{}", "{b: ".repeat(5000), "}".repeat(5000)).into_bytes(), "line 1"),
        (bomb.into_bytes(), "line "),
        (utf16, "UTF-8"),
        (b"a: hunter2 \xff\n".into(), "UTF-8"),
        (b"a: hunter2 \x00\n".into(), "UTF-8"),
        (b"a: 1\nsecret: hunter2: x\n".into(), "line 2"),
        (b"hunter2: 1\n\"hunter2\": 2\n".into(), "line 2"),
        (b"a:\n\thunter2: 1\n".into(), "line 2"),
        (b"a: [hunter2, \n".into(), "line 2"),
        (b"a: hunter2\n---\nb: 1\n".into(), "line 2"),
        (b"? [hunter2, b]\n: c\n".into(), "line 1"),
        (b"a: *hunter2\n".into(), "line 1"),
    ];
    for (bytes, says) in cases.iter().chain([&(vec![b' '; 64 * 1024 * 1024 + 1], "larger than")]) {
        let invalid = site.write("invalid.yaml", bytes);
        for (saved, new) in [(&invalid, SHIPPED.as_bytes()), (&valid, bytes)] {
            fs::write(site.yaml(), new).unwrap();
            for call in [site.tool("diff"), site.tool("carry").arg("--all")] {
                call.arg(saved).run().fails(7, "file_invalid").unchanged().error_has(&[says]).without(&["hunter2"]);
            }
            assert_eq!(fs::read(site.yaml()).unwrap(), new);
        }
    }
}

#[test]
fn carry_on_full_disk_changes_nothing() {
    let site = Site::new();
    let _disk = SmallDisk::at(site.yaml().parent().unwrap(), 1).unwrap();
    fs::write(site.yaml(), "a: 1\nbig: x\n").unwrap();
    assert!(fs::write(site.yaml().with_file_name("filler"), vec![0; 2 << 20]).is_err());
    let saved = site.write("saved.yaml", format!("a: 2\nbig: {}\n", "y".repeat(50_000)));
    let files = site.files();
    site.tool("carry").arg(saved).arg("--all").run().fails(1, "out_of_space").unchanged();
    assert_eq!(site.files(), files);
}

#[test]
fn another_run_at_the_same_file_is_locked_out() {
    let site = Site::new();
    let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    // A dry run touches nothing, so it makes no lock.
    call.clone().arg("--dry-run").run().ok();
    assert!(!site.path("state").exists());
    call.clone().run().ok().changed();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let lock = fs::read_dir(site.path("state/locks")).unwrap().next().unwrap().unwrap().path();
    let held = fs::File::open(lock).unwrap();
    held.lock().unwrap();
    call.clone().run().fails(8, "locked").unchanged();
    held.unlock().unwrap();
    call.run().ok().changed();
}

#[test]
fn signal_while_carry_reads_changes_nothing() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let fifo = site.path("fifo");
    os::run(Command::new("mkfifo").arg(&fifo)).unwrap();
    let call = site.tool("carry").args(["--all", "--from"]).arg(&fifo).spawn();
    // Opening the pipe for writing returns when the tool has opened it, which it does long after it began to catch.
    let pipe = fs::OpenOptions::new().write(true).open(fifo).unwrap();
    call.ended_by(Signal::SIGTERM).fails(143, "interrupted").unchanged();
    drop(pipe);
    assert_eq!(text(site.yaml()), SHIPPED);
    assert_eq!(fs::read_dir(site.yaml().parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn file_of_1_mb_is_saved_compared_and_carried() {
    const GROUPS: usize = 8000;
    let group = |n: usize| {
        format!("g{n}:  # group {n}\n  url: http://u:s3cret-{n}@host{n}.example.org:9200/path\n  list: [a, b, c]\n  value: 1\n")
            + "  text: |\n    one\n    two\n"
    };
    let shipped: String = (0..GROUPS).map(group).collect();
    assert!(shipped.len() > GROUPS * 125);
    let mine = shipped.replacen("value: 1\n", "value: 2\n", 1000);
    let site = Site::new();
    let ran = site.carry("yaml", &mine, Some(&shipped), &shipped).run().ok().changed().without(&["s3cret"]);
    assert_eq!(ran.result()["keys"].as_array().unwrap().len(), 1000);
    assert_eq!(text(site.yaml()), mine);
    site.tool("save").arg("--to").arg(site.path("copy")).run().ok().changed();
    assert_eq!(text(site.path("copy")), mine);
    fs::write(site.yaml(), &shipped).unwrap();
    let ran = site.tool("diff").arg(site.path("saved.yaml")).run().ok();
    assert_eq!(ran.result()["changed"].as_array().unwrap().len(), 1000);
}
