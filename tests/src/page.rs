//! The commands that a page shows, so that a test can run them as they stand there.

use std::fs;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::children;
use crate::tool::{bin_dir, root};

/// After how long commands that do not end are ended.
const LIMIT: Duration = Duration::from_secs(600);

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
    // Files, since a server that the commands started would hold pipes open.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = children::grouped("bash")
        .args(["-euxo", "pipefail", "-c", commands])
        .env_clear()
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .context("cannot run bash")?;
    let status = children::within(&mut child, LIMIT)?;
    let said = |file: &mut fs::File| -> Result<String> {
        let mut text = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let (stdout, stderr) = (said(&mut stdout)?, said(&mut stderr)?);
    let status = status.with_context(|| format!("the commands did not end within {LIMIT:?}\n{stderr}\n{stdout}"))?;
    ensure!(status.success(), "the commands ended with {status}\n{stderr}\n{stdout}");
    Ok(stdout)
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
