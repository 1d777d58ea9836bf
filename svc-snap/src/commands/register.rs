//! `register`: make a repository known to the cluster (procedure, 2.1 and 4.1 step 4).

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::line_secrets::json_without_secrets;
use svc_step::secret::Secret;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use crate::client::auth::Connection;
use crate::client::json::text;
use crate::client::path::path;
use crate::client::{Product, Server};
use crate::repository::{self, RepositoryArg, verdict};
use crate::snapshot;
use crate::snapshot::verdict::{Compatibility, check_restorable};
use crate::throttle::without_note;

/// What says where a repository is.
const PLACES: [&str; 8] = ["location", "url", "uri", "path", "bucket", "container", "base_path", "client"];

/// Arguments of `svc-snap register`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap register --location /var/backups/search/backup_repo
  svc-snap register --repository old --location /var/backups/search/old_repo --readonly
  svc-snap register --repository far --type s3 --setting bucket=backups --setting base_path=search

Secrets of s3, gcs and azure belong into the server's keystore.")]
pub struct RegisterArgs {
    /// The repository's folder, as every node sees it (type fs)
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    location: Option<PathBuf>,
    /// Its type: fs, url, s3, gcs, azure, hdfs, …
    #[arg(long = "type", id = "kind", value_name = "TYPE", default_value = "fs")]
    kind: String,
    /// A further setting of it (repeatable)
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, Secret)>,
    /// Let this cluster only read it: for the folder of another, or an older, cluster
    #[arg(long)]
    readonly: bool,
    /// Replace a repository of that name that has another type or folder, or settings that would be lost or changed
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
    /// Its settings.
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

pub(crate) fn run(args: &RegisterArgs, call: &Call) -> StepResult<Registered> {
    let wanted = Definition::wanted(args)?;
    let server = Server::connect(&args.connection, call)?;
    let name = args.repository.repository.as_str();
    let _lock = repository::lock(call, &server, name, &args.dry)?;
    let (before, is_left) = repository::definition(&server, name)?.map(|value| Definition::read(call, &value)).unzip();
    if let Some(before) = before.as_ref().filter(|_| !args.replace) {
        before.refuse_loss(name, &wanted)?;
    }
    // What a dead run has left of its rate is put back by this request.
    let is_same = before.as_ref() == Some(&wanted) && is_left != Some(true);
    let registered = Registered {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: name.to_owned(),
        kind: wanted.kind.clone(),
        settings: wanted.settings.clone(),
        before: before.as_ref().map(|one| Before { kind: one.kind.clone(), settings: json_without_secrets(&one.settings) }),
        plan: if is_same { Vec::new() } else { vec![Action::request("PUT", path(&["_snapshot", name]), Some(wanted.body()))] },
    };
    if is_same || args.dry.dry_run {
        return Ok(registered);
    }
    let act = Act { call, server: &server, name, wanted: &wanted, before: before.as_ref() };
    if let Err((failure, is_without_effect)) = act.put() {
        let failure = act.explained(failure, args.location.as_deref());
        return Err(if is_without_effect { failure.into() } else { Stopped::with(failure, registered) });
    }
    check_folder(call, &server, name, args.readonly).map_err(|failure| act.back(failure, registered.clone()))?;
    Ok(registered)
}

struct Act<'a> {
    call: &'a Call,
    server: &'a Server,
    name: &'a str,
    wanted: &'a Definition,
    before: Option<&'a Definition>,
}

impl Act<'_> {
    /// A server keeps a repository that it could not verify, so it is read back.
    fn put(&self) -> Result<(), (Failure, bool)> {
        let path = path(&["_snapshot", self.name]);
        let Err(failure) = self.server.change(self.call, "PUT", &path, Some(&self.wanted.body())) else { return Ok(()) };
        let after =
            repository::definition(self.server, self.name).map(|after| after.map(|one| Definition::read(self.call, &one).0));
        let is_lost = failure.status == Status::Timeout;
        match after {
            Ok(Some(after)) if Some(&after) != self.before => {
                self.call.effects().happened();
                if is_lost && after == *self.wanted { Ok(()) } else { Err((failure, false)) }
            }
            Ok(_) => Err((failure, !is_lost)),
            Err(_) => {
                drop(self.call.effects().attempt());
                Err((failure, false))
            }
        }
    }

    /// The server's refusal, with what helps here.
    fn explained(&self, failure: Failure, location: Option<&Path>) -> Failure {
        let (kind, name) = (&self.wanted.kind, self.name);
        let is_unusable = failure.code == verdict::UNUSABLE;
        let mut failure = if is_unusable { verdict::explained(self.server, name, failure).1 } else { failure };
        match (failure.code.as_str(), location) {
            ("repository_type_unknown", _) => {
                let plugin =
                    if self.server.product == Product::OpenSearch { "opensearch-plugin" } else { "elasticsearch-plugin" };
                failure.message = format!("The cluster has no repositories of the type {kind}.");
                failure.hint(format!(
                    "Install its plugin on every node (bin/{plugin} install repository-{kind}), and restart the nodes."
                ))
            }
            ("location_outside_path_repo" | verdict::UNUSABLE, Some(location)) if kind == "fs" => failure.hint(format!(
                "svc-snap configure --location {} makes the folder and adds it to path.repo; then restart the server.",
                location.display()
            )),
            (verdict::UNUSABLE, _) => {
                let hint = failure.hint.take().unwrap_or_default();
                failure.hint(format!("{hint} It is registered all the same: DELETE /_snapshot/{name} takes that back."))
            }
            _ => failure,
        }
    }

    /// Registers it as it was before, or not at all.
    fn back(&self, failure: Failure, registered: Registered) -> Stopped<Registered> {
        let request = path(&["_snapshot", self.name]);
        let back = match self.before {
            Some(before) if !repository::SHOWN_WHOLE.contains(&before.kind.as_str()) => {
                let why =
                    "It stays registered so: what it was before may have secrets that no server shows, and they would be lost.";
                return Stopped::with(failure.cause(why), registered);
            }
            Some(before) => self.server.change(self.call, "PUT", &request, Some(&before.body())),
            None => self.server.change(self.call, "DELETE", &request, None),
        };
        match back {
            Ok(_) => {
                self.call.effects().undone();
                failure.into()
            }
            Err(why) => {
                let why = format!("It is registered all the same, since taking it back failed: {why}");
                Stopped::with(failure.cause(why), registered)
            }
        }
    }
}

/// Looks for snapshots of a newer server or the other product in a repository that was just registered. Elasticsearch that writes where
/// OpenSearch wrote leaves a list of snapshots that OpenSearch cannot read (seen); an older server that writes beside a newer one's
/// snapshots relies on a format that it does not know.
fn check_folder(call: &Call, server: &Server, repository: &str, readonly: bool) -> Result<(), Failure> {
    const CODES: [&str; 2] = ["repository_of_other_product", "repository_newer_than_server"];
    let all = match snapshot::all(server, repository) {
        Ok(all) => all,
        Err(failure) if CODES.contains(&failure.code.as_str()) => return Err(failure),
        Err(failure) => {
            call.warn("snapshots_not_read", format!("What the repository {repository} holds could not be read: {failure}"));
            return Ok(());
        }
    };
    for (compatibility, code) in [Compatibility::Other, Compatibility::Newer].into_iter().zip(CODES) {
        let last = all.iter().rfind(|snapshot| snapshot.compatibility == compatibility);
        let Some(failure) = last.and_then(|last| check_restorable(server, repository, last).err()) else { continue };
        if !readonly {
            return Err(Failure::refused(code, failure.message).hint(
                "Two clusters must never write to one folder: register it with --readonly, and another folder for this cluster's own snapshots.",
            ));
        }
        call.warn(&failure.code, failure.message);
    }
    Ok(())
}

/// It may hold a secret, so a refusal does not repeat it.
fn setting(text: &str) -> Result<(String, Secret), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), Secret::new(value.to_owned()))),
        _ => Err("write a setting as KEY=VALUE".to_owned()),
    }
}

fn is_secret(key: &str, value: &Value) -> bool {
    let setting = Map::from_iter([(key.to_owned(), value.clone())]);
    json_without_secrets(&setting) != setting
}

/// A definition (2.1). The server keeps every setting as a string.
#[derive(Debug, Clone, PartialEq)]
struct Definition {
    pub kind: String,
    pub settings: Map<String, Value>,
}

impl Definition {
    /// What is asked for.
    fn wanted(args: &RegisterArgs) -> Result<Self, Failure> {
        let mut settings = Map::new();
        if args.kind == "fs" {
            let location = args.location.as_ref().ok_or_else(|| {
                Failure::usage("location_invalid", "The repository's folder is not given.")
                    .hint("Pass --location DIR (SVC_BACKUP_REPO); other types than fs have settings (--type, --setting).")
            })?;
            let text = location.to_str().filter(|_| location.is_absolute()).ok_or_else(|| {
                Failure::usage("location_invalid", "The repository's folder is not an absolute path.")
                    .hint("Write --location (SVC_BACKUP_REPO) as /DIR/backup_repo.")
            })?;
            settings.insert("location".to_owned(), json!(text.trim_end_matches('/')));
            settings.insert("compress".to_owned(), json!("true"));
        }
        if args.readonly {
            settings.insert("readonly".to_owned(), json!("true"));
        }
        settings.extend(args.settings.iter().map(|(key, value)| (key.clone(), json!(value.expose()))));
        if let Some((key, _)) = settings.iter().find(|(key, value)| is_secret(key, value)) {
            let message =
                format!("The setting {key} holds a secret, and all users of this host can read it on the command line.");
            return Err(Failure::usage("secret_on_command_line", message)
                .hint("Write it into the server's keystore on every node; then change the secret, which may be known by now."));
        }
        Ok(Self { kind: args.kind.clone(), settings })
    }

    /// As it was registered, without a run's change of its rate; and whether an ended run of this state folder made one.
    fn read(call: &Call, value: &Value) -> (Self, bool) {
        let (settings, is_left) = without_note(call, value);
        (Self { kind: text(value, "/type").unwrap_or_default().to_owned(), settings }, is_left)
    }

    fn body(&self) -> Value {
        json!({"type": self.kind, "settings": self.settings})
    }

    /// Refuses to register `wanted` instead of it where its snapshots would be out of sight, or settings lost or changed.
    fn refuse_loss(&self, name: &str, wanted: &Self) -> Result<(), Failure> {
        let all = |definition: &Self| {
            let mut settings = json_without_secrets(&definition.settings);
            settings.insert("type".to_owned(), json!(definition.kind));
            settings
        };
        let (shown, instead) = (all(self), all(wanted));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_other =
            |key: &&String| self.settings.get(*key) != wanted.settings.get(*key) || shown.get(*key) != instead.get(*key);
        let keys = shown.keys().chain(instead.keys().filter(|key| PLACES.contains(&key.as_str()) && !shown.contains_key(*key)));
        let named = keys.filter(is_other).map(|key| match (shown.get(key).map_or("unset".to_owned(), text), instead.get(key)) {
            (is, Some(instead)) => format!("{key} ({is}, and not {})", text(instead)),
            (is, None) => format!("{key} ({is})"),
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() {
            return Ok(());
        }
        let message = format!("A repository {name} is registered already, with other settings: {}.", named.join(", "));
        Err(Failure::refused("repository_differs", message).hint(
            "Give these settings too (--readonly, --setting KEY=VALUE), or register the new one under another name (--repository), or pass --replace; its snapshots stay in their folder.",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_told_by_its_name_or_in_an_address() {
        for (key, text, expected) in [
            ("bucket", "a=b", false),
            ("url", "https://host:1/a", false),
            ("secret_key", "hunter2", true),
            ("client.access_key", "hunter2", true),
            ("url", "https://me:hunter2@host/", true),
            ("url", "https://me:hunter2/x@host/", true),
        ] {
            assert_eq!(is_secret(key, &json!(text)), expected, "{key}={text}");
        }
    }

    #[test]
    fn what_would_be_lost_is_named_without_secrets_and_what_is_added_is_no_loss() {
        let of =
            |settings: Value| Definition { kind: "fs".to_owned(), settings: settings.as_object().cloned().unwrap_or_default() };
        let wanted = of(json!({"location": "/a", "compress": "true"}));
        assert!(of(json!({"location": "/a"})).refuse_loss("r", &wanted).is_ok());
        for elsewhere in [json!({"location": "/b"}), json!({})] {
            assert_eq!(of(elsewhere).refuse_loss("r", &wanted).unwrap_err().code, "repository_differs");
        }
        let s3 = Definition { kind: "s3".to_owned(), ..of(json!({"location": "/a"})) };
        assert!(s3.refuse_loss("r", &wanted).unwrap_err().message.contains("type (s3, and not fs)"));
        let more = of(json!({"location": "/a", "compress": "false", "readonly": "true", "sas_token": "hunter2"}));
        let failure = more.refuse_loss("r", &wanted).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (3, "repository_differs"));
        for named in ["compress (false, and not true)", "readonly (true)", "sas_token (<redacted>)"] {
            assert!(failure.message.contains(named), "{failure}");
        }
    }
}
