//! `save`: a private copy of the configuration file (procedure, 9.3 step 3).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::unistd::geteuid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::document::Time;
use svc_step::file::{self, Existing, Previous};
use svc_step::lock::Lock;
use svc_step::{Call, Failure, StepResult};

use crate::content::Content;
use crate::layout::{ConfigArgs, Layout, present};
use crate::planted;

/// The mode of a saved copy: configurations hold secrets.
const PRIVATE: u32 = 0o600;

/// Arguments of `svc-confsave save`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-confsave save --to /var/backups/svc/ > saved.json")]
pub struct SaveArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The copy, or the folder that it goes into; default: /tmp
    #[arg(long, value_name = "FILE|DIR")]
    to: Option<PathBuf>,
    /// Replace a copy of other content, which is kept as FILE.1
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A configuration that is saved.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    /// The configuration file.
    pub source: String,
    /// Its layout.
    pub layout: Layout,
    /// What the source said where it is a symbolic link; `null` where it is none.
    pub link: Option<String>,
    /// The copy.
    pub path: String,
    /// The SHA-256 of both.
    pub sha256: String,
    /// The size of both.
    pub size_bytes: u64,
    /// The source's owner; `null` where the number has no name.
    pub owner: Option<String>,
    /// The source's owner as a number.
    pub uid: u32,
    /// The source's group; `null` where the number has no name.
    pub group: Option<String>,
    /// The source's group as a number.
    pub gid: u32,
    /// The source's permission bits, in octal.
    pub mode: String,
    /// The source's POSIX ACL as the kernel keeps it, in hex; `null` where it has none.
    pub acl: Option<String>,
    /// When the source was last changed.
    pub modified_at: Time,
    /// Where the former copy of other content is kept; `null` where there was none.
    pub kept_as: Option<String>,
    /// What is done; empty where the copy was there already.
    pub plan: Vec<Action>,
}

/// What stands at the copy's place.
enum There {
    Nothing,
    /// The same content; the mode may be wider than it should.
    Same(Content),
    Other(Content),
}

pub(crate) fn run(args: &SaveArgs, call: &Call) -> StepResult<Saved> {
    let (source, layout) = args.config.find(None)?;
    let copy = copy_path(args, layout)?;
    let _lock = Lock::unless_dry(call, "file", &copy.display().to_string(), args.dry.dry_run)?;
    let source = Content::read("read the configuration", &source)?;
    let there = look(&copy, &source)?;
    let kept = match &there {
        There::Other(old) if args.force => Some(Previous::plan(&old.path, &old.bytes, |number| format!(".{number}"))?),
        There::Other(_) => return Err(other_content(&copy).into()),
        _ => None,
    };
    let saved = report(&source, layout, &copy, kept.as_ref(), plan(&there, &copy, kept.as_ref()));
    if !args.dry.dry_run {
        call.check()?;
        act(call, &source, &there, &copy, kept.as_ref()).map_err(|failure| call.stopped(failure, saved.clone()))?;
    }
    Ok(saved)
}

/// `--to` names the copy, or a folder by being one or by a slash at its end.
fn copy_path(args: &SaveArgs, layout: Layout) -> Result<PathBuf, Failure> {
    let name = args.config.product.name();
    let Some(to) = &args.to else { return Ok(layout.saved_path(name)) };
    planted::refuse_links(&file::absolute(to)?)?;
    let folder = to.is_dir() || to.as_os_str().as_bytes().ends_with(b"/");
    let path = file::absolute(to)?;
    let copy = if folder { path.join(layout.file_name(name)) } else { path };
    let parent = file::folder_of(&copy);
    if parent.is_dir() {
        return Ok(copy);
    }
    Err(Failure::not_found("folder_not_found", format!("There is no folder {} to save into.", parent.display()))
        .hint("Make it (mkdir -m 0700), or name another with --to."))
}

fn look(copy: &Path, source: &Content) -> Result<There, Failure> {
    if !present(copy)? {
        return Ok(There::Nothing);
    }
    let old = Content::read_no_link("look at the present copy", copy)?;
    if (old.meta.dev(), old.meta.ino()) == (source.meta.dev(), source.meta.ino()) {
        return Err(Failure::refused("same_file", format!("{} is the configuration file itself.", copy.display()))
            .hint("Name another place with --to."));
    }
    if old.meta.uid() != geteuid().as_raw() {
        let owner = old.owner().unwrap_or_else(|| format!("the user number {}", old.meta.uid()));
        return Err(Failure::refused("foreign_file", format!("{} is there already and belongs to {owner}.", copy.display()))
            .hint("Look at it; remove it if nobody can say why it is there, or name another place with --to."));
    }
    Ok(if old.bytes == source.bytes { There::Same(old) } else { There::Other(old) })
}

fn other_content(copy: &Path) -> Failure {
    Failure::refused("copy_exists", format!("{} is a saved copy of other content and is kept.", copy.display()))
        .hint("It may hold the customised configuration. Name another place with --to; --force keeps it as FILE.1.")
}

fn plan(there: &There, copy: &Path, kept: Option<&Previous>) -> Vec<Action> {
    let write = Action::file(copy, "write, mode 0600");
    match (there, kept) {
        (There::Same(old), _) if old.mode() == PRIVATE => Vec::new(),
        (There::Same(_), _) => vec![Action::file(copy, "set the mode to 0600")],
        (_, Some(kept)) => vec![Action::file(copy, format!("keep as {}", kept.display())), write],
        (_, None) => vec![write],
    }
}

fn act(call: &Call, source: &Content, there: &There, copy: &Path, kept: Option<&Previous>) -> Result<(), Failure> {
    match there {
        There::Same(old) => {
            if old.mode() != PRIVATE {
                let copy = file::open_no_link("set the mode", copy)?;
                let done = copy.set_permissions(fs::Permissions::from_mode(PRIVATE));
                done.map_err(|error| Failure::io("set the mode", &old.path, &error))?;
                call.effects().happened();
            }
        }
        There::Nothing => {
            let written = file::write_whole(copy, &source.bytes, PRIVATE, Existing::Keep);
            // A copy that could not be made durable is there all the same.
            if written.is_ok() || Content::read_no_link("look", copy).is_ok_and(|copy| copy.bytes == source.bytes) {
                call.effects().happened();
            }
            written?;
        }
        There::Other(old) => {
            if let Some(kept) = kept {
                kept.keep(&old.path, &old.bytes)?;
            }
            call.effects().happened();
            file::write_whole(copy, &source.bytes, PRIVATE, Existing::Replace)?;
        }
    }
    let back = Content::read_no_link("read the copy back", copy)?;
    if back.bytes == source.bytes {
        return Ok(());
    }
    Err(Failure::failed("copy_not_as_written", format!("{} is not what was written a moment ago.", copy.display()))
        .hint("Find out who writes there, or name another place with --to."))
}

fn report(source: &Content, layout: Layout, copy: &Path, kept: Option<&Previous>, plan: Vec<Action>) -> Saved {
    let modified = Timestamp::new(source.meta.mtime(), 0).unwrap_or(Timestamp::UNIX_EPOCH);
    Saved {
        source: source.path.display().to_string(),
        layout,
        link: fs::read_link(&source.path).ok().map(|link| link.display().to_string()),
        path: copy.display().to_string(),
        sha256: source.sha256(),
        size_bytes: source.bytes.len() as u64,
        owner: source.owner(),
        uid: source.meta.uid(),
        group: source.group(),
        gid: source.meta.gid(),
        mode: format!("{:04o}", source.mode()),
        acl: source.rights.acl().map(file::hex),
        modified_at: modified.into(),
        kept_as: kept.map(Previous::display),
        plan,
    }
}
