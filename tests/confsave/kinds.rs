//! Every kind of YAML: what is carried, and that the new file keeps how it is written.

use crate::site::{Site, assert_outcomes, assert_text, text};

/// One kind: what was shipped, what the operator made of it, the next release, and what comes of it.
fn carried(kind: &str, shipped: &str, mine: &str, new: &str, wanted: &str, outcomes: &[(&str, &str)]) {
    let site = Site::new();
    let ran = site.carry("yaml", mine, Some(shipped), new).run();
    assert_text(&text(site.yaml()), wanted, kind);
    assert_outcomes(&ran, outcomes);
}

#[test]
fn comments_order_and_quoting_stay_and_a_value_comes_as_the_operator_wrote_it() {
    carried(
        "quoting",
        "a: 'one'\nb: \"two\"\nc: three\n",
        "a: \"o\\tne\"\nb: 'it''s'\nc: \"no\"\n",
        "# head\nc: three # c\n\n# above b\nb:   \"two\"   # b\na: 'one'\n# tail\n",
        "# head\nc: \"no\" # c\n\n# above b\nb:   'it''s'   # b\na: \"o\\tne\"\n# tail\n",
        &[("a", "carried"), ("b", "carried"), ("c", "carried")],
    );
}

#[test]
fn block_scalars_and_values_of_one_line_take_each_others_place() {
    let folded = "motd: >-\n  Welcome,\n  all\nrules: |\n  one\n\n   two\nlast: 1\n";
    carried(
        "to a block",
        "motd: hi\nrules: none\nlast: 1\n",
        folded,
        "rules: none # r\nmotd: hi\nlast: 1\n",
        "rules: | # r\n  one\n\n   two\nmotd: >-\n  Welcome,\n  all\nlast: 1\n",
        &[("motd", "carried"), ("rules", "carried")],
    );
    carried(
        "from a block",
        folded,
        "motd: hi\nrules: none\nlast: 1\n",
        folded,
        "motd: hi\nrules: none\nlast: 1\n",
        &[("motd", "carried"), ("rules", "carried")],
    );
}

#[test]
fn groups_in_braces_take_values_of_any_form() {
    carried(
        "a flow map",
        "log: {level: info, keep: 30}\n",
        "log:\n  level: debug\n  keep: 30\n  paths:\n    - /var/log # here\n    - 'a, b'\n  note: |\n    one\n    two\n",
        "log: {level: info, keep: 30, rotate: daily} # short\n",
        "log: {level: debug, keep: 30, rotate: daily, paths: [\"/var/log\", \"a, b\"], note: \"one\\ntwo\\n\"} # short\n",
        &[("log.level", "carried"), ("log.paths", "carried"), ("log.note", "carried")],
    );
}

#[test]
fn keys_with_dots_and_quoted_ones_are_told_from_nested_ones() {
    carried(
        "dots",
        "a.b: 1\na:\n  b: 1\n'c d': 1\n",
        "a.b: 2\na:\n  b: 3\n'c d': 4\n",
        "a:\n  b: 1\n\"c d\": 1\n\"a.b\": 1\n",
        "a:\n  b: 3\n\"c d\": 4\n\"a.b\": 2\n",
        &[("\"a.b\"", "carried"), ("a.b", "carried"), ("\"c d\"", "carried")],
    );
}

#[test]
fn empty_values_are_values() {
    carried(
        "empty",
        "a:\nb: {}\nc: []\nd: ''\ne: x\n",
        "a: 1\nb: {x: 1}\nc: [1]\nd: ~\ne:\n",
        "a:  # none yet\nb: {}\nc: []\nd: ''\ne: x\n",
        "a: 1  # none yet\nb: {x: 1}\nc: [1]\nd: ~\ne:\n",
        &[("a", "carried"), ("b.x", "carried"), ("c", "carried"), ("d", "carried"), ("e", "carried"), ("b", "carried")],
    );
}

#[test]
fn lists_of_maps_are_carried_as_a_whole() {
    let mine = "jobs:\n  - name: a\n    every: 1h\n    env:\n      K: v\n  # mine\n  - {name: b, every: 2h}\nx: 1\n";
    carried(
        "a list of maps",
        "jobs:\n  - name: a\n    every: 2h\nx: 1\n",
        mine,
        "# c\njobs:\n- every: 2h\n  name: a\nx: 2\n",
        "# c\njobs:\n  - name: a\n    every: 1h\n    env:\n      K: v\n  # mine\n  - {name: b, every: 2h}\nx: 2\n",
        &[("jobs", "carried")],
    );
}

#[test]
fn an_anchor_is_changed_once_and_what_refers_to_it_follows() {
    let shipped = "base: &base\n  host: a\n  pool: 5\nprod:\n  <<: *base\n  name: p\nport: &port 80\nalso: *port\n";
    let mine = shipped.replace("pool: 5", "pool: 50").replace("&port 80", "&port 8080");
    let new = shipped.replace("host: a\n", "host: a # local\n  timeout: 9\n");
    let wanted = new.replace("pool: 5", "pool: 50").replace("&port 80", "&port 8080");
    carried("anchors", shipped, &mine, &new, &wanted, &[("base.pool", "carried"), ("port", "carried"), ("also", "carried")]);
    // What a list refers to is written out: the new file need not know the anchor.
    carried(
        "an alias in a list",
        "a: 1\n",
        "x: &x {k: 'v w'}\na: [*x, *x]\n",
        "a: 1\nb: 2\n",
        "a: [{k: \"v w\"}, {k: \"v w\"}]\nb: 2\nx:\n  k: 'v w'\n",
        &[("x.k", "carried"), ("a", "carried")],
    );
}

#[test]
fn tags_and_words_that_readers_disagree_about_are_carried_as_they_are() {
    carried(
        "tags",
        "a: 1\nb: 'on'\nc: x\nd: 1\n",
        "a: !!str 1\nb: on\nc: 010\nd: !own {e: f}\n",
        "d: 1\nc: x\nb: 'on'\na: 1\n",
        "d: !own {e: f}\nc: 010\nb: on\na: !!str 1\n",
        &[("a", "carried"), ("b", "carried"), ("c", "carried"), ("d", "carried")],
    );
}

#[test]
fn a_document_may_say_where_it_begins_and_ends() {
    let new = "%YAML 1.2\n---\na: 1 # c\nb: 2\n...\n";
    carried("markers", "a: 1\nb: 2\n", "---\na: 9\nb: 2\n", new, &new.replace("a: 1", "a: 9"), &[("a", "carried")]);
}

#[test]
fn a_value_of_any_form_takes_the_place_of_any_other() {
    let site = Site::new();
    let forms = [
        "no",
        "'no'",
        "~",
        "",
        "{}",
        "[]",
        "[a, {b: c}]",
        "\n    - a # c\n    - b: c\n      d: e",
        "|\n    one\n      two",
        ">-\n    one\n    two",
        "!!int 5",
        "\"x\\ty\"",
        "'it''s'",
        "\n    deeper:\n      still: 1",
    ];
    let shipped = [
        "k:\n  v: old # c\n  w: 1\n",
        "k:\n  v:\n    - 1\n    - 2\n  w: 1\n",
        "k:\n  v: |\n    text\n  w: 1\n",
        "k:\n  w: 1\n",
        "k: {v: [1], w: 1}\n",
        "# c\n",
        "",
    ];
    for (form, shipped) in forms.iter().flat_map(|form| shipped.map(|shipped| (form, shipped))) {
        let mine = format!("k:\n  v: {form}\n  w: 1\n");
        site.carry("yaml", &mine, Some(shipped), shipped).run().ok().changed();
        let same = site.tool("diff").arg(site.path("saved.yaml")).run().ok();
        assert_eq!(same.result()["same"], true, "{mine}{}", text(site.yaml()));
    }
}

#[test]
fn a_group_that_loses_its_last_key_goes_and_the_comment_behind_it_stays() {
    let shipped = "a:\n  b:\n    c: 1\n# keep\nd: 2\n";
    carried("an empty group", shipped, "d: 2\n", shipped, "# keep\nd: 2\n", &[("a.b.c", "carried")]);
}

#[test]
fn a_value_that_becomes_a_group_or_the_other_way_is_carried_as_a_whole_or_not_at_all() {
    let all = [("a.x", "carried"), ("a.y", "carried"), ("a", "carried")];
    carried("to a group", "a: 0\n", "a:\n  x: 1\n  y: 1\n", "a: 0\nb: 2\n", "a:\n  x: 1\n  y: 1\nb: 2\n", &all);
    // The vendor added a.z, so the operator's single value has no place.
    let other = "not_carried: other_structure";
    let new = "a:\n  x: 0\n  y: 0\n  z: 2\n";
    carried("a group", "a:\n  x: 0\n  y: 0\n", "a: 1\n", new, new, &[("a", other), ("a.x", other), ("a.y", other)]);
    carried("a value", "a: 0\n", "a: 1\n", "a:\n  x: 2\n", "a:\n  x: 2\n", &[("a", other)]);
}
