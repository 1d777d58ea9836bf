//! Data streams, as the server shows them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use svc_step::{Failure, Status};

use crate::client::{Server, members, path, text};
use crate::index::select;
use crate::index::select::Names;

/// What the server shows of one data stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Stream {
    /// The index template that it needs for its next index; `None` where it has none, or the server does not say.
    pub template: Option<String>,
    pub backing: Vec<String>,
    pub aliases: BTreeMap<String, Map<String, Value>>,
}

/// Gets the data streams of these names; one that is not there is not in the answer.
pub(crate) fn get(server: &Server, names: &[String]) -> Result<BTreeMap<String, Stream>, Failure> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Names { backing, .. } = select::names(server)?;
    let mut found = BTreeMap::new();
    for (name, backing) in backing.into_iter().filter(|(name, _)| names.contains(name)) {
        // OpenSearch takes the name for that of an index here, and says that there is none.
        let aliases = server.find(&path(&[&name, "_alias"]))?.unwrap_or_default();
        let aliases = aliases.get(&name).and_then(|stream| stream.get("aliases")).into_iter().flat_map(members);
        let stream = Stream {
            template: template(server, &name)?,
            backing,
            aliases: aliases.filter_map(|(alias, value)| Some((alias.clone(), value.as_object()?.clone()))).collect(),
        };
        found.insert(name, stream);
    }
    Ok(found)
}

/// Of `GET /_data_stream/<name>`; `None` where the server does not serve it.
fn template(server: &Server, name: &str) -> Result<Option<String>, Failure> {
    match server.get(&path(&["_data_stream", name])) {
        Ok(found) => Ok(text(&found, "/data_streams/0/template").map(str::to_owned)),
        Err(failure) if matches!(failure.status, Status::Failed | Status::NotFound | Status::Usage) => Ok(None),
        Err(failure) => Err(failure),
    }
}
