//! svc-pgrestore: the restore of the PostgreSQL database.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_pgrestore::Cli>()
}
