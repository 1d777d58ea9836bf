//! What is in the databases: that of a service, or many small tables, or much of one kind.

use anyhow::Result;

use super::server::{DATABASE, Server};
use crate::rows;

/// The database of a service in forty tables, of about that size.
pub fn service(server: &Server, megabytes: usize) -> Result<()> {
    server.fresh(DATABASE)?;
    let schemas: Vec<String> = (0..10).map(|n| format!("part{n}")).collect();
    rows::fill(&server.postgres, DATABASE, &schemas, megabytes)?;
    server.settle()
}

/// A database of about that size, of which one table is two thirds, with a GIN index.
pub fn dominated(server: &Server, megabytes: usize) -> Result<()> {
    server.fresh(DATABASE)?;
    // Some 1.1 kB a row.
    let rows = megabytes * 900;
    let of_rows = |rows: usize| {
        format!(
            "SELECT n, 'item ' || n % 5000, (SELECT string_agg(md5((n + k)::text), ' ') FROM generate_series(1, 30) k), \
             ARRAY[n % 1000, n % 777] FROM generate_series(1, {rows}) n"
        )
    };
    let columns = "(id bigint, name text, content text, tags int[])";
    server.sql(&format!(
        "SET ROLE svc; CREATE TABLE large {columns}; INSERT INTO large {}; ALTER TABLE large ADD PRIMARY KEY (id); \
         CREATE INDEX ON large (name); CREATE INDEX ON large USING gin (tags)",
        of_rows(rows * 2 / 3)
    ))?;
    for table in 0..10 {
        server.sql(&format!(
            "SET ROLE svc; CREATE TABLE small{table} {columns}; INSERT INTO small{table} {}; \
             ALTER TABLE small{table} ADD PRIMARY KEY (id); CREATE INDEX ON small{table} (name)",
            of_rows(rows / 30)
        ))?;
    }
    server.settle()
}

/// So many small tables, each with a key, an index and a foreign key.
pub fn tables(server: &Server, count: usize) -> Result<()> {
    server.fresh(DATABASE)?;
    server.sql("SET ROLE svc; CREATE TABLE base (id int PRIMARY KEY); INSERT INTO base SELECT generate_series(1, 10)")?;
    // Some at a time, or the server runs out of room for locks.
    for first in (0..count).step_by(100) {
        server.sql(&format!(
            "SET ROLE svc; DO $$ BEGIN FOR n IN {first} .. {} LOOP EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, base int REFERENCES base, \
             t text); INSERT INTO t%s SELECT k, k, md5(k::text) FROM generate_series(1, 10) k; CREATE INDEX ON t%s (t)', n, n, n); END LOOP; END $$",
            (first + 100).min(count) - 1
        ))?;
    }
    server.settle()
}

/// Tables of some 250 MB of dump each, with a key. On the server's disk they take a tenth of that, since what is long is compressed
/// there: the disk of a small machine has room for all of it.
pub fn bytes(server: &Server, megabytes: usize) -> Result<()> {
    server.fresh(DATABASE)?;
    for table in 0..megabytes.div_ceil(250) {
        server.sql(&format!(
            "SET ROLE svc; CREATE TABLE b{table} (id int, t text); \
             INSERT INTO b{table} SELECT n, repeat(md5((n + {table})::text), 100) FROM generate_series(1, {}) n; \
             ALTER TABLE b{table} ADD PRIMARY KEY (id)",
            250_000_000 / 3208
        ))?;
    }
    server.settle()
}
