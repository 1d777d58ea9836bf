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

impl DumpArg {
    /// The dump's absolute path; of a document, what it says, and where its properties are. If they have moved together with the
    /// document, those beside it. Neither is opened.
    ///
    /// # Errors
    /// The document is no good (2).
    pub fn read(&self, call: &Call) -> Result<(PathBuf, Option<(Dumped, PathBuf)>), Failure> {
        if let Some(named) = &self.file {
            return Ok((file::absolute(named)?, None));
        }
        // The command line has one of both.
        let from = self.from.from.as_deref().unwrap_or(Path::new(""));
        let received = Received::read(call, from, &["svc-pgdump.dump/1"], Accept::Good)?;
        let dump: Dumped = received.result()?;
        let path = file::absolute(&received.locate(Path::new(&dump.path)))?;
        let properties = received.locate(Path::new(&dump.properties_path));
        Ok((path, Some((dump, properties))))
    }
}
