//! The dump that is restored: a file, or what the document of `svc-pgdump` names.

use std::path::{Path, PathBuf};

use svc_pgdump::{Dump, DumpArg, DumpFile, Dumped, Properties};
use svc_step::from::OtherServer;
use svc_step::{Call, Failure, file};

use crate::document::Source;
use crate::load::{Plan, Planner};

/// Which dump.
#[derive(Debug, Clone, clap::Args)]
pub struct InputArgs {
    #[command(flatten)]
    dump: DumpArg,
    #[command(flatten)]
    pub(crate) other: OtherServer,
    /// Try although the disk has too little space for a second copy
    #[arg(long)]
    pub(crate) ignore_room: bool,
}

/// The dump, opened with the rights of the caller.
pub(crate) struct Input {
    pub(crate) dump: DumpFile,
    /// The document of the dump, if it was given.
    pub(crate) recorded: Option<Dumped>,
    pub(crate) properties: Option<Properties>,
    /// Those that an `--in-place` that failed has kept of the database that it dropped.
    pub(crate) kept: Option<Properties>,
}

/// Where `--in-place` keeps the properties of the database that it drops, until the new one has them.
pub(crate) fn kept_of(dump: &Path) -> PathBuf {
    file::beside(dump, ".kept.properties.json")
}

impl InputArgs {
    pub(crate) fn open(&self, call: &Call) -> Result<Input, Failure> {
        let (path, recorded) = self.dump.read(call)?;
        let dump = DumpFile::open(&path)?;
        let (recorded, properties) = match recorded {
            Some((dumped, properties)) => {
                let properties = documented(&dumped, &properties)?;
                (Some(dumped), properties)
            }
            None => (None, Properties::beside(&path)?),
        };
        let kept = kept_of(&path);
        let kept = kept.exists().then(|| Properties::load(&kept)).transpose()?;
        Ok(Input { dump, recorded, properties, kept })
    }
}

/// The properties that the document names; `None` if they are gone.
fn documented(dump: &Dumped, path: &Path) -> Result<Option<Properties>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let (_, sha256) = file::digest(path)?;
    if dump.properties_sha256.as_ref().is_some_and(|wanted| *wanted != sha256) {
        return Err(Failure::invalid("properties_altered", format!("{} is not what the document says.", path.display()))
            .hint("Put the original file back; or restore by the name of the dump alone: svc-pgrestore FILE."));
    }
    Properties::load(path).map(Some)
}

impl Input {
    /// Reads the dump through: is it complete, is it that of the document, and in which order is it loaded?
    pub(crate) fn examine(&mut self, call: &Call) -> Result<(Dump, Plan), Failure> {
        let path = self.dump.path();
        let mut planner = Planner::default();
        let dump = self.dump.examine(call, &mut |piece| planner.piece(piece))?.require_complete(path)?;
        match &self.recorded {
            Some(recorded) => check(path, recorded, &dump)?,
            None => self.properties = self.properties.take().filter(|properties| properties.belong(call, &dump, path)),
        }
        if let Some(command) = dump.commands.first() {
            let message = format!("The dump has commands for psql, which could do anything: {command}.");
            return Err(
                Failure::refused("dump_has_commands", message).hint("Dump one database without --create: svc-pgdump does.")
            );
        }
        let mut plan = planner.finish();
        if !self.dump.is_read_anywhere() {
            plan.obstacle.get_or_insert("It is compressed in one piece, so that it can only be read from its beginning on.");
        }
        Ok((dump, plan))
    }

    pub(crate) fn source(&self, dump: &Dump) -> Source {
        let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "unknown".to_owned());
        Source {
            path: self.dump.path().display().to_string(),
            size_bytes: dump.file_size_bytes(),
            sha256: dump.file_sha256().to_owned(),
            compression: self.dump.compression(),
            text_size_bytes: dump.size_bytes,
            server_version: version(&dump.server_version),
            pg_dump_version: version(&dump.pg_dump_version),
        }
    }
}

fn check(path: &Path, recorded: &Dumped, dump: &Dump) -> Result<(), Failure> {
    let sha256 = dump.file_sha256();
    if recorded.sha256.as_deref() == Some(sha256) && recorded.size_bytes == Some(dump.file_size_bytes()) {
        return Ok(());
    }
    Err(Failure::invalid("dump_altered", format!("{} is not the dump of the document.", path.display()))
        .hint("Use the dump of the document; another copy of it may be intact.")
        .cause(format!("the document says {}, the file has {sha256}", recorded.sha256.as_deref().unwrap_or("nothing"))))
}
