//! `svc-point`: restore points. A restore point is both databases, the configuration and the version, in one directory
//! that can be moved as a whole. Its `SHA256SUMS` is written last: without it, the restore point is incomplete.

mod age;
mod choose;
mod cli;
mod create;
mod delete;
mod finalize;
mod last;
mod list;
mod metrics;
mod offsite;
mod point;
mod prune;
mod rehearsal;
mod remove;
mod snap;
mod space;

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<cli::Cli>()
}
