//! How `svc-snap` reaches a server: credentials and certificates against servers with their security on, and whatever else may
//! answer at an address. The servers here are the test's own; what stands in for one says what a real one says.

use std::io::Write;
use std::net::TcpStream;

use svc_tests::prelude::*;
use svc_tests::secured::{ADMIN, Authority, LEAST, NARROW, NOBODY, PASSWORD, RATED, Secured};

/// The tool on a secured server, with a repository and a state of the test's own.
struct Client<'a> {
    server: &'a Secured,
    /// Whether everybody must show a certificate.
    certificate: bool,
    state: TempDir,
}

impl<'a> Client<'a> {
    fn new(server: &'a Secured, certificate: bool) -> Self {
        server.authority.secret("password", &format!("{PASSWORD}\n"));
        server.authority.secret("wrong", "another-s3cret\n");
        Self { server, certificate, state: tempfile::tempdir().unwrap() }
    }

    /// Knows whom to trust, and no more.
    fn stranger(&self, args: &[&str]) -> Tool {
        Tool::new("svc-snap")
            .env("SVC_SEARCH_URL", &self.server.url)
            .env("SVC_SEARCH_CA", self.server.authority.path("ca.pem"))
            .env("SVC_REPOSITORY", "backup")
            .env("SVC_INDICES", "content-*")
            .env("SVC_STATE_DIR", self.state.path())
            .args(args)
    }

    fn certified(&self, name: &str, args: &[&str]) -> Tool {
        let of = |end: &str| self.server.authority.path(&format!("{name}.{end}"));
        self.stranger(args).env("SVC_SEARCH_CLIENT_CERT", of("pem")).env("SVC_SEARCH_CLIENT_KEY", of("key"))
    }

    fn tool(&self, args: &[&str]) -> Tool {
        if self.certificate { self.certified("client", args) } else { self.stranger(args) }
    }

    fn as_user(&self, user: &str, args: &[&str]) -> Tool {
        self.password(self.tool(args), user, "password")
    }

    /// As a user with no more rights than the page of the tool says.
    fn known(&self, args: &[&str]) -> Tool {
        self.as_user(LEAST, args)
    }

    fn password(&self, tool: Tool, user: &str, file: &str) -> Tool {
        tool.env("SVC_SEARCH_USER", user).env("SVC_SEARCH_PASSWORD_FILE", self.server.authority.path(file))
    }

    fn lives(&self) {
        let tool = |args: &[&str]| self.known(args).env("SVC_RUN_ID", "20261120t020003z-life");
        let run = |args: &[&str]| silent(tool(args).run());
        let from = |args: &[&str], document: &Ran| silent(tool(args).args(["--from", "-"]).stdin(document.text()).run());
        let aliased = json!({"settings": {"number_of_replicas": 0}, "aliases": {"content-all": {}}});
        let plain = json!({"settings": {"number_of_replicas": 0}});
        for (name, body) in [("content-a", &aliased), ("content-gone", &aliased), ("content-lone", &plain), ("other", &plain)] {
            self.ask("PUT", &format!("/{name}"), Some(body));
        }
        self.ask("POST", "/content-a/_doc?refresh=true", Some(&json!({"n": 1})));
        let location = self.server.repo_root.join("backup").display().to_string();
        run(&["register", "--location", &location]).ok().changed();
        run(&["verify"]).ok();
        run(&["health"]).ok().has(&json!({"url": self.server.url, "repository/verified": true}));
        let wanted = ["content-a", "content-gone", "content-lone"];
        let created = run(&["create", "s"]).ok().changed().has(&json!({"wanted": wanted, "captured/0/docs_exact": true}));
        run(&["list"]).ok();
        run(&["show", "s"]).ok();
        run(&["wait", "s"]).ok();

        self.ask("POST", "/content-a/_doc?refresh=true", Some(&json!({"n": 2})));
        let staged = from(&["stage", "--indices", "content-a"], &created).ok().changed();
        let swapped = from(&["swap"], &staged).ok().changed();
        assert_eq!(self.count("content-a"), 1);
        from(&["swap"], &swapped).ok().changed();
        assert_eq!(self.count("content-a"), 2);
        run(&["discard", "--run", "20261120t020003z-life"]).ok().changed();
        for name in ["content-gone", "content-lone"] {
            self.ask("DELETE", &format!("/{name}"), None);
        }
        let restored = from(&["restore"], &created).ok().changed();
        let indices = restored.result()["indices"].as_array().unwrap();
        let method = |name: &str| indices.iter().find(|one| one["index"] == name).unwrap()["method"].clone();
        assert_eq!((method("content-a"), method("content-lone")), (json!("swapped"), json!("direct")), "{restored}");
        assert_eq!(self.count("content-all"), 1);
        from(&["discard"], &restored).ok().changed();
        from(&["restore", "--in-place", "--on-conflict", "delete"], &created).ok().changed();
        run(&["cleanup"]).ok();
        run(&["delete", "s"]).ok().changed();
    }

    /// A clone, and the throttles; these also as a user who has what the page says of `--rate-limit` too.
    fn clones_and_rates(&self) {
        let run = |user: &str, args: &[&str]| silent(self.as_user(user, args).run());
        let clone = run(LEAST, &["clone", "--run-id", "20261120t020003z-clone"]).ok().changed();
        assert!(clone.result()["indices"].as_array().unwrap().iter().any(|one| one["index"] == "content-a"), "{clone}");
        run(LEAST, &["discard", "--run", "20261120t020003z-clone"]).ok().changed();

        // The throttle of the repository is within these rights, and that of the cluster is not.
        let created = run(LEAST, &["create", "rated", "--rate-limit", "none"]).ok().changed();
        assert_eq!(created.result()["throttle"]["put_back"], true, "{created}");
        for (user, put_back) in [(LEAST, Value::Null), (RATED, json!(true))] {
            let args = ["stage", "--indices", "content-*", "--rate-limit", "none", "--from", "-"];
            let staged = silent(self.as_user(user, &args).env("SVC_INDICES", "*").stdin(created.text()).run()).ok().changed();
            assert_eq!(staged.result()["throttle"]["put_back"], put_back, "{staged}");
            // The right is named.
            for words in ["Left as it is", "cluster:admin/settings/update"].into_iter().filter(|_| user == LEAST) {
                staged.clone().warns_of("setting_not_changed", words);
            }
            silent(self.as_user(user, &["discard", "--from", "-"]).stdin(staged.text()).run()).ok().changed();
        }
        run(LEAST, &["delete", "rated"]).ok().changed();
    }

    /// Elasticsearch would make the copies, and then show nothing of them.
    fn makes_no_copies_out_of_sight(&self) {
        silent(self.known(&["create", "narrow", "--indices", "content-a"]).run()).ok().changed();
        for args in [&["clone"][..], &["stage", "narrow"], &["restore", "narrow"]] {
            let refused = silent(self.as_user(NARROW, args).run()).refused("permission_denied").unchanged();
            let copies = self.ask("GET", "/_cat/indices/svc-*?format=json&expand_wildcards=all", None);
            assert_eq!(copies, json!([]), "{refused}");
        }
        silent(self.known(&["delete", "narrow"]).run()).ok().changed();
    }

    fn restores_streams(&self) {
        let template = json!({"index_patterns": ["content-logs"], "data_stream": {}, "priority": 500,
            "template": {"settings": {"number_of_replicas": 0}}});
        self.ask("PUT", "/_index_template/content-logs", Some(&template));
        let write = || {
            let document = json!({"@timestamp": "2026-11-20T00:00:00Z"});
            self.ask("POST", "/content-logs/_doc?refresh=true", Some(&document));
        };
        write();
        let parts = json!({"captured_streams/0/name": "content-logs", "captured_streams/0/indices/0/docs_exact": true});
        let created = silent(self.known(&["create", "streams"]).run()).ok().changed().has(&parts);
        let restore = || {
            let tool = self.known(&["restore", "--in-place", "--on-conflict", "close", "--from", "-"]);
            silent(tool.stdin(created.text()).run())
        };
        write();
        restore().ok().changed().warns("not_verified").has(&json!({"indices/0/state": "restored"}));
        assert_eq!(self.count("content-logs"), 1);
        self.ask("DELETE", "/_data_stream/content-logs", None);
        restore().ok().changed();
        assert_eq!(self.count("content-logs"), 1);
        self.ask("DELETE", "/_data_stream/content-logs", None);
    }

    /// Whoever may do everything and asks for everything does not save what the server's security keeps. (The small distribution of
    /// Elasticsearch lacks what its security's index is made of.)
    fn spares(&self, security: &str) {
        self.ask("PUT", "/spared", Some(&json!({"settings": {"number_of_replicas": 0}})));
        let created = silent(self.as_user(ADMIN, &["create", "all"]).env("SVC_INDICES", "*").run()).ok().changed();
        let holds = |name: &str| created.result()["snapshot"]["indices"].as_array().unwrap().contains(&json!(name));
        assert!(holds("spared") && !holds(security), "{created}");
        let skipped = json!({"name": security, "reason": "security"});
        assert!(created.result()["skipped"].as_array().unwrap().contains(&skipped), "{created}");
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.server.ask(method, path, body).unwrap()
    }

    fn count(&self, index: &str) -> u64 {
        self.ask("GET", &format!("/{index}/_count"), None)["count"].as_u64().unwrap()
    }

    /// What goes wrong in the same way on either server.
    fn goes_wrong(&self) {
        let authority = &self.server.authority;
        silent(self.password(self.tool(&["list"]), LEAST, "wrong").run()).refused("access_denied");
        let lacking = silent(self.as_user(NOBODY, &["create", "t"]).run()).refused("permission_denied");
        lacking.error_has(&["nobody", "cluster:monitor/"]);

        let list = || self.known(&["list"]);
        let by_name = self.server.url.replace("127.0.0.1", "localhost");
        silent(list().env("SVC_SEARCH_URL", by_name).run()).refused("not_trusted").error_has(&["search.test"]);
        silent(list().env_remove("SVC_SEARCH_CA").run()).refused("not_trusted");
        let files = [("client.pem", 3, "not_trusted"), ("password", 2, "settings_invalid"), ("nothing", 2, "settings_invalid")];
        for (file, status, code) in files {
            silent(list().env("SVC_SEARCH_CA", authority.path(file)).run()).fails(status, code);
        }

        let insecure = || self.known(&["health"]).env_remove("SVC_SEARCH_CA");
        silent(insecure().arg("--insecure").run()).ok().warns("not_trusted");
        let waited = silent(insecure().env("SVC_SEARCH_INSECURE", "yes").arg("--wait").run()).ok();
        let warnings = waited.doc()["warnings"].as_array().unwrap();
        assert_eq!(warnings.iter().filter(|warning| warning["code"] == "not_trusted").count(), 1);

        let plain = self.server.url.replace("https", "http");
        let ran = self.password(self.stranger(&["create", "t"]), LEAST, "password").env("SVC_SEARCH_URL", plain).run();
        silent(ran).fails(5, "search_unreachable").unchanged().error_has(&["https://"]);

        // A password in the address is refused and not shown, not even in the help.
        let inside = self.server.url.replace("https://", &format!("https://{LEAST}:{PASSWORD}@"));
        silent(self.tool(&["health", "-v"]).env("SVC_SEARCH_URL", &inside).talks().run()).fails(2, "settings_invalid");
        let help = silent(self.tool(&["health", "--help"]).env("SVC_SEARCH_URL", &inside).talks().run());
        assert!(help.stdout.contains("SVC_SEARCH_API_KEY_FILE"));
    }
}

/// Nothing that a secret is made of stands in anything that the tool has said.
#[track_caller]
fn silent(ran: Ran) -> Ran {
    ran.without(&["s3cret", "czNjcmV0"])
}

#[test]
fn elasticsearch_security_accepts_only_valid_credentials() {
    let host = Host::shared().unwrap();
    let server = Secured::elasticsearch(&host).unwrap();
    let account = "elastic/enterprise-search-server";
    let token = os::run(server.program("elasticsearch-service-tokens").args(["create", account, "svc"])).unwrap();
    let token = token.trim().rsplit(' ').next().unwrap().to_owned();
    server.start(&host.systemd).unwrap();
    let client = Client::new(&server, true);
    let authority = &server.authority;
    client.lives();
    client.clones_and_rates();
    client.makes_no_copies_out_of_sight();
    client.goes_wrong();

    let without = |args: &[&str]| client.password(client.stranger(args), LEAST, "password");
    silent(without(&["create", "t"]).run()).refused("access_denied");
    let strangers = Authority::new().unwrap();
    strangers.issue("strange", "svc", "DNS:strange.test").unwrap();
    let shown = |pem: &str, key: &str| without(&["list"]).args(["--client-cert", pem, "--client-key", key]).run();
    silent(shown(&strangers.path("strange.pem"), &strangers.path("strange.key"))).refused("access_denied");
    authority.sign("client", "expired", "DNS:client.test", -1).unwrap();
    let key = authority.path("client.key");
    silent(shown(&authority.path("expired.pem"), &key)).refused("access_denied");
    // The key may stand in the file of the certificate.
    let both = fs::read_to_string(authority.file("client.pem")).unwrap() + &fs::read_to_string(&key).unwrap();
    let both = authority.secret("both.pem", &both);
    silent(client.stranger(&["list"]).args(["--client-cert", &both]).run()).refused("access_denied");

    let bearer =
        |token: &str, args: &[&str]| client.certified("client", args).args(["--bearer-file", &authority.secret("bearer", token)]);
    bearer(&token, &["health"]).run().ok().without(&[&token]).has(&json!({"repository/verified": true}));
    bearer(&token.replace("AA", "AB"), &["health"]).run().refused("access_denied");

    // A backup's life by a token, for indices that the account may manage.
    let by_token = |args: &[&str]| bearer(&token, args).env("SVC_INDICES", "search-*");
    server.ask("PUT", "/search-a", Some(&json!({"settings": {"number_of_replicas": 0}}))).unwrap();
    server.ask("POST", "/search-a/_doc?refresh=true", Some(&json!({"n": 1}))).unwrap();
    let created = by_token(&["create", "by-token"]).run().ok().changed().has(&json!({"wanted": ["search-a"]}));
    server.ask("DELETE", "/search-a", None).unwrap();
    let restored = by_token(&["restore", "--from", "-"]).stdin(created.text()).run().ok().changed();
    assert_eq!((&restored.result()["indices"][0]["method"], client.count("search-a")), (&json!("direct"), 1), "{restored}");

    authority.sign("server", "old", "IP:127.0.0.1", -1).unwrap();
    server.lay("old.pem", "server.pem").unwrap();
    // The server looks at its certificates now and then.
    wait::so("the expired certificate", || {
        let error = server.ask("GET", "/_cluster/health", None).err()?;
        format!("{error:#}").contains("certificate has expired").then_some(())
    });
    silent(client.known(&["create", "t"]).run()).refused("not_trusted");
    silent(client.known(&["health"]).env_remove("SVC_SEARCH_CA").arg("--insecure").run()).ok().warns("not_trusted");
}

#[test]
fn opensearch_security_accepts_password_or_certificate() {
    let host = Host::shared().unwrap();
    let server = Secured::opensearch(&host).unwrap();
    server.start(&host.systemd).unwrap();
    let client = Client::new(&server, false);
    client.lives();
    client.clones_and_rates();
    client.makes_no_copies_out_of_sight();
    client.restores_streams();
    client.goes_wrong();
    silent(client.stranger(&["list"]).run()).refused("access_denied");
    // The certificate alone says who calls.
    silent(client.certified("client", &["health"]).run()).ok().has(&json!({"repository/verified": true}));
    server.authority.issue("nobody", NOBODY, "DNS:nobody.test").unwrap();
    silent(client.certified("nobody", &["health"]).run()).refused("permission_denied");
    client.spares(".opendistro_security");
}

#[test]
fn unusable_client_certificate_is_refused() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "pem");
    let authority = Authority::new().unwrap();
    authority.issue("one", "one", "DNS:one.test").unwrap();
    authority.issue("two", "two", "DNS:two.test").unwrap();
    let list = |cert: &str, key: Option<&str>| {
        let tool = sandbox.tool(&["list", "--url", "https://127.0.0.1:1", "--client-cert"]).arg(authority.path(cert));
        let ran = key.map_or(tool.clone(), |key| tool.arg("--client-key").arg(authority.path(key))).run();
        let secret = fs::read_to_string(authority.file(key.unwrap_or(cert))).unwrap();
        ran.without(&secret.lines().collect::<Vec<_>>())
    };
    authority.secret("bare.pem", &fs::read_to_string(authority.file("one.pem")).unwrap());
    authority.openssl("pkey -aes256 -passout pass:x -in one.key -out locked.key").unwrap();
    os::chmod(authority.file("locked.key"), 0o600);
    list("one.pem", Some("one.pem")).refused("settings_invalid");
    for (cert, key) in [("one.pem", Some("two.key")), ("one.key", Some("one.key")), ("bare.pem", None)] {
        list(cert, key).fails(2, "settings_invalid").unchanged();
    }
    list("one.pem", Some("locked.key")).fails(2, "settings_invalid").error_has(&["encrypted"]);
    list("one.pem", Some("one.key")).fails(5, "search_unreachable");
    let alone = sandbox.tool(&["list", "--url", "https://127.0.0.1:1", "--client-key"]).arg(authority.path("one.key"));
    let clear = sandbox.tool(&["list", "--client-cert"]).arg(authority.path("one.pem"));
    for tool in [alone, clear] {
        tool.run().fails(2, "settings_invalid");
    }
}

#[test]
fn unexpected_responses_and_redirects_end_with_error() {
    const BAD_GATEWAY: &str = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n";
    const WELCOME: &str = "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome to nginx!</title>\n</head></html>\n";
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "odd");
    let bearer = sandbox.state.path().join("bearer");
    os::file(&bearer, "s3cret-token\n", 0o600, None).unwrap();
    let target = Gate::saying(http("200 OK", "text/html", WELCOME));
    let redirect = format!("HTTP/1.1 301 Moved Permanently\r\nlocation: {}/\r\ncontent-length: 0\r\n\r\n", target.url());
    let json = "application/json";
    for (answer, status, code) in [
        (redirect, 3, "search_unreachable"),
        (http("502 Bad Gateway", "text/html", BAD_GATEWAY), 5, "server_busy"),
        (http("200 OK", "text/html", WELCOME), 3, "search_unreachable"),
        (http("404 Not Found", "text/html", WELCOME), 3, "search_unreachable"),
        (http("200 OK", json, "{\"name\":\"couch\",\"couchdb\":\"Welcome\"}"), 3, "search_unreachable"),
        // Nothing at all; half of what was promised; more than was promised; half a JSON text.
        (String::new(), 5, "search_unreachable"),
        (format!("{OK}content-length: 500\r\n\r\n{{\"name\":"), 5, "search_unreachable"),
        (format!("{OK}content-length: 9\r\n\r\n{{\"name\":\"svc-1\"}}"), 5, "search_unreachable"),
        (format!("{OK}\r\n{{\"name\":"), 5, "search_unreachable"),
        ("HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n{}".to_owned(), 3, "search_unreachable"),
        ("220 mail.example.org ESMTP Postfix\r\n".to_owned(), 3, "search_unreachable"),
        ("\u{1}\u{2}\u{3}\u{4}\0\0\0garbage".to_owned(), 3, "search_unreachable"),
    ] {
        let server = Gate::saying(answer.clone());
        let ran = sandbox.tool(&["create", "s"]).via(&server).arg("--bearer-file").arg(&bearer).run();
        silent(ran).fails(status, code).unchanged();
        assert!(server.asked().iter().all(|request| !request.starts_with("PUT")), "{answer}");
    }
    assert_eq!(target.asked(), Vec::<String>::new(), "the redirect was followed");

    let plain = sandbox.search.url.replace("http://", "https://");
    let clear = sandbox.tool(&["create", "s"]).env("SVC_SEARCH_URL", &plain).run().refused("search_unreachable");
    clear.error_has(&[&sandbox.search.url]);
    // A server that hangs up on what it does not understand.
    let is_http = |request: &str| request.starts_with("GET ").then(|| request.to_owned()).ok_or_else(String::new);
    let mute = Gate::before(LOOPBACK, &sandbox.search.url, is_http);
    let mute = sandbox.tool(&["list"]).env("SVC_SEARCH_URL", mute.url().replace("http://", "https://")).run();
    mute.fails(5, "search_unreachable");
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

#[test]
fn endless_response_ends_with_error_in_bounded_memory() {
    const MB: usize = 1 << 20;
    let sandbox = Sandbox::new("large");
    // In 600 MB of memory.
    let list = |server: &Gate| sandbox.tool(&["list"]).via(server).through("/usr/bin/prlimit", ["--as=629145600"]).run();
    sandbox.simple("docs", 1);
    sandbox.create("s");
    let mut snapshots = json!({"snapshots": sandbox.snapshots()});
    snapshots["snapshots"][0]["metadata"]["note"] = json!("x".repeat(50 * MB));
    let answer = http("200 OK", "application/json", &snapshots.to_string());
    let large = sandbox.gate();
    large.rule(|line| line.starts_with("GET /_snapshot/"), Act::Answer(answer, false), 0, 9);
    list(&large).ok().has(&json!({"snapshots/0/name": "s"}));

    let endless = |head: &str, piece: Vec<u8>| {
        let head = head.to_owned();
        Gate::answered_by(LOOPBACK, move |_, client: &mut TcpStream| {
            let _ = client.write_all(head.as_bytes());
            while client.write_all(&piece).is_ok() {}
        })
    };
    let json = endless(&format!("{OK}\r\n{{\"name\":\""), vec![b'x'; MB]);
    list(&json).fails(1, "failed").unchanged().error_has(&["is larger than"]);
    // What is no JSON is not read to an end that never comes.
    let html = endless("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>", vec![b'x'; MB]);
    list(&html).refused("search_unreachable");
    // A few hundred KB that unpack to as much as one likes.
    let dir = tempfile::tempdir().unwrap();
    let packed = dir.path().join("packed");
    let pack = "{ printf '{\"name\":\"'; head -c 140000000 /dev/zero | tr '\\0' x; } | gzip -1 >\"$0\"";
    os::run(Command::new("sh").args(["-c", pack]).arg(&packed)).unwrap();
    let mut answer = format!("{OK}content-encoding: gzip\r\n\r\n").into_bytes();
    answer.extend(fs::read(&packed).unwrap());
    list(&Gate::saying(answer)).fails(1, "failed").unchanged().error_has(&["is larger than"]);
}

#[test]
fn dripping_response_ends_at_timeout() {
    let sandbox = Sandbox::new("drip");
    // The answer would take minutes, or come to no end.
    let text = format!("{OK}content-length: 400\r\n\r\n{{\"name\":\"svc-1\",");
    for at_once in [0, text.len()] {
        let text = text.clone();
        let server = Gate::answered_by(LOOPBACK, move |_, client| {
            let _ = client.write_all(&text.as_bytes()[..at_once]);
            for byte in text.as_bytes()[at_once..].iter().chain(std::iter::repeat(&b' ')) {
                if client.write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_secs(1));
            }
        });
        sandbox.tool(&["create", "s", "--timeout", "3s"]).via(&server).run().fails(6, "timeout").unchanged();
        assert!(server.asked().iter().all(|request| request.starts_with("GET ")));
    }
}

#[test]
fn url_prefix_and_ipv6_are_reached_without_proxy() {
    // Without a repository: its verification may wait for the snapshots of other tests.
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "address");
    let prefix = Gate::before(LOOPBACK, &sandbox.search.url, |request| {
        let (line, rest) = request.split_once("\r\n").unwrap_or((request, ""));
        match line.split_once(" /search/") {
            Some((method, path)) => Ok(format!("{method} /{path}\r\n{rest}")),
            None => Err(http("404 Not Found", "text/html", "<h1>Not Found</h1>")),
        }
    });
    for end in ["/search", "/search/"] {
        let url = format!("{}{end}", prefix.url());
        sandbox.tool(&["health", "--url", &url]).run().ok().has(&json!({"url": url.trim_end_matches('/')}));
    }
    let location = sandbox.location().display().to_string();
    let url = format!("{}/search", prefix.url());
    sandbox.tool(&["register", "--url", &url, "--location", &location]).run().ok().changed();

    if fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| text.contains(" lo")) {
        let six = Gate::before("[::1]:0", &sandbox.search.url, |request| Ok(request.to_owned()));
        let health = sandbox.tool(&["health"]).via(&six).run().ok();
        assert!(health.result()["url"].as_str().unwrap().starts_with("http://[::1]:"), "{health}");
    } else {
        skip("a server over IPv6: this host has no ::1");
    }

    let proxy = Gate::saying(http("200 OK", "text/html", "<html>"));
    let proxied = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    proxied.iter().fold(sandbox.tool(&["list"]), |tool, name| tool.env(name, proxy.url())).run().ok();
    assert_eq!(proxy.asked(), Vec::<String>::new());
}

#[test]
fn url_with_wrong_path_is_refused() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "path");
    let index = sandbox.simple("docs", 1);
    for path in ["nowhere", "nowhere/at/all", "_cat", "_cluster/health", &index] {
        let url = format!("{}/{path}", sandbox.search.url);
        sandbox.tool(&["list", "--url", &url]).run().refused("search_unreachable").error_has(&[&url, "a path"]);
    }
}
