//! The `result` of each step's document, and which dump a step is about.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, file};

use crate::check::{Contents, Dump};
use crate::compression::Compression;

/// A dump's file, and what wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DumpFacts {
    /// The dump's absolute path.
    pub path: String,
    /// The size of that file; `null` in a dry run of a dump, as are the next ones.
    pub size_bytes: Option<u64>,
    /// The SHA-256 of that file.
    pub sha256: Option<String>,
    /// How it is compressed; `null` if it is plain.
    pub compression: Option<Compression>,
    /// The SHA-256 of the SQL in it, which is the file itself if that is plain.
    pub text_sha256: Option<String>,
    /// The version of the server that was dumped, such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub server_version: Option<String>,
    /// The version of the pg_dump that wrote it.
    pub pg_dump_version: Option<String>,
}

impl DumpFacts {
    pub fn of(dump: &Dump, path: &Path) -> Self {
        Self {
            path: path.display().to_string(),
            size_bytes: Some(dump.compressed.as_ref().map_or(dump.size_bytes, |file| file.size_bytes)),
            sha256: Some(dump.file_sha256().to_owned()),
            compression: dump.compressed.as_ref().map(|file| file.compression),
            text_sha256: Some(dump.sha256.clone()),
            server_version: dump.server_version.clone(),
            pg_dump_version: dump.pg_dump_version.clone(),
        }
    }
}

/// A complete dump.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Dumped {
    #[serde(flatten)]
    pub dump: DumpFacts,
    /// The database.
    pub database: String,
    /// The host, or the directory of the socket, of the server.
    pub server_host: String,
    /// The server's port.
    pub server_port: u16,
    /// The cluster's own number, in digits; `null` if the database user may not ask for it.
    pub system_identifier: Option<String>,
    /// The file of the database's own properties.
    pub properties_path: String,
    /// Its SHA-256; `null` in a dry run.
    pub properties_sha256: Option<String>,
    #[serde(flatten)]
    pub contents: Contents,
    /// About how large it was expected to be: as the last dump of that name, else as the tables.
    pub expected_bytes: Option<u64>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

impl Dumped {
    /// Refuses (7) a file that is not the dump of this document.
    pub fn check(&self, dump: &Dump, path: &Path) -> Result<(), Failure> {
        same(path, dump.file_sha256(), self.dump.sha256.as_deref())
    }

    /// The same of the properties.
    pub fn check_properties(&self, path: &Path) -> Result<(), Failure> {
        same(path, &file::digest(path)?.1, self.properties_sha256.as_deref())
    }
}

fn same(path: &Path, sha256: &str, wanted: Option<&str>) -> Result<(), Failure> {
    if wanted == Some(sha256) {
        return Ok(());
    }
    Err(Failure::invalid("dump_invalid", format!("{} is not that of the document.", path.display()))
        .hint("Use an intact copy of it, or take a new dump. Properties that you have changed yourself: svc-pgrestore FILE, without the document.")
        .cause(format!("its SHA-256 is {sha256}, the document says {}", wanted.unwrap_or("nothing"))))
}

/// What a dump is and needs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    #[serde(flatten)]
    pub dump: DumpFacts,
    /// Whether it is complete; `false` only in the document of a failure (7).
    pub complete: bool,
    /// `true` it is what its document says, `false` it is not (then the call failed), `null` there was no document.
    pub as_documented: Option<bool>,
    #[serde(flatten)]
    pub contents: Contents,
    /// Commands to psql, such as `\connect`; a dump by svc-pgdump has none.
    pub commands: Vec<String>,
    /// The file of the database's own properties; `null` if the dump has none.
    pub properties_path: Option<String>,
}

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
    /// The document is invalid (2).
    pub fn read(&self, call: &Call) -> Result<(PathBuf, Option<(Dumped, PathBuf)>), Failure> {
        if let Some(named) = &self.file {
            return Ok((file::absolute(named)?, None));
        }
        // The command line has one of both.
        let from = self.from.from.as_deref().unwrap_or(Path::new(""));
        let received = Received::read(call, from, &["svc-pgdump.dump/1"], Accept::Successful)?;
        let dump: Dumped = received.result()?;
        let recorded = Path::new(&dump.dump.path);
        let fits =
            |path: &Path| std::fs::metadata(path).is_ok_and(|meta| dump.dump.size_bytes.is_none_or(|size| size == meta.len()));
        let located = received.locate(recorded, fits);
        // They are where the dump is.
        let properties = Path::new(&dump.properties_path);
        let properties = if located == recorded { properties.to_owned() } else { received.locate(properties, Path::exists) };
        let path = file::absolute(&located)?;
        Ok((path, Some((dump, properties))))
    }
}
