//! svc-version: versions, the version marker and the upgrade path.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_version::Cli>()
}
