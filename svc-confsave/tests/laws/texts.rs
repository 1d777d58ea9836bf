//! The laws on texts: what is written, and that nothing else is touched.

use std::convert::Infallible;

use proptest::prelude::*;
use svc_confsave::Layout;
use svc_confsave::merge::{Outcome, Reason, three_way};
use svc_confsave::text::{Format, Text, Written};
use svc_confsave::tree::{Flat, Path, Tree};

use crate::{cases, conf, yaml};

/// A line of a sample.
#[derive(Debug, Clone)]
pub struct Line {
    pub text: String,
    /// The key that it belongs to; of a comment, the group that it stands in.
    pub owner: Path,
    pub is_comment: bool,
    /// Whether all that is below its key stands in this line.
    pub in_flow: bool,
    /// Whether it is the last line of a block of text.
    pub in_block: bool,
}

impl Line {
    pub fn new(text: impl Into<String>, owner: &[String], is_comment: bool, in_flow: bool) -> Self {
        Self { text: text.into(), owner: owner.to_vec(), is_comment, in_flow, in_block: false }
    }
}

/// A text that is made at random, and what its lines belong to.
#[derive(Debug, Clone)]
pub struct Sample {
    pub text: String,
    pub lines: Vec<Line>,
}

impl Sample {
    /// With line ends, and with or without a byte-order mark and an end of the last line.
    pub fn of(lines: Vec<Line>, crlf: bool, marked: bool, unended: bool) -> Self {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text: String = lines.iter().flat_map(|line| [line.text.as_str(), end]).collect();
        // A block of text that says to end with a line end needs one.
        if unended && lines.last().is_some_and(|line| !line.text.starts_with(' ') && !line.text.is_empty()) {
            text.truncate(text.len() - end.len());
        }
        Self { text: if marked { format!("\u{feff}{text}") } else { text }, lines }
    }

    fn read(&self, layout: Layout) -> Result<Text, TestCaseError> {
        Text::read(&self.text, layout).map_err(|fault| TestCaseError::fail(format!("{fault:?}\n{}", self.text)))
    }
}

fn carried(base: &Text, mine: &Text, new: &Text) -> Written {
    let merge = three_way(new.layout(), base.flat(), mine.flat(), new.flat());
    new.write(merge, mine, || Ok::<(), Infallible>(())).unwrap_or_else(|never| match never {})
}

type Checked = Result<(), TestCaseError>;

/// All laws that hold of any three files.
fn laws(layout: Layout, [base, mine, new]: [&Sample; 3]) -> Checked {
    let shown = format!("base:\n{}\nmine:\n{}\nnew:\n{}", base.text, mine.text, new.text);
    let (base_text, mine_text, new_text) = (base.read(layout)?, mine.read(layout)?, new.read(layout)?);

    let untouched = carried(&base_text, &base_text, &new_text);
    prop_assert_eq!(&untouched.text, &new.text, "what nobody customised is the new one, to the byte\n{}", shown);
    prop_assert!(untouched.decisions.is_empty());

    let written = carried(&base_text, &mine_text, &new_text);
    let shown = format!("{shown}\nwritten:\n{}", written.text);
    let again = Text::read(&written.text, layout).map_err(|fault| TestCaseError::fail(format!("{fault:?}\n{shown}")))?;
    prop_assert_eq!(again.format(), new_text.format(), "{}", shown);
    prop_assert_eq!(again.flat(), &written.values, "the text says just what was intended\n{}", shown);
    if written.decisions.iter().all(|one| one.reason != Some(Reason::NotWritable)) {
        let wanted = three_way(layout, base_text.flat(), mine_text.flat(), new_text.flat()).result;
        prop_assert_eq!(&written.values, &wanted, "{}", shown);
    }

    let second = carried(&base_text, &mine_text, &again);
    prop_assert_eq!(&second.text, &written.text, "a second merge changes nothing\n{}", shown);

    untouched_lines_stay(layout, new, new_text.flat(), &written, &shown)?;
    one_kind_of_line_end(&new.text, &written.text, &shown)
}

/// With the base as the new file, all that is customised is carried.
fn all_is_carried(layout: Layout, base: &Sample, mine: &Sample) -> Checked {
    let (base_text, mine_text) = (base.read(layout)?, mine.read(layout)?);
    let written = carried(&base_text, &mine_text, &base_text);
    let shown = format!("base:\n{}\nmine:\n{}\nwritten:\n{}", base.text, mine.text, written.text);
    prop_assert_eq!(&written.values, mine_text.flat(), "{}", shown);
    prop_assert!(written.decisions.iter().all(|one| one.outcome == Outcome::Carried), "{}", shown);
    untouched_lines_stay(layout, base, base_text.flat(), &written, &shown)
}

/// Every line of the new file that no change touches is still there, to the byte and in its order.
fn untouched_lines_stay(layout: Layout, new: &Sample, before: &Flat, written: &Written, shown: &str) -> Checked {
    let changed = |path: &Path| written.values.get(path) != before.get(path);
    let changes: Vec<&Path> = before.keys().chain(written.values.keys()).filter(|path| changed(path)).collect();
    let is_touched = |line: &Line| {
        let has_left = |path: &Path| written.values.keys().any(|left| left.starts_with(path) && left.len() > path.len());
        let in_group = |path: &Path| before.keys().any(|there| there.starts_with(path) && there.len() > path.len());
        if line.is_comment {
            return !line.owner.is_empty() && !has_left(&line.owner);
        }
        // A key of lines stands for itself, even if a section has its name.
        if layout == Layout::Conf {
            return changes.contains(&&line.owner);
        }
        if line.in_flow {
            return changes.iter().any(|change| change.starts_with(&line.owner));
        }
        // The line that a group begins with stays as long as there is a group.
        if in_group(&line.owner) {
            return !has_left(&line.owner);
        }
        let is_changed = |owner: &Path| changes.iter().any(|change| owner.starts_with(change) || change.starts_with(owner));
        // If what an alias names is gone, the alias stands for itself.
        let anchors = || new.lines.iter().filter(|line| line.text.contains(" &x"));
        is_changed(&line.owner) || (line.text.contains(" *x") && anchors().any(|line| is_changed(&line.owner)))
    };
    let mut found = written.text.trim_start_matches('\u{feff}').split('\n').map(|line| line.trim_end_matches('\r'));
    let touched = |at: usize| new.lines.get(at).is_some_and(is_touched);
    // Of the blank lines around what is gone, one may go with it.
    let beside = |at: usize| at.checked_sub(1).is_some_and(touched) || touched(at + 1);
    let goes = |at: usize, line: &Line| touched(at) || (line.text.is_empty() && beside(at));
    for (_, line) in new.lines.iter().enumerate().filter(|(at, line)| !goes(*at, line)) {
        prop_assert!(found.any(|one| one == line.text), "the line `{}` is gone or elsewhere\n{}", line.text, shown);
    }
    // A comment behind a single value outlives the value, as long as there is one.
    let single = |path: &Path, flat: &Flat| matches!(flat.get(path), Some(Tree::Scalar(one)) if !one.text.contains('\n'));
    for line in new.lines.iter().filter(|line| single(&line.owner, before) && single(&line.owner, &written.values)) {
        if let Some((_, note)) = line.text.split_once("# note") {
            prop_assert!(written.text.contains(&format!("# note{note}")), "the comment `{}` is gone\n{}", note, shown);
        }
    }
    Ok(())
}

fn one_kind_of_line_end(new: &str, written: &str, shown: &str) -> Checked {
    let count = |text: &str, what: &str| text.matches(what).count();
    let wanted = if new.contains("\r\n") { count(written, "\n") } else { 0 };
    prop_assert!(!new.contains('\n') || count(written, "\r\n") == wanted, "line ends are mixed: {:?}\n{}", written, shown);
    prop_assert_eq!(written.starts_with('\u{feff}'), new.starts_with('\u{feff}'), "{}", shown);
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn yaml_keeps_the_laws(base in yaml::file(false), mine in yaml::file(false), new in yaml::file(false)) {
        laws(Layout::Yaml, [&base, &mine, &new])?;
        all_is_carried(Layout::Yaml, &base, &mine)?;
    }

    #[test]
    fn yaml_with_aliases_keeps_the_laws(base in yaml::file(true), mine in yaml::file(true), new in yaml::file(true)) {
        laws(Layout::Yaml, [&base, &mine, &new])?;
    }

    #[test]
    fn lines_keep_the_laws(base in conf::file(), mine in conf::file(), new in conf::file()) {
        prop_assume!([&base, &mine, &new].iter().all(|sample| sample.read(Layout::Conf).is_ok_and(|text| text.format() == Format::Lines)));
        laws(Layout::Conf, [&base, &mine, &new])?;
        all_is_carried(Layout::Conf, &base, &mine)?;
    }
}
