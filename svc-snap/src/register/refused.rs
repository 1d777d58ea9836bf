//! What is said where a repository is not registered as it was asked for.

use svc_step::Failure;

use super::RegisterArgs;
use super::definition::Definition;
use crate::repository::unusable;
use crate::server::Product;

/// Another repository has that name.
pub(super) fn elsewhere(name: &str, before: &Definition) -> Failure {
    let place = before.location().map(|location| format!(" at {location}")).unwrap_or_default();
    Failure::refused(
        "repository_elsewhere",
        format!("A repository {name} is registered already, of type {}{place}.", before.kind),
    )
    .hint("Register the new one under another name (--repository), or say --replace; its snapshots stay in their folder.")
}

/// It has settings that would be lost or changed.
pub(super) fn differs(name: &str, lost: &[String]) -> Failure {
    Failure::refused(
        "repository_differs",
        format!("The repository {name} is registered already, with settings that would be lost or changed: {}.", lost.join(", ")),
    )
    .hint("Give these settings too (--readonly, --setting KEY=VALUE), or pass --replace.")
}

/// The server keeps something else than it was sent.
pub(super) fn other_than_asked(name: &str) -> Failure {
    Failure::failed(
        "repository_other_than_asked",
        format!("The repository {name} is registered, but not with the settings that were sent."),
    )
    .hint(format!("GET /_snapshot/{name} shows them; perhaps somebody else registered it at the same time."))
}

/// Nobody has seen what the server keeps.
pub(super) fn not_seen(name: &str, mut why: Failure) -> Failure {
    why.message = format!(
        "The repository {name} is registered, and whether with the settings that were sent was not seen: {}",
        why.message
    );
    why
}

/// The server's refusal, with what helps here.
pub(super) fn hinted(mut failure: Failure, args: &RegisterArgs, product: Product) -> Failure {
    let (name, kind) = (&args.repository.repository, &args.kind);
    match (failure.code.as_str(), &args.location) {
        ("repository_type_unknown", _) => {
            failure.message = format!("The search database has no repositories of the type {kind}.");
            failure.hint(plugin(kind, product))
        }
        ("location_outside_path_repo" | unusable::CODE, Some(location)) if kind == "fs" => failure.hint(format!(
            "svc-snap configure --location {} makes the folder and adds it to path.repo; then restart the search database.",
            location.display()
        )),
        // It is refused, and registered all the same.
        (unusable::CODE | "url_not_allowed", _) => {
            let hint = failure.hint.take().unwrap_or_default();
            failure.hint(format!("{hint} It is registered all the same: DELETE /_snapshot/{name} takes that back."))
        }
        _ => failure,
    }
}

/// Which plugin knows a type of repository.
fn plugin(kind: &str, product: Product) -> String {
    let program = match product {
        Product::Elasticsearch => "elasticsearch-plugin",
        Product::OpenSearch => "opensearch-plugin",
    };
    match kind {
        "s3" | "gcs" | "azure" | "hdfs" => format!(
            "Its plugin is missing: bin/{program} install repository-{kind} on every node, then restart the search database."
        ),
        "url" => "Its module repository-url, which the vendors' packages hold, is missing on a node.".to_owned(),
        _ => format!("The types are fs, url, s3, gcs, azure and hdfs, and what plugins add: bin/{program} list shows them."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_failed_is_what_the_sentence_says() {
        let failure = not_seen("r", Failure::unavailable("search_unreachable", "Nobody answers."));
        assert_eq!((failure.code.as_str(), failure.status.code()), ("search_unreachable", 5));
        assert!(failure.message.contains("was not seen: Nobody answers."), "{failure}");
    }
}
