//! `register`: make a repository known to the cluster (procedure, 2.1 and 4.1 step 4).

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::redact::json_without_secrets;
use svc_step::reporter::shell_quoted;
use svc_step::{Action, Call, DryRun, Failure, Secret, Status, StepResult, Stopped};

use crate::client::{Server, members, path, text};
use crate::index::refuse_any;
use crate::repository::RepositoryArg;
use crate::snapshot::{Compatibility, verdict::check_restorable};
use crate::throttle::without_record;
use crate::{repository, snapshot};

/// What says where a repository is.
const LOCATION_SETTINGS: [&str; 8] = ["location", "url", "uri", "path", "bucket", "container", "base_path", "client"];

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap register --location /var/backups/search/backup_repo
  svc-snap register --repository old --location /var/backups/search/old_repo --readonly
  svc-snap register --repository far --type s3 --setting bucket=backups --setting base_path=search

Secrets of s3, gcs and azure belong in the server's keystore.")]
pub struct RegisterArgs {
    /// The repository's directory, as every node sees it (type fs)
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    location: Option<PathBuf>,
    /// Its type: fs, url, s3, gcs, azure, hdfs, …
    #[arg(long = "type", id = "kind", value_name = "TYPE", default_value = "fs")]
    kind: String,
    /// A further setting of it (repeatable)
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, Secret)>,
    /// Let this cluster only read it: for the directory of another, or an older, cluster
    #[arg(long)]
    readonly: bool,
    /// Replace a repository of that name that has another type or directory, or settings that would be lost or changed
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A repository that is registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Registered {
    pub cluster_uuid: String,
    pub repository: String,
    #[serde(flatten)]
    pub definition: Definition,
    /// What it was before, without secrets; `null` if none of that name was registered.
    pub before: Option<Definition>,
    /// The changes; empty if it is registered just so.
    pub plan: Vec<Action>,
}

/// What a repository is registered as (2.1). The server keeps every setting as a string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    #[serde(rename = "type")]
    pub kind: String,
    pub settings: Map<String, Value>,
}

pub(crate) fn run(args: &RegisterArgs, call: &Call) -> StepResult<Registered> {
    let wanted = Definition::wanted(args)?;
    let server = args.repository.connect(call)?;
    let name = args.repository.repository.as_str();
    let _lock = repository::lock(call, &server, name, args.dry.dry_run)?;
    let (before, is_left) = repository::definition(&server, name)?.map(|value| Definition::read(call, &value)).unzip();
    if let Some(before) = before.as_ref().filter(|_| !args.replace) {
        before.refuse_loss(name, &wanted)?;
    }
    wanted.refuse_shared(call, &server, name)?;
    // What a dead run has left of its rate is put back by this request; and the server uses one again that it had disabled.
    let is_same = before.as_ref() == Some(&wanted) && is_left != Some(true) && !args.replace;
    let registered = Registered {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: name.to_owned(),
        definition: wanted.clone(),
        before: before.as_ref().map(|one| Definition { settings: json_without_secrets(&one.settings), ..one.clone() }),
        plan: if is_same { Vec::new() } else { vec![Action::request("PUT", path(&["_snapshot", name]), Some(wanted.body()))] },
    };
    if is_same || args.dry.dry_run {
        return Ok(registered);
    }
    let registration = Registration { call, server: &server, name, wanted: &wanted, before: before.as_ref() };
    if let Err(failure) = registration.put() {
        return Err(call.stopped(registration.explained(failure, args.location.as_deref()), registered));
    }
    check_folder(call, &server, name, args.readonly).map_err(|failure| registration.back(failure, registered.clone()))?;
    Ok(registered)
}

struct Registration<'a> {
    call: &'a Call,
    server: &'a Server,
    name: &'a str,
    wanted: &'a Definition,
    before: Option<&'a Definition>,
}

impl Registration<'_> {
    /// A server keeps a repository that it could not verify, so it is read back.
    fn put(&self) -> Result<(), Failure> {
        let path = path(&["_snapshot", self.name]);
        let Err(failure) = self.server.change(self.call, "PUT", &path, Some(&self.wanted.body())) else { return Ok(()) };
        let Ok(after) = repository::definition(self.server, self.name) else {
            drop(self.call.effects().attempt());
            return Err(failure);
        };
        let after = after.map(|after| Definition::read(self.call, &after).0);
        if after.is_none() || after.as_ref() == self.before {
            return Err(failure);
        }
        self.call.effects().happened();
        if failure.status == Status::Timeout && after.as_ref() == Some(self.wanted) { Ok(()) } else { Err(failure) }
    }

    /// The server's refusal, with what helps here.
    fn explained(&self, failure: Failure, location: Option<&Path>) -> Failure {
        let (kind, name) = (&self.wanted.kind, self.name);
        match (failure.code.as_str(), location) {
            ("repository_unusable", Some(location)) if kind == "fs" => failure.hint(format!(
                "{} makes the directory and adds it to path.repo; then restart the server.",
                shell_quoted(&["svc-snap", "configure", "--location", &location.to_string_lossy()])
            )),
            ("repository_unusable", _) if failure.status == Status::Invalid => failure.hint(format!(
                "The causes name the nodes: each needs the keys of the store in its keystore, and the right to write there. It is registered nevertheless: DELETE /_snapshot/{name} takes that back.",
            )),
            _ => failure,
        }
    }

    /// Registers it as it was before, or not at all.
    fn back(&self, failure: Failure, registered: Registered) -> Stopped<Registered> {
        let request = path(&["_snapshot", self.name]);
        let back = match self.before {
            Some(before) if !repository::SHOWN_COMPLETELY.contains(&before.kind.as_str()) => {
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
                let why = format!("It is still registered, since undoing that failed: {why}");
                Stopped::with(failure.cause(why), registered)
            }
        }
    }
}

/// Searches for snapshots of a newer server or the other product: what one of them writes there may leave a list that the other cannot read.
fn check_folder(call: &Call, server: &Server, repository: &str, readonly: bool) -> Result<(), Failure> {
    let all = match snapshot::all(server, repository) {
        Err(failure) if failure.code != "version_unsupported" => {
            call.warn("not_checked", format!("What the repository {repository} holds could not be read: {failure}"));
            return Ok(());
        }
        all => all?,
    };
    for compatibility in [Compatibility::Other, Compatibility::Newer] {
        let last = all.iter().rfind(|snapshot| snapshot.compatibility == compatibility);
        let Some(failure) = last.and_then(|last| check_restorable(server, repository, last).err()) else { continue };
        if !readonly {
            return Err(failure.hint(
                "Two clusters must never write to one directory: register it with --readonly, and another directory for this cluster's own snapshots.",
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

impl Definition {
    fn wanted(args: &RegisterArgs) -> Result<Self, Failure> {
        let mut settings = Map::new();
        if args.kind == "fs" {
            let location = args.location.as_deref().and_then(Path::to_str).filter(|location| location.starts_with('/'));
            let location = location.ok_or_else(|| {
                Failure::usage("options_invalid", "The repository's directory is not given as an absolute path.")
                    .hint("Pass --location /DIR (SVC_BACKUP_REPO); other types than fs have settings (--type, --setting).")
            })?;
            settings.insert("location".to_owned(), json!(Path::new(location).components().collect::<PathBuf>()));
            settings.insert("compress".to_owned(), json!("true"));
        }
        if args.readonly {
            settings.insert("readonly".to_owned(), json!("true"));
        }
        settings.extend(args.settings.iter().map(|(key, value)| (key.clone(), json!(value.expose()))));
        let without = json_without_secrets(&settings);
        if let Some((key, _)) = settings.iter().find(|(key, value)| without.get(*key) != Some(*value)) {
            let message =
                format!("The setting {key} holds a secret, and all users of this host can read it on the command line.");
            return Err(Failure::usage("options_invalid", message)
                .hint("Write it into the server's keystore on every node; then change the secret, which may be known by now."));
        }
        Ok(Self { kind: args.kind.clone(), settings })
    }

    /// As it was registered, without a run's change of its rate; and whether an ended run of this state directory made one.
    fn read(call: &Call, value: &Value) -> (Self, bool) {
        let (settings, is_left) = without_record(call, value);
        (Self { kind: text(value, "/type").unwrap_or_default().to_owned(), settings }, is_left)
    }

    fn body(&self) -> Value {
        json!({"type": self.kind, "settings": self.settings})
    }

    /// The directory that it writes to.
    fn written(&self) -> Option<&Path> {
        let is_written = self.kind == "fs" && self.settings.get("readonly") != Some(&json!("true"));
        self.settings.get("location").and_then(Value::as_str).filter(|_| is_written).map(Path::new)
    }

    /// Refuses a directory that another repository of the cluster writes to (3): the server would disable one of them.
    fn refuse_shared(&self, call: &Call, server: &Server, name: &str) -> Result<(), Failure> {
        let Some(location) = self.written() else { return Ok(()) };
        let all = server.get("/_snapshot/_all")?;
        let is_other = |(other, one): &(_, &Value)| *other != name && Self::read(call, one).0.written() == Some(location);
        let others: Vec<&String> = members(&all).filter(is_other).map(|(other, _)| other).collect();
        let hint = "Use that one (--repository); or pass --readonly or another directory; or take that one away first: DELETE /_snapshot/NAME leaves its snapshots.";
        refuse_any("repository_shared", "Another repository of this cluster writes to that directory", &others, hint)
    }

    /// Refuses `wanted` instead of it if snapshots would be out of sight, or settings lost or changed; their values may be secrets.
    fn refuse_loss(&self, name: &str, wanted: &Self) -> Result<(), Failure> {
        let is_place = |key: &&String| LOCATION_SETTINGS.contains(&key.as_str()) && !self.settings.contains_key(*key);
        let keys = self.settings.keys().chain(wanted.settings.keys().filter(is_place));
        let differing = keys.filter(|key| self.settings.get(*key) != wanted.settings.get(*key)).map(String::as_str);
        let named: Vec<&str> = differing.chain((self.kind != wanted.kind).then_some("type")).collect();
        let message = format!("A repository {name} is registered already, with other settings");
        let hint = "svc-snap health shows its directory. Give these settings too (--readonly, --setting KEY=VALUE), or register the new one under another name (--repository), or pass --replace to svc-snap register; its snapshots stay in their directory.";
        refuse_any("name_in_use", &message, &named, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_place_in_same_store_is_refused() {
        let of =
            |settings: Value| Definition { kind: "s3".to_owned(), settings: settings.as_object().cloned().unwrap_or_default() };
        let (root, below) = (of(json!({"bucket": "b"})), of(json!({"bucket": "b", "base_path": "x"})));
        assert!(root.refuse_loss("r", &below).unwrap_err().message.ends_with(": base_path."));
        assert!(root.refuse_loss("r", &root).is_ok());
    }
}
