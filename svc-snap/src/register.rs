//! `register`: make a repository known to the search database (procedure, 2.1 and 4.1 step 4).

mod definition;
mod refused;
mod strangers;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

use self::definition::Definition;
use self::refused::{elsewhere, hinted, not_seen, other_than_asked};
use crate::connection::Connection;
use crate::rate::{LOCK, Life, with_note};
use crate::repository::unusable;
use crate::repository::{self, RepositoryArg};
use crate::server::Server;
use crate::server::path::path;
use crate::server::redact::redacted;

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

pub(crate) fn run(args: &RegisterArgs, call: &Call) -> StepResult<Registered> {
    let wanted = Definition::wanted(args)?;
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

fn setting(text: &str) -> Result<(String, String), String> {
    // A setting may be a secret, so it is not repeated.
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write a setting as KEY=VALUE".to_owned()),
    }
}
