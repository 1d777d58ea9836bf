//! A whole Debian with a process 1 of its own, as an operator has it: PostgreSQL and its cluster from Debian's package, OpenSearch
//! as a system unit under a user of its own, and svc-tools from its own package, for products of different names.

use std::process::Output;
use std::sync::OnceLock;

use svc_tests::debian::Debian;
use svc_tests::journey::prelude::*;

/// What such a host has installed.
const PACKAGES: [&str; 9] = ["postgresql", "cron", "curl", "jq", "locales", "procps", "python3-psycopg2", "restic", "sudo"];

/// The sample service's program, as such a host is given it.
const SAMPLE: &str = "/mnt/checkout/tests/service/svc-sample";

/// A product, and how it is called.
struct Names {
    name: &'static str,
    unit: &'static str,
    database: &'static str,
    role: &'static str,
    /// What is installed, and what it is upgraded to.
    versions: [&'static str; 2],
    search_port: u16,
    /// Where the search database listens.
    listens_at: &'static str,
    /// What the operator's login has set.
    login: &'static str,
    /// Where the tools are installed: by the package, or, as its page says, from a checkout.
    prefix: &'static str,
}

/// The procedure's own product, with an operator who speaks German and lets everybody write what he makes.
const SVC: Names = Names {
    name: "svc",
    unit: "svc.service",
    database: "svc_db",
    role: "svc",
    versions: ["1.15.5", "2.0.1"],
    search_port: 9200,
    listens_at: "127.0.0.1",
    login: "umask 000; export LC_ALL=de_DE.UTF-8; ",
    prefix: "/usr",
};

/// A product of another name in every respect, on a host that is unusual in some: IPv6 alone, server messages in German, an operator whose
/// `i` has a dot when it is large, and whose files are for nobody else.
const ACME: Names = Names {
    name: "acme",
    unit: "acme-server.service",
    database: "acme",
    role: "acme_app",
    versions: ["3.3.7", "3.4.5"],
    search_port: 19200,
    listens_at: "[::1]",
    login: "umask 077; export LC_ALL=tr_TR.UTF-8; ",
    prefix: "/usr/local",
};

struct Machine {
    debian: Debian,
    product: &'static Names,
    options: Vec<String>,
    /// What the operator's login has set, from the time when the host is set up.
    login: &'static str,
    /// A disk that can lose its power.
    disk: Option<(SmallDisk, tempfile::TempDir)>,
    /// What it is given from outside.
    given: tempfile::TempDir,
}

impl Machine {
    /// Boots one that leaves nothing behind; `None`, with a word of why, if this machine cannot.
    fn boot(product: &'static Names, on_disk: bool) -> Option<Self> {
        let files = had("a whole host", Debian::files_with(&PACKAGES))?;
        let given = tempfile::tempdir_in("/var/tmp").unwrap();
        os::chmod(given.path(), 0o755);
        package(given.path());
        let installers = given.path().join("installers");
        let mut build = Command::new(root().join("tests/service/build-installers"));
        build.arg(&installers);
        os::run(if product.name == "svc" { &mut build } else { build.arg(product.name) }).unwrap();
        let distribution = search::distribution("opensearch-2").unwrap();
        let home = distribution.home().unwrap();
        let java = distribution.java().unwrap();
        let log = given.path().join("boot.log");
        let bind = |from: &Path, to: &str| format!("--bind-ro={}:{to}", from.display());
        let mut options: Vec<String> = if on_disk { Vec::new() } else { vec!["--volatile=overlay".to_owned()] };
        options.extend([bind(given.path(), "/srv"), bind(&home, "/usr/share/opensearch"), bind(&java, "/usr/share/jdk")]);
        options.extend([bind(root(), "/mnt/checkout"), bind(&bin_dir(), "/mnt/programs")]);
        // Debian's Java has its settings there.
        options.extend(fs::read_dir("/etc").unwrap().flatten().map(|entry| entry.path()).filter_map(|path| {
            let is_java = path.file_name()?.to_str()?.starts_with("java-");
            is_java.then(|| bind(&path, path.to_str().unwrap_or_default()))
        }));
        options.push(format!("--hostname={}-db-1", product.name));
        let disk = on_disk.then(|| {
            let place = tempfile::tempdir_in("/var/tmp").unwrap();
            let folder = place.path().join("disk");
            fs::create_dir(&folder).unwrap();
            let disk = SmallDisk::of_image(&folder, &place.path().join("image"), 5 << 10).unwrap();
            os::run(Command::new("cp").arg("-a").arg(files.join(".")).arg(&folder)).unwrap();
            os::run(Command::new("sync").arg("--file-system").arg(&folder)).unwrap();
            (disk, place)
        });
        let root = disk.as_ref().map_or(files, |(_, place)| place.path().join("disk"));
        let debian = had("a whole host", Debian::boot(&root, &log, &options))?;
        let mut machine = Self { debian, product, options, login: "", disk, given };
        machine.databases();
        machine.login = product.login;
        Some(machine)
    }

    #[track_caller]
    fn typed(&self, line: &str) -> String {
        let ran = self.debian.typed(&format!("{}{line}", self.login)).unwrap();
        if !ran.status.success() {
            let journal =
                self.debian.typed("journalctl --no-pager --lines=60; tail -n 20 /var/log/postgresql/*.log; df -h /").unwrap();
            panic!("`{line}`: {}\nthe host: {}", shown(&ran), shown(&journal));
        }
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    #[track_caller]
    fn document(&self, line: &str) -> Value {
        let text = self.typed(line);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("`{line}`: {error}: {text}"))
    }

    fn file(&self, path: &str, text: &str) {
        let line = format!("mkdir -p \"$(dirname '{path}')\" && cat > '{path}' <<'END'\n{text}\nEND");
        self.typed(&line);
    }

    /// Both databases, as their packages leave them.
    fn databases(&self) {
        let Names { database, role, search_port, listens_at, .. } = self.product;
        self.typed("echo \"lc_messages = 'de_DE.UTF-8'\" >> /etc/postgresql/15/main/postgresql.conf");
        self.typed("systemctl restart postgresql@15-main.service");
        let sql = format!("CREATE ROLE {role} LOGIN PASSWORD 'pass:word'; CREATE DATABASE {database} OWNER {role}");
        for one in sql.split("; ") {
            self.typed(&format!("runuser -u postgres -- psql -qc \"{one}\""));
        }
        self.typed(&format!("echo 'localhost:*:*:{role}:pass\\:word' > /root/.pgpass && chmod 600 /root/.pgpass"));

        self.typed("useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin opensearch");
        self.typed("mkdir -p /etc/opensearch && cp -r /usr/share/opensearch/config/. /etc/opensearch");
        self.typed(&format!(
            "cat >> /etc/opensearch/opensearch.yml <<'END'\npath.data: /var/lib/opensearch\npath.logs: /var/log/opensearch\n\
             discovery.type: single-node\nnetwork.host: '{listens_at}'\nhttp.port: {search_port}\n\
             cluster.routing.allocation.disk.threshold_enabled: false\nEND\n\
             sed -i 's|logs/|/var/log/opensearch/|' /etc/opensearch/jvm.options\n\
             printf '%s\\n' -Xms512m -Xmx512m -XX:TieredStopAtLevel=1 -XX:-UseG1GC -XX:+UseSerialGC > /etc/opensearch/jvm.options.d/heap.options\n\
             mkdir -p /var/lib/opensearch /var/log/opensearch /var/tmp/opensearch\n\
             chown -R opensearch: /var/lib/opensearch /var/log/opensearch /var/tmp/opensearch\n\
             chown -R root:opensearch /etc/opensearch && chmod -R u=rwX,g=rwX,o= /etc/opensearch"
        ));
        // 408: a copy that was being restored when the power was lost stays red.
        self.file(
            "/etc/systemd/system/opensearch.service",
            &format!(
                "[Unit]\nDescription=OpenSearch\nAfter=network.target\n\n[Service]\nUser=opensearch\nGroup=opensearch\n\
                 Environment=OPENSEARCH_JAVA_HOME=/usr/share/jdk OPENSEARCH_PATH_CONF=/etc/opensearch OPENSEARCH_TMPDIR=/var/tmp/opensearch\n\
                 WorkingDirectory=/var/lib/opensearch\nExecStart=/usr/share/opensearch/bin/opensearch\n\
                 ExecStartPost=/bin/sh -c 'until curl -gs -o /dev/null -w %%{{http_code}} \
                 \"http://{listens_at}:{search_port}/_cluster/health?wait_for_status=yellow&timeout=20s\" | grep -qxe 200 -e 408; do \
                 sleep 0.2; done'\n\
                 SuccessExitStatus=143\nTimeoutStartSec=600\nLimitNOFILE=65535\n\n[Install]\nWantedBy=multi-user.target"
            ),
        );
        self.typed("systemctl daemon-reload && systemctl enable --now opensearch.service 2>&1");
    }

    fn install(&self) {
        let line = match self.product.prefix {
            "/usr" => "apt-get install -y /srv/svc-tools_*.deb".to_owned(),
            _ => {
                let pages = page::transcripts("docs/install.md").unwrap();
                let line = pages.iter().flat_map(|block| block.lines()).find(|line| line.starts_with("scripts/install.sh"));
                format!("cd /mnt/checkout && {} --bin /mnt/programs", line.unwrap())
            }
        };
        self.typed(&line);
    }

    /// Whoever else works on the host: with sudo for one command, to read the logs, with files where everybody may put them; and a service
    /// manager that lets a job write where it has to alone.
    fn operators(&self) {
        self.typed("useradd anna && useradd --groups adm bert");
        let backup = format!("{}/sbin/svc-backup", self.product.prefix);
        self.typed(&format!("echo 'anna ALL=(root) NOPASSWD: {backup}' > /etc/sudoers.d/anna && chmod 440 /etc/sudoers.d/anna"));
        let refused = |line: &str| {
            let ran = self.debian.typed(line).unwrap();
            let hint = String::from_utf8_lossy(&ran.stderr).contains("hint: ");
            assert!(ran.status.code() == Some(3) && hint, "`{line}`: {}", shown(&ran));
        };
        assert_eq!(self.document(&format!("runuser -u anna -- sudo -n {backup}"))["ok"], true);
        refused(&format!("runuser -u anna -- {backup}"));
        refused("runuser -u anna -- svc-unit stop");
        assert_eq!(self.document("runuser -u bert -- svc-unit status --expect active")["ok"], true);
        refused("runuser -u bert -- svc-run status");
        refused("runuser -u bert -- svc-point list");
        self.typed("for file in svc.conf svc.yaml acme.yaml; do runuser -u anna -- sh -c \"echo theirs > /tmp/$file\"; done");
        refused("svc-confsave save --to /tmp/svc.conf");
        let job = "systemd-run --quiet --wait --pipe --property=ProtectSystem=strict \
                   --property='ReadWritePaths=/var/lib/svc-tools /var/backups' svc-backup";
        assert_eq!(self.document(job)["ok"], true);
    }

    /// A start that fails: its document has the last lines of the journal, of this call and not of an earlier one.
    fn failing_unit(&self) {
        let lines = "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); done";
        let fails = format!("{lines}; sleep 2; echo no route to the database; sleep 1; exit 3");
        self.file("/etc/systemd/system/broken.service", &format!("[Service]\nExecStart=/bin/sh -c '{fails}'"));
        let ran = self.document(
            "systemctl daemon-reload && { svc-unit start --settle 60s broken >/run/said 2>/dev/null; test $? = 1; } && cat /run/said",
        );
        assert!(ran["error"]["message"].to_string().contains("exit status 3"), "{ran:#}");
        let journal: Vec<&str> = ran["result"]["journal"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let has_reason = journal.iter().any(|line| line.ends_with("no route to the database"));
        assert!(journal.len() == 20 && has_reason, "{journal:#?}");
    }

    /// Both databases' content, with a checksum of each table and index.
    fn content(&self) -> Value {
        self.document(&format!("{SAMPLE} content --install-dir /opt/{}", self.product.name))
    }
}

/// The Debian package of this build, in a folder; it is made once.
fn package(folder: &Path) {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let programs = bin_dir();
        let target = programs.parent().unwrap();
        let made = target.join("package");
        let mut package = Command::new(root().join("scripts/package"));
        os::run(package.args(["--dev", "--no-build", "--target-dir"]).arg(target).arg("--out").arg(&made)).unwrap();
        made
    });
    os::run(Command::new("cp").arg("-r").arg(made.join(".")).arg(folder)).unwrap();
}

fn shown(ran: &Output) -> String {
    format!("{}\n{}\n{}", ran.status, String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

/// A host from nothing to an upgrade and back, and, between that and its end, whatever else.
fn a_complete_life(product: &'static Names, more: fn(&Machine)) {
    let Some(host) = Machine::boot(product, false) else { return };
    let Names { name, unit, versions: [old, new], prefix, .. } = product;
    // What a newcomer does.
    host.install();
    assert_eq!(host.typed(&format!("env -i {prefix}/bin/svc-run setting")), host.typed("cat /etc/svc-tools/environment"));
    host.typed(&format!("zcat {prefix}/share/man/man1/svc-snap.1.gz {prefix}/share/man/man8/svc-upgrade.8.gz | grep -q svc-"));
    let timers = "systemctl is-enabled svc-nightly.timer svc-rehearse.timer";
    assert_eq!(host.debian.typed(timers).unwrap().stdout, b"disabled\ndisabled\n");
    host.typed(&format!("SVC_INTERVAL_MS=0 /srv/installers/{name}-{old}.run && systemctl start {unit}"));
    host.typed(&format!("{SAMPLE} seed --items 300 --install-dir /opt/{name}"));
    // All that a newcomer types, as the page has it.
    let pages = page::transcripts("README.md").unwrap();
    let first = pages.into_iter().find(|lines| lines.contains("--guess")).unwrap();
    for line in first.lines() {
        let line = line.split("  #").next().unwrap();
        let of_product = line.replace("--last-minor 1.15 ", "").replace("svc-2.0.1.run", &format!("{name}-{new}.run"));
        host.typed(if *name == "svc" { line } else { &of_product });
    }
    assert_eq!(host.typed("systemctl is-enabled svc-nightly.timer"), "enabled\n");
    host.typed("systemctl disable --now svc-nightly.timer 2>&1");

    host.operators();
    host.failing_unit();

    // An upgrade, and back.
    host.typed(&format!("systemctl stop {unit}"));
    let before = host.content();
    let postgres = "systemctl show --property=MainPID postgresql@15-main.service";
    let process = host.typed(postgres);
    let last_minor = if *new == "2.0.1" { "--last-minor 1.15 " } else { "" };
    let ran = host.document(&format!("svc-upgrade {last_minor}/srv/installers/{name}-{new}.run"));
    let version = || host.typed(&format!("cat /opt/{name}/current-version"));
    assert_eq!((&ran["changed"], version()), (&true.into(), format!("{new}\n")));
    host.document("svc-rollback");
    assert_eq!((host.content(), version()), (before, format!("{old}\n")));
    assert_ne!(host.typed(postgres), process, "the packaged server was not restarted");
    host.typed(&format!("systemctl start {unit}"));

    more(&host);

    let writable = "find /var/backups /var/lib/svc-tools /etc/svc-tools ! -type l -perm /o+w ! -path '/var/backups/opensearch*'";
    assert_eq!(host.typed(writable), "", "everybody may write it");
    assert_eq!(host.typed("cat /tmp/svc.conf /tmp/svc.yaml /tmp/acme.yaml"), "theirs\n".repeat(3));
    if *prefix == "/usr" {
        the_end_of_the_package(&host);
    }
}

/// The package goes, the backups stay.
fn the_end_of_the_package(host: &Machine) {
    let kept = "ls -d /var/backups/*/*z-* /var/lib/svc-tools/runs/* /var/backups/opensearch/index*";
    let before = host.typed(kept);
    host.typed("DEBIAN_FRONTEND=noninteractive apt-get purge -y svc-tools </dev/null");
    assert_eq!(host.typed(kept), before);
    host.typed("! ls /etc/svc-tools /usr/bin/svc-run /lib/systemd/system/svc-{nightly,rehearse}.timer 2>/dev/null");
    host.typed("! systemctl is-active svc-nightly.timer && ! ls /etc/systemd/system/*.target.wants/svc-{nightly,re}* 2>&1");
}

/// The nights: by cron, and by the timer for the night that was missed.
fn the_nights(host: &Machine) {
    let unit = host.product.unit;
    let nights = || {
        let runs = host.typed("cat /var/lib/svc-tools/runs/*z-nightly/document.json 2>/dev/null || true");
        serde_json::Deserializer::from_str(&runs).into_iter::<Value>().filter_map(Result::ok).collect::<Vec<_>>()
    };
    host.typed("sed '/svc-nightly$/s/^17 2/* */; /^[^#]/{/svc-nightly$/!d}' /usr/share/doc/svc-tools/scripts/examples/svc-tools.cron > /etc/cron.d/svc-tools && chmod 644 /etc/cron.d/svc-tools");
    wait::so("the night of cron", || (nights().len() == 1).then_some(()));
    host.typed("rm /etc/cron.d/svc-tools");
    host.file("/etc/systemd/system/svc-nightly.timer.d/now.conf", "[Timer]\nRandomizedDelaySec=0");
    host.typed("mkdir -p /var/lib/systemd/timers && touch -d '2 days ago' /var/lib/systemd/timers/stamp-svc-nightly.timer");
    host.typed("systemctl daemon-reload && systemctl enable --now svc-nightly.timer 2>&1");
    wait::so("the night of the timer", || (nights().len() > 1).then_some(()));
    assert!(nights().iter().all(|night| night["ok"] == true), "{:#?}", nights());
    host.typed("svc-nightly --max-age 26h");
    // A rehearsal that another run keeps out is told of: the next one is a month away.
    host.typed("flock /var/lib/svc-tools/lock sh -c '! systemctl start svc-rehearse.service 2>&1'");
    host.typed("systemctl start svc-rehearse.service && systemctl enable svc-rehearse.timer 2>&1");
    host.typed("systemctl show --property NoNewPrivileges svc-nightly.service svc-rehearse.service | grep -c =yes | grep -x 2");
    // A quiesced one that is killed with the service stopped: what the package ships starts it again at once.
    assert_eq!(host.typed("systemctl is-enabled svc-recover.service"), "enabled\n");
    host.typed("echo SVC_NIGHTLY_QUIESCE=yes >> /etc/svc-tools/environment && systemctl start --no-block svc-nightly.service");
    let down = || host.debian.typed("ls /var/lib/svc-tools/runs/*z-backup-nightly/*-stop.json").unwrap().status.success();
    wait::promptly("the service to be stopped", wait::HANG, || down().then_some(())).unwrap();
    host.typed("systemctl kill --kill-whom=all --signal=KILL svc-nightly.service");
    let is_back = format!("systemctl is-active {unit} && systemctl is-failed svc-nightly.service");
    let is_back = || host.debian.typed(&is_back).unwrap().status.success().then_some(());
    wait::so("the service to run again", is_back);
    let undone = || host.debian.typed("svc-run recover").unwrap().status.success().then_some(());
    wait::so("what it has left to be undone", undone);
    // The next one is of one moment, by the unit that the package ships, and is copied by it.
    host.typed("echo 'correct horse' > /etc/svc-tools/offsite-password && chmod 600 /etc/svc-tools/offsite-password");
    host.file("/root/offsite", "SVC_OFFSITE=/mnt/restic\nSVC_OFFSITE_PASSWORD_FILE=/etc/svc-tools/offsite-password");
    host.typed(
        "cat /root/offsite >> /etc/svc-tools/environment && svc-offsite restic init && systemctl start svc-nightly.service",
    );
    assert_eq!(host.document("svc-point choose --rehearse")["result"]["quiesced"], true);
    host.typed(&format!(
        "systemctl is-active {unit} && svc-offsite list | grep \"$(svc-point choose --rehearse | jq -r .result.id)\""
    ));
    host.typed("sed -i '/^SVC_NIGHTLY_QUIESCE/d' /etc/svc-tools/environment");
    // One that fails is told in the journal.
    host.typed("systemctl stop postgresql@15-main.service && ! systemctl start svc-nightly.service 2>&1");
    let told = || host.typed("journalctl --identifier svc-nightly").contains("svc-nightly has failed");
    wait::so("the journal to say so", || told().then_some(()));
}

/// The example for cron, as cron runs it: by `/bin/sh`, with a short `PATH`. It is silent.
fn example_for_cron(host: &Machine) {
    let example = format!("{}/share/doc/svc-tools/scripts/examples/svc-tools.cron", host.product.prefix);
    for job in ["svc-nightly", "svc-rehearse"] {
        let command = host.typed(&format!("sed -n '/{job}/s/^[0-9].* root *//p' {example} | head -n 1"));
        assert!(command.contains(&format!("{}/sbin/{job}", host.product.prefix)), "{command}");
        host.file("/run/job", &command);
        let cron = "env -i HOME=/root LOGNAME=root SHELL=/bin/sh PATH=/usr/bin:/bin /bin/sh /run/job 2>&1";
        assert_eq!(host.debian.typed(cron).unwrap().stdout, b"", "{command}");
    }
    let rehearsed = host.document("cat /var/log/svc-rehearse.json");
    assert_eq!((&rehearsed["ok"], &rehearsed["result"]["rehearsal"]["kind"]), (&true.into(), &"nightly".into()), "{rehearsed:#}");
}

#[test]
fn package_has_no_lintian_messages() {
    let folder = tempfile::tempdir().unwrap();
    package(folder.path());
    let line = format!("lintian --no-cfg --pedantic --display-info --allow-root {}/svc-tools_*.deb", folder.path().display());
    let said = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert!(said.status.success() && said.stdout.is_empty(), "{}", shown(&said));
}

#[test]
fn packaged_tools_upgrade_roll_back_and_back_up_on_debian() {
    a_complete_life(&SVC, the_nights);
}

#[test]
#[ignore = "minutes: a second whole host"]
fn upgrade_and_rollback_of_product_with_other_names_from_checkout() {
    a_complete_life(&ACME, example_for_cron);
}

/// The steps of an upgrade and of a rollback at which the power is lost.
const THERE: &str = "version.json warm-snapshot.started stop.json configuration.json dump.started snapshot.json finalize.json \
    installer.started installer.json start.started drop-warm-snapshot.started";
const BACK: &str = "stage-search.started stage-database.json stop.json uninstall.started swap-search.started \
    swap-database.started swap-search.json installer.started restore-configuration.json start.started";

#[test]
#[ignore = "minutes: a whole host loses its power twenty times"]
fn power_loss_of_whole_host_is_finished_as_status_says() {
    let Some(mut host) = Machine::boot(&SVC, true) else { return };
    host.install();
    host.typed("SVC_INTERVAL_MS=0 /srv/installers/svc-1.15.5.run && systemctl start svc.service");
    host.typed(&format!("{SAMPLE} seed --items 300 --install-dir /opt/svc"));
    host.typed("svc-setup-snapshots --guess --write && systemctl enable svc.service 2>&1");
    host.typed("svc-unit stop && svc-setup-snapshots && svc-unit start && sync");
    let before = host.content();
    let upgrade = "svc-upgrade --last-minor 1.15 /srv/installers/svc-2.0.1.run";
    for point in THERE.split(' ') {
        eprintln!("an upgrade loses its power at {point}");
        host.loses_power_at(upgrade, "upgrade", point);
        if host.ends_by_what_status_says() == "2.0.1" {
            host.typed("svc-rollback && svc-rollback --discard-previous");
        }
        assert_eq!(host.content(), before, "{point}");
    }
    for point in BACK.split(' ') {
        eprintln!("a rollback loses its power at {point}");
        host.document(upgrade);
        host.loses_power_at("svc-rollback", "rollback", point);
        if host.ends_by_what_status_says() == "2.0.1" {
            host.typed("svc-rollback");
        }
        host.typed("svc-rollback --discard-previous");
        assert_eq!(host.content(), before, "{point}");
    }
}

impl Machine {
    /// What was not synced is lost, and the host comes up again.
    fn lose_power(&mut self) {
        self.debian.kill();
        let place = self.disk.as_ref().unwrap().1.path();
        let folder = place.join("disk");
        SmallDisk::lose_power(&folder, &place.join("image")).unwrap();
        self.debian = Debian::boot(&folder, &self.given.path().join("boot.log"), &self.options).unwrap();
        self.typed("systemctl start postgresql@15-main.service opensearch.service");
    }

    /// Runs a line until its run comes to a point, loses the power there, and comes up again.
    fn loses_power_at(&mut self, line: &str, kind: &str, point: &str) {
        let runs = |what: &str| format!("ls -d /var/lib/svc-tools/runs/*z-{kind}*{what} 2>/dev/null | wc -l");
        let count = |host: &Self, what: &str| host.typed(&runs(what)).trim().parse::<u32>().unwrap();
        let known = count(self, &format!("/*-{point}"));
        self.typed(&format!("setsid {line} </dev/null >/root/said 2>&1 &"));
        let come = || (count(self, &format!("/*-{point}")) > known).then_some(());
        wait::promptly("the run to come to the point", wait::HANG, come)
            .unwrap_or_else(|error| panic!("{point}: {error}: {}", self.typed("cat /root/said")));
        self.lose_power();
    }

    /// Types what `svc-run status` says, until there is nothing more to do; the version that is installed then, whole.
    fn ends_by_what_status_says(&self) -> String {
        let (mut said, mut typed) = (Vec::new(), BTreeSet::new());
        for _ in 0..5 {
            let status = self.debian.typed("svc-run status").unwrap();
            let text = String::from_utf8_lossy(&status.stdout).into_owned();
            // If that has been typed already (the unit that came up with the host is stopped), the next one.
            let mut commands = text.lines().filter_map(|line| line.strip_prefix("  ")).map(|line| line.trim().to_owned());
            let command = commands.find(|command| !command.starts_with("svc-unit stop") || typed.insert(command.clone()));
            said.push(text.clone());
            match command.filter(|_| !text.contains("ended well")) {
                Some(command) => said.push(shown(&self.debian.typed(&command).unwrap())),
                None => break,
            }
        }
        // Whatever fails after it is explained by that.
        eprintln!("{said:#?}");
        let version = self.typed("cat /opt/svc/current-version").trim().to_owned();
        let content = self.content();
        let shape = if version == "2.0.1" { 3 } else { 2 };
        let shapes = (&content["relational"]["shape"], &content["search"]["shape"]);
        assert_eq!(shapes, (&shape.into(), &shape.into()), "half old and half new, {version}: {said:#?}");
        assert_eq!(self.typed("systemctl is-active svc.service || true"), "active\n", "{said:#?}");
        version
    }
}
