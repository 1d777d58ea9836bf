//! Which snapshot a step goes on with: named, or taken from the document of `create`, `wait` or `show`.

use clap::Args;
use svc_step::from::{Accept, FromArg, OtherServer, Received};
use svc_step::{Call, Failure};

use crate::repository::RepositoryArg;
use crate::server::Server;
use crate::snapshot::Snapshot;
use crate::snapshot::backup::Backup;
use crate::snapshot::kept::Kept;
use crate::snapshot::name;

/// Documents that speak of one snapshot.
pub(crate) const SCHEMAS: [&str; 3] = ["svc-snap.create/1", "svc-snap.wait/1", "svc-snap.show/1"];

/// Which snapshot.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// The snapshot
    #[arg(value_name = "NAME", value_parser = name::snapshot, required_unless_present = "from", conflicts_with = "from")]
    pub name: Option<String>,
    #[command(flatten)]
    pub(crate) repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) from: FromArg,
    #[command(flatten)]
    pub(crate) other: OtherServer,
}

/// A snapshot to go on with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    pub repository: String,
    pub name: String,
    /// The document that came in; `None` for a snapshot that was named.
    pub document: Option<Backup>,
}

impl SourceArgs {
    /// Reads the document, before anything is locked or connected.
    ///
    /// # Errors
    /// The `--from` document is not good (2), or nothing names a snapshot (2).
    pub(crate) fn read(&self, call: &Call, accept: Accept) -> Result<Source, Failure> {
        match (&self.from.from, &self.name) {
            (Some(from), _) => {
                let received = Source::received(&Received::read(call, from, &SCHEMAS, accept)?)?;
                Ok(if self.other.other_server { received.elsewhere(&self.repository.repository) } else { received })
            }
            (None, Some(name)) => Ok(Source::named(&self.repository.repository, name)),
            (None, None) => Err(Failure::usage("snapshot_missing", "Nothing says which snapshot.")
                .hint("Name it, or hand over a document with --from.")),
        }
    }
}

impl Source {
    /// One that was named.
    pub(crate) fn named(repository: &str, name: &str) -> Self {
        Self { repository: repository.to_owned(), name: name.to_owned(), document: None }
    }

    /// The one that a run noted here; a document of it would say no less of where it is.
    pub(crate) fn of_kept(kept: &Kept) -> Self {
        let document = Backup {
            cluster_uuid: kept.cluster_uuid.clone(),
            repository: kept.repository.clone(),
            name: kept.name.clone(),
            wanted: kept.wanted.clone(),
            snapshot: None,
            noted: kept.notes.noted(),
            noted_streams: kept.notes.noted_streams(),
        };
        Self { document: Some(document), ..Self::named(&kept.repository, &kept.name) }
    }

    /// The one of a document.
    ///
    /// # Errors
    /// The document lacks what its schema promises (2).
    pub(crate) fn received(received: &Received) -> Result<Self, Failure> {
        let taken: Backup = received.result()?;
        Ok(Self { repository: taken.repository.clone(), name: taken.name.clone(), document: Some(taken) })
    }

    /// The same snapshot in a repository of another server, which may know the folder by another name.
    fn elsewhere(self, repository: &str) -> Self {
        Self { repository: repository.to_owned(), ..self }
    }

    /// The snapshot as it was found; what was wanted and noted is what this host has kept, or else what the document says. Where the
    /// call that took it could not look at the indices again since, this one does.
    pub(crate) fn backup(&self, call: &Call, server: &Server, found: Snapshot) -> Backup {
        let mut kept = Kept::read(call, server, &self.repository, &found);
        if let Some(kept) = kept.as_mut().filter(|_| !found.is_under_way()) {
            kept.settle(call, server);
        }
        let wanted = kept.as_ref().map(|kept| &kept.wanted).or_else(|| self.document.as_ref().map(|taken| &taken.wanted));
        let mut backup = Backup {
            cluster_uuid: server.cluster_uuid.clone(),
            repository: self.repository.clone(),
            name: self.name.clone(),
            wanted: wanted.cloned().unwrap_or_default(),
            snapshot: Some(found),
            noted: self.document.as_ref().map(|taken| taken.noted.clone()).unwrap_or_default(),
            noted_streams: self.document.as_ref().map(|taken| taken.noted_streams.clone()).unwrap_or_default(),
        };
        if let Some(kept) = &kept {
            backup.note(&kept.notes);
        }
        backup
    }

    /// Refuses a document of another cluster.
    ///
    /// # Errors
    /// See [`OtherServer::check`].
    pub(crate) fn check_server(&self, server: &Server, other: OtherServer) -> Result<(), Failure> {
        self.document.as_ref().map_or(Ok(()), |taken| {
            other.check(&taken.cluster_uuid, &server.cluster_uuid, server.url(), "--url (SVC_SEARCH_URL)")
        })
    }

    /// Refuses another snapshot that has got the same name since.
    ///
    /// # Errors
    /// Its `uuid` is another one than the document's (3).
    pub(crate) fn check_uuid(&self, found: &Snapshot) -> Result<(), Failure> {
        let noted = self.document.as_ref().and_then(|taken| taken.snapshot.as_ref());
        match noted {
            Some(noted) if noted.uuid != found.uuid => Err(Failure::refused(
                "other_snapshot",
                format!(
                    "The snapshot {} in {} is another one than the document speaks of (uuid {}, not {}).",
                    self.name, self.repository, found.uuid, noted.uuid
                ),
            )
            .hint("Name the snapshot without --from if this one is meant.")),
            _ => Ok(()),
        }
    }
}
