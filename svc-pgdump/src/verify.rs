//! `verify`: is a dump complete, is it what its document says, and what does it need?

use std::path::Path;

use svc_step::{Call, Failure, StepResult, Stopped, file};

use crate::check::incomplete;
use crate::document::{DumpArg, DumpFacts, Dumped, Verified};
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

pub(crate) fn run(args: &VerifyArgs, call: &Call) -> StepResult<Verified> {
    let (path, recorded) = args.dump.read(call)?;
    let beside = if recorded.is_none() { Properties::find(&Properties::path_of(&path))? } else { None };
    let dump = DumpFile::open(&path)?.examine(call, &mut |_| ())?;
    if let Some(first) = dump.commands.first() {
        let count = dump.commands.len();
        let message = "The dump holds commands to psql, which could lead anywhere, and svc-pgrestore refuses it";
        call.review("dump_invalid", format!("{message} ({count}): {first}."));
    }
    let own = beside.filter(|properties| dump.is_complete() && properties.belong(call, &dump, &path));
    let properties_path =
        recorded.as_ref().map(|(_, properties)| properties.clone()).or_else(|| own.map(|_| Properties::path_of(&path)));
    let mut verified = Verified {
        dump: DumpFacts::of(&dump, &path),
        complete: dump.is_complete(),
        as_documented: None,
        contents: dump.contents,
        commands: dump.commands,
        properties_path: properties_path.map(|path| path.display().to_string()),
    };
    if let Some(reason) = dump.reason {
        return Err(Stopped::with(incomplete(&path, &reason), verified));
    }
    let Some((document, properties)) = recorded else { return Ok(verified) };
    let difference = difference(&verified, &document, &properties)?;
    verified.as_documented = Some(difference.is_none());
    let Some(difference) = difference else { return Ok(verified) };
    let failure = Failure::invalid("dump_invalid", format!("{} is not the dump of its document.", path.display()))
        .hint("Do not restore it: use another dump, or take a new one with svc-pgdump.");
    Err(Stopped::with(failure.cause(difference), verified))
}

/// How a dump and its properties differ from what their document says.
fn difference(found: &Verified, document: &Dumped, properties: &Path) -> Result<Option<String>, Failure> {
    let own = (Path::new(&found.dump.path), found.dump.sha256.clone(), &document.dump.sha256);
    let files = [own, (properties, Some(file::digest(properties)?.1), &document.properties_sha256)];
    let said = |sha256: &Option<String>| sha256.clone().unwrap_or_else(|| "nothing".to_owned());
    let other = files.into_iter().find(|(_, sha256, wanted)| *wanted != sha256);
    Ok(other.map(|(path, sha256, wanted)| {
        format!("the SHA-256 of {} is {}, the document says {}", path.display(), said(&sha256), said(wanted))
    }))
}
