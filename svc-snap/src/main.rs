//! svc-snap: snapshots of Elasticsearch and OpenSearch.

fn main() -> std::process::ExitCode {
    svc_step::tool::main::<svc_snap::Cli>()
}
