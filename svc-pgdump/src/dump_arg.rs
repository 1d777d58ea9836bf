//! Which dump a step is about: its file, or the document of the call that wrote it.

use std::path::{Path, PathBuf};

use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, file};

use crate::dump::Dumped;

/// The dump, named or found by its document.
#[derive(Debug, Clone, clap::Args)]
pub struct DumpArg {
    /// The dump: plain SQL, as svc-pgdump or pg_dump writes it
    #[arg(value_name = "FILE", required_unless_present = "from", conflicts_with = "from")]
    file: Option<PathBuf>,
    #[command(flatten)]
    from: FromArg,
}

/// Where the dump is, and what was said of it when it was written.
#[derive(Debug)]
pub struct Meant {
    /// Its absolute path; where it has moved together with its document, the one beside that.
    pub path: PathBuf,
    /// Its document, where that was handed over.
    pub recorded: Option<Recorded>,
}

/// The document of a dump.
#[derive(Debug)]
pub struct Recorded {
    /// What it says.
    pub dump: Dumped,
    /// Where the properties are that it names; nobody has looked whether they are there.
    pub properties: PathBuf,
}

impl DumpArg {
    /// Reads the document to its end, where one is handed over; the dump itself is not looked at.
    ///
    /// # Errors
    /// The document is no good (2).
    pub fn meant(&self, call: &Call) -> Result<Meant, Failure> {
        if let Some(named) = &self.file {
            return Ok(Meant { path: file::absolute(named)?, recorded: None });
        }
        // The command line has one of both.
        let from = self.from.from.as_deref().unwrap_or(Path::new(""));
        let received = Received::read(call, from, &["svc-pgdump.dump/1"], Accept::Good)?;
        let dump: Dumped = received.result()?;
        let path = file::absolute(&received.locate(Path::new(&dump.path)))?;
        let properties = received.locate(Path::new(&dump.properties_path));
        Ok(Meant { path, recorded: Some(Recorded { dump, properties }) })
    }
}
