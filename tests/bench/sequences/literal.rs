//! The procedure's own commands, as an operator types them one after the other (9.2, 9.3).

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::ground::{AFTER, BEFORE, Ground};
use crate::account::Entry;
use crate::measure::Line;

/// The snapshot that they take.
const SNAPSHOT: &str = "snapshot_svc_20260101";

/// What the commands took, one by one; the service is down from the first to the last.
#[derive(Debug, Default)]
pub struct Spent {
    pub entries: Vec<Entry>,
}

impl Spent {
    /// Without the installer's and the unit's own time.
    pub fn counted(&self) -> f64 {
        self.entries.iter().filter(|entry| !entry.is_own).map(|entry| entry.seconds).sum()
    }

    fn add(&mut self, name: &str, is_own: bool, ground: &Ground, line: &Line) -> Result<()> {
        let seconds = line.time(&ground.output())?;
        self.entries.push(Entry::new("while the service is down", name, seconds, is_own));
        Ok(())
    }
}

/// 9.2: stop, snapshot, dump, installer, start.
pub fn upgrade(ground: &Ground) -> Result<Spent> {
    ground.settle()?;
    let mut spent = Spent::default();
    spent.add("`systemctl stop`", true, ground, &systemctl(ground, "stop", &ground.product.unit()))?;
    let body = json!({"ignore_unavailable": true, "include_global_state": true,
        "metadata": {"taken_by": "bench", "taken_because": "backup before upgrade"}});
    let path = ground.repository(&format!("/{SNAPSHOT}?wait_for_completion=true"));
    spent.add("`curl -X PUT …?wait_for_completion=true`", false, ground, &curl(ground, "PUT", &path, Some(&body.to_string())))?;
    ensure!(ground.printed()?["snapshot"]["state"] == "SUCCESS", "the snapshot is no SUCCESS");
    let postgres = &ground.product.host.postgres;
    let dump = format!(
        "exec '{}/pg_dump' --dbname={} --host='{}' --port={} --username={} > '{}'",
        postgres.bin_dir.display(),
        ground.product.database(),
        postgres.socket_dir.display(),
        postgres.port,
        ground.product.name,
        dump_file(ground),
    );
    spent.add("`pg_dump`", false, ground, &ground.line(&["sh", "-c", &dump]))?;
    spent.add("the installer", true, ground, &installer(ground, AFTER))?;
    spent.add("`systemctl start`", true, ground, &systemctl(ground, "start", &ground.product.unit()))?;
    Ok(spent)
}

/// 9.3: stop, uninstall, restore both, marker, the previous installer, start. The indices that are there stand in the way of a
/// restore, so they are deleted; the database is the service's own (without OWNER, the next upgrade fails).
pub fn rollback(ground: &Ground) -> Result<Spent> {
    ground.settle()?;
    let mut spent = Spent::default();
    let product = &ground.product;
    spent.add("`systemctl stop`", true, ground, &systemctl(ground, "stop", &product.unit()))?;
    let uninstaller = product.install_dir().join("bin/svc-uninstall").display().to_string();
    spent.add("the uninstaller", true, ground, &ground.line(&[&uninstaller]))?;
    let all = product.host.search.ask("GET", "/_cat/indices?format=json&h=index&expand_wildcards=all", None)?;
    let names: Vec<&str> = all.as_array().context("no indices")?.iter().filter_map(|one| one["index"].as_str()).collect();
    spent.add("`curl -X DELETE`", false, ground, &curl(ground, "DELETE", &format!("/{}", names.join(",")), None))?;
    // Without `,-.geoip_databases`: where that index is not in the snapshot, OpenSearch refuses to leave it out.
    let body = json!({"indices": "*", "include_global_state": false}).to_string();
    let path = ground.repository(&format!("/{SNAPSHOT}/_restore?wait_for_completion=true"));
    spent.add("`curl …/_restore?wait_for_completion=true`", false, ground, &curl(ground, "POST", &path, Some(&body)))?;
    let shards = &ground.printed()?["snapshot"]["shards"];
    ensure!(shards["failed"] == 0 && shards["total"] != 0, "the restore failed: {shards}");
    let (database, owner) = (product.database(), &product.name);
    let create = format!("dropdb {database} && createdb --owner={owner} {database}");
    spent.add("`dropdb`, `createdb`", false, ground, &administrator(ground, &create, "/dev/null"))?;
    let load = format!("psql -Xq -v ON_ERROR_STOP=1 -d {database} > /dev/null");
    spent.add("`psql < svc_db.backup.sql`", false, ground, &administrator(ground, &load, &dump_file(ground)))?;
    spent.add("`systemctl restart postgresql`", false, ground, &systemctl(ground, "restart", ground.postgres_unit()))?;
    let marker = product.install_dir().join("current-version").display().to_string();
    spent.add("`rm current-version`", false, ground, &ground.line(&["rm", &marker]))?;
    spent.add("the previous installer", true, ground, &installer(ground, BEFORE))?;
    spent.add("`systemctl start`", true, ground, &systemctl(ground, "start", &product.unit()))?;
    Ok(spent)
}

fn dump_file(ground: &Ground) -> String {
    ground.scratch("svc_db.backup.sql").display().to_string()
}

fn systemctl(ground: &Ground, verb: &str, unit: &str) -> Line {
    ground.line(&["systemctl", "--user", verb, unit])
}

fn installer(ground: &Ground, version: &str) -> Line {
    ground.line(&[&ground.product.installer(version).display().to_string()])
}

fn curl(ground: &Ground, method: &str, path: &str, body: Option<&str>) -> Line {
    let url = ground.url(path);
    let mut words = vec!["curl", "-sS", "-f", "--noproxy", "*", "-X", method, &url];
    if let Some(body) = body {
        words.extend(["-H", "Content-Type: application/json", "-d", body]);
    }
    ground.line(&words)
}

/// As the administrator of the relational database, over its socket; what is read is the caller's, whose file it is.
fn administrator(ground: &Ground, script: &str, input: &str) -> Line {
    let postgres = &ground.product.host.postgres;
    let (bin, socket, port) = (postgres.bin_dir.display(), postgres.socket_dir.display(), postgres.port);
    let script =
        format!("set -e; cd /; unset PGUSER PGPASSFILE; export PATH={bin}:$PATH PGHOST={socket} PGPORT={port}; {script}");
    ground.line(&["sh", "-c", "exec runuser -u \"$0\" -- sh -c \"$1\" < \"$2\"", &postgres.os_user, &script, input])
}
