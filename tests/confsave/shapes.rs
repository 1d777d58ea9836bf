//! Files of the shape of fourteen real configurations in two releases each: search engines, databases, web suites. What stands in
//! `shapes/` was written for these tests.

use std::fs;

use svc_tests::tool::root;

use crate::site::{Site, assert_outcomes, assert_text, text};

/// Words of a file, and those that stand in their place.
type Edits = &'static [(&'static str, &'static str)];

/// One of them: what an operator made of the first release, and what of that is in the second one afterwards.
struct Shape {
    first: &'static str,
    second: &'static str,
    mine: Edits,
    wanted: Edits,
    outcomes: &'static [(&'static str, &'static str)],
}

const GONE: &str = "not_carried: gone_in_new";

/// Every edit must find its place, just once.
fn edited(text: &str, edits: Edits) -> String {
    edits.iter().fold(text.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "`{from}` in\n{text}");
        text.replacen(from, to, 1)
    })
}

fn holds(shape: &Shape) {
    let read = |name: &str| text(root().join("tests/confsave/shapes").join(name));
    let (first, second) = (read(shape.first), read(shape.second));
    let layout = if shape.first.contains(".y") || shape.first.ends_with(".yaml") { "yaml" } else { "conf" };
    let place = |site: &Site| if layout == "yaml" { site.yaml() } else { site.conf() };
    let site = Site::new();
    let mine = edited(&first, shape.mine);

    // Nobody customised it: the second release, to the byte.
    let ran = site.carry(layout, &first, Some(&first), &second).run().ok().unchanged();
    assert_outcomes(&ran, &[]);
    assert_text(&text(place(&site)), &second, shape.second);

    // The same release again: the operator's file, to the value.
    let ran = site.carry(layout, &mine, Some(&first), &first).run().changed();
    assert!(matches!(ran.status, 0 | 9), "{ran}");
    let same = site.tool("diff").arg(site.path(&format!("saved.{layout}"))).run().ok();
    assert_eq!(same.result()["same"], true, "{same}");

    // The next release.
    let ran = site.carry(layout, &mine, Some(&first), &second).run();
    assert_outcomes(&ran, shape.outcomes);
    let review = shape.outcomes.iter().any(|(_, outcome)| !matches!(*outcome, "carried" | "same"));
    assert_eq!(ran.status, if review { 9 } else { 0 }, "{ran}");
    assert_text(&text(place(&site)), &edited(&second, shape.wanted), shape.second);

    let base = site.path(&format!("base.{layout}"));
    site.tool("carry").arg(site.path(&format!("saved.{layout}"))).arg("--base").arg(base).run().unchanged();
    assert_text(&text(place(&site)), &edited(&second, shape.wanted), shape.second);
}

#[test]
fn search_engines_and_their_front_ends() {
    // Flat keys with dots, and hardly one that is no comment.
    holds(&Shape {
        first: "elasticsearch.1.yml",
        second: "elasticsearch.2.yml",
        mine: &[
            ("#cluster.name: my-cluster", "cluster.name: production"),
            ("path.data: /var/lib/elasticsearch", "path.data: [/data/1, /data/2]"),
            ("#network.host: 192.168.0.1", "network.host: _site_"),
            ("#discovery.seed_hosts: [\"host1\", \"host2\"]", "discovery.seed_hosts:\n   - es1\n   - es2 # the other one"),
        ],
        wanted: &[
            ("path.data: /var/lib/elasticsearch", "path.data: [/data/1, /data/2]"),
            (
                "  verification_mode: certificate\n#----------------------- END SECURITY AUTO CONFIGURATION -----------------------\n",
                "  verification_mode: certificate\n#----------------------- END SECURITY AUTO CONFIGURATION -----------------------\n\
                 cluster.name: production\nnetwork.host: _site_\ndiscovery.seed_hosts:\n  - es1\n  - es2 # the other one\n",
            ),
        ],
        outcomes: &[
            ("\"cluster.name\"", "carried"),
            ("\"path.data\"", "carried"),
            ("\"network.host\"", "carried"),
            ("\"discovery.seed_hosts\"", "carried"),
        ],
    });
    // A list that the operator extends and the vendor only writes in another way.
    holds(&Shape {
        first: "opensearch.1.yml",
        second: "opensearch.2.yml",
        mine: &[
            ("plugins.security.allow_unsafe_democertificates: true\n", ""),
            ("esnode.pem", "/etc/ssl/node.pem"),
            ("\".plugins-ml-config\"", "\".plugins-ml-config\", \".own\""),
            ("\"security_rest_api_access\"]", "\"security_rest_api_access\", own]"),
        ],
        wanted: &[
            ("plugins.security.allow_unsafe_democertificates: true\n", ""),
            ("esnode.pem", "/etc/ssl/node.pem"),
            (
                "[.plugins-ml-agent, .plugins-ml-config, .opendistro-alerting-config]",
                "[\".plugins-ml-config\", \".own\", \".opendistro-alerting-config\"]",
            ),
            ("[all_access, security_rest_api_access]", "[\"all_access\", \"security_rest_api_access\", own]"),
        ],
        outcomes: &[
            ("\"plugins.security.ssl.transport.pemcert_filepath\"", "carried"),
            ("\"plugins.security.restapi.roles_enabled\"", "carried"),
            ("\"plugins.security.system_indices.indices\"", "conflict"),
            ("\"plugins.security.allow_unsafe_democertificates\"", "carried"),
        ],
    });
    // Dotted keys of the first release are groups in the second.
    holds(&Shape {
        first: "kibana.1.yml",
        second: "kibana.2.yml",
        mine: &[
            ("#server.host: \"localhost\"", "server.host: \"0.0.0.0\""),
            ("[\"http://localhost:9200\"]", "[\"https://es1:9200\", \"https://es2:9200\"]"),
            ("#elasticsearch.password: \"pass\"", "elasticsearch.password: 'p: #1'"),
            ("logging.quiet: false", "logging.quiet: true"),
        ],
        wanted: &[
            ("[\"http://localhost:9200\"]", "[\"https://es1:9200\", \"https://es2:9200\"]"),
            ("#i18n.locale: \"en\"\n", "#i18n.locale: \"en\"\nserver.host: \"0.0.0.0\"\nelasticsearch.password: 'p: #1'\n"),
        ],
        outcomes: &[
            ("\"server.host\"", "carried"),
            ("\"elasticsearch.hosts\"", "carried"),
            ("\"elasticsearch.password\"", "carried"),
            ("\"logging.quiet\"", GONE),
        ],
    });
}

#[test]
fn databases() {
    // Lists of maps, renamed keys, a value that becomes a group, and an indentation that changes.
    holds(&Shape {
        first: "cassandra.1.yaml",
        second: "cassandra.2.yaml",
        mine: &[
            ("'Test Cluster'", "'Ours'"),
            ("num_tokens: 256", "num_tokens: 32"),
            ("authenticator: AllowAllAuthenticator", "authenticator: PasswordAuthenticator"),
            ("    - /var/lib/cassandra/data\n", "    - /data/a\n    - /data/b\n"),
            ("seeds: \"127.0.0.1\"", "seeds: \"10.0.0.1,10.0.0.2\""),
            ("read_request_timeout_in_ms: 5000", "read_request_timeout_in_ms: 9000"),
            ("keystore_password: cassandra", "keystore_password: changed-1"),
        ],
        wanted: &[
            ("'Test Cluster'", "'Ours'"),
            ("num_tokens: 16", "num_tokens: 32"),
            ("    - /var/lib/cassandra/data\n", "  - /data/a\n  - /data/b\n"),
            (
                "  # Addresses of hosts that are contact points.\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    \
                 parameters:\n      # seeds is a list of addresses, with commas.\n      # Ex: \"<ip1>,<ip2>,<ip3>\"\n      - seeds: \"127.0.0.1\"\n",
                "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    \
                 parameters:\n        # seeds is a list of addresses, with commas.\n        # Ex: \"<ip1>,<ip2>,<ip3>\"\n        - seeds: \"10.0.0.1,10.0.0.2\"\n",
            ),
            ("keystore_password: cassandra", "keystore_password: changed-1"),
        ],
        outcomes: &[
            ("cluster_name", "carried"),
            ("num_tokens", "conflict"),
            ("authenticator", "not_carried: other_structure"),
            ("data_file_directories", "carried"),
            ("seed_provider", "carried"),
            ("read_request_timeout_in_ms", GONE),
            ("client_encryption_options.keystore_password", "carried"),
        ],
    });
    // Groups that are commented out, and one that the vendor took out.
    holds(&Shape {
        first: "mongod.1.conf.yaml",
        second: "mongod.2.conf.yaml",
        mine: &[
            ("enabled: true", "enabled: false"),
            ("bindIp: 127.0.0.1", "bindIp: 127.0.0.1,10.0.0.1"),
            ("#security:\n", "security:\n  authorization: enabled\n  keyFile: /etc/mongo.key\n"),
        ],
        wanted: &[
            ("bindIp: 127.0.0.1", "bindIp: 127.0.0.1,10.0.0.1"),
            ("#replication:\n", "#replication:\nsecurity:\n  authorization: enabled\n  keyFile: /etc/mongo.key\n"),
        ],
        outcomes: &[
            ("storage.journal.enabled", GONE),
            ("net.bindIp", "carried"),
            ("security.authorization", "carried"),
            ("security.keyFile", "carried"),
        ],
    });
    // Lines: a comment behind a value cannot be told from the value, so it goes with it.
    holds(&Shape {
        first: "postgresql.1.conf",
        second: "postgresql.2.conf",
        mine: &[
            ("#listen_addresses = 'localhost'\t", "listen_addresses = '*'\t"),
            ("max_connections = 100\t\t\t", "max_connections = 300\t\t\t"),
            ("shared_buffers = 128MB\t\t\t# min 128kB", "shared_buffers = 4GB"),
            ("stats_temp_directory = '/var/run", "stats_temp_directory = '/run"),
            ("max_wal_size = 1GB\n", ""),
        ],
        wanted: &[
            ("max_connections = 100\t\t\t# (changes need a restart)", "max_connections = 300\t\t\t# (change requires restart)"),
            ("shared_buffers = 128MB\t\t\t# min 128kB", "shared_buffers = 4GB"),
            ("max_wal_size = 1GB\n", ""),
            ("from\n", "from\nlisten_addresses = '*'\t\t# what IP address(es) to listen on;\n"),
        ],
        outcomes: &[
            ("listen_addresses", "carried"),
            ("max_connections", "conflict"),
            ("shared_buffers", "carried"),
            ("stats_temp_directory", GONE),
            ("max_wal_size", "carried"),
        ],
    });
    // No sign between name and value: not understood, so the operator's file stays as a whole.
    holds(&Shape {
        first: "redis.1.conf",
        second: "redis.2.conf",
        mine: &[("port 6379", "port 6380")],
        wanted: &[
            ("enable-protected-configs no\nport 6379", "port 6380"),
            ("save 3600 1 300 100 60 10000", "save 3600 1\nsave 300 100"),
        ],
        outcomes: &[("(the whole file)", "conflict")],
    });
}

#[test]
fn web_suites_and_monitoring() {
    // A group that other groups take over by an alias.
    holds(&Shape {
        first: "gitlab.1.yml",
        second: "gitlab.2.yml",
        mine: &[
            ("host: localhost", "host: git.example.org"),
            ("port: 80 #", "port: 443 #"),
            ("https: false #", "https: true #"),
            ("wiki: true", "wiki: false"),
            ("'_the_password_of_the_bind_user'", "'s3cret #1'"),
            ("'_your_ldap_server'", "'ldap.example.org'"),
        ],
        wanted: &[
            ("host: localhost", "host: git.example.org"),
            ("port: 80 #", "port: 443 #"),
            ("https: false #", "https: true #"),
            ("wiki: true", "wiki: false"),
            ("'_the_password_of_the_bind_user'", "'s3cret #1'"),
            ("'_your_ldap_server'", "'ldap.example.org'"),
        ],
        outcomes: &[
            ("production.gitlab.host", "carried"),
            ("production.gitlab.port", "carried"),
            ("production.gitlab.https", "carried"),
            ("production.gitlab.default_projects_features.wiki", "carried"),
            ("production.ldap.servers.main.host", "carried"),
            ("production.ldap.servers.main.password", "carried"),
        ],
    });
    holds(&Shape {
        first: "database.1.yml",
        second: "database.2.yml",
        mine: &[("pool: 50", "pool: 80"), ("database: zammad_production", "database: helpdesk")],
        wanted: &[("pool: 50", "pool: 80"), ("database: zammad_production", "database: helpdesk")],
        outcomes: &[("default.pool", "carried"), ("production.database", "carried")],
    });
    // Keys with dots, quoted in one release and not in the other.
    holds(&Shape {
        first: "sentry.1.yml",
        second: "sentry.2.yml",
        mine: &[
            ("mail.host: 'smtp'", "mail.host: 'mail.example.org'  # ours"),
            ("'!!changeme!!'", "'k3y: with # signs'"),
            ("'http://web:9000'", "'http://web:9001'"),
            (
                "filestore.backend: 'filesystem'\nfilestore.options:\n  location: '/data/files'\n",
                "filestore.backend: 's3'\nfilestore.options:\n  access_key: 'AKIA'\n  bucket_name: 'sentry'\n",
            ),
            (
                "transaction-events.force-disabled-for-internal-project: true",
                "transaction-events.force-disabled-for-internal-project: false",
            ),
        ],
        wanted: &[
            ("mail.host: 'smtp'", "mail.host: 'mail.example.org'"),
            ("'!!changeme!!'", "'k3y: with # signs'"),
            ("'http://web:9000'", "'http://web:9001'"),
            ("filestore.backend: 'filesystem'", "filestore.backend: 's3'"),
            (
                "  location: '/data/files'\n  default_acl: |\n    private\n    bucket-owner\n",
                "  default_acl: |\n    private\n    bucket-owner\n  access_key: 'AKIA'\n  bucket_name: 'sentry'\n",
            ),
        ],
        outcomes: &[
            ("\"mail.host\"", "carried"),
            ("\"system.secret-key\"", "carried"),
            ("\"system.internal-url-prefix\"", "carried"),
            ("\"transaction-events.force-disabled-for-internal-project\"", GONE),
            ("\"filestore.backend\"", "carried"),
            ("\"filestore.options\".access_key", "carried"),
            ("\"filestore.options\".bucket_name", "carried"),
            ("\"filestore.options\".location", "carried"),
        ],
    });
    // JSON, which is YAML too: groups in braces over many lines.
    holds(&Shape {
        first: "mattermost.1.yaml",
        second: "mattermost.2.yaml",
        mine: &[
            ("\"SiteURL\": \"\"", "\"SiteURL\": \"https://chat.example.org\""),
            ("\"MaxUsersPerTeam\": 50", "\"MaxUsersPerTeam\": 500"),
            ("mmuser:mostest@localhost", "mm:other@db1"),
            ("\"Plugins\": {}", "\"Plugins\": {\"jira\": {\"secret\": \"x\"}}"),
        ],
        wanted: &[
            ("\"SiteURL\": \"\"", "\"SiteURL\": \"https://chat.example.org\""),
            ("\"MaxUsersPerTeam\": 100", "\"MaxUsersPerTeam\": 500"),
            (
                "mmuser:mostest@localhost/mattermost_test?sslmode=disable\\u0026connect_timeout=10\\u0026binary_parameters=yes",
                "mm:other@db1/mattermost_test?sslmode=disable\\u0026connect_timeout=10",
            ),
            ("\"Plugins\": {}", "\"Plugins\": {\"jira\": {\"secret\": \"x\"}}"),
        ],
        outcomes: &[
            ("ServiceSettings.SiteURL", "carried"),
            ("TeamSettings.MaxUsersPerTeam", "conflict"),
            ("SqlSettings.DataSource", "conflict"),
            ("PluginSettings.Plugins.jira.secret", "carried"),
            ("PluginSettings.Plugins", "carried"),
        ],
    });
    // Lists of maps that the vendor changed too.
    holds(&Shape {
        first: "prometheus.1.yml",
        second: "prometheus.2.yml",
        mine: &[
            ("scrape_interval:     15s # Every 15 seconds.", "scrape_interval:     5s # Every 5 seconds."),
            ("  # - \"first_rules.yml\"\n", "  - \"own/*.yml\"\n"),
            ("    - targets: ['localhost:9090']\n", "    - targets: ['localhost:9090', 'db1:9187']\n"),
        ],
        wanted: &[
            ("scrape_interval: 15s", "scrape_interval: 5s"),
            ("rule_files:\n", "rule_files:\n  - \"own/*.yml\"\n"),
            ("  # The job name becomes a label of every series.\n  - job_name: \"prometheus\"\n", "  - job_name: 'prometheus'\n"),
            (
                "      - targets: [\"localhost:9090\"]\n        # The label is added to every series.\n        labels:\n          app: \"prometheus\"\n",
                "    - targets: ['localhost:9090', 'db1:9187']\n",
            ),
        ],
        outcomes: &[("global.scrape_interval", "carried"), ("rule_files", "carried"), ("scrape_configs", "conflict")],
    });
    // Sections, comments of both signs, keys without a value.
    holds(&Shape {
        first: "grafana.1.ini",
        second: "grafana.2.ini",
        mine: &[
            ("domain = localhost", "domain = grafana.example.org"),
            ("password =\n", "password = \"\"\"#pass;\"\"\"\n"),
            ("type = sqlite3", "type=postgres"),
            ("secret_key = SW2YcwTIb9zpOOhoPsMm", "secret_key = own-key"),
            ("scopes = user:email,read:org", "scopes = user:email,read:org,own"),
            ("mode = console file\n", "mode = syslog\n[smtp]\nenabled = true\n"),
            (";http_addr =", "http_addr = 10.0.0.1"),
            ("[auth.generic_oauth]\nenabled = false", "[auth.generic_oauth]\nenabled = true"),
        ],
        wanted: &[
            ("domain = localhost", "domain = grafana.example.org"),
            ("password =\n", "password = \"\"\"#pass;\"\"\"\n"),
            ("type = sqlite3", "type = postgres"),
            ("secret_key = SW2YcwTIb9zpOOhoPsMm", "secret_key = own-key"),
            ("scopes = user:email", "scopes = user:email,read:org,own"),
            ("[auth.generic_oauth]\nenabled = false", "[auth.generic_oauth]\nenabled = true"),
            ("%(http_port)s/\n", "%(http_port)s/\nhttp_addr = 10.0.0.1\n"),
            ("[unified_alerting]\nenabled =\n", "[unified_alerting]\nenabled =\n\n[smtp]\nenabled = true\n"),
        ],
        outcomes: &[
            ("server.http_addr", "carried"),
            ("server.domain", "carried"),
            ("database.type", "carried"),
            ("database.password", "carried"),
            ("security.secret_key", "carried"),
            ("\"auth.generic_oauth\".enabled", "carried"),
            ("\"auth.generic_oauth\".scopes", "conflict"),
            ("log.mode", GONE),
            ("smtp.enabled", "carried"),
        ],
    });
    // Sections in another order.
    holds(&Shape {
        first: "gitea.1.ini",
        second: "gitea.2.ini",
        mine: &[
            ("APP_NAME = Gitea: Git with a cup of tea", "APP_NAME = Our Git: all of it"),
            ("FILE_MAX_SIZE = 3", "FILE_MAX_SIZE = 9"),
            ("PASSWD =\n", "PASSWD = `se;cret`\n"),
            ("COOKIE_USERNAME = gitea_awesome", "COOKIE_USERNAME = own"),
            ("INSTALL_LOCK = false", "INSTALL_LOCK = true"),
        ],
        wanted: &[
            ("APP_NAME = Gitea: Git with a cup of tea", "APP_NAME = Our Git: all of it"),
            ("FILE_MAX_SIZE = 50", "FILE_MAX_SIZE = 9"),
            ("PASSWD =\n", "PASSWD = `se;cret`\n"),
            ("INSTALL_LOCK = false", "INSTALL_LOCK = true"),
        ],
        outcomes: &[
            ("APP_NAME", "carried"),
            ("\"repository.upload\".FILE_MAX_SIZE", "conflict"),
            ("database.PASSWD", "carried"),
            ("security.INSTALL_LOCK", "carried"),
            ("security.COOKIE_USERNAME", GONE),
        ],
    });
}

/// The files themselves are of the shapes that they stand for.
#[test]
fn there_are_two_releases_of_each_shape() {
    let names = fs::read_dir(root().join("tests/confsave/shapes"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.collect();
    let of = |number: &str| names.iter().filter(|name| name.contains(number)).count();
    assert!(of(".1.") >= 10 && of(".1.") == of(".2."), "{names:?}");
}
