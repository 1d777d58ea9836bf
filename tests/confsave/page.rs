//! The commands that the page of `svc-confsave` shows, and what it says that they print.

use svc_tests::page::Example;

use crate::site::*;

#[test]
fn every_step_has_working_example_on_page() {
    let site = Site::new();
    let custom = SHIPPED_CONF.replace("pool_size = 12", "pool_size = 24").replace("change-me", "mine");
    os::file(&site.conf(), &custom, 0o644, None).unwrap();
    for folder in ["backups", "srv", "srv/demo"] {
        fs::create_dir(site.path(folder)).unwrap();
    }
    // What the installer of the page does to the configuration.
    site.write("shipped", SHIPPED_CONF);
    site.write("srv/svc.conf.shipped", SHIPPED_CONF);
    let installer = site.write("srv/svc-1.15.5.run", "#!/bin/sh\ncat ../shipped >\"$SVC_INSTALL_DIR/conf/svc.conf\"\n");
    os::chmod(installer, 0o755);

    let text = |name: &str| site.path(name).display().to_string();
    let env = [("SVC_INSTALL_DIR".to_owned(), text("inst dir")), ("SVC_STATE_DIR".to_owned(), text("state"))];
    for example in Example::of_tool(&svc_confsave::cli()).unwrap() {
        // The shell must take a path with a blank in it for one word.
        let command = example.command.replace("/var/backups/svc/", &format!("'{}/'", text("backups")));
        let here = Example { command, ..example };
        let here = here.with("/var/backups/svc", &text("backups")).with("/opt/svc", &text("inst dir")).with("/srv", &text("srv"));
        here.holds(&env, &site.path("srv")).unwrap();
    }
}
