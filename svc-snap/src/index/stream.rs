//! Data streams, as the server shows them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use svc_step::{Failure, Status};

use crate::client::Server;
use crate::client::json::members;
use crate::client::path::path;
use crate::index::select::{self, Names};

/// What the server shows of one data stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Stream {
    /// Its generation; `None` where the server does not serve `GET /_data_stream`.
    pub generation: Option<u64>,
    /// The index template that it needs for its next index; `None` where it has none, or the server does not say.
    pub template: Option<String>,
    /// Its backing indices, oldest first.
    pub backing: Vec<String>,
    /// Its aliases, as the server states them; OpenSearch knows none.
    pub aliases: BTreeMap<String, Map<String, Value>>,
}

/// Gets the data streams of these names; one that is not there is not in the answer.
pub(crate) fn look(server: &Server, names: &[String]) -> Result<BTreeMap<String, Stream>, Failure> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Names { backing, .. } = select::names(server)?;
    let mut found = BTreeMap::new();
    for (name, backing) in backing.into_iter().filter(|(name, _)| names.contains(name)) {
        let served = served(server, &name)?;
        let said = |key: &str| served.as_ref()?.pointer("/data_streams/0")?.get(key).cloned();
        // OpenSearch takes the name for that of an index here, and says that there is none.
        let aliases = server.find(&path(&[&name, "_alias"]))?.unwrap_or_default();
        let aliases = aliases.get(&name).and_then(|stream| stream.get("aliases")).into_iter().flat_map(members);
        let stream = Stream {
            generation: said("generation").and_then(|value| value.as_u64()),
            template: said("template").and_then(|value| value.as_str().map(str::to_owned)),
            backing,
            aliases: aliases.filter_map(|(alias, value)| Some((alias.clone(), value.as_object()?.clone()))).collect(),
        };
        found.insert(name, stream);
    }
    Ok(found)
}

/// `GET /_data_stream/<name>`; `None` where the server does not serve it.
fn served(server: &Server, name: &str) -> Result<Option<Value>, Failure> {
    match server.get(&path(&["_data_stream", name])) {
        Ok(found) => Ok(Some(found)),
        Err(failure) if matches!(failure.status, Status::Failed | Status::NotFound | Status::Usage) => Ok(None),
        Err(failure) => Err(failure),
    }
}
