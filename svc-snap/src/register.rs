//! `register`: make a repository known to the cluster (procedure, 2.1 and 4.1 step 4).

mod definition;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::line_secrets::json_without_secrets;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use self::definition::{Definition, Setting};
use crate::connection::Connection;
use crate::repository::{self, RepositoryArg, unusable};
use crate::server::path::path;
use crate::server::{Product, Server};
use crate::snapshot;
use crate::snapshot::verdict::{self, Compatibility};

/// Arguments of `svc-snap register`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap register --location /var/backups/search/backup_repo
  svc-snap register --repository old --location /var/backups/search/old_repo --readonly
  svc-snap register --repository far --type s3 --setting bucket=backups --setting base_path=search

Secrets of s3, gcs and azure belong into the server's keystore, not into settings;
where one must be a setting: --setting KEY=@FILE.")]
pub struct RegisterArgs {
    /// The repository's folder, as every node sees it (type fs)
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    location: Option<PathBuf>,
    /// Its type: fs, url, s3, gcs, azure, hdfs, …
    #[arg(long = "type", id = "kind", value_name = "TYPE", default_value = "fs")]
    kind: String,
    /// A further setting of it (repeatable); KEY=@FILE takes a secret from a file (mode 600)
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = definition::setting)]
    settings: Vec<Setting>,
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

pub(crate) fn run(args: &RegisterArgs, call: &Call) -> StepResult<Registered> {
    let wanted = Definition::wanted(args)?;
    let server = Server::connect(&args.connection, call)?;
    let name = args.repository.repository.as_str();
    let _lock = repository::lock(call, &server, name, &args.dry)?;
    let (before, note) = repository::definition(&server, name)?.map(|value| Definition::read(&value)).unzip();
    if let Some(before) = before.as_ref().filter(|_| !args.replace) {
        before.refuse_loss(name, &wanted)?;
    }
    // What a dead run has left of its rate is put back by this request.
    let left = note.flatten().filter(|note| note.is_alive(call) == Some(false));
    let is_same = before.as_ref() == Some(&wanted) && left.is_none();
    let request = Action::request("PUT", path(&["_snapshot", name]), Some(wanted.shown()));
    let registered = Registered {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: name.to_owned(),
        kind: wanted.kind.clone(),
        settings: json_without_secrets(&wanted.settings),
        before: before.as_ref().map(|one| Before { kind: one.kind.clone(), settings: json_without_secrets(&one.settings) }),
        plan: if is_same { Vec::new() } else { vec![request] },
    };
    if is_same || args.dry.dry_run {
        return Ok(registered);
    }
    let act = Act { call, server: &server, args, name, wanted: &wanted, before: before.as_ref() };
    let is_right = match act.put() {
        Ok(is_right) => is_right,
        Err(Refusal::WithoutEffect(failure)) => return Err(failure.into()),
        Err(Refusal::Registered(failure)) => return Err(Stopped::with(failure, registered)),
    };
    if let Some(note) = left.filter(|_| is_right) {
        note.forget(call);
    }
    if !is_right {
        let message = format!("The repository {name} is registered, but not with the settings that were sent.");
        let failure = Failure::failed("repository_other_than_asked", message)
            .hint(format!("GET /_snapshot/{name} shows them; another call may have registered it at the same time."));
        return Err(Stopped::with(failure, registered));
    }
    check_folder(call, &server, name, args.readonly).map_err(|failure| act.back(failure, registered.clone()))?;
    Ok(registered)
}

/// A registration that failed.
enum Refusal {
    WithoutEffect(Failure),
    /// It is registered all the same, or the outcome is unknown.
    Registered(Failure),
}

struct Act<'a> {
    call: &'a Call,
    server: &'a Server,
    args: &'a RegisterArgs,
    name: &'a str,
    wanted: &'a Definition,
    before: Option<&'a Definition>,
}

impl Act<'_> {
    /// Registers it and reads it back; whether it is as it was asked for.
    fn put(&self) -> Result<bool, Refusal> {
        let path = path(&["_snapshot", self.name]);
        let sent = self.server.change(self.call, "PUT", &path, Some(&self.wanted.body()));
        // A server keeps a repository that it could not verify.
        let after = repository::definition(self.server, self.name);
        let after = after.map(|after| after.map(|value| Definition::read(&value).0));
        let is_right = matches!(&after, Ok(Some(after)) if after.is_as(self.wanted));
        let failure = match sent {
            Ok(_) => return after.map(|_| is_right).map_err(Refusal::Registered),
            Err(failure) => self.explained(failure),
        };
        match after {
            Ok(after) if after.is_some() && after.as_ref() != self.before => {
                self.call.effects().happened();
                // Only the answer was lost.
                if is_right && failure.status == Status::Timeout { Ok(true) } else { Err(Refusal::Registered(failure)) }
            }
            Err(why) if failure.code == unusable::CODE => {
                drop(self.call.effects().attempt());
                Err(Refusal::Registered(failure.cause(why.message)))
            }
            _ if failure.status == Status::Timeout => Err(Refusal::Registered(failure)),
            _ => Err(Refusal::WithoutEffect(failure)),
        }
    }

    /// The server's refusal, with what helps here.
    fn explained(&self, failure: Failure) -> Failure {
        let (kind, name) = (&self.args.kind, self.name);
        let is_unusable = failure.code == unusable::CODE;
        let mut failure = if is_unusable { unusable::explained(self.server, name, failure).1 } else { failure };
        match (failure.code.as_str(), &self.args.location) {
            ("repository_type_unknown", _) => {
                let plugin =
                    if self.server.product == Product::OpenSearch { "opensearch-plugin" } else { "elasticsearch-plugin" };
                let message = format!("The cluster has no repositories of the type {kind}.");
                Failure { message, ..failure }.hint(format!(
                    "Install its plugin on every node (bin/{plugin} install repository-{kind}), and restart the nodes."
                ))
            }
            ("location_outside_path_repo" | unusable::CODE, Some(location)) if kind == "fs" => failure.hint(format!(
                "svc-snap configure --location {} makes the folder and adds it to path.repo; then restart the server.",
                location.display()
            )),
            (unusable::CODE, _) => {
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
            Some(before) if before.hides_settings() => {
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
///
/// # Errors
/// It is for writing, and there are such; or this server cannot read it at all (3).
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
        let Some(failure) = last.and_then(|last| verdict::check_restorable(server, repository, last).err()) else { continue };
        if !readonly {
            return Err(Failure::refused(code, failure.message).hint(
                "Two clusters must never write to one folder: register it with --readonly, and another folder for this cluster's own snapshots.",
            ));
        }
        call.warn(&failure.code, failure.message);
    }
    Ok(())
}
