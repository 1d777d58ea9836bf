//! svc-confsave: the service's configuration, saved, compared and carried over.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_confsave::Cli>()
}
