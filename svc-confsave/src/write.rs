//! A merge, written onto the new file's text: all of it, or all that can be written so that exactly it changes.

use crate::merge::{Decision, Fate, Merge, Reason};
use crate::text::Text;
use crate::tree::Flat;

/// What is written, and what became of each key.
#[derive(Debug)]
pub struct Written {
    /// As the merge decided, save what cannot be written.
    pub decisions: Vec<Decision>,
    /// The values that the text has.
    pub values: Flat,
    /// The text.
    pub text: String,
}

/// Writes a merge of `mine` onto `new`. What cannot be written so that exactly it changes stays as it is, and is said. `check`
/// is called before each attempt.
///
/// # Errors
/// Those of `check`.
pub fn write<E>(merge: Merge, mine: &Text, new: &Text, mut check: impl FnMut() -> Result<(), E>) -> Result<Written, E> {
    let Merge { mut decisions, result } = merge;
    if let Some(text) = new.written(mine, &result) {
        return Ok(Written { decisions, values: result, text });
    }
    let mut values = new.flat().clone();
    let mut text = None;
    // Halves of halves: a few keys that cannot be written among thousands that can cost few attempts.
    let mut waiting = vec![together(&decisions)];
    while let Some(groups) = waiting.pop() {
        check()?;
        let mut next = values.clone();
        for decision in groups.iter().flatten().filter_map(|at| decisions.get(*at)) {
            match result.get(&decision.path) {
                Some(value) => drop(next.insert(decision.path.clone(), value.clone())),
                None => drop(next.shift_remove(&decision.path)),
            }
        }
        if let Some(good) = new.written(mine, &next) {
            (values, text) = (next, Some(good));
        } else if let [alone] = groups.as_slice() {
            for at in alone {
                if let Some(decision) = decisions.get_mut(*at) {
                    decision.fate = Fate::NotCarried(Reason::NotWritable);
                }
            }
        } else {
            let mut first = groups;
            let second = first.split_off(first.len() / 2);
            waiting.extend([second, first].into_iter().filter(|half| !half.is_empty()));
        }
    }
    let text = text.or_else(|| new.written(mine, new.flat())).unwrap_or_default();
    Ok(Written { decisions, values, text })
}

/// The decisions that are to be written, by their numbers. A value that becomes a group, or the other way, is written at once or
/// not at all, so those of related paths are together.
fn together(decisions: &[Decision]) -> Vec<Vec<usize>> {
    let mut wanted: Vec<(usize, &Decision)> =
        decisions.iter().enumerate().filter(|(_, one)| matches!(one.fate, Fate::Carried | Fate::Conflict)).collect();
    // In the order of their paths, what is below a path comes right behind it.
    wanted.sort_by(|(_, one), (_, other)| one.path.cmp(&other.path));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut head: Option<&Decision> = None;
    for (at, decision) in wanted {
        match (groups.last_mut(), head) {
            (Some(group), Some(head)) if decision.path.starts_with(&head.path) => group.push(at),
            _ => {
                head = Some(decision);
                groups.push(vec![at]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::layout::Layout;
    use crate::merge::three_way;

    #[test]
    fn a_few_keys_that_cannot_be_written_cost_few_attempts_and_all_others_are_carried() {
        let text = |shared: usize, value: &str| {
            let own: String = (0..400).map(|n| format!("k{n}: {value}\n")).collect();
            Text::read(&format!("a: &x {shared}\nb: *x\n{own}"), Layout::Yaml).unwrap()
        };
        let (base, new) = (text(1, "one"), text(1, "one"));
        // What stands behind the alias stays, so the anchor's own value cannot be changed alone.
        let mine = Text::read(&text(2, "two").as_str().replace("b: *x", "b: 1"), Layout::Yaml).unwrap();
        let mut attempts = 0;
        let count = || -> Result<(), Infallible> {
            attempts += 1;
            Ok(())
        };
        let written = write(three_way(Layout::Yaml, base.flat(), mine.flat(), new.flat()), &mine, &new, count).unwrap();
        assert_eq!(written.text, new.as_str().replace(": one", ": two"));
        let left = written.decisions.iter().filter(|one| one.fate == Fate::NotCarried(Reason::NotWritable));
        assert_eq!(left.map(|one| one.path.join(".")).collect::<Vec<_>>(), ["a"]);
        assert!(attempts < 40, "{attempts} attempts");
    }
}
