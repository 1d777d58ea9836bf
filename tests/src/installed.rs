//! The tools and scripts installed as `docs/install.md` says of a checkout: in `/usr/local`, with their settings in `/etc/svc-tools`. These folders are
//! a test's own, and only the commands and units that are started with them see them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};

use crate::product::Product;
use crate::tool::{bin_dir, root};
use crate::{os, page};

const FOLDERS: [&str; 3] = ["/usr/local", "/etc", "/var/log"];
#[derive(Debug)]
pub struct Installed {
    folders: [PathBuf; 3],
    installers_own: Vec<(String, String)>,
}

impl Installed {
    /// Types what the page says, with the tools of this build and the settings of a product, these changed. The folder keeps what is
    /// installed.
    pub fn new(folder: &Path, product: &Product, changed: &[(&str, &str)]) -> Result<Self> {
        let folders = FOLDERS.map(|path| folder.join(path.trim_start_matches('/').replace('/', " ")));
        let installed = Self { folders, installers_own: product.installers_own() };
        let [local, etc, log] = &installed.folders;
        os::folder(folder, 0o755, None)?;
        os::run(Command::new("cp").args(["-a", "/etc"]).arg(etc))?;
        let _ = fs::remove_dir_all(etc.join("svc-tools"));
        for path in [local, &local.join("bin"), &local.join("sbin"), &local.join("lib"), log, &etc.join("svc-tools")] {
            os::folder(path, 0o755, None)?;
        }
        os::file(&etc.join("svc-tools/environment"), &product.settings_file(changed), 0o600, None)?;
        let block = page::transcripts("docs/install.md")?.into_iter().find(|block| block.contains("scripts/install.sh"));
        let block = block.context("docs/install.md does not say how a checkout is installed")?;
        let commands: Vec<&str> = block.lines().filter(|line| !line.starts_with("cargo ")).collect();
        let commands = format!("set -e; {} --bin \"$BIN_DIR\"", commands.join("\n"));
        os::run(installed.shell("bash", &commands).env("BIN_DIR", bin_dir()).current_dir(root()))?;
        Ok(installed)
    }

    /// Runs a line as root types it after a login.
    pub fn typed(&self, line: &str) -> Result<Output> {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        Ok(self.shell("bash", line).envs(self.installers_own.iter().cloned()).env("PATH", path).output()?)
    }

    /// Runs what an installed page has for `/etc/cron.d`, the line with that word, as cron does: by `/bin/sh`, with cron's short `PATH`.
    pub fn by_cron(&self, page: &str, word: &str) -> Result<Output> {
        let text = self.file(page)?;
        let line = text.lines().find(|line| line.contains(" * root ") && line.contains(word));
        let (_, command) = line.and_then(|line| line.split_once(" root ")).with_context(|| format!("{page} has no {word}"))?;
        Ok(self.shell("/bin/sh", command).output()?)
    }

    /// What is in a file of the machine.
    pub fn file(&self, path: &str) -> Result<String> {
        let places = FOLDERS.iter().zip(&self.folders);
        let found = places.filter_map(|(folder, own)| Some(own.join(path.strip_prefix(folder)?.trim_start_matches('/')))).next();
        let found = found.with_context(|| format!("{path} is in no folder of the test's own"))?;
        fs::read_to_string(&found).with_context(|| format!("cannot read {}", found.display()))
    }

    /// A line in the environment that root has in a cron job.
    fn shell(&self, shell: &str, line: &str) -> Command {
        let mut command = Command::new("/usr/bin/unshare");
        let bind = FOLDERS.iter().enumerate().map(|(n, folder)| format!("mount --bind \"${}\" {folder} && ", n + 1));
        let enter = format!("{}shift 3 && exec \"$@\"", bind.collect::<String>());
        command.args(["--mount", "/bin/sh", "-c", &enter, "enter"]).args(&self.folders).args([shell, "-c", line]);
        command.env_clear().envs([("HOME", "/root"), ("LOGNAME", "root"), ("SHELL", "/bin/sh"), ("PATH", "/usr/bin:/bin")]);
        command.current_dir("/").stdin(Stdio::null());
        command
    }
}
