//! `verify`: is a dump complete, is it what its document says, and what does it need?

use std::path::Path;

use svc_step::{Call, Failure, StepResult, Stopped, file};

use crate::check::{Dump, incomplete};
use crate::document::{DumpArg, Dumped, Verified};
use crate::dump_file::DumpFile;
use crate::properties::Properties;

/// Arguments of `svc-pgdump verify`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  svc-pgdump verify /var/backups/svc/svc_db.backup.sql\n  svc-pgdump --output /var/backups/svc/svc_db.backup.sql | svc-pgdump verify --from -"
)]
pub struct VerifyArgs {
    #[command(flatten)]
    dump: DumpArg,
}

impl Verified {
    fn of(path: &Path, dump: Dump, properties: Option<&Path>) -> Self {
        Self {
            path: path.display().to_string(),
            complete: dump.is_complete(),
            as_documented: None,
            row_count: dump.row_count(),
            size_bytes: dump.file_size_bytes(),
            sha256: dump.file_sha256().to_owned(),
            compression: dump.packed.as_ref().map(|packed| packed.compression),
            text_size_bytes: dump.size_bytes,
            text_sha256: dump.sha256,
            server_version: dump.server_version,
            pg_dump_version: dump.pg_dump_version,
            tables: dump.tables,
            roles: dump.roles,
            extensions: dump.extensions,
            has_large_objects: dump.has_large_objects,
            commands: dump.commands,
            properties_path: properties.map(|path| path.display().to_string()),
        }
    }
}

pub(crate) fn run(args: &VerifyArgs, call: &Call) -> StepResult<Verified> {
    let (path, recorded) = args.dump.read(call)?;
    let Some((document, properties)) = recorded else {
        return judged(&path, None, call);
    };
    let mut verified = judged(&path, Some(&properties), call)?;
    let difference = match difference(&verified, &document) {
        None => properties_difference(&properties, &document)?,
        different => different,
    };
    verified.as_documented = Some(difference.is_none());
    match difference {
        None => Ok(verified),
        Some(difference) => Err(Stopped::with(
            Failure::invalid("dump_altered", format!("{} is not the dump of its document.", path.display()))
                .hint("Do not restore it: use another dump, or take a new one with svc-pgdump.")
                .cause(difference),
            verified,
        )),
    }
}

fn judged(path: &Path, recorded: Option<&Path>, call: &Call) -> StepResult<Verified> {
    let beside = if recorded.is_none() { Properties::beside(path)? } else { None };
    let dump = DumpFile::open(path)?.examine(call, &mut |_| ())?;
    let reason = dump.reason.clone();
    if let Some(first) = dump.commands.first() {
        let count = dump.commands.len();
        call.warn(
            "dump_has_commands",
            format!(
                "The dump holds commands to psql ({count}), which could lead anywhere, and svc-pgrestore refuses it: {first}."
            ),
        );
    }
    let own =
        beside.filter(|properties| reason.is_none() && properties.belong(call, &dump, path)).map(|_| Properties::path_of(path));
    let verified = Verified::of(path, dump, recorded.or(own.as_deref()));
    match reason {
        None => Ok(verified),
        Some(reason) => Err(Stopped::with(incomplete(path, &reason), verified)),
    }
}

/// How a dump differs from what its document says.
fn difference(found: &Verified, document: &Dumped) -> Option<String> {
    let (size, sha256) = (document.size_bytes.unwrap_or_default(), document.sha256.as_deref().unwrap_or_default());
    if found.size_bytes != size {
        return Some(format!("it has {} bytes, the document says {size}", found.size_bytes));
    }
    if found.sha256 != sha256 {
        return Some(format!("its SHA-256 is {}, the document says {sha256}", found.sha256));
    }
    if document.text_sha256.as_ref() != Some(&found.text_sha256) {
        return Some("the SHA-256 of its SQL is not that of the document".to_owned());
    }
    (found.tables != document.tables).then(|| "its COPY blocks are not those of the document".to_owned())
}

fn properties_difference(path: &Path, document: &Dumped) -> Result<Option<String>, Failure> {
    let (_, sha256) = file::digest(path)?;
    let wanted = document.properties_sha256.as_deref().unwrap_or_default();
    Ok((sha256 != wanted).then(|| format!("the SHA-256 of {} is {sha256}, the document says {wanted}", path.display())))
}
