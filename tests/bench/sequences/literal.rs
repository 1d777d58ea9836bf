//! The procedure's own commands, as an operator types them one after the other (9.2, 9.3).

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Took;
use super::ground::{AFTER, BEFORE, Ground};
use crate::measure::Line;
use crate::report::Entry;

/// The snapshot that they take.
const SNAPSHOT: &str = "snapshot_svc_20260101";

/// What the commands took, one by one; the service is down from the first to the last.
struct Typed<'g> {
    ground: &'g Ground,
    entries: Vec<Entry>,
}

impl<'g> Typed<'g> {
    fn on(ground: &'g Ground) -> Result<Self> {
        ground.settle()?;
        Ok(Self { ground, entries: Vec::new() })
    }

    fn took(self) -> Took {
        let seconds = self.entries.iter().filter(|entry| !entry.is_own).map(|entry| entry.seconds).sum();
        Took { downtime: seconds, complete: seconds, entries: self.entries }
    }

    fn run(&mut self, name: &str, is_own: bool, line: &Line) -> Result<()> {
        let seconds = self.ground.scratch.time(line)?;
        self.entries.push(Entry::new("while the service is down", name, seconds, is_own));
        Ok(())
    }

    fn systemctl(&mut self, verb: &str) -> Result<()> {
        let line = self.ground.line(&["systemctl", "--user", verb, &self.ground.product.unit()]);
        self.run(&format!("`systemctl {verb}`"), true, &line)
    }

    fn install(&mut self, name: &str, version: &str) -> Result<()> {
        self.run(name, true, &self.ground.line(&[&self.ground.product.installer(version).display().to_string()]))
    }

    fn curl(&mut self, name: &str, method: &str, path: &str, body: Option<&str>) -> Result<()> {
        let url = self.ground.url(path);
        let mut words = vec!["curl", "-sS", "-f", "--noproxy", "*", "-X", method, &url];
        if let Some(body) = body {
            words.extend(["-H", "Content-Type: application/json", "-d", body]);
        }
        self.run(name, false, &self.ground.line(&words))
    }

    /// As PostgreSQL's administrator, over its socket; what is read is the caller's, whose file it is.
    fn administer(&mut self, name: &str, script: &str, input: &str) -> Result<()> {
        let postgres = &self.ground.product.host.postgres;
        let (bin, socket, port) = (postgres.bin_dir.display(), postgres.socket_dir.display(), postgres.port);
        let script =
            format!("set -e; cd /; unset PGUSER PGPASSFILE; export PATH={bin}:$PATH PGHOST={socket} PGPORT={port}; {script}");
        let run_as = "exec runuser -u \"$0\" -- sh -c \"$1\" < \"$2\"";
        self.run(name, false, &self.ground.line(&["sh", "-c", run_as, &postgres.os_user, &script, input]))
    }
}

fn dump_file(ground: &Ground) -> String {
    ground.scratch.file("svc_db.backup.sql").display().to_string()
}

/// 9.2: stop, snapshot, dump, installer, start.
pub fn upgrade(ground: &Ground) -> Result<Took> {
    let mut typed = Typed::on(ground)?;
    typed.systemctl("stop")?;
    let body = json!({"ignore_unavailable": true, "include_global_state": true,
        "metadata": {"taken_by": "bench", "taken_because": "backup before upgrade"}});
    let path = ground.repository(&format!("/{SNAPSHOT}?wait_for_completion=true"));
    typed.curl("`curl -X PUT …?wait_for_completion=true`", "PUT", &path, Some(&body.to_string()))?;
    ensure!(ground.scratch.printed()?["snapshot"]["state"] == "SUCCESS", "the snapshot is no SUCCESS");
    let (postgres, product) = (&ground.product.host.postgres, &ground.product);
    let dump = format!(
        "exec '{}/pg_dump' --dbname={} --host='{}' --port={} --username={} > '{}'",
        postgres.bin_dir.display(),
        product.database(),
        postgres.socket_dir.display(),
        postgres.port,
        product.name,
        dump_file(ground),
    );
    typed.run("`pg_dump`", false, &ground.line(&["sh", "-c", &dump]))?;
    typed.install("the installer", AFTER)?;
    typed.systemctl("start")?;
    Ok(typed.took())
}

/// 9.3: stop, uninstall, restore both, marker, the previous installer, start. The indices that are there are in the way of a
/// restore, so they are deleted; the database is the service's own (without OWNER, the next upgrade fails).
pub fn rollback(ground: &Ground) -> Result<Took> {
    let (mut typed, product) = (Typed::on(ground)?, &ground.product);
    typed.systemctl("stop")?;
    let uninstaller = product.install_dir().join("bin/svc-uninstall").display().to_string();
    typed.run("the uninstaller", true, &ground.line(&[&uninstaller]))?;
    let all = product.host.search.ask("GET", "/_cat/indices?format=json&h=index&expand_wildcards=all", None)?;
    let names: Vec<&str> = all.as_array().context("no indices")?.iter().filter_map(|one| one["index"].as_str()).collect();
    typed.curl("`curl -X DELETE`", "DELETE", &format!("/{}", names.join(",")), None)?;
    // Without `,-.geoip_databases`: where that index is not in the snapshot, OpenSearch refuses to leave it out.
    let body = json!({"indices": "*", "include_global_state": false}).to_string();
    let path = ground.repository(&format!("/{SNAPSHOT}/_restore?wait_for_completion=true"));
    typed.curl("`curl …/_restore?wait_for_completion=true`", "POST", &path, Some(&body))?;
    let shards = &ground.scratch.printed()?["snapshot"]["shards"];
    ensure!(shards["failed"] == 0 && shards["total"] != 0, "the restore failed: {shards}");
    let (database, owner) = (product.database(), &product.name);
    let create = format!("dropdb {database} && createdb --owner={owner} {database}");
    typed.administer("`dropdb`, `createdb`", &create, "/dev/null")?;
    let load = format!("psql -Xq -v ON_ERROR_STOP=1 -d {database} > /dev/null");
    typed.administer("`psql < svc_db.backup.sql`", &load, &dump_file(ground))?;
    let restart = ground.line(&["systemctl", "--user", "restart", &ground.postgres.unit]);
    typed.run("`systemctl restart postgresql`", false, &restart)?;
    let marker = product.install_dir().join("current-version").display().to_string();
    typed.run("`rm current-version`", false, &ground.line(&["rm", &marker]))?;
    typed.install("the previous installer", BEFORE)?;
    typed.systemctl("start")?;
    Ok(typed.took())
}
