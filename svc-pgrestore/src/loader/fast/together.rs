//! What runs side by side: the rows of tables, and what is built on them as soon as they are there.

use super::super::plan::{Build, CopyBlock, Sharing};
use super::queue::{self, Task};
use super::sessions::Sessions;
use super::targets::{self, Round};
use super::work::Work;
use super::{builds, copies};
use svc_step::Failure;

#[derive(Clone, Copy)]
enum Step<'a> {
    Copy(&'a CopyBlock),
    Build(&'a Build),
}

/// Loads the blocks, and then what is built on them, phase by phase. Where all blocks go into fresh ordinary tables, whose rows are
/// nobody else's business, what is built on a table waits for its own rows only.
pub(super) fn run(work: &Work<'_>, sessions: &mut Sessions, blocks: &[CopyBlock], phases: &[&[Build]]) -> Result<(), Failure> {
    let facts = targets::ask(&mut sessions.first, blocks)?;
    let rounds = targets::rounds(blocks, &facts);
    if let [Round::Together(blocks)] = rounds.as_slice() {
        let copies = blocks.iter().map(|block| copy(block));
        let builds = phases.iter().zip(1..).flat_map(|(builds, phase)| builds.iter().map(move |one| build(one, phase)));
        return side_by_side(work, sessions, copies.chain(builds).collect());
    }
    for round in rounds {
        match round {
            Round::Alone(block) => copies::plain(work, &mut sessions.first, block)?,
            Round::Together(blocks) => side_by_side(work, sessions, blocks.iter().map(|block| copy(block)).collect())?,
        }
    }
    phases.iter().try_for_each(|builds| self::builds(work, sessions, builds))
}

pub(super) fn builds(work: &Work<'_>, sessions: &mut Sessions, builds: &[Build]) -> Result<(), Failure> {
    side_by_side(work, sessions, builds.iter().map(|one| build(one, 0)).collect())
}

fn copy(block: &CopyBlock) -> Task<'_, Step<'_>> {
    let table = block.table.iter().map(|table| (table.as_str(), Sharing::Alone));
    Task::at_once(Step::Copy(block), table.collect(), block.rows.size)
}

fn build(build: &Build, phase: usize) -> Task<'_, Step<'_>> {
    let tables = build.tables.iter().map(|(table, sharing)| (table.as_str(), *sharing));
    let task = Task::at_once(Step::Build(build), tables.collect(), build.weight);
    Task { phase, waits_for_all: !build.is_of_columns, ..task }
}

fn side_by_side(work: &Work<'_>, sessions: &mut Sessions, tasks: Vec<Task<'_, Step<'_>>>) -> Result<(), Failure> {
    queue::run(work, sessions, tasks, |client, step| match step {
        Step::Copy(block) => copies::frozen(work, client, block),
        Step::Build(build) => builds::one(work, client, build),
    })
}
