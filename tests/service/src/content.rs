//! What both databases hold of the service: counts and checksums.

use anyhow::Result;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::documents::Documents;
use crate::migrate::BATCH;
use crate::rows;
use crate::settings::Settings;

/// The content of both databases.
pub fn read(settings: &Settings) -> Result<Value> {
    let mut client = settings.connect()?;
    let mut tables = Map::new();
    let sum = r#"md5(coalesce(string_agg(t::text, E'\n' ORDER BY t::text COLLATE "C"), ''))"#;
    for table in rows::relations(&mut client)? {
        let row = client.query_one(&format!("SELECT count(*), {sum} FROM {table} AS t"), &[])?;
        tables.insert(table, json!({"count": row.get::<_, i64>(0), "digest": row.get::<_, String>(1)}));
    }
    let search = Documents(settings);
    let mut parts = Map::new();
    for (index, aliases) in search.present()? {
        // By GET, which every search database takes here; some refuse a POST with a body.
        search.found("GET", &format!("/{index}/_refresh"))?;
        let count = &search.ask("POST", &format!("/{index}/_count"), &json!({"query": {"match_all": {}}}))?["count"];
        let digest = index_digest(&search, &index)?;
        parts.insert(index, json!({"count": count, "digest": digest, "aliases": aliases}));
    }
    Ok(json!({
        "relational": {"shape": rows::recorded_shape(&mut client)?, "parts": tables},
        "search": {"shape": search.recorded_shape()?, "parts": parts},
    }))
}

/// A checksum over every document in the order of `item_id`, which every index of the service has.
fn index_digest(search: &Documents<'_>, index: &str) -> Result<String> {
    let mut digest = Sha256::new();
    let mut request = json!({"size": BATCH, "sort": [{"item_id": "asc"}]});
    loop {
        let answer = search.ask("POST", &format!("/{index}/_search"), &request)?;
        let hits = answer["hits"]["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
        for hit in hits {
            digest.update(format!("{:?} {:?} {:?}\n", hit.get("_id"), hit.get("_routing"), hit.get("_source")));
        }
        let Some(last) = hits.last() else { break };
        request["search_after"] = last["sort"].clone();
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
