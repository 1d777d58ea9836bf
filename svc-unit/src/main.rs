//! svc-unit: units of systemd, stopped, started and checked.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_unit::Cli>()
}
