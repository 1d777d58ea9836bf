//! What both databases hold: counts, and checksums when asked for.

use std::collections::BTreeMap;

use postgres::Client;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::migrate::BATCH;
use crate::releases::Shape;
use crate::search::Search;
use crate::settings::Settings;
use crate::{documents, rows};

/// The content of both databases, as far as it is the service's.
#[derive(Serialize)]
pub struct Content {
    relational: Half<Counted>,
    search: Half<Indexed>,
}

#[derive(Serialize)]
struct Half<Part> {
    shape: Option<Shape>,
    parts: BTreeMap<String, Part>,
}

#[derive(Serialize)]
struct Counted {
    count: i64,
    digest: Option<String>,
}

#[derive(Serialize)]
struct Indexed {
    #[serde(flatten)]
    counted: Counted,
    aliases: Vec<String>,
}

/// Reads the content of both databases.
///
/// # Errors
/// A database that cannot be read.
pub fn read(settings: &Settings, digest: bool) -> anyhow::Result<Content> {
    let mut client = rows::connect(settings)?;
    let mut tables = BTreeMap::new();
    for table in rows::relations(&mut client)? {
        let counted = table_content(&mut client, &table, digest)?;
        tables.insert(table, counted);
    }
    let search = Search::new(settings)?;
    let mut parts = BTreeMap::new();
    for (index, aliases) in documents::present(&search, &settings.name)? {
        let counted = index_content(&search, &index, digest)?;
        parts.insert(index, Indexed { counted, aliases });
    }
    Ok(Content {
        relational: Half { shape: rows::recorded_shape(&mut client)?, parts: tables },
        search: Half { shape: documents::recorded_shape(&search, &settings.name)?, parts },
    })
}

fn table_content(client: &mut Client, table: &str, digest: bool) -> anyhow::Result<Counted> {
    let digest = if digest { r#"md5(coalesce(string_agg(t::text, E'\n' ORDER BY t::text COLLATE "C"), ''))"# } else { "NULL" };
    let row = client.query_one(&format!("SELECT count(*), {digest}::text FROM {table} AS t"), &[])?;
    Ok(Counted { count: row.get(0), digest: row.get(1) })
}

fn index_content(search: &Search, index: &str, digest: bool) -> anyhow::Result<Counted> {
    // By GET, which every search database takes here; some refuse a POST with a body.
    search.found(&format!("/{index}/_refresh"))?;
    let answer = search.done("POST", &format!("/{index}/_count"), &json!({"query": {"match_all": {}}}))?;
    let count = answer.get("count").and_then(Value::as_i64).unwrap_or_default();
    Ok(Counted { count, digest: if digest { Some(index_digest(search, index)?) } else { None } })
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
        match (hits.last().and_then(|hit| hit.get("sort")), &mut request) {
            (Some(last), Value::Object(request)) => request.insert("search_after".to_owned(), last.clone()),
            _ => break,
        };
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
