//! `register`: make a repository known to the search database (procedure, 2.1 and 4.1 step 4).

mod strangers;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::lock::Lock;
use svc_step::secret::is_secret_name;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::connection::Connection;
use crate::rate::{LOCK, Life, Note, with_note, without_note};
use crate::repository::redact::redacted;
use crate::repository::unusable;
use crate::repository::{self, RepositoryArg};
use crate::server::path::path;
use crate::server::{Product, Server};

/// Arguments of `svc-snap register`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap register --location /var/backups/search/backup_repo
  svc-snap register --repository old --location /var/backups/search/old_repo --readonly
  svc-snap register --repository far --type s3 --setting bucket=backups --setting base_path=search

Secrets of s3, gcs and azure belong into the search database's keystore, not into settings.")]
pub struct RegisterArgs {
    /// The repository's folder, as every node of the search database sees it (type fs)
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    location: Option<PathBuf>,
    /// Its type: fs, url, s3, gcs, azure, hdfs, …
    #[arg(long = "type", id = "kind", value_name = "TYPE", default_value = "fs")]
    kind: String,
    /// A further setting of it (repeatable)
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Let this server only read it: for the folder of another, or an older, search database
    #[arg(long)]
    readonly: bool,
    /// Replace a repository of that name that has another type or folder
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

/// A repository that is registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Registered {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository's name.
    pub repository: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its settings; secrets are not shown.
    pub settings: Map<String, Value>,
    /// What it was before, without secrets; `null` where none of that name was registered.
    pub before: Option<Before>,
    /// What is done; empty where it is registered just so.
    pub plan: Vec<Action>,
}

/// A repository as it was registered before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Before {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its settings; secrets are not shown.
    pub settings: Map<String, Value>,
}

/// A definition (2.1). The server keeps every setting as a string.
#[derive(Debug, Clone, PartialEq)]
struct Definition {
    kind: String,
    settings: Map<String, Value>,
}

pub(crate) fn run(args: &RegisterArgs, call: &Call) -> StepResult<Registered> {
    let wanted = wanted(args)?;
    let server = Server::connect(&args.connection, call)?;
    let name = args.repository.repository.as_str();
    let _lock = repository::lock(call, &server, name, &args.dry)?;
    let found = repository::definition(&server, name)?;
    let note = found.as_ref().and_then(Definition::note);
    let is_left = note.as_ref().is_some_and(|note| note.life(call) == Life::Dead);
    let before = found.map(|value| Definition::read(&value));
    if let Some(before) = before.as_ref().filter(|before| !args.replace && before.is_elsewhere(&wanted)) {
        return Err(elsewhere(name, before).into());
    }
    // The rate that a dead run has left is put back; that of a run at work stays, and what it will put back is what is wanted.
    let same = before.as_ref() == Some(&wanted) && !is_left;
    let sent = match note.clone().filter(|_| !is_left) {
        Some(note) => with_note(&wanted.settings, note),
        None => wanted.settings.clone(),
    };
    let request = path(&["_snapshot", name]);
    let shown = redacted(&wanted.settings);
    let registered = Registered {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: name.to_owned(),
        kind: wanted.kind.clone(),
        settings: shown.clone(),
        before: before.as_ref().map(|before| Before { kind: before.kind.clone(), settings: redacted(&before.settings) }),
        plan: if same {
            Vec::new()
        } else {
            vec![Action::request("PUT", request.clone(), Some(json!({"type": wanted.kind, "settings": redacted(&sent)})))]
        },
    };
    if same || args.dry.dry_run {
        return Ok(registered);
    }
    let body = json!({"type": wanted.kind, "settings": sent});
    let put = server.change(call, "PUT", &request, Some(&body)).map_err(|failure| {
        let failure = if failure.code == unusable::CODE { unusable::explained(&server, name, failure).1 } else { failure };
        hinted(failure, args, server.product)
    });
    // A repository that does not verify is refused and stays registered all the same.
    let (after, unseen) = match repository::definition(&server, name) {
        Ok(after) => (after.map(|value| Definition::read(&value)), None),
        Err(why) => (None, Some(why)),
    };
    let right = after.as_ref().is_some_and(|after| after.is_as(&wanted));
    if let Some(note) = note.filter(|_| is_left && right) {
        Lock::forget(call, LOCK, &note.token);
    }
    match put {
        Ok(_) if right => match strangers::check(call, &server, name, args.readonly) {
            Ok(()) => Ok(registered),
            Err(failure) => Err(Putting { call, server: &server, name, before: before.as_ref() }.back(failure, registered)),
        },
        Ok(_) => Err(Stopped::with(unseen.map_or_else(|| other_than_asked(name), |why| not_seen(name, why)), registered)),
        Err(failure) if after != before && after.is_some() => {
            call.effects().happened();
            // Only the answer was lost.
            if right && failure.status == Status::Timeout { Ok(registered) } else { Err(Stopped::with(failure, registered)) }
        }
        Err(failure) if failure.status == Status::Timeout => Err(Stopped::with(failure, registered)),
        // It is refused, and whether it is registered all the same nobody has seen.
        Err(failure) if let Some(why) = unseen.filter(|_| failure.code == unusable::CODE) => {
            drop(call.effects().attempt());
            Err(Stopped::with(failure.cause(why.message), registered))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// A repository that must not be registered so.
struct Putting<'a> {
    call: &'a Call,
    server: &'a Server,
    name: &'a str,
    before: Option<&'a Definition>,
}

impl Putting<'_> {
    /// Registers it as it was before, or not at all.
    fn back(&self, failure: Failure, registered: Registered) -> Stopped<Registered> {
        let (call, server, request) = (self.call, self.server, path(&["_snapshot", self.name]));
        let back = match self.before {
            Some(before) if before.hides_settings() => {
                let why =
                    "It stays registered so: what it was before may have secrets that no server shows, and they would be lost.";
                return Stopped::with(failure.cause(why), registered);
            }
            Some(before) => {
                server.change(call, "PUT", &request, Some(&json!({"type": before.kind, "settings": before.settings})))
            }
            None => server.change(call, "DELETE", &request, None),
        };
        match back {
            Ok(_) => {
                call.effects().undone();
                failure.into()
            }
            Err(why) => {
                let why = format!("It is registered all the same, since taking it back failed: {why}");
                Stopped::with(failure.cause(why), registered)
            }
        }
    }
}

impl Definition {
    /// As it was registered: without what a run that takes a snapshot has changed for that time.
    fn read(value: &Value) -> Self {
        let (settings, _) = without_note(&settings(value));
        Self { kind: value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned(), settings }
    }

    /// Whether the server has it as it was asked for. Some settings of plugins are secrets that no server gives out.
    fn is_as(&self, wanted: &Self) -> bool {
        let shown = |(name, _): &(&String, &Value)| self.settings.contains_key(*name) || !is_secret_name(name);
        let asked: Map<String, Value> =
            wanted.settings.iter().filter(shown).map(|(name, value)| (name.clone(), value.clone())).collect();
        self.kind == wanted.kind && self.settings == asked
    }

    /// Whether the server may know settings of it that it does not show.
    fn hides_settings(&self) -> bool {
        !repository::SHOWN_WHOLE.contains(&self.kind.as_str())
    }

    /// The note of a run that has changed its rate.
    fn note(value: &Value) -> Option<Note> {
        without_note(&settings(value)).1
    }

    fn location(&self) -> Option<&str> {
        self.settings.get("location").and_then(Value::as_str)
    }

    /// Whether it is another place than `other`, so that its snapshots would be out of sight.
    fn is_elsewhere(&self, other: &Self) -> bool {
        const PLACES: [&str; 8] = ["location", "url", "uri", "path", "bucket", "container", "base_path", "client"];
        self.kind != other.kind || PLACES.iter().any(|place| self.settings.get(*place) != other.settings.get(*place))
    }
}

fn settings(value: &Value) -> Map<String, Value> {
    value.get("settings").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn wanted(args: &RegisterArgs) -> Result<Definition, Failure> {
    let mut settings = Map::new();
    if args.kind == "fs" {
        let location = args.location.as_ref().ok_or_else(|| {
            Failure::usage("location_missing", "Nothing says which folder the repository has.")
                .hint("Say --location DIR (SVC_BACKUP_REPO); other types than fs have settings (--type, --setting).")
        })?;
        let text = location.to_str().filter(|_| location.is_absolute()).ok_or_else(|| {
            Failure::usage("location_not_absolute", "The repository's folder is not named by an absolute path.")
                .hint("Write --location (SVC_BACKUP_REPO) as /DIR/backup_repo.")
        })?;
        settings.insert("location".to_owned(), json!(text.trim_end_matches('/')));
        settings.insert("compress".to_owned(), json!("true"));
    }
    if args.readonly {
        settings.insert("readonly".to_owned(), json!("true"));
    }
    settings.extend(args.settings.iter().map(|(key, value)| (key.clone(), json!(value))));
    Ok(Definition { kind: args.kind.clone(), settings })
}

fn elsewhere(name: &str, before: &Definition) -> Failure {
    let place = before.location().map(|location| format!(" at {location}")).unwrap_or_default();
    Failure::refused(
        "repository_elsewhere",
        format!("A repository {name} is registered already, of type {}{place}.", before.kind),
    )
    .hint("Register the new one under another name (--repository), or say --replace; its snapshots stay in their folder.")
}

fn other_than_asked(name: &str) -> Failure {
    Failure::failed(
        "repository_other_than_asked",
        format!("The repository {name} is registered, but not with the settings that were sent."),
    )
    .hint(format!("GET /_snapshot/{name} shows them; perhaps somebody else registered it at the same time."))
}

fn not_seen(name: &str, mut why: Failure) -> Failure {
    why.message = format!(
        "The repository {name} is registered, and whether with the settings that were sent was not seen: {}",
        why.message
    );
    why
}

fn hinted(mut failure: Failure, args: &RegisterArgs, product: Product) -> Failure {
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

fn setting(text: &str) -> Result<(String, String), String> {
    // A setting may be a secret, so it is not repeated.
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write a setting as KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_without_hidden_settings_are_written_back() {
        let of = |kind: &str| Definition { kind: kind.to_owned(), settings: Map::new() };
        assert!(!of("fs").hides_settings() && !of("azure").hides_settings());
        assert!(["s3", "tape"].iter().all(|kind| of(kind).hides_settings()));
    }

    #[test]
    fn a_look_that_failed_is_what_the_sentence_says() {
        let failure = not_seen("r", Failure::unavailable("search_unreachable", "Nobody answers."));
        assert_eq!((failure.code.as_str(), failure.status.code()), ("search_unreachable", 5));
        assert!(failure.message.contains("was not seen: Nobody answers."), "{failure}");
    }
}
