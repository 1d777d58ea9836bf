//! Man pages and shell completions, from the same definition of the command line as `--help`: `PROGRAM generate-pages DIR`, which is
//! no step and stands in no help. `scripts/install.sh` calls it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::people;

/// The word on the command line.
const WORD: &str = "generate-pages";

/// Where the pages of this program are asked for, they are written, and the program ends so.
#[must_use]
pub fn asked(command: &Command) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().filter(|word| word == WORD).and_then(|_| arguments.next())?;
    let written = write(command.clone(), Path::new(&folder));
    Some(written.map_or_else(
        |error| {
            people::write_line(&format!("{}: its pages could not be written: {error}", command.get_name()));
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
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
