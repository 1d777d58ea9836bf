//! svc-pgdump: a complete plain dump of one database, or nothing.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_pgdump::Cli>()
}
