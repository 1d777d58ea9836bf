//! What is to be restored: a dump's file, named or found by the document of the dump.

use std::path::{Path, PathBuf};

use svc_pgdump::{Dump, DumpArg, DumpFile, Dumped, Meant, Properties, Recorded};
use svc_step::from::OtherServer;
use svc_step::{Call, Failure, file};

use crate::loader::{Plan, Planner};
use crate::outcome::Source;

/// Which dump.
#[derive(Debug, Clone, clap::Args)]
pub struct InputArgs {
    #[command(flatten)]
    dump: DumpArg,
    #[command(flatten)]
    pub(crate) other: OtherServer,
    /// Try although the disk has too little room for a second copy
    #[arg(long)]
    pub(crate) ignore_room: bool,
}

/// The dump, opened with the rights of whoever called the tool.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) dump: DumpFile,
    /// The document of the dump, where it was handed over.
    pub(crate) recorded: Option<Dumped>,
    /// The properties beside the dump, where there are any.
    pub(crate) properties: Option<Properties>,
    /// Where there are none: those that an `--in-place` that failed has kept of the database that it dropped.
    pub(crate) kept: Option<Properties>,
}

/// Where `--in-place` keeps the properties of the database that it drops, until it has given them back.
pub(crate) fn kept_of(dump: &Path) -> PathBuf {
    file::beside(dump, ".kept.properties.json")
}

impl InputArgs {
    /// Reads the document to its end and opens what it names; nothing is locked, connected or changed yet.
    ///
    /// # Errors
    /// The document is no good (2), the dump is not there (4) or not readable (3), the properties are not those of the document (7).
    pub(crate) fn open(&self, call: &Call) -> Result<Input, Failure> {
        let Meant { path, recorded } = self.dump.meant(call)?;
        let dump = DumpFile::open(&path)?;
        let properties = match &recorded {
            Some(recorded) => recorded_properties(recorded)?,
            None => Properties::beside(&path)?,
        };
        let kept = kept_of(&path);
        let kept = kept.exists().then(|| Properties::load(&kept)).transpose()?;
        Ok(Input { dump, recorded: recorded.map(|recorded| recorded.dump), properties, kept })
    }
}

/// The properties that the document names; `None` where they are gone.
fn recorded_properties(recorded: &Recorded) -> Result<Option<Properties>, Failure> {
    let Recorded { dump, properties: path } = recorded;
    if !path.exists() {
        return Ok(None);
    }
    let (_, sha256) = file::digest(path)?;
    if dump.properties_sha256.as_ref().is_some_and(|wanted| *wanted != sha256) {
        return Err(Failure::invalid("properties_altered", format!("{} is not what the document says.", path.display()))
            .hint("Bring the file back as it was; or restore by the name of the dump alone: svc-pgrestore FILE."));
    }
    Properties::load(path).map(Some)
}

impl Input {
    /// Reads the dump through: is it whole, is it the one of the document, and in which order is it loaded?
    ///
    /// # Errors
    /// It is not (7), it orders psql about (3), or it cannot be read.
    pub(crate) fn examine(&mut self, call: &Call) -> Result<(Dump, Plan), Failure> {
        let path = self.dump.path();
        let mut planner = Planner::default();
        let dump = self.dump.examine_beside(call, &mut |piece| planner.piece(piece))?.require_whole(path)?;
        if let Some(recorded) = &self.recorded {
            same(path, recorded, &dump)?;
        }
        if let Some(command) = dump.commands.first() {
            return Err(Failure::refused(
                "dump_has_commands",
                format!("The dump gives orders to psql, which could lead anywhere: {command}."),
            )
            .hint("Dump one database without --create: svc-pgdump does."));
        }
        // The document of a dump has the hash of its properties.
        if self.recorded.is_none() {
            self.properties = self.properties.take().filter(|properties| properties.belong(call, &dump, path));
        }
        let mut plan = planner.finish();
        if !self.dump.is_read_anywhere() {
            plan.obstacle.get_or_insert("It is compressed in one piece, so that it can only be read from its beginning on.");
        }
        Ok((dump, plan))
    }

    /// As documents have it.
    pub(crate) fn source(&self, dump: &Dump) -> Source {
        let said = |version: &Option<String>| version.clone().unwrap_or_else(|| "unknown".to_owned());
        Source {
            path: self.dump.path().display().to_string(),
            size_bytes: dump.file_size_bytes(),
            sha256: dump.file_sha256().to_owned(),
            compression: self.dump.compression(),
            text_size_bytes: dump.size_bytes,
            server_version: said(&dump.server_version),
            pg_dump_version: said(&dump.pg_dump_version),
        }
    }
}

fn same(path: &Path, recorded: &Dumped, dump: &Dump) -> Result<(), Failure> {
    let sha256 = dump.file_sha256();
    if recorded.sha256.as_deref() == Some(sha256) && recorded.size_bytes == Some(dump.file_size_bytes()) {
        return Ok(());
    }
    Err(Failure::invalid("dump_altered", format!("{} is not the dump of the document.", path.display()))
        .hint("Use the dump that the document is about; another copy of it may be whole.")
        .cause(format!("the document says {}, the file has {sha256}", recorded.sha256.as_deref().unwrap_or("nothing"))))
}
