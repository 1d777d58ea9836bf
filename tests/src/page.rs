//! The commands that a page shows, so that a test can run them as they stand there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tool::{bin_dir, root};

/// The block of commands of a page (its path in the workspace) that stands behind `<!-- recipe: NAME -->`.
pub fn recipe(page: &str, name: &str) -> Result<String> {
    let file = root().join(page);
    let text = fs::read_to_string(&file).with_context(|| format!("no page {}", file.display()))?;
    let block = text.split_once(&format!("<!-- recipe: {name} -->\n```bash\n")).and_then(|(_, rest)| rest.split_once("\n```\n"));
    Ok(block.with_context(|| format!("{page} has no recipe {name}"))?.0.to_owned())
}

/// Runs commands by bash, in a folder, with the tools first in `PATH` and nothing else in the environment; they end at the
/// first that fails. Gives what they wrote to stdout.
pub fn bash(commands: &str, env: &[(String, String)], dir: &Path) -> Result<String> {
    let path = format!("{}:{}", bin_dir().display(), std::env::var("PATH").unwrap_or_default());
    let out = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", commands])
        .env_clear()
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .context("cannot run bash")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    ensure!(out.status.success(), "the commands ended with {}\n{stderr}\n{stdout}", out.status);
    Ok(stdout.into_owned())
}

/// The commands of a page's transcripts, block by block: the lines that begin with a prompt, `$ ` or `# `.
pub fn transcripts(page: &str) -> Result<Vec<String>> {
    let file = root().join(page);
    let text = fs::read_to_string(&file).with_context(|| format!("no page {}", file.display()))?;
    let commands = |block: &str| {
        let typed = block.lines().filter_map(|line| line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")));
        typed.flat_map(|line| [line, "\n"]).collect::<String>()
    };
    Ok(text.split("\n```").skip(1).step_by(2).map(commands).filter(|block| !block.is_empty()).collect())
}
