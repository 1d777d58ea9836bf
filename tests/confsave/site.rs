//! An installation with a configuration, and what a carry says of its keys; and what nearly every test uses.

pub use std::ffi::OsStr;
pub use std::fs;
pub use std::os::unix::fs::{MetadataExt, chown, symlink};
pub use std::path::{Path, PathBuf};
pub use std::process::Command;

pub use serde_json::{Value, json};
pub use svc_tests::os::{self, mode};
pub use svc_tests::rights;
pub use svc_tests::tool::{Ran, Tool};
use tempfile::TempDir;

pub const SECRET: &str = "hunter2-Very:secret";

pub const SHIPPED: &str = "# Configuration of the service.
service:
  name: 'svc'
  languages:
    - en
    - \"fr\"  # not whole yet

database:
  # The pool
  pool:
    size: 16
    idle_timeout_ms: 60000
  url: postgres://svc@db/svc_db

session:
  secret: \"change-me\"
  lifetime_minutes: 240

log: {level: info, keep_days: 30} # short
";

pub const SHIPPED_CONF: &str = "# Configuration of the service.

[database]
host = db1
pool_size = 12

[session]
; To be changed
secret = change-me
lifetime_minutes: 240

[log]
level = info
";

/// An installation in a folder of its own, whose path has blanks in it.
pub struct Site {
    pub dir: TempDir,
}

impl Site {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("conf save ").tempdir().unwrap();
        fs::create_dir_all(dir.path().join("inst dir/config/svc")).unwrap();
        fs::create_dir_all(dir.path().join("inst dir/conf")).unwrap();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn yaml(&self) -> PathBuf {
        self.path("inst dir/config/svc/svc.yaml")
    }

    pub fn conf(&self) -> PathBuf {
        self.path("inst dir/conf/svc.conf")
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A folder that anybody can write, as /tmp, where the procedure has the copy.
    pub fn shared(&self) -> PathBuf {
        let folder = self.path("shared");
        fs::create_dir_all(&folder).unwrap();
        os::chmod(&folder, 0o1777);
        folder
    }

    pub fn tool(&self, step: &str) -> Tool {
        let tool = Tool::new("svc-confsave").arg(step).env("SVC_INSTALL_DIR", self.path("inst dir"));
        tool.env("SVC_STATE_DIR", self.path("state")).env("SVC_RUN_ID", "20261120t020003z-test")
    }

    /// Every file but for the locks, with what it holds.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>, u32)> {
        let paths = os::files_below(self.dir.path()).into_iter().filter(|path| !path.starts_with(self.path("state")));
        let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(&path).unwrap(), os::mode(&path))).collect();
        files.sort();
        files
    }

    /// A configuration that was saved to a file of its layout's name: the document.
    pub fn saved(&self, content: impl AsRef<[u8]>) -> String {
        fs::write(self.yaml(), content).unwrap();
        self.tool("save").arg("--to").arg(self.path("svc.yaml")).run().ok().text()
    }

    /// A step that continues from a document.
    pub fn from(&self, step: &str, document: impl Into<Vec<u8>>) -> Tool {
        self.tool(step).args(["--from", "-"]).stdin(document)
    }

    /// A carry of `saved` onto `new`, with `base` if there is one.
    pub fn carry(&self, layout: &str, saved: impl AsRef<[u8]>, base: Option<&str>, new: impl AsRef<[u8]>) -> Tool {
        let place = if layout == "yaml" { self.yaml() } else { self.conf() };
        fs::write(place, new).unwrap();
        let saved = self.write(&format!("saved.{layout}"), saved);
        let tool = self.tool("carry").arg(saved);
        match base {
            Some(base) => tool.arg("--base").arg(self.write(&format!("base.{layout}"), base)),
            None => tool,
        }
    }
}

pub fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// Of every key that a carry speaks of, `path: outcome`, with the reason behind it.
pub fn outcomes(ran: &Ran) -> Vec<String> {
    let of = |key: &Value| {
        let reason = key["reason"].as_str().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("{}: {}{reason}", key["path"].as_str().unwrap(), key["outcome"].as_str().unwrap())
    };
    ran.result()["keys"].as_array().unwrap().iter().map(of).collect()
}

/// Holds a file against what it should be, and shows the lines that differ.
#[track_caller]
pub fn assert_text(found: &str, wanted: &str, what: &str) {
    let lines = |text: &str, sign: &str, other: &str| {
        let odd = text.lines().filter(|line| !other.lines().any(|one| one == *line));
        odd.map(|line| format!("{sign} {line:?}\n")).collect::<String>()
    };
    assert!(found == wanted, "{what}\n{}{}found:\n{found}", lines(wanted, "-", found), lines(found, "+", wanted));
}
