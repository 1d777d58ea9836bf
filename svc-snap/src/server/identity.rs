//! Who answers at an address: which product and version, and of which cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::Failure;

use crate::server::json::{members, text};
use crate::server::line::Line;
use crate::server::refusal;
use crate::server::transport::Answer;

/// Which family a search database is of, by its own answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// Elasticsearch.
    Elasticsearch,
    /// OpenSearch.
    OpenSearch,
}

/// What a search database says of itself.
#[derive(Debug)]
pub(super) struct Identity {
    pub product: Product,
    pub version: String,
    pub cluster_uuid: String,
    pub cluster_name: String,
}

/// Asks who is there: `GET /`, and where that is not served (405) `GET /_cluster/state`.
///
/// # Errors
/// Nobody answers (5), the credentials are refused (3), or it is no search database (3).
pub(super) fn ask(line: &Line) -> Result<Identity, Failure> {
    let root = look(line, "/")?;
    match root.status {
        405 => by_nodes(line, &root),
        200..300 => by_root(line, &root.body),
        _ => Err(refusal::stranger(line.base(), &root)),
    }
}

fn look(line: &Line, path: &str) -> Result<Answer, Failure> {
    line.look("GET", path, None).map_err(|trouble| trouble.failure)
}

fn by_root(line: &Line, root: &Value) -> Result<Identity, Failure> {
    let product = match text(root, "/version/distribution") {
        Some("opensearch") => Some(Product::OpenSearch),
        Some(_) => None,
        None => text(root, "/tagline").filter(|line| *line == "You Know, for Search").map(|_| Product::Elasticsearch),
    };
    let owned = |pointer: &str| text(root, pointer).map(str::to_owned);
    let found = product.zip(owned("/version/number")).zip(owned("/cluster_name"));
    let ((product, version), cluster_name) = found.ok_or_else(|| refusal::not_a_search_database(line.base()))?;
    identified(line, product, version, cluster_name, root)
}

/// Distributions without the module that serves `GET /` say it in pieces.
fn by_nodes(line: &Line, root: &Answer) -> Result<Identity, Failure> {
    if root.product.as_deref() != Some("Elasticsearch") {
        return Err(refusal::not_a_search_database(line.base()));
    }
    let good = |answer: Answer| match answer.status {
        200..300 => Ok(answer.body),
        _ => Err(refusal::stranger(line.base(), &answer)),
    };
    let version = |answer: &Value| text(members(answer.get("nodes")?).next()?.1, "/version").map(str::to_owned);
    let state = good(look(line, "/_cluster/state/version,nodes?filter_path=cluster_uuid,cluster_name,nodes.*.version")?)?;
    let version = match version(&state) {
        Some(version) => Some(version),
        // The state of the first releases of Elasticsearch 8 does not name its nodes' versions.
        None => version(&good(look(line, "/_nodes/_local?filter_path=nodes.*.version")?)?),
    };
    let found = version.zip(text(&state, "/cluster_name").map(str::to_owned));
    let (version, cluster_name) = found.ok_or_else(|| refusal::not_a_search_database(line.base()))?;
    identified(line, Product::Elasticsearch, version, cluster_name, &state)
}

/// A node that has not found its cluster yet says `_na_`.
fn identified(line: &Line, product: Product, version: String, cluster_name: String, said: &Value) -> Result<Identity, Failure> {
    match text(said, "/cluster_uuid").filter(|uuid| *uuid != "_na_").map(str::to_owned) {
        Some(cluster_uuid) => Ok(Identity { product, version, cluster_uuid, cluster_name }),
        None => Err(refusal::no_cluster(line.base())),
    }
}

/// The product as people write it.
pub(crate) const fn product_name(product: Product) -> &'static str {
    match product {
        Product::Elasticsearch => "Elasticsearch",
        Product::OpenSearch => "OpenSearch",
    }
}
