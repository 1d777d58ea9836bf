//! `svc-run`: what the scripts leave to the contract's own library.

#[allow(dead_code)]
mod again;
#[cfg(test)]
mod bench;
#[allow(dead_code)]
mod console;
mod redact;
#[allow(dead_code)]
mod report;
#[allow(dead_code)]
mod status;
#[allow(dead_code)]
mod terminal;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use svc_step::line_secrets::without_secrets;

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
        Some(file) => redact::hide(file, &words),
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
