//! Copies that may become live, whatever made them: a staging or a clone. The swap is the same.

use svc_step::Failure;
use svc_step::run_id::RunId;

use super::record;
use super::record::clone::Cloned;
use super::record::staged::{Staged, StagedIndex, StagedStream};
use super::record::swapped::{Direct, Source};
use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;

/// What a swap forward starts from.
#[derive(Debug, Clone)]
pub(crate) struct SwapSource {
    /// The run whose copies these are.
    pub run: RunId,
    /// The snapshot that they are of, or `None` where they are of none.
    pub snapshot_uuid: Option<String>,
    /// The patterns that were asked for.
    pub asked_for: String,
    pub copies: Vec<SourceCopy>,
    /// What was restored directly under its own name.
    pub direct: Vec<SourceCopy>,
    pub streams: Vec<StagedStream>,
    pub skipped: Vec<PassedOver>,
}

/// One copy.
#[derive(Debug, Clone)]
pub(crate) struct SourceCopy {
    /// The name under which it becomes live.
    pub index: String,
    /// Its own name.
    pub name: String,
    /// Its `uuid`, once that is known.
    pub uuid: Option<String>,
    /// The same with what proves it; `None` before it is proven.
    pub source: Option<Source>,
    /// What it is to have beside its documents, where somebody noted it.
    pub becomes: Option<Shape>,
}

impl SourceCopy {
    fn new(index: &str, name: &str, uuid: Option<&String>, docs_count: Option<u64>, becomes: Option<&Shape>) -> Self {
        let source = |uuid: &String, docs_count| Source { name: name.to_owned(), uuid: uuid.clone(), docs_count };
        Self {
            index: index.to_owned(),
            name: name.to_owned(),
            uuid: uuid.cloned(),
            source: uuid.zip(docs_count).map(|(uuid, docs_count)| source(uuid, docs_count)),
            becomes: becomes.cloned(),
        }
    }
}

impl SwapSource {
    /// What was staged.
    ///
    /// # Errors
    /// It names no run (2).
    pub(crate) fn staged(staged: &Staged) -> Result<Self, Failure> {
        let (direct, beside): (Vec<_>, Vec<_>) = staged.indices.iter().partition(|one| one.is_direct());
        let copy = |one: &StagedIndex| {
            SourceCopy::new(&one.index, &one.staged, one.uuid.as_ref(), one.docs_count, one.shape_noted.as_ref())
        };
        Ok(Self {
            run: record::named(&staged.run)?,
            snapshot_uuid: Some(staged.origin.snapshot_uuid.clone()),
            asked_for: staged.asked_for.clone(),
            copies: beside.into_iter().map(copy).collect(),
            direct: direct.into_iter().map(copy).collect(),
            streams: staged.streams.clone(),
            skipped: staged.skipped.clone(),
        })
    }

    /// What was cloned.
    ///
    /// # Errors
    /// It names no run (2).
    pub(crate) fn cloned(clone: &Cloned) -> Result<Self, Failure> {
        let copies = clone
            .indices
            .iter()
            .map(|one| SourceCopy::new(&one.index, &one.clone, one.uuid.as_ref(), one.docs_count, Some(&one.shape)));
        Ok(Self {
            run: record::named(&clone.run)?,
            snapshot_uuid: None,
            asked_for: clone.asked_for.clone(),
            copies: copies.collect(),
            direct: Vec::new(),
            streams: Vec::new(),
            skipped: clone.skipped.clone(),
        })
    }

    /// What was restored directly, as the swap opens it.
    pub(super) fn direct(&self) -> Vec<Direct> {
        let direct = |one: &SourceCopy| Direct { index: one.index.clone(), uuid: one.uuid.clone(), becomes: one.becomes.clone() };
        self.direct.iter().map(direct).collect()
    }
}

/// The refusal of a staging or a clone that was cut.
pub(crate) fn not_proven(run: &RunId) -> Failure {
    Failure::refused("not_proven", "What was staged or cloned was not proven to the end, so it must not become live.")
        .hint(format!("Do that again; svc-snap discard --run {run} removes what is left of it."))
}
