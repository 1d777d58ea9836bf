//! `verify`: is a dump complete, is it what its document says, and what does it need?

use svc_step::{Call, StepResult, Stopped};

use crate::check::incomplete;
use crate::document::{DumpArg, DumpFacts, Verified};
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
        let message = "The dump holds meta-commands of psql, which could run programs, and svc-pgrestore refuses it";
        call.review("dump_invalid", format!("{message} ({count}): {first}."));
    }
    let own = beside.filter(|properties| dump.is_complete() && properties.belong(call, &dump, &path));
    let properties_path =
        recorded.as_ref().map(|(_, properties)| properties.clone()).or_else(|| own.map(|_| Properties::path_of(&path)));
    let compared =
        recorded.map(|(document, properties)| document.check(&dump, &path).and_then(|()| document.check_properties(&properties)));
    let verified = Verified {
        dump: DumpFacts::of(&dump, &path),
        complete: dump.is_complete(),
        as_documented: compared.as_ref().map(Result::is_ok),
        contents: dump.contents,
        commands: dump.commands,
        properties_path: properties_path.map(|path| path.display().to_string()),
    };
    let ended = match dump.reason {
        Some(reason) => Err(incomplete(&path, &reason)),
        None => compared.unwrap_or(Ok(())),
    };
    Stopped::ended(ended, verified)
}
