//! svc-pgrestore: the relational database's restore.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_pgrestore::Cli>()
}
