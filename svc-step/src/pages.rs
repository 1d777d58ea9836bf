//! What a program prints of itself and is no step: its JSON Schema (`PROGRAM schema`), and its man pages and shell completions, from the
//! same definition of the command line as `--help` (`PROGRAM generate-pages DIR`, which `scripts/install.sh` calls).

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::reporter;
use crate::schema::{self, Schemas};

/// If the command line asks for the pages or the schema of this program, they are written, and the program ends so.
pub fn asked(command: &Command, schemas: impl FnOnce() -> Schemas) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let (first, second) = (arguments.next()?, arguments.next());
    let (what, written) = match (first.to_str()?, second) {
        ("schema", None) => ("its schema", io::stdout().write_all(schema::text(&schemas().whole()).as_bytes())),
        ("generate-pages", Some(folder)) => ("its pages", write(command.clone(), Path::new(&folder))),
        _ => return None,
    };
    Some(if reporter::is_printed(command.get_name(), what, written) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(mut command: Command, folder: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let folders = [folder.join("man1"), folder.join("bash"), folder.join("zsh"), folder.join("fish")];
    let [man, bash, zsh, fish] = &folders;
    for folder in &folders {
        fs::create_dir_all(folder)?;
    }
    clap_mangen::generate_to(command.clone().disable_help_subcommand(true), man)?;
    for (shell, file) in [
        (Shell::Bash, bash.join(&name)),
        (Shell::Zsh, zsh.join(format!("_{name}"))),
        (Shell::Fish, fish.join(format!("{name}.fish"))),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, &name, &mut text);
        fs::write(file, text)?;
    }
    Ok(())
}
