//! What the two databases hold, in a form that can be compared: the same content is equal, whatever way it came there.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::http;
use crate::postgres::{Postgres, identifier, literal};

/// Two are equal whatever the order of the keys in their objects, in which servers are free.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    pub documents: BTreeMap<String, Value>,
    pub mappings: Value,
    pub aliases: Value,
}

/// Every open index that `pattern` names, hidden ones too, by its name; refreshed first, so that what was written counts. `url` is
/// the server's address.
pub fn documents(url: &str, pattern: &str) -> Result<BTreeMap<String, Index>> {
    http::expect("POST", &format!("{url}/{pattern}/_refresh?expand_wildcards=open,hidden"), None)?;
    let mappings = http::expect("GET", &format!("{url}/{pattern}/_mapping?expand_wildcards=open,hidden"), None)?;
    let aliases = http::expect("GET", &format!("{url}/{pattern}/_alias?expand_wildcards=open,hidden"), None)?;
    let names = mappings.as_object().context("the mappings are no object")?.keys();
    names
        .map(|name| {
            let index = Index {
                documents: sources(url, name)?,
                mappings: mappings[name]["mappings"].clone(),
                aliases: aliases[name]["aliases"].clone(),
            };
            Ok((name.clone(), index))
        })
        .collect()
}

/// Every document of one index, page by page, so that the server's limit of 10,000 does not matter.
fn sources(url: &str, index: &str) -> Result<BTreeMap<String, Value>> {
    let first = json!({"size": 5_000, "sort": ["_doc"], "track_total_hits": true});
    let mut page = http::expect("POST", &format!("{url}/{index}/_search?scroll=1m"), Some(&first))?;
    let total = page["hits"]["total"]["value"].as_u64().context("no count of hits")?;
    let mut found = BTreeMap::new();
    loop {
        ensure!(page["_shards"]["failed"] == 0, "a shard of {index} did not answer: {}", page["_shards"]);
        let scroll = json!({"scroll": "1m", "scroll_id": page["_scroll_id"].clone()});
        let hits = page["hits"]["hits"].as_array().context("no hits")?;
        for hit in hits {
            found.insert(hit["_id"].as_str().context("a hit without an id")?.to_owned(), hit["_source"].clone());
        }
        if hits.is_empty() {
            let done = json!({"scroll_id": scroll["scroll_id"].clone()});
            http::expect("DELETE", &format!("{url}/_search/scroll"), Some(&done))?;
            break;
        }
        page = http::expect("POST", &format!("{url}/_search/scroll"), Some(&scroll))?;
    }
    ensure!(found.len() as u64 == total, "{index} said that it holds {total} documents and gave {}", found.len());
    Ok(found)
}

/// A database as `pg_dump` writes it, as text.
pub fn postgres_dump(postgres: &Postgres, database: &str) -> Result<String> {
    Ok(String::from_utf8(postgres_bytes(postgres, database)?)?)
}

/// The very bytes of `pg_dump`, with a key that is always the same instead of one that differs from dump to dump.
pub fn postgres_bytes(postgres: &Postgres, database: &str) -> Result<Vec<u8>> {
    let mut pg_dump = postgres.administrator("pg_dump");
    let output = pg_dump.arg("--restrict-key=svc").arg(format!("--dbname={database}")).output()?;
    ensure!(output.status.success(), "{pg_dump:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// Reads a copy that nobody may connect to until it is swapped in: it is opened for that long.
pub fn of_copy<T>(postgres: &Postgres, copy: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
    let allows = |allows: bool| format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allows}", identifier(copy));
    let open = postgres.sql("postgres", &format!("SELECT datallowconn FROM pg_database WHERE datname = {}", literal(copy)))?;
    ensure!(open == "f", "the copy {copy} is not there or not closed: {open}");
    postgres.sql("postgres", &allows(true))?;
    let found = read();
    postgres.sql("postgres", &allows(false))?;
    found
}

/// The first lines that differ, for people.
pub fn difference(before: &str, after: &str) -> String {
    let pairs = before.lines().zip(after.lines()).enumerate();
    let lines = pairs.filter(|(_, (one, other))| one != other).take(5);
    let told: String = lines.map(|(line, (one, other))| format!("{}: {one}\n   now {other}\n", line + 1)).collect();
    format!("{told}{} lines, now {}", before.lines().count(), after.lines().count())
}
