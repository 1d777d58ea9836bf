//! What is in the databases: that of a service, or many small tables, or much of one kind.

use anyhow::Result;

use super::server::{DATABASE, Server};

/// Rows of each table for one MB of the database, as it was seen to come out.
const USERS: usize = 54;
const PROJECTS: usize = 11;
const DOCUMENTS: usize = 436;
const EVENTS: usize = 2720;

/// A service's tables: text and jsonb, keys, foreign keys, and a GIN index.
const SERVICE: &str = r"
    SET ROLE svc;
    CREATE TABLE users (id serial PRIMARY KEY, name text NOT NULL, email text NOT NULL UNIQUE, created timestamptz NOT NULL);
    CREATE TABLE projects (id serial PRIMARY KEY, owner int NOT NULL, title text NOT NULL, settings jsonb NOT NULL);
    CREATE TABLE documents (id bigserial PRIMARY KEY, project int NOT NULL, author int NOT NULL, title text NOT NULL,
        body text NOT NULL, meta jsonb NOT NULL, created timestamptz NOT NULL);
    CREATE TABLE events (id bigserial PRIMARY KEY, document bigint NOT NULL, actor int NOT NULL, kind text NOT NULL,
        at timestamptz NOT NULL, payload jsonb NOT NULL);
    INSERT INTO users (name, email, created) SELECT 'User ' || n, 'user' || n || '@example.org', '2026-01-01'::timestamptz + n * '1s'::interval
        FROM generate_series(1, %USERS%) n;
    INSERT INTO projects (owner, title, settings) SELECT 1 + n % %USERS%, 'Project ' || md5(n::text), jsonb_build_object('n', n, 'open', n % 2 = 0)
        FROM generate_series(1, %PROJECTS%) n;
    INSERT INTO documents (project, author, title, body, meta, created)
        SELECT 1 + n % %PROJECTS%, 1 + n * 7 % %USERS%, 'Document ' || n,
            (SELECT string_agg(md5((n * 40 + k)::text), CASE k % 7 WHEN 0 THEN E'\n' ELSE ' ' END) FROM generate_series(1, 12 + n % 20) k),
            jsonb_build_object('tags', jsonb_build_array('t' || n % 97, 't' || n % 1009), 'language', n % 5, 'size', n),
            '2026-01-01'::timestamptz + n * '7s'::interval
        FROM generate_series(1, %DOCUMENTS%) n;
    INSERT INTO events (document, actor, kind, at, payload)
        SELECT 1 + n * 31::bigint % %DOCUMENTS%, 1 + n % %USERS%, (ARRAY['read', 'write', 'share', 'comment'])[1 + n % 4],
            '2026-01-01'::timestamptz + n * '1s'::interval, jsonb_build_object('ip', '10.0.' || n % 256 || '.' || n % 91, 'took', n % 1777)
        FROM generate_series(1, %EVENTS%) n;
    CREATE INDEX documents_project ON documents (project, created);
    CREATE INDEX documents_meta ON documents USING gin (meta jsonb_path_ops);
    CREATE INDEX events_document ON events (document);
    CREATE INDEX events_actor_at ON events (actor, at);
    ALTER TABLE projects ADD FOREIGN KEY (owner) REFERENCES users;
    ALTER TABLE documents ADD FOREIGN KEY (project) REFERENCES projects, ADD FOREIGN KEY (author) REFERENCES users;
    ALTER TABLE events ADD FOREIGN KEY (document) REFERENCES documents, ADD FOREIGN KEY (actor) REFERENCES users;
    CREATE VIEW open_projects AS SELECT id, title FROM projects WHERE (settings ->> 'open')::boolean;
";

/// The database of a service, of about that size.
pub fn service(server: &Server, megabytes: usize) -> Result<()> {
    server.fresh(DATABASE)?;
    let rows = [("%USERS%", USERS), ("%PROJECTS%", PROJECTS), ("%DOCUMENTS%", DOCUMENTS), ("%EVENTS%", EVENTS)];
    let sql = rows.iter().fold(SERVICE.to_owned(), |sql, (name, rows)| sql.replace(name, &(rows * megabytes).to_string()));
    server.sql(&sql)?;
    server.sql("VACUUM (ANALYZE, FREEZE)")?;
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
