//! Installers: the version in their name, and the checksum file beside them.

use nix::sys::signal::Signal;

use crate::place::*;

#[test]
fn installer_version_is_read_from_its_name() {
    let place = Place::new();
    let installer = place.installer("svc-2.0.1.run");
    // A path is made absolute.
    let ran = place.tool("installer").arg("svc-2.0.1.run").dir(place.0.path()).run().ok().unchanged();
    let sum = sha256_line(&installer);
    let wanted = json!({"path": installer, "version": "2.0.1", "size_bytes": 10, "sha256": sum.split(' ').next(),
        "checksum_verified": false, "executable": true});
    assert_eq!(ran.result(), &wanted);

    for name in
        ["svc-2.0.run", "svc-2.0.1.sh", "svc-2.0.1-rc1.run", "svc_2.0.1.run", "2.0.1.run", "other-2.0.1.run", "svc-v2.0.1.run"]
    {
        place.tool("installer").arg(place.installer(name)).run().refused("file_invalid").error_has(&["svc-X.Y.Z.run"]);
    }
    place.tool("installer").arg(place.path("other-2.0.1.run")).env("SVC_NAME", "other").run().ok();
    place.tool("installer").arg(place.path("svc-9.9.9.run")).run().fails(4, "file_not_found");
}

#[test]
fn empty_or_unexecutable_installer_is_invalid() {
    let place = Place::new();
    place.tool("installer").arg(place.file("svc-1.0.0.run", "")).run().fails(7, "file_invalid");
    fs::create_dir(place.path("svc-1.0.1.run")).unwrap();
    place.tool("installer").arg(place.path("svc-1.0.1.run")).run().fails(7, "file_invalid");
    fs::create_dir(place.path("a'b")).unwrap();
    let plain = place.file("a'b/svc-1.0.2.run", "#!/bin/sh\n");
    let ran = place.tool("installer").arg(&plain).run().refused("file_invalid").has(&json!({"executable": false}));
    assert!(ran.hint().ends_with(&format!("chmod +x \"{}\"", plain.display())), "{ran}");
    // What the system would not begin.
    let installer = place.installer("svc-2.0.1.run");
    for (content, taken) in [
        ("#!/no/such\n", false),
        ("#!/bin/sh\r\n", false),
        ("exit 0\n", false),
        ("#! /bin/sh -e\nexit 0\n", true),
        ("\x7fELF\0", true),
    ] {
        fs::write(&installer, content).unwrap();
        let ran = place.tool("installer").arg(&installer).run();
        let ran = if taken { ran.ok() } else { ran.refused("file_invalid") };
        assert_eq!(ran.result()["executable"], taken, "{content}: {ran}");
    }
}

#[test]
fn installer_that_everybody_can_write_to_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path("shared")).unwrap();
    let installer = place.installer("shared/svc-2.0.1.run");
    let read = |mode: u32, folder: u32| {
        os::chmod(&installer, mode);
        os::chmod(place.path("shared"), folder);
        place.tool("installer").arg(&installer).run()
    };
    read(0o775, 0o1777).ok();
    // Somebody else may have put it there.
    chown(&installer, Some(65534), None).unwrap();
    read(0o755, 0o1777).refused("permission_denied").error_has(&["belongs to the user number 65534"]);
    read(0o755, 0o755).ok();
    chown(&installer, Some(0), None).unwrap();
    let chmod = format!("chmod o-w {}", installer.display());
    assert!(read(0o777, 0o755).refused("permission_denied").hint().ends_with(&chmod));
    read(0o755, 0o777).refused("permission_denied");
    // What a link leads to counts too.
    symlink(&installer, place.path("svc-2.0.1.run")).unwrap();
    place.tool("installer").arg("svc-2.0.1.run").dir(place.0.path()).run().refused("permission_denied");
}

#[test]
fn installer_is_checked_against_adjacent_sha256_file() {
    let place = Place::new();
    let installer = place.installer("svc-2.0.1.run");
    let beside = place.file("svc-2.0.1.run.sha256", sha256_line(&installer));
    let check = || place.tool("installer").arg(&installer).run();
    assert_eq!(check().ok().result()["checksum_verified"], true);
    fs::write(&installer, "#!/bin/sh\nflipped\n").unwrap();
    let ran = check().fails(7, "file_invalid").unchanged();
    assert!(ran.doc()["error"]["causes"][0].as_str().unwrap().contains(beside.to_str().unwrap()), "{ran}");
    for text in ["", "<html>404</html>"] {
        fs::write(&beside, text).unwrap();
        check().fails(7, "file_invalid");
    }
}

#[test]
fn signal_or_timeout_ends_reading_of_huge_installer() {
    let place = Place::new();
    // Sparse: it takes no disk space, and minutes to read.
    let huge = place.installer("svc-2.0.1.run");
    File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    // The tool has caught its signals as soon as it reads.
    let reads = |fd: PathBuf| {
        fs::read_dir(fd).into_iter().flatten().flatten().any(|one| fs::read_link(one.path()).is_ok_and(|to| to == huge))
    };
    let spawned = place.tool("installer").arg(&huge).args(["--progress", "json"]).spawn();
    let ran = spawned.interrupted("the installer to be opened", (Signal::SIGTERM, false), |tool| {
        reads(format!("/proc/{}/fd", tool.pid()).into())
    });
    ran.fails(143, "interrupted").unchanged();
    place.tool("installer").arg(&huge).args(["--timeout", "200ms"]).run().fails(6, "timeout").unchanged();
}
