//! svc-unit: the init system's units, stopped, started and judged.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_unit::Cli>()
}
