//! An object store that speaks S3, on loopback, and an OpenSearch with the plugin for it.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Child;

use anyhow::Result;
use tempfile::TempDir;

use crate::download::{cached, maven_dependencies};
use crate::host::{Host, OwnSearch, texts};
use crate::search::{self, Settings};
use crate::{children, java, os};

/// The server that has the plugin: of the others nothing is on Maven Central.
const SERVER: &str = "opensearch-3";
const STORE: &str = "org.gaul:s3proxy:2.6.0";
/// What both sides know.
pub const KEY: [&str; 2] = ["sample-key", "sample-secret"];
pub const BUCKET: &str = "backups";

pub struct S3 {
    pub own: OwnSearch,
    pub url: String,
    store: Child,
    /// Where the store keeps its objects, as files.
    pub objects: TempDir,
}

impl S3 {
    pub fn start(host: &Host) -> Result<Self> {
        let port = os::free_ports(1)?[0];
        let objects = tempfile::tempdir()?;
        fs::create_dir(objects.path().join(BUCKET))?;
        let store = store(&objects, port)?;
        let extra = texts(&[
            ("s3.client.default.endpoint", format!("\"http://127.0.0.1:{port}\"").as_str()),
            ("s3.client.default.region", "us-east-1"),
            ("s3.client.default.path_style_access", "true"),
        ]);
        let settings = Settings { extra, home: Some(opensearch_with_s3()?), ..Settings::default() };
        let own = host.prepare_search_server(SERVER, &settings)?;
        os::run(own.program("opensearch-keystore").arg("create"))?;
        for (name, value) in ["access_key", "secret_key"].into_iter().zip(KEY) {
            os::fed(own.program("opensearch-keystore").args(["add", "--stdin", &format!("s3.client.default.{name}")]), value)?;
        }
        let this = Self { own, url: format!("http://127.0.0.1:{port}"), store, objects };
        this.own.start(&host.systemd)?;
        Ok(this)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.store.kill();
        let _ = self.store.wait();
    }
}

fn store(objects: &TempDir, port: u16) -> Result<Child> {
    let jars = cached(&STORE.replace(':', "-"), |folder| maven_dependencies(STORE, true, folder))?;
    let settings = objects.path().join("s3proxy.conf");
    let folder = objects.path().display();
    // It knows none of the headers that carry a checksum.
    let text = format!(
        "s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\ns3proxy.identity={}\n\
         s3proxy.credential={}\ns3proxy.ignore-unknown-headers=true\njclouds.provider=filesystem\njclouds.identity=none\n\
         jclouds.credential=none\njclouds.filesystem.basedir={folder}\n",
        KEY[0], KEY[1]
    );
    fs::write(&settings, text)?;
    let java = java::at_least(17)?.join("bin/java");
    let log = objects.path().join("s3proxy.log");
    let mut store = children::grouped(java);
    store
        // It lives for minutes: what the better of the two compilers takes does not come back.
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        .args(["-cp", &format!("{}/*", jars.display()), "org.gaul.s3proxy.Main", "--properties"])
        .arg(&settings);
    let mut child = children::logging(&mut store, &log)?.spawn()?;
    children::until_up("the object store", &mut child, &log, || TcpStream::connect(("127.0.0.1", port)).ok())?;
    Ok(child)
}

/// The distribution with the plugin, whose folder is put together from what is on Maven Central: its zip is not there.
fn opensearch_with_s3() -> Result<PathBuf> {
    search::distribution(SERVER)?.with_plugin("s3", |distribution, folder| {
        let version = distribution.version;
        let plugin = folder.join("plugins/repository-s3");
        fs::create_dir_all(&plugin)?;
        maven_dependencies(&format!("org.opensearch.plugin:repository-s3:{version}"), false, &plugin)?;
        // What the server has itself, a plugin must not have.
        for jar in fs::read_dir(folder.join("lib"))? {
            let _ = fs::remove_file(plugin.join(jar?.file_name()));
        }
        let descriptor = format!(
            "description=repository-s3\nversion={version}\nname=repository-s3\njava.version=21\nopensearch.version={version}\n\
             classname=org.opensearch.repositories.s3.S3RepositoryPlugin\n"
        );
        fs::write(plugin.join("plugin-descriptor.properties"), descriptor)?;
        let rights = "grant {\n  permission java.net.SocketPermission \"*\", \"connect,resolve\";\n\
             permission java.lang.RuntimePermission \"*\";\n  permission java.lang.reflect.ReflectPermission \"suppressAccessChecks\";\n\
             permission java.util.PropertyPermission \"*\", \"read,write\";\n\
             permission java.io.FilePermission \"<<ALL FILES>>\", \"read\";\n};\n";
        fs::write(plugin.join("plugin-security.policy"), rights)?;
        Ok(())
    })
}
