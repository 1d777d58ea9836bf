//! What others may have planted in a folder that anybody can write.

use std::os::unix::net::UnixListener;

use crate::site::*;

/// A site with a configuration, and the place of its copy in a folder that anybody can write.
fn site() -> (Site, PathBuf) {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let copy = site.shared().join("svc.yaml");
    (site, copy)
}

fn save(site: &Site, copy: &Path) -> Tool {
    site.tool("save").arg("--to").arg(copy)
}

fn give_to_stranger(path: &Path) {
    let stranger = os::system_user("svc-confsave-a").unwrap();
    chown(path, Some(stranger.uid.as_raw()), Some(stranger.gid.as_raw())).unwrap();
}

#[test]
fn symlink_in_place_of_copy_is_refused() {
    let (site, copy) = site();
    let victim = site.write("victim", "precious");
    let folder = site.path("a folder");
    fs::create_dir(&folder).unwrap();
    // A link to a folder is no folder: the copy would go where its owner likes.
    for target in [&victim, &folder, Path::new("/nonexistent/target")] {
        symlink(target, &copy).unwrap();
        save(&site, &copy).run().refused("file_invalid");
        save(&site, &copy).arg("--force").run().refused("file_invalid");
        fs::remove_file(&copy).unwrap();
    }
    assert_eq!((text(&victim).as_str(), fs::read_dir(&folder).unwrap().count()), ("precious", 0));
    // A link where the unfinished file would be is not followed either.
    symlink(&victim, copy.with_extension("yaml.partial")).unwrap();
    save(&site, &copy).run().ok();
    assert_eq!((text(&victim).as_str(), text(&copy).as_str()), ("precious", SHIPPED));
}

#[test]
fn copy_owned_by_another_user_is_refused() {
    let (site, copy) = site();
    for content in ["planted: yes\n", SHIPPED] {
        fs::write(&copy, content).unwrap();
        give_to_stranger(&copy);
        save(&site, &copy).arg("--force").run().refused("name_in_use");
        assert_eq!(text(&copy), content);
        // Its values would come into the configuration.
        for step in ["diff", "carry"] {
            site.tool(step).arg(&copy).run().refused("name_in_use");
        }
    }
}

#[test]
fn fifo_or_socket_in_place_of_copy_is_refused() {
    let make: [fn(&Path); 2] =
        [|copy| drop(os::run(Command::new("mkfifo").arg(copy)).unwrap()), |copy| drop(UnixListener::bind(copy).unwrap())];
    for make in make {
        let (site, copy) = site();
        make(&copy);
        for call in [save(&site, &copy), site.tool("diff").arg(&copy), site.tool("carry").arg(&copy)] {
            call.args(["--timeout", "20s"]).run().refused("file_invalid").unchanged();
        }
    }
}

#[test]
fn hard_linked_copy_is_not_written_through() {
    let (site, copy) = site();
    let victim = site.write("victim", "a: precious\n");
    fs::hard_link(&victim, &copy).unwrap();
    save(&site, &copy).run().refused("name_in_use");
    // The name is given to the copy; the file keeps what it holds under its other names.
    save(&site, &copy).arg("--force").run().ok().changed();
    assert_eq!((text(&victim).as_str(), text(&copy).as_str()), ("a: precious\n", SHIPPED));
    fs::remove_file(&copy).unwrap();
    give_to_stranger(&victim);
    fs::hard_link(&victim, &copy).unwrap();
    save(&site, &copy).arg("--force").run().refused("name_in_use");
    site.tool("carry").arg(&copy).arg("--all").run().refused("name_in_use");
    assert_eq!(text(&victim), "a: precious\n");
}

#[test]
fn base_owned_by_another_user_or_symlink_is_refused() {
    let (site, base) = site();
    let saved = site.write("saved.yaml", SHIPPED.replace("16", "32"));
    let carry = || site.tool("carry").arg(&saved).arg("--base").arg(&base);
    symlink(&saved, &base).unwrap();
    carry().run().refused("file_invalid").unchanged();
    fs::remove_file(&base).unwrap();
    fs::write(&base, SHIPPED).unwrap();
    give_to_stranger(&base);
    carry().run().refused("name_in_use").unchanged();
    assert_eq!(text(site.yaml()), SHIPPED);
}
