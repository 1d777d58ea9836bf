//! The machine, as a report names it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

/// Its processors, its memory, and the file system at a place.
pub fn described(place: &Path) -> Result<String> {
    let (cpu, memory) = (fs::read_to_string("/proc/cpuinfo")?, fs::read_to_string("/proc/meminfo")?);
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        line.map_or("?".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let kilobytes: f64 = field(&memory, "MemTotal").split(' ').next().unwrap_or_default().parse().unwrap_or_default();
    Ok(format!(
        "{} cores of {}, {:.0} GB of memory, {} on {}",
        std::thread::available_parallelism()?,
        field(&cpu, "model name"),
        kilobytes / 1e6,
        file_system(place)?,
        fs::read_to_string("/proc/sys/kernel/osrelease")?.trim()
    ))
}

fn file_system(path: &Path) -> Result<String> {
    let output = Command::new("findmnt").args(["--noheadings", "--output=FSTYPE", "--target"]).arg(path).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
