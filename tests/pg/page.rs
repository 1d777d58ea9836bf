//! The commands that the pages of `svc-pgdump` and `svc-pgrestore` show, run as they stand there.

use svc_tests::pg_case::prelude::*;

const PAGES: [&str; 2] = ["svc-pgdump/README.md", "svc-pgrestore/README.md"];
/// What stands in the pages, and is otherwise each time.
const VOLATILE: [&str; 4] = ["20261121t105310z-hand", "68380", "line 82", "byte 1704"];

#[test]
fn every_command_of_both_pages_works_in_the_order_of_the_page() {
    let (case, _) = Case::filled("pgp_page");
    let folder = case.path("backups");
    fs::create_dir(&folder).unwrap();
    let env = texts(&[
        ("PATH", search_path([case.pg.bin_dir.clone()]).into_string().unwrap()),
        ("PGHOST", case.pg.socket_dir.display().to_string()),
        ("PGPORT", case.pg.port.to_string()),
        ("PGPASSWORD", PASSWORD.to_owned()),
        ("SVC_DATABASE", case.database.clone()),
        ("SVC_DB_USER", case.owner.clone()),
        ("SVC_STATE_DIR", case.path("state").display().to_string()),
    ]);
    let (database, backups) = (case.database.as_str(), folder.to_str().unwrap());
    for (page, recipe, dir) in [(PAGES[0], "dump", case.dir.path()), (PAGES[1], "restore", &folder)] {
        let commands = page::recipe(page, recipe).unwrap().replace("/var/backups/svc", backups).replace("svc_db", database);
        page::bash(&commands, &env, dir).unwrap_or_else(|error| panic!("{page}: {error:#}"));
    }
    assert_eq!((case.copies(), case.notes().as_str()), (String::new(), "200"));

    let dump = fs::read_to_string(folder.join(format!("{database}.backup.sql"))).unwrap();
    let rows = dump.find("COPY public.items").unwrap() + 200;
    fs::write(folder.join("cut.sql"), &dump[..rows]).unwrap();
    for (page, shown, status) in [(PAGES[0], 1, 7), (PAGES[1], 2, 0)] {
        let mut examples = Example::all(page).unwrap();
        // The comments of the blocks above have the prompt of root.
        examples.retain(|one| ["svc-", "jq "].iter().any(|start| one.command.starts_with(start)));
        assert_eq!(examples.len(), shown, "{examples:?}");
        for example in examples {
            let mut here = example.with("/var/backups/svc", backups).with("svc_db", database);
            VOLATILE.iter().for_each(|volatile| here.shown = here.shown.replace(volatile, "…"));
            assert_eq!(here.holds(&env, &folder).unwrap().code(), Some(status), "{here:?}");
        }
    }
}
