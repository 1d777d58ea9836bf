//! Copies that may become live, whatever made them: a staging or an aside. The swap is the same.

use svc_step::run_id::RunId;
use svc_step::{Call, Failure};

use crate::bring;
use crate::index::act::Act;
use crate::index::look;
use crate::index::policy;
use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;
use crate::runs;
use crate::runs::aside::Aside;
use crate::runs::staged::{Staged, StagedIndex, StagedStream};
use crate::runs::swapped::Source;
use crate::server::Server;

/// What a swap forward starts from.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// The run whose copies these are.
    pub run: RunId,
    /// The snapshot that they are of, or `None` where they are of none.
    pub snapshot_uuid: Option<String>,
    /// The patterns that were asked for.
    pub asked_for: String,
    pub copies: Vec<Offered>,
    /// What was restored straight under its own name.
    pub straight: Vec<Offered>,
    pub streams: Vec<StagedStream>,
    pub skipped: Vec<PassedOver>,
}

/// One copy.
#[derive(Debug, Clone)]
pub(crate) struct Offered {
    /// The name under which it becomes live.
    pub index: String,
    /// Its own name.
    pub name: String,
    /// The same with what proves it; `None` before it is proven.
    pub source: Option<Source>,
    /// What it is to have beside its documents, where somebody noted it.
    pub becomes: Option<Shape>,
}

fn offered(index: &str, name: &str, uuid: Option<&String>, docs_count: Option<u64>, becomes: Option<&Shape>) -> Offered {
    let source = uuid.zip(docs_count).map(|(uuid, docs_count)| Source { name: name.to_owned(), uuid: uuid.clone(), docs_count });
    Offered { index: index.to_owned(), name: name.to_owned(), source, becomes: becomes.cloned() }
}

impl Offer {
    /// What was restored under its own name, and the blocks that it is to have: they are taken off and set only when all is proven and
    /// nothing but the swap is left, since from then on clients write to it and it is never removed.
    pub(super) fn openings(&self) -> Vec<Act> {
        bring::openings(self.straight.iter().map(|one| (one.index.as_str(), one.becomes.clone().unwrap_or_default())))
    }

    /// Opens it, where an earlier call has not, and attaches it to the policies that it had.
    ///
    /// # Errors
    /// The server refuses or does not answer.
    pub(crate) fn open(&self, call: &Call, server: &Server) -> Result<(), Failure> {
        let found = look(server, &self.straight.iter().map(|one| one.index.as_str()).collect::<Vec<_>>())?;
        let is_closed_up = |one: &&Offered| {
            let source = one.source.as_ref().map(|source| &source.uuid);
            found.get(&one.index).is_some_and(|live| Some(&live.uuid) == source && live.shape.write_block())
        };
        let left = self.straight.iter().filter(is_closed_up).cloned().collect();
        Self { straight: left, ..self.clone() }.openings().iter().try_for_each(|act| act.send(call, server))?;
        let policy = |one: &Offered| one.becomes.as_ref().and_then(|becomes| becomes.policy.clone());
        policy::attach(call, server, self.straight.iter().map(|one| (one.index.as_str(), policy(one))));
        Ok(())
    }

    /// What was staged.
    ///
    /// # Errors
    /// It names no run (2).
    pub(crate) fn staged(staged: &Staged) -> Result<Self, Failure> {
        let (straight, beside): (Vec<_>, Vec<_>) = staged.indices.iter().partition(|one| one.is_straight());
        let offered =
            |one: &StagedIndex| offered(&one.index, &one.staged, one.uuid.as_ref(), one.docs_count, one.shape_noted.as_ref());
        Ok(Self {
            run: runs::named(&staged.run)?,
            snapshot_uuid: Some(staged.origin.snapshot_uuid.clone()),
            asked_for: staged.asked_for.clone(),
            copies: beside.into_iter().map(offered).collect(),
            straight: straight.into_iter().map(offered).collect(),
            streams: staged.streams.clone(),
            skipped: staged.skipped.clone(),
        })
    }

    /// What was set aside.
    ///
    /// # Errors
    /// It names no run (2).
    pub(crate) fn aside(aside: &Aside) -> Result<Self, Failure> {
        let copies =
            aside.indices.iter().map(|one| offered(&one.index, &one.aside, one.uuid.as_ref(), one.docs_count, Some(&one.shape)));
        Ok(Self {
            run: runs::named(&aside.run)?,
            snapshot_uuid: None,
            asked_for: aside.asked_for.clone(),
            copies: copies.collect(),
            straight: Vec::new(),
            streams: Vec::new(),
            skipped: aside.skipped.clone(),
        })
    }
}

/// The refusal of a staging or an aside that was cut.
pub(crate) fn not_proven(run: &RunId) -> Failure {
    Failure::refused("not_proven", "What was staged or set aside was not proven to the end, so it must not become live.")
        .hint(format!("Do that again; svc-snap unstage --run {run} removes what is left of it."))
}
