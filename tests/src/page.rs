//! The commands that a page shows, so that a test can run them as they stand there.

use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tool::{root, search_path};
use crate::{children, wait};

/// The block of commands of a page (its path in the workspace) that stands behind `<!-- recipe: NAME -->`.
pub fn recipe(page: &str, name: &str) -> Result<String> {
    let text = text(page)?;
    let block = text.split_once(&format!("<!-- recipe: {name} -->\n```bash\n")).and_then(|(_, rest)| rest.split_once("\n```\n"));
    Ok(block.with_context(|| format!("{page} has no recipe {name}"))?.0.to_owned())
}

/// Runs commands by bash, in a folder, with the scripts and the tools first in `PATH` and nothing else in the environment; they end at the
/// first that fails. Gives what they wrote to stdout.
pub fn bash(commands: &str, env: &[(String, String)], dir: &Path) -> Result<String> {
    let (status, [stdout, stderr]) = run("-euxo", commands, env, dir)?;
    ensure!(status.success(), "the commands ended with {status}\n{stderr}\n{stdout}");
    Ok(stdout)
}

/// Runs commands, and gives what they wrote to stdout and to stderr: into files, since a server that they started would hold pipes open.
fn run(flags: &str, commands: &str, env: &[(String, String)], dir: &Path) -> Result<(ExitStatus, [String; 2])> {
    let files = [tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?];
    let mut bash = children::grouped("timeout");
    bash.args(["--kill-after=60", &wait::HANG.as_secs().to_string(), "bash", flags, "pipefail", "-c", commands]).env_clear();
    bash.env("PATH", search_path([root().join("scripts")])).env("LANG", "C.UTF-8").envs(env.iter().cloned()).current_dir(dir);
    bash.stdin(Stdio::null()).stdout(files[0].reopen()?).stderr(files[1].reopen()?);
    let status = bash.status().context("cannot run bash")?;
    let said = files.map(|file| String::from_utf8_lossy(&fs::read(file.path()).unwrap_or_default()).into_owned());
    ensure!(status.code() != Some(124), "`{commands}` did not end\n{}\n{}", said[1], said[0]);
    Ok((status, said))
}

/// A command of a page's transcripts, and what the page says that it prints.
#[derive(Debug, Clone)]
pub struct Example {
    /// In which of the page's blocks it stands.
    pub block: usize,
    pub command: String,
    /// Both its stdout and its stderr; `…` stands for anything in a line.
    pub shown: String,
}

impl Example {
    /// All of a page, in its order.
    pub fn all(page: &str) -> Result<Vec<Self>> {
        let mut examples: Vec<Self> = Vec::new();
        for (number, block) in blocks(page)?.into_iter().enumerate() {
            let mut in_transcript = false;
            for line in block.lines() {
                if let Some(command) = typed(line) {
                    in_transcript = true;
                    examples.push(Self { block: number, command: command.to_owned(), shown: String::new() });
                } else if let (true, Some(last)) = (in_transcript, examples.last_mut()) {
                    last.shown.extend([line, "\n"]);
                }
            }
        }
        Ok(examples)
    }

    /// All of a tool's page; each of its steps has one.
    pub fn of_tool(cli: &clap::Command) -> Result<Vec<Self>> {
        let tool = cli.get_name();
        let examples = Self::all(&format!("{tool}/README.md"))?;
        for step in cli.get_subcommands().map(clap::Command::get_name) {
            let command = format!("{tool} {step}");
            ensure!(examples.iter().any(|one| one.command.contains(&command)), "its page has no example of {command}");
        }
        Ok(examples)
    }

    /// The same with other words, such as a folder of the test's own in the place of the page's.
    pub fn with(&self, page: &str, here: &str) -> Self {
        Self { command: self.command.replace(page, here), shown: self.shown.replace(page, here), block: self.block }
    }

    /// Runs it in a folder, and holds what it prints against the page; gives how it ended.
    pub fn holds(&self, env: &[(String, String)], dir: &Path) -> Result<ExitStatus> {
        let (status, [stdout, stderr]) = run("-uo", &self.command, env, dir)?;
        // What is written to people comes first.
        let printed = stderr + &stdout;
        let (found, wanted) = (printed.trim_end_matches('\n'), self.shown.trim_end_matches('\n'));
        let alike = found.lines().count() == wanted.lines().count()
            && wanted.lines().zip(found.lines()).all(|(shown, printed)| is_like(printed, shown));
        ensure!(alike, "`{}` printed\n{printed}\nand the page shows\n{}", self.command, self.shown);
        Ok(status)
    }
}

fn is_like(line: &str, shown: &str) -> bool {
    let pattern = format!("^{}$", regex::escape(shown).replace('…', ".*"));
    regex::Regex::new(&pattern).expect("a line is a pattern").is_match(line)
}

/// The commands of a page's transcripts, block by block: the lines that begin with a prompt, `$ ` or `# `.
pub fn transcripts(page: &str) -> Result<Vec<String>> {
    let commands = |block: String| block.lines().filter_map(typed).flat_map(|line| [line, "\n"]).collect::<String>();
    Ok(blocks(page)?.into_iter().map(commands).filter(|block| !block.is_empty()).collect())
}

fn typed(line: &str) -> Option<&str> {
    line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "))
}

fn text(page: &str) -> Result<String> {
    fs::read_to_string(root().join(page)).with_context(|| format!("no page {page}"))
}

fn blocks(page: &str) -> Result<Vec<String>> {
    Ok(text(page)?.split("\n```").skip(1).step_by(2).map(str::to_owned).collect())
}
