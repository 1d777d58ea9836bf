//! The server that a step works with: which product and version it is.

use std::ops::Deref;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::deadline::Deadline;
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, Status};

use crate::client::{Answer, Client, Connection, errors, members, text};

/// Which product a server is, by its own answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// Elasticsearch.
    Elasticsearch,
    /// OpenSearch.
    OpenSearch,
}

/// A server that has said who it is, and its client. It is cheap to clone, and shared by the threads of a step.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    client: Client,
    pub product: Product,
    pub version: String,
    pub cluster_uuid: String,
    pub cluster_name: String,
}

impl Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Server {
    /// Connects, and asks which server it is. Errors: no answer (5), credentials that are refused, or neither of the products (3).
    pub(crate) fn connect(connection: &Connection, call: &Call) -> Result<Self, Failure> {
        let settings = connection.settings()?;
        if settings.insecure {
            let base = &settings.base;
            call.warn("not_trusted", format!("The certificate of {base} is not verified (--insecure, SVC_SEARCH_INSECURE): whoever is in between could read and change everything."));
        }
        let client = Client::new(settings, call);
        let root = client.send("GET", "/", None)?;
        let server = match root.status {
            405 => by_nodes(client, &root),
            200..300 => by_root(client, &root.json()?),
            _ => Err(errors::not_identified(&root)),
        }?;
        call.reporter().detail(&format!("{:?} {} ({})", server.product, server.version, server.cluster_name));
        Ok(server)
    }

    /// A command of this tool for hints, with the options that lead it to this server and to the state directory of this call.
    pub(crate) fn command(&self, call: &Call, args: &[&str]) -> String {
        let args = ["svc-snap"].iter().chain(args).map(|arg| (*arg).to_owned());
        shell_quoted(&[args.collect(), self.client.options.clone(), call.state_dir_option()].concat())
    }

    /// The same whose requests end with signals and the time limit, whatever was changed before.
    pub(crate) fn interruptible(&self) -> Self {
        Self { client: self.client.interruptible(), ..self.clone() }
    }

    /// The same for undoing something: after a signal or the end of the time limit a server that does not answer within 10 s is given up.
    pub(crate) fn for_undo(&self, call: &Call) -> Self {
        if call.check().is_ok() { self.clone() } else { self.with_shutdown_timeout() }
    }

    /// The same that is given up after 10 s in all.
    pub(crate) fn with_shutdown_timeout(&self) -> Self {
        let client = self.client.clone();
        let deadline = if client.deadline.passed() { client.deadline } else { Deadline::new(Some(Duration::ZERO)) };
        Self { client: Client { deadline, ..client }, ..self.clone() }
    }
}

fn by_root(client: Client, root: &Value) -> Result<Server, Failure> {
    let product = match text(root, "/version/distribution") {
        Some("opensearch") => Some(Product::OpenSearch),
        Some(_) => None,
        None => text(root, "/tagline").filter(|line| *line == "You Know, for Search").map(|_| Product::Elasticsearch),
    };
    identified(client, product, text(root, "/version/number").map(str::to_owned), root)
}

/// Maven's distributions of Elasticsearch lack the module that serves `GET /`, and say it in pieces. (Only for them.)
fn by_nodes(client: Client, root: &Answer) -> Result<Server, Failure> {
    if root.product.as_deref() != Some("Elasticsearch") {
        return Err(errors::not_a_cluster(client.url()));
    }
    let get = |path: &str| {
        let answer = client.send("GET", path, None)?;
        if matches!(answer.status, 200..300) { Ok(answer.json()?) } else { Err(errors::not_identified(&answer)) }
    };
    let state = get("/_cluster/state/version?filter_path=cluster_uuid,cluster_name")?;
    let nodes = get("/_nodes/_local?filter_path=nodes.*.version")?;
    let version = nodes.get("nodes").and_then(|nodes| text(members(nodes).next()?.1, "/version").map(str::to_owned));
    identified(client, Some(Product::Elasticsearch), version, &state)
}

/// A node that has not found its cluster yet says `_na_`.
fn identified(client: Client, product: Option<Product>, version: Option<String>, said: &Value) -> Result<Server, Failure> {
    let name = text(said, "/cluster_name").map(str::to_owned);
    let Some(((product, version), cluster_name)) = product.zip(version).zip(name) else {
        return Err(errors::not_a_cluster(client.url()));
    };
    let cluster_uuid = text(said, "/cluster_uuid").filter(|uuid| *uuid != "_na_").map(str::to_owned);
    let cluster_uuid = cluster_uuid.ok_or_else(|| errors::no_cluster(client.url()))?;
    Ok(Server { client, product, version, cluster_uuid, cluster_name })
}

/// A server continues by itself with work that is not waited for any more: `what`, such as `the cleanup of the repository my_backup`.
/// `is_begun`: it was accepted, so that the same is true of a server that is away.
pub(crate) fn continues_by_itself(call: &Call, failure: Failure, is_begun: bool, what: &str) -> Failure {
    let is_away = is_begun && failure.status == Status::Unavailable;
    if failure.signal.is_none() && failure.status != Status::Timeout && !is_away {
        return failure;
    }
    let again = call.same_command();
    failure.hint(format!("The server continues by itself with {what}. Run {again}: it checks the outcome."))
}
