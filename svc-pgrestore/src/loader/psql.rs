//! The loader that psql is: we feed it, so that progress in bytes is known and the file needs to be readable by us only.

use std::io::{BufWriter, ErrorKind, Read};
use std::process::{ChildStdin, Command, Stdio};

use svc_pgdump::{Target, lexer};
use svc_step::child::{Ended, Running, capture};
use svc_step::progress::{Progress, Unit};
use svc_step::{Call, Failure};

use super::filter::Filter;
use super::{Load, WARNINGS, complaint, unreadable};

/// How much is sent at once.
const PIECE: usize = 256 * 1024;

/// Whether psql can be run at all.
pub(super) fn available(call: &Call) -> Result<(), Failure> {
    match capture(call, Command::new("psql").arg("--version")) {
        Err(failure) if failure.code == "program_not_found" => Err(failure.hint("Install it: apt install postgresql-client.")),
        other => other.map(drop),
    }
}

/// The command, as an operator would type it.
pub(super) fn command_line(database: &str, path: &str) -> Vec<String> {
    let words = ["psql", "-X", "--no-password", "-v", "ON_ERROR_STOP=1", "-f", path, "-d", database];
    words.map(str::to_owned).to_vec()
}

pub(super) fn load(call: &Call, target: &Target, load: &Load<'_>) -> Result<(), Failure> {
    let mut running = Running::start(&mut command(target, load))?;
    let stdin = running.stdin();
    let progress = call.progress("load", Unit::Bytes);
    let (fed, ended) = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| stdin.map_or(Ok(()), |stdin| feed(load, stdin, &progress)));
        // What psql prints on stdout is of no use to anybody. A signal ends psql here, and with it the feeder.
        let ended = running.pieces(call, |_| Ok(())).and_then(|()| running.wait(call));
        (feeder.join(), ended)
    });
    let Ended { status, stderr } = ended?;
    // A ^C on a terminal reaches psql too, and its end is then no failure of the dump.
    call.check()?;
    if !status.success() {
        return Err(complaint::failure(status.code(), &stderr));
    }
    fed.map_err(|_| Failure::failed("internal", "A thread of the step ended by a fault of ours."))??;
    for warning in complaint::warnings(&stderr).iter().take(WARNINGS) {
        call.warn("load_warning", format!("The server warned during the load: {warning}."));
    }
    Ok(())
}

fn command(target: &Target, load: &Load<'_>) -> Command {
    let mut command = Command::new("psql");
    target.child_env(&mut command, load.database);
    // Sentences are read from its stderr, so it is to speak English.
    command.env("LC_ALL", "C.UTF-8").env_remove("PSQLRC");
    command.args(["-X", "--no-password", "-q", "-v", "ON_ERROR_STOP=1"]);
    // With the SQLSTATE of each answer: it tells which of them quote the values of rows.
    command.args(["-v", "VERBOSITY=verbose", "-f", "-"]).stdin(Stdio::piped());
    command
}

/// The dump as it passes by, counted.
struct Counted<'a, R> {
    input: R,
    read: u64,
    total: u64,
    progress: &'a Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = self.input.read(buffer)?;
        self.read += u64::try_from(size).unwrap_or_default();
        self.progress.set(self.read, self.total);
        Ok(size)
    }
}

/// Sends the dump to psql. A psql that stops reading has its own account of why.
fn feed(load: &Load<'_>, psql: ChildStdin, progress: &Progress) -> Result<(), Failure> {
    let mut psql = BufWriter::with_capacity(PIECE, psql);
    let mut filter = Filter::new(load.server);
    let counted = Counted { input: load.dump.text(), read: 0, total: load.size_bytes, progress };
    let fed = lexer::read(counted, |piece| filter.pass(piece, &mut psql)).and_then(|_| filter.finish(&mut psql));
    // What is left in the buffer is for nobody; a drop would try to write it once more.
    let (_, _) = psql.into_parts();
    match fed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unreadable(&error)),
        _ => Ok(()),
    }
}
