//! What both databases hold of the service: counts, and checksums when they are wanted.

use postgres::Client;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::migrate::BATCH;
use crate::search::Search;
use crate::settings::Settings;
use crate::{documents, rows};

/// The content of both databases.
pub fn read(settings: &Settings, digest: bool) -> anyhow::Result<Value> {
    let mut client = rows::connect(settings)?;
    let mut tables = Map::new();
    for table in rows::relations(&mut client)? {
        let counted = table_content(&mut client, &table, digest)?;
        tables.insert(table, counted);
    }
    let search = Search::new(settings);
    let mut parts = Map::new();
    for (index, aliases) in documents::present(&search, &settings.name)? {
        let mut counted = index_content(&search, &index, digest)?;
        counted["aliases"] = json!(aliases);
        parts.insert(index, counted);
    }
    Ok(json!({
        "relational": {"shape": rows::recorded_shape(&mut client)?, "parts": tables},
        "search": {"shape": documents::recorded_shape(&search, &settings.name)?, "parts": parts},
    }))
}

fn table_content(client: &mut Client, table: &str, digest: bool) -> anyhow::Result<Value> {
    let digest = if digest { r#"md5(coalesce(string_agg(t::text, E'\n' ORDER BY t::text COLLATE "C"), ''))"# } else { "NULL" };
    let row = client.query_one(&format!("SELECT count(*), {digest}::text FROM {table} AS t"), &[])?;
    Ok(json!({"count": row.get::<_, i64>(0), "digest": row.get::<_, Option<String>>(1)}))
}

fn index_content(search: &Search, index: &str, digest: bool) -> anyhow::Result<Value> {
    // By GET, which every search database takes here; some refuse a POST with a body.
    search.found("GET", &format!("/{index}/_refresh"))?;
    let answer = search.done("POST", &format!("/{index}/_count"), &json!({"query": {"match_all": {}}}))?;
    let digest = if digest { Some(index_digest(search, index)?) } else { None };
    Ok(json!({"count": answer["count"], "digest": digest}))
}

/// A checksum over every document in the order of `item_id`, which every index of the service has.
fn index_digest(search: &Search, index: &str) -> anyhow::Result<String> {
    let mut digest = Sha256::new();
    let mut request = json!({"size": BATCH, "sort": [{"item_id": "asc"}]});
    loop {
        let answer = search.done("POST", &format!("/{index}/_search"), &request)?;
        let hits = answer.pointer("/hits/hits").and_then(Value::as_array).cloned().unwrap_or_default();
        for hit in &hits {
            digest.update(format!("{:?} {:?} {:?}\n", hit.get("_id"), hit.get("_routing"), hit.get("_source")));
        }
        let Some(last) = hits.last() else { break };
        request["search_after"] = last["sort"].clone();
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
