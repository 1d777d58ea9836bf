//! svc-snap: snapshots of the search database.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_snap::Cli>()
}
