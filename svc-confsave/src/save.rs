//! `save`: a private copy of the configuration file (procedure, 9.3 step 3).

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing, Previous};
use svc_step::lock::Lock;
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, StepResult, settings};

use crate::content::{Content, put, verify};
use crate::layout::{ConfigArgs, Layout, present};
use crate::saved::Saved;

/// The mode of a saved copy: configurations hold secrets.
const PRIVATE: u32 = 0o600;

/// Arguments of `svc-confsave save`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-confsave save --to /var/backups/svc/ > saved.json")]
pub struct SaveArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The copy, or the directory that it goes into; default: SVC_BACKUP_DIR
    #[arg(long, value_name = "FILE|DIR")]
    to: Option<PathBuf>,
    /// Replace a copy of other content, whose previous file is FILE.1
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &SaveArgs, call: &Call) -> StepResult<Saved> {
    let (source, layout) = args.config.find(None)?;
    let copy = copy_path(args, layout)?;
    let _lock = Lock::unless_dry(call, "file", &copy.display().to_string(), args.dry.dry_run)?;
    let source = Content::read("read the configuration", &source)?;
    let old = inspect(&copy, &source)?;
    let previous = match &old {
        Some(old) if old.bytes == source.bytes => None,
        Some(old) if args.force => Some(Previous::plan(&old.path, &old.bytes, |number| format!(".{number}"))?),
        Some(_) => {
            let message = format!("{} is a saved copy of other content.", copy.display());
            let hint = "It may be the customised configuration. Name another place with --to; --force replaces it, and the previous one is FILE.1.";
            return Err(Failure::refused("name_in_use", message).hint(hint).into());
        }
        None => None,
    };
    let is_saved = old.is_some() && previous.is_none();
    let mut actions: Vec<Action> =
        previous.iter().map(|previous| Action::file(&copy, format!("previous file: {}", previous.display()))).collect();
    match &old {
        Some(old) if is_saved && old.rights.mode() == PRIVATE => {}
        Some(_) if is_saved => actions.push(Action::file(&copy, "set the mode to 0600")),
        _ => actions.push(Action::file(&copy, "write, mode 0600")),
    }
    let saved = report(&source, layout, &copy, previous.as_ref(), actions);
    if !args.dry.dry_run {
        call.check()?;
        let existing = if previous.is_some() { Existing::Replace } else { Existing::Keep };
        let publish = || file::write_complete(&copy, &source.bytes, PRIVATE, existing);
        let written = || put(call, &copy, old.as_ref(), previous.as_ref(), publish).and_then(|()| verify(&copy, &source.bytes));
        let done = if is_saved { make_private(call, &copy, saved.plan.is_empty()) } else { written() };
        done.map_err(|failure| call.stopped(failure, saved.clone()))?;
    }
    Ok(saved)
}

/// `--to` names the copy, or a directory by being one or by a slash at its end. A link to a directory is none: in /tmp it may be planted.
fn copy_path(args: &SaveArgs, layout: Layout) -> Result<PathBuf, Failure> {
    let name = args.config.product.name();
    let (to, is_folder) = match &args.to {
        Some(to) => {
            (to.clone(), to.symlink_metadata().is_ok_and(|meta| meta.is_dir()) || to.as_os_str().as_bytes().ends_with(b"/"))
        }
        None => {
            let default = || settings::default_of("SVC_BACKUP_DIR", name);
            (settings::variable("SVC_BACKUP_DIR").unwrap_or_else(default).into(), true)
        }
    };
    let path = file::absolute(&to)?;
    let copy = if is_folder { path.join(layout.file_name(name)) } else { path };
    let parent = file::folder_of(&copy);
    match fs::metadata(parent) {
        Ok(meta) if meta.is_dir() => return Ok(copy),
        Ok(_) => return Err(file::not_regular("save into the directory", parent, "no directory")),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(Failure::io("save into the directory", parent, &error)),
        Err(_) => {}
    }
    Err(Failure::not_found("file_not_found", format!("The directory {} to save into does not exist.", parent.display()))
        .hint(shell_quoted(&["mkdir", "-p", "-m", "0700", &parent.display().to_string()])))
}

/// The copy that is there already.
fn inspect(copy: &Path, source: &Content) -> Result<Option<Content>, Failure> {
    if !present(copy)? {
        return Ok(None);
    }
    let old = Content::read_no_link("read the present copy", copy)?;
    if (old.meta.dev(), old.meta.ino()) == (source.meta.dev(), source.meta.ino()) {
        return Err(Failure::refused("name_in_use", format!("{} is the configuration file itself.", copy.display()))
            .hint("Name another place with --to."));
    }
    old.refuse_other_owner()?;
    Ok(Some(old))
}

/// Whoever has made the copy, a killed call perhaps, need not have made it durable.
fn make_private(call: &Call, copy: &Path, is_private: bool) -> Result<(), Failure> {
    let (file, fault) = (file::open_no_link("set the mode", copy)?, |error| Failure::io("set the mode", copy, &error));
    if !is_private {
        file.set_permissions(fs::Permissions::from_mode(PRIVATE)).map_err(fault)?;
        call.effects().happened();
    }
    file.sync_all().map_err(fault)?;
    file::sync_folder_of(copy)
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
        mode: format!("{:04o}", source.rights.mode()),
        acl: source.rights.acl().map(file::hex),
        modified_at: modified.into(),
        previous: kept.map(Previous::display),
        plan,
    }
}
