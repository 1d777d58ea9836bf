use super::*;

fn extended(text: &str) -> String {
    extend(text, "/new").unwrap_or_else(|why| panic!("{why}: {text}")).text
}

#[test]
fn a_file_without_the_setting_gets_a_line_at_its_end() {
    assert_eq!(extended("# path.repo: /x\na: 1"), "# path.repo: /x\na: 1\npath.repo: [\"/new\"]\n");
    assert_eq!(extended(""), "path.repo: [\"/new\"]\n");
    assert_eq!(extended("# nothing but this\r\n"), "# nothing but this\r\npath.repo: [\"/new\"]\r\n");
    assert_eq!(extended("---\n  a: 1\n  path:\n    data: /d\n"), "---\n  a: 1\n  path:\n    data: /d\n  path.repo: [\"/new\"]\n");
}

#[test]
fn every_form_is_extended_in_its_place_and_all_else_stays_byte_for_byte() {
    for (before, after) in [
        ("a: 1\npath.repo: /old # mine\nb: 2\n", "a: 1\npath.repo: [\"/old\", \"/new\"] # mine\nb: 2\n"),
        ("path.repo: '/a b, /c'\n", "path.repo: [\"/a b\", \"/c\", \"/new\"]\n"),
        ("path.repo: [\"/a\", /b ]  # two\r\nb: 2\r\n", "path.repo: [\"/a\", /b, \"/new\" ]  # two\r\nb: 2\r\n"),
        ("path.repo: ['/é',]\t# tab\n", "path.repo: ['/é', \"/new\",]\t# tab\n"),
        ("path.repo: []\n", "path.repo: [\"/new\"]\n"),
        (
            "path.repo: [\n  \"/a\",  # one\n  \"/b\"   # two\n]\nb: 2\n",
            "path.repo: [\n  \"/a\",  # one\n  \"/b\", \"/new\"   # two\n]\nb: 2\n",
        ),
        (
            "h: [\n\"é\",\nb\n]\npath:\n  repo: [\n  /a,\n  '/b'\n  ]\n",
            "h: [\n\"é\",\nb\n]\npath:\n  repo: [\n  /a,\n  '/b', \"/new\"\n  ]\n",
        ),
        ("path.repo:\nb: 2\n", "path.repo: [\"/new\"]\nb: 2\n"),
        ("path.repo:   # to be set\n# next\nb: 2\n", "path.repo: [\"/new\"]   # to be set\n# next\nb: 2\n"),
        ("path.repo: ~\n", "path.repo: [\"/new\"]\n"),
        ("path.repo: \"\" # none\n", "path.repo: [\"/new\"] # none\n"),
        ("path.repo: ${BACKUPS}\nb: ${X:1}\n", "path.repo: [\"${BACKUPS}\", \"/new\"]\nb: ${X:1}\n"),
        (
            "path.repo:\n  - /a\n  # why\n  - \"/b\" # b\n\nb: 2\n",
            "path.repo:\n  - /a\n  # why\n  - \"/b\" # b\n  - \"/new\"\n\nb: 2\n",
        ),
        ("path.repo:\n- /a\nb: 2\n", "path.repo:\n- /a\n- \"/new\"\nb: 2\n"),
        ("path.repo:\r\n  -   /a\r\n", "path.repo:\r\n  -   /a\r\n  - \"/new\"\r\n"),
        ("path.repo:\n  - /a", "path.repo:\n  - /a\n  - \"/new\"\n"),
        ("path:\n  data: /d\n  repo: /a\nb: 2\n", "path:\n  data: /d\n  repo: [\"/a\", \"/new\"]\nb: 2\n"),
        ("path:\n  repo:\n    - /a\n  logs: /l\n", "path:\n  repo:\n    - /a\n    - \"/new\"\n  logs: /l\n"),
        ("path: {data: /d, repo: [/a]}\n", "path: {data: /d, repo: [/a, \"/new\"]}\n"),
        ("path: {data: /d, repo: /a}\n", "path: {data: /d, repo: [\"/a\", \"/new\"]}\n"),
        ("other:\n  repo: /a\n", "other:\n  repo: /a\npath.repo: [\"/new\"]\n"),
        ("other:\n  path.repo: /a\n", "other:\n  path.repo: /a\npath.repo: [\"/new\"]\n"),
        ("\"path.repo\" : /a\n", "\"path.repo\" : [\"/a\", \"/new\"]\n"),
        (
            "hosts: &h [a, b]\nseeds: *h\n# path.repo: [\"/x\"]\n",
            "hosts: &h [a, b]\nseeds: *h\n# path.repo: [\"/x\"]\npath.repo: [\"/new\"]\n",
        ),
        ("text: |\n  path.repo: /a\nb: 1\n", "text: |\n  path.repo: /a\nb: 1\npath.repo: [\"/new\"]\n"),
    ] {
        assert_eq!(extended(before), after, "{before}");
        assert_eq!(extended(after), after, "twice: {before}");
    }
}

#[test]
fn a_folder_below_one_that_is_named_needs_nothing() {
    let text = "path.repo: /var/backups\n";
    assert_eq!(extend(text, "/var/backups/backup_repo").unwrap().text, text);
    assert_ne!(extend(text, "/var/backups2").unwrap().text, text);
}

#[test]
fn what_is_not_understood_is_refused() {
    for bad in [
        "path.repo: /a\npath.repo: /b\n",
        "path.repo: /a\npath:\n  repo: /b\n",
        "path.repo: \"/a\n",
        "path.repo: |\n  /a\n",
        "path.repo: /a\n  /b\n",
        "path.repo: [/a] x\n",
        "path.repo:\n  a: b\n",
        "path.repo:\n  - [/a]\n",
        "path.repo.0: /a\n",
        "path.repo: &all [/a]\nother: *all\n",
        "all: &all [/a]\npath.repo: *all\n",
        "path.repo: !!seq [/a]\n",
        "path.repo: [/a]\n---\nb: 1\n",
        "a: 1\n...\n",
        "{a: 1}\n",
        "- a\n",
        "\ta: 1\n",
        "\tpath.repo: /a\n",
        "a: [1\n",
    ] {
        assert!(extend(bad, "/new").is_err(), "{bad}");
    }
}

#[test]
fn a_very_long_file_is_read_in_no_time() {
    let long: String = (0..50_000).map(|n| format!("# comment {n}\nnode.attr.a{n}: \"x\"\n")).collect();
    assert_eq!(extended(&long), format!("{long}path.repo: [\"/new\"]\n"));
}
