//! `svc-run`: what the scripts leave to the contract's own library.

#[cfg(test)]
mod bench;
#[allow(dead_code)]
mod report;

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use svc_step::line_secrets::{without_secrets, without_words};

/// What the scripts leave to the contract's own library
#[derive(Debug, Parser)]
#[command(name = "svc-run", version)]
struct Cli {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Print the words of standard input, each ended by a zero byte, without the secrets in them
    Redact {
        /// Take those words out of this file instead, whatever they are
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let Cli { step: Step::Redact { file } } = Cli::parse();
    let done = words().and_then(|words| match &file {
        Some(file) => hide(file, &words),
        None => show(&words),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "svc-run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// They come on standard input, since everybody on the host can read a command line.
fn words() -> io::Result<Vec<Vec<u8>>> {
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    let ended = text.split_inclusive(|byte| *byte == 0);
    Ok(ended.map(|word| word.strip_suffix(b"\0").unwrap_or(word).to_vec()).collect())
}

fn show(words: &[Vec<u8>]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for word in words {
        write!(out, "{}\0", without_secrets(&String::from_utf8_lossy(word)))?;
    }
    out.flush()
}

/// In place: what still writes at its end goes on doing so, and what the disk keeps free for the file stays.
fn hide(path: &Path, words: &[Vec<u8>]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let shown = without_words(&text, words);
    if shown != text {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&shown)?;
        file.set_len(shown.len() as u64)?;
        file.sync_all()?;
    }
    Ok(())
}
