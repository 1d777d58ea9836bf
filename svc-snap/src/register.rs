//! `register`: make a repository known to the search database (procedure, 2.1 and 4.1 step 4).

mod act;
mod definition;
mod plan;
mod refused;
mod setting;
mod strangers;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult};

use self::act::Act;
use self::definition::Definition;
use self::plan::{Found, Plan};
use self::setting::Setting;
use crate::connection::Connection;
use crate::rate::Life;
use crate::repository::{self, RepositoryArg};
use crate::server::Server;

/// Arguments of `svc-snap register`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap register --location /var/backups/search/backup_repo
  svc-snap register --repository old --location /var/backups/search/old_repo --readonly
  svc-snap register --repository far --type s3 --setting bucket=backups --setting base_path=search

Secrets of s3, gcs and azure belong into the search database's keystore, not into settings;
where one must be a setting: --setting KEY=@FILE.")]
pub struct RegisterArgs {
    /// The repository's folder, as every node of the search database sees it (type fs)
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    location: Option<PathBuf>,
    /// Its type: fs, url, s3, gcs, azure, hdfs, …
    #[arg(long = "type", id = "kind", value_name = "TYPE", default_value = "fs")]
    kind: String,
    /// A further setting of it (repeatable); KEY=@FILE takes a secret from a file (mode 600)
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = setting::parse)]
    settings: Vec<Setting>,
    /// Let this server only read it: for the folder of another, or an older, search database
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
    let found = find(call, &server, name)?;
    let plan = Plan::of(&server.cluster_uuid, name, &wanted, &found, args.replace)?;
    if plan.same || args.dry.dry_run {
        return Ok(plan.registered);
    }
    Act { call, server: &server, args, wanted: &wanted, found: &found }.run(plan)
}

/// What the server has of that name.
fn find(call: &Call, server: &Server, name: &str) -> Result<Found, Failure> {
    let Some(definition) = repository::definition(server, name)? else { return Ok(Found::default()) };
    let note = Definition::note(&definition);
    let is_left = note.as_ref().is_some_and(|note| note.life(call) == Life::Dead);
    Ok(Found { before: Some(Definition::read(&definition)), note, is_left })
}
