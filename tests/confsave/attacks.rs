//! What others may have planted in a folder that anybody can write.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::PathBuf;
use std::process::Command;

use svc_tests::os;

use crate::site::{Product, SHIPPED, Site, text};

#[test]
fn a_planted_link_a_foreign_file_and_a_folder_in_the_copys_place_are_refused() {
    let (site, product) = (Site::new(), Product::new("planted"));
    let stranger = os::system_user("svc-confsave-a").unwrap();
    product.install(&site, SHIPPED);
    let copy = product.saved("yaml");
    let save = || product.tool(&site, "save");

    let victim = site.write("victim", "precious");
    symlink(&victim, &copy).unwrap();
    save().run().refused("file_invalid");
    save().arg("--force").run().refused("file_invalid");
    assert_eq!(text(&victim), "precious");
    fs::remove_file(&copy).unwrap();
    symlink("/nonexistent/target", &copy).unwrap();
    save().run().refused("file_invalid");
    fs::remove_file(&copy).unwrap();

    for content in ["planted: yes\n", SHIPPED] {
        fs::write(&copy, content).unwrap();
        chown(&copy, Some(stranger.uid.as_raw()), Some(stranger.gid.as_raw())).unwrap();
        save().arg("--force").run().refused("file_exists");
        assert_eq!(text(&copy), content);
        // Nor is it read: its values would come into the configuration.
        for step in ["diff", "carry"] {
            product.tool(&site, step).run().refused("file_exists");
        }
    }
    fs::remove_file(&copy).unwrap();

    // A link to a folder is no folder: the copy would go where its owner likes.
    let folder = site.path("a folder");
    fs::create_dir(&folder).unwrap();
    symlink(&folder, &copy).unwrap();
    save().run().refused("file_invalid").unchanged();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_file(&copy).unwrap();
    // A link where the unfinished file would be is not followed either.
    symlink(&victim, PathBuf::from(format!("{}.partial", copy.display()))).unwrap();
    save().run().ok();
    assert_eq!(text(&victim), "precious");
    assert_eq!(text(&copy), SHIPPED);
}

#[test]
fn a_pipe_in_the_copys_place_holds_nobody_up() {
    let (site, product) = (Site::new(), Product::new("pipe"));
    product.install(&site, SHIPPED);
    os::run(Command::new("mkfifo").arg(product.saved("yaml"))).unwrap();
    for step in ["save", "diff", "carry"] {
        let tool = product.tool(&site, step).args(["--timeout", "20s"]);
        tool.run().refused("file_invalid").unchanged();
    }
}

#[test]
fn a_second_name_of_a_foreign_file_is_neither_written_through_nor_read() {
    let (site, product) = (Site::new(), Product::new("hardlink"));
    let stranger = os::system_user("svc-confsave-a").unwrap();
    product.install(&site, SHIPPED);
    let victim = site.write("victim", "a: precious\n");
    fs::hard_link(&victim, product.saved("yaml")).unwrap();
    let save = || product.tool(&site, "save");
    save().run().refused("file_exists");
    // The name is given to the copy; the file keeps what it holds under its other names.
    save().arg("--force").run().ok().changed();
    assert_eq!((text(&victim), text(product.saved("yaml"))), ("a: precious\n".to_owned(), SHIPPED.to_owned()));
    fs::remove_file(product.saved("yaml")).unwrap();
    chown(&victim, Some(stranger.uid.as_raw()), None).unwrap();
    fs::hard_link(&victim, product.saved("yaml")).unwrap();
    save().arg("--force").run().refused("file_exists");
    product.tool(&site, "carry").arg("--all").run().refused("file_exists");
    assert_eq!(text(&victim), "a: precious\n");
}

#[test]
fn a_base_that_somebody_else_put_where_anybody_can_is_not_read() {
    let (site, product) = (Site::new(), Product::new("base"));
    let stranger = os::system_user("svc-confsave-a").unwrap();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let saved = site.write("saved.yaml", SHIPPED.replace("16", "32"));
    let base = product.saved("yaml");
    let carry = || site.tool("carry").arg(&saved).arg("--base").arg(&base);
    symlink(&saved, &base).unwrap();
    carry().run().refused("file_invalid").unchanged();
    fs::remove_file(&base).unwrap();
    fs::write(&base, SHIPPED).unwrap();
    chown(&base, Some(stranger.uid.as_raw()), None).unwrap();
    carry().run().refused("file_exists").unchanged();
    assert_eq!(text(site.yaml()), SHIPPED);
}
