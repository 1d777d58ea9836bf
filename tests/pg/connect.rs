//! The ways to a real PostgreSQL: TLS of every mode, SCRAM with its binding to the channel, client certificates, service files, IPv6.
//! Each dump connects twice, by the tool and by `pg_dump`: what one of them may not, the whole call may not.

use svc_tests::pg_case::prelude::*;

const PASSWORD: &str = "s3cret: \\ of the test";
/// The host's name in the server's certificate; it is led to 127.0.0.1 by `PGHOSTADDR`.
const NAME: &str = "db.test";

/// Everybody from the network needs TLS; the role `certified` a client certificate too, and no password then.
const HBA: &str = "local all postgres peer\nlocal all all scram-sha-256\nhostssl all certified all cert\n\
    hostssl all all all scram-sha-256\nhostnossl all all all reject\n";

/// A server of the test's own with TLS, on 127.0.0.1 and ::1, and a home folder of somebody who connects to it.
struct Door {
    own: OwnPostgres,
    host: Host,
    authority: Authority,
    dir: TempDir,
}

impl Door {
    fn new() -> Self {
        let host = Host::shared().unwrap();
        let own = host.postgres_server().unwrap();
        let authority = Authority::new().unwrap();
        authority.issue("server", NAME, &format!("DNS:{NAME},IP:127.0.0.1,IP:::1")).unwrap();
        let door = Self { own, host, authority, dir: tempfile::tempdir_in("/var/tmp").unwrap() };
        fs::create_dir(door.path("home")).unwrap();
        door.lay("server.pem", "server.crt");
        door.lay("server.key", "server.key");
        door.lay("ca.pem", "ca.crt");
        door.lay_text("pg_hba.conf", HBA);
        for role in ["svc", "certified"] {
            door.own.create_role(role, PASSWORD).unwrap();
        }
        door.own.create_database("svc_db", "svc").unwrap();
        door.sql("SET ROLE svc; CREATE TABLE public.items AS SELECT n FROM generate_series(1, 7) n; GRANT SELECT ON public.items TO certified");
        for setting in ["ssl = on", "ssl_ca_file = 'ca.crt'", "listen_addresses = '127.0.0.1, ::1'"] {
            door.sql(&format!("ALTER SYSTEM SET {setting}"));
        }
        door.host.systemd.control(&["restart", &door.own.unit]).unwrap();
        let line = format!("*:{}:*:svc:{}\n", door.own.port, PASSWORD.replace('\\', "\\\\").replace(':', "\\:"));
        os::file(&door.path("pgpass"), &line, 0o600, None).unwrap();
        door
    }

    fn sql(&self, sql: &str) -> String {
        self.own.sql("svc_db", sql).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn lay_text(&self, name: &str, text: &str) {
        let user = os::system_user(ADMINISTRATOR).unwrap();
        os::file(&self.own.data_dir.join(name), text, 0o600, Some(&user)).unwrap();
    }

    fn admits(&self, hba: &str) {
        self.lay_text("pg_hba.conf", hba);
        self.sql("SELECT pg_reload_conf()");
    }

    fn serves(&self, certificate: &str, key: &str) {
        self.lay(certificate, "server.crt");
        self.lay(key, "server.key");
        self.sql("SELECT pg_reload_conf()");
    }

    fn lay(&self, from: &str, name: &str) {
        self.lay_text(name, &fs::read_to_string(self.authority.file(from)).unwrap());
    }

    /// The tool, which knows nothing of the way to the server.
    fn bare(&self) -> Tool {
        let tool = Tool::new("svc-pgdump").env("SVC_STATE_DIR", self.path("state")).env("HOME", self.path("home"));
        tool.env("PGPASSFILE", self.path("pgpass")).args(["--force", "--output"]).arg(self.path("dump.sql"))
    }

    /// The tool from the network, with a mode of TLS.
    fn by(&self, mode: &str) -> Tool {
        self.through(self.bare(), mode)
    }

    fn through(&self, tool: Tool, mode: &str) -> Tool {
        let tool = tool.env("PGHOST", NAME).env("PGHOSTADDR", "127.0.0.1").env("PGPORT", self.own.port.to_string());
        tool.env("PGSSLMODE", mode).env("PGSSLROOTCERT", self.authority.file("ca.pem"))
    }

    /// How many connections the server has let in from the network with TLS, and how many without.
    fn lets_in(&self) -> (usize, usize) {
        let log = fs::read_to_string(&self.own.log_file).unwrap();
        let all = log.lines().filter(|line| line.contains("connection authorized") && line.contains("user=svc "));
        let (tls, clear): (Vec<_>, Vec<_>) = all.partition(|line| line.contains("SSL enabled"));
        (tls.len(), clear.len())
    }
}

/// Runs it until it succeeds, or is refused with such a hint: the server takes a new certificate when it comes to it.
fn comes_to(word: Option<&str>, tool: impl Fn() -> Tool) {
    let is_there = |ran: Ran| match word {
        Some(word) => ran.status == 3 && ran.refused("not_trusted").hint().contains(word),
        None => ran.status == 0,
    };
    wait::so("the new certificate", || is_there(tool().run()).then_some(()));
}

#[test]
fn tls_server_is_verified_as_sslmode_requires() {
    let door = Door::new();
    door.sql("ALTER SYSTEM SET log_connections = on");
    door.sql("SELECT pg_reload_conf()");
    for mode in ["verify-full", "verify-ca", "require", "prefer"] {
        assert_eq!(door.by(mode).run().ok().result()["rows_count"], 7, "{mode}");
    }
    let (tls, clear) = door.lets_in();
    // Ours and pg_dump's, four times.
    assert!(tls >= 8 && clear == 0, "{tls} with TLS, {clear} without");

    let stranger = Authority::new().unwrap();
    // libpq's own place of an authority.
    fs::create_dir(door.path("home/.postgresql")).unwrap();
    let at_home = |file: &Path| fs::copy(file, door.path("home/.postgresql/root.crt")).unwrap();
    let (own, other) = (door.authority.file("ca.pem"), stranger.file("ca.pem"));
    let (nothing, no_certificate) = (door.path("nothing"), door.path("pgpass"));
    // An empty status is success; as in libpq, an authority at hand makes `require` look at the certificate.
    for (mode, host, root, status, code, word) in [
        ("disable", NAME, Some(&own), 3, "access_denied", ""),
        ("verify-full", "localhost", Some(&own), 3, "not_trusted", "verify-ca"),
        ("verify-ca", "localhost", Some(&own), 0, "", ""),
        ("verify-full", NAME, Some(&other), 3, "not_trusted", "PGSSLROOTCERT"),
        ("verify-ca", NAME, Some(&other), 3, "not_trusted", "PGSSLROOTCERT"),
        ("require", NAME, Some(&other), 3, "not_trusted", "PGSSLROOTCERT"),
        ("prefer", NAME, Some(&other), 0, "", ""),
        ("require", NAME, None, 0, "", ""),
        ("verify-ca", NAME, Some(&nothing), 2, "settings_invalid", ""),
        ("verify-ca", NAME, Some(&no_certificate), 7, "file_invalid", ""),
    ] {
        let tool = door.by(mode).env("PGHOST", host).env_remove("PGSSLROOTCERT");
        let ran = if let Some(root) = root { tool.env("PGSSLROOTCERT", root).run() } else { tool.run() };
        match status {
            0 => drop(ran.ok()),
            _ => assert!(ran.fails(status, code).unchanged().hint().contains(word), "{mode} of {host} with {root:?}: {word}"),
        }
    }
    at_home(&other);
    door.by("verify-full").env_remove("PGSSLROOTCERT").run().refused("not_trusted");
    at_home(&own);
    door.by("verify-full").env_remove("PGSSLROOTCERT").run().ok();

    door.authority.sign("server", "expired", &format!("DNS:{NAME}"), -1).unwrap();
    door.serves("expired.pem", "server.key");
    comes_to(Some("clock"), || door.by("verify-full"));
    // As PostgreSQL's manual has them made: its own authority, and one of version 1.
    let request = format!("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME} -keyout own.key -out own.pem");
    door.authority.openssl(&request).unwrap();
    door.authority.openssl("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out v1.pem").unwrap();
    for (certificate, key, root) in [("own.pem", "own.key", "own.pem"), ("v1.pem", "server.key", "ca.pem")] {
        door.serves(certificate, key);
        comes_to(None, || door.by("verify-full").env("PGSSLROOTCERT", door.authority.file(root)));
    }
    // A server that wants no TLS, and one that has none.
    door.admits("local all postgres peer\nhostnossl all all all scram-sha-256\n");
    door.by("prefer").run().ok();
    door.by("require").run().refused("access_denied");
    let plain = door.by("verify-full").env("PGPORT", door.host.postgres.port.to_string()).env("PGPASSWORD", "x");
    plain.run().refused("not_trusted");
}

#[test]
fn client_certificate_takes_place_of_password() {
    let door = Door::new();
    door.by("verify-full").env("PGCHANNELBINDING", "disable").run().ok();
    // A password that is stored as MD5 cannot be bound.
    door.sql(&format!("SET password_encryption = 'md5'; ALTER ROLE svc PASSWORD '{}'", PASSWORD.replace('\'', "''")));
    door.admits(&HBA.replace("all all all scram-sha-256", "all all all md5"));
    comes_to(None, || door.by("verify-full"));

    let authority = &door.authority;
    authority.issue("client", "certified", "DNS:client.test").unwrap();
    let shown_by = |role: &str, certificate: &Path, key: &Path| {
        door.by("verify-full").args(["--username", role]).env("PGSSLCERT", certificate).env("PGSSLKEY", key)
    };
    let shown = |certificate: &Path, key: &Path| shown_by("certified", certificate, key);
    let (certificate, key) = (authority.file("client.pem"), authority.file("client.key"));
    os::file(&key, &fs::read_to_string(&key).unwrap(), 0o600, None).unwrap();
    shown(&certificate, &key).run().ok();
    let at_home = door.path("home/.postgresql");
    fs::create_dir(&at_home).unwrap();
    for (file, name) in [(&certificate, "postgresql.crt"), (&key, "postgresql.key")] {
        fs::copy(file, at_home.join(name)).unwrap();
    }
    door.by("verify-full").args(["--username", "certified"]).run().ok();
    fs::remove_dir_all(&at_home).unwrap();
    // The certificate names who may come.
    let ran = shown_by("svc", &certificate, &key).env("PGPASSFILE", door.path("none")).run();
    ran.refused("access_denied").error_has(&["requires a password"]);
    // None at all, one that somebody else has signed, a key that others can read, and one of another certificate.
    let without = door.by("verify-full").args(["--username", "certified"]).run().refused("access_denied");
    assert!(without.doc()["error"]["causes"].to_string().contains("certificate"), "{without}");
    let stranger = Authority::new().unwrap();
    stranger.issue("client", "certified", "DNS:client.test").unwrap();
    os::file(&stranger.file("client.key"), &fs::read_to_string(stranger.file("client.key")).unwrap(), 0o600, None).unwrap();
    // With TLS 1.3 the server's alert comes after the handshake, and is lost if the server's reset is quicker.
    let stranger_shown = || shown(&stranger.file("client.pem"), &stranger.file("client.key")).run();
    wait::so("the server's alert", || Some(stranger_shown()).filter(|ran| ran.status != 5)).refused("not_trusted");
    shown(&certificate, &stranger.file("client.key")).run().fails(7, "file_invalid").unchanged();
    shown(&door.path("pgpass"), &key).run().fails(7, "file_invalid").unchanged();
    // Root's own may be read by a group, as libpq has it.
    os::chmod(&key, 0o640);
    shown(&certificate, &key).run().ok();
    for (mode, owner) in [(0o644, None), (0o640, Some(&os::system_user("daemon").unwrap()))] {
        os::file(&key, &fs::read_to_string(&key).unwrap(), mode, owner).unwrap();
        shown(&certificate, &key).run().refused("settings_invalid");
    }
}

#[test]
fn dump_over_ipv6_and_restore_over_tls() {
    let door = Door::new();
    if fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| text.contains(" lo")) {
        door.by("verify-full").env("PGHOST", "::1").env_remove("PGHOSTADDR").run().ok().has(&json!({"server_host": "::1"}));
        door.bare().args(["--host", "::1", "--port", "1"]).run().fails(5, "postgres_unreachable").unchanged();
    } else {
        skip("a dump over IPv6: this host has no ::1");
    }

    // The administrator's steps go the same way.
    door.by("verify-full").run().ok();
    door.own.sql("postgres", &format!("CREATE ROLE dba SUPERUSER LOGIN PASSWORD '{PASSWORD}'")).unwrap();
    let restore = Tool::new("svc-pgrestore").env("SVC_STATE_DIR", door.path("state")).env("PGPASSWORD", PASSWORD);
    let restore = door.through(restore, "verify-full").args(["--username", "dba"]).arg(door.path("dump.sql"));
    restore.run().ok().has(&json!({"swap/swapped": true}));
    assert_eq!(door.sql("SELECT count(*) FROM public.items"), "7");
}
