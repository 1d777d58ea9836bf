//! `restore`: the saved copy back in the place of the configuration, byte for byte (procedure, 9.3 step 6). It was saved from the
//! very version that is installed again, so it is the result of every comparison; that it is no YAML is no reason to lose it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, CompleteFile, Existing, Previous, Rights};
use svc_step::lock::Lock;
use svc_step::{Call, Failure, StepResult, settings};

use crate::content::{Content, put, shipped, verify};
use crate::layout::{ConfigArgs, Layout, present};
use crate::saved::{Copy, Saved, SavedArgs};

/// Arguments of `svc-confsave restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-confsave restore --from saved.json")]
pub struct RestoreArgs {
    #[command(flatten)]
    saved: SavedArgs,
    #[command(flatten)]
    product: settings::Product,
    /// The layout of the saved copy; default: what its name or its document says
    #[arg(long, value_name = "LAYOUT", value_enum)]
    layout: Option<Layout>,
    /// The file that is restored; default: that of the document, and SVC_CONFIG_FILE without one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A configuration that is as it was saved.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The saved copy.
    pub saved: String,
    /// Its layout.
    pub layout: Layout,
    /// The configuration file.
    pub path: String,
    /// The SHA-256 of both.
    pub sha256: String,
    /// The size of both.
    pub size_bytes: u64,
    /// Where the file of other content that was there before, the shipped one, is; `null` if there was none.
    pub previous: Option<String>,
    /// What is done; empty if it was so already.
    pub plan: Vec<Action>,
}

/// What a save has recorded of a file: owner, group, mode and ACL. (Its other attributes come from the file in place.)
type Recorded = (u32, u32, u32, Option<Vec<u8>>);

/// Owner and group by name if this host has the name, since a service that is installed again may have another number.
fn recorded(saved: &Saved) -> Result<Recorded, Failure> {
    let user = saved.owner.as_deref().and_then(|name| User::from_name(name).ok().flatten());
    let group = saved.group.as_deref().and_then(|name| Group::from_name(name).ok().flatten());
    let mode = u32::from_str_radix(&saved.mode, 8).ok().filter(|mode| *mode <= 0o7777);
    let acl = saved.acl.as_deref().map_or(Some(None), |acl| of_hex(acl).map(Some));
    let Some((mode, acl)) = mode.zip(acl) else {
        return Err(Failure::invalid("content_differs", "The --from document has an invalid mode or ACL.")
            .hint("Pass the document as svc-confsave save has printed it."));
    };
    Ok((user.map_or(saved.uid, |user| user.uid.as_raw()), group.map_or(saved.gid, |group| group.gid.as_raw()), mode, acl))
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    if text.len().is_multiple_of(2) { pairs.collect() } else { None }
}

/// The rights that a file gets: those recorded, else those of the one in place, else it is private. `new` are what a new file gets
/// from its directory.
fn wanted(recorded: Option<&Recorded>, now: Option<&Rights>, new: &Rights) -> Rights {
    let base = now.unwrap_or(new).clone();
    match (recorded, now) {
        (Some((uid, gid, mode, acl)), _) => base.owned_by(*uid, *gid, *mode, acl.clone()),
        (None, Some(_)) => base,
        (None, None) => base.owned_by(new.uid(), new.gid(), 0o600, None),
    }
}

/// What is to be done.
struct Plan<'a> {
    copy: &'a Copy,
    recorded: Option<Recorded>,
    /// What is written: the configuration, or the file that it leads to.
    path: PathBuf,
    /// The link that it is to be again; `None`: a file.
    link: Option<PathBuf>,
    /// The file that is there now.
    old: Option<Content>,
    /// Where that is kept, being of other content.
    previous: Option<Previous>,
    actions: Vec<Action>,
}

pub(crate) fn run(args: &RestoreArgs, call: &Call) -> StepResult<Restored> {
    // The setting may name the file of a later version by now: a document says where its own belongs.
    let set = || settings::variable("SVC_CONFIG_FILE").filter(|_| args.saved.from.from.is_none()).map(PathBuf::from);
    let given = ConfigArgs { product: args.product.clone(), layout: args.layout, config: args.config.clone().or_else(set) };
    let (copy, config) = args.saved.copy(call, &given)?;
    let layout = args.layout.unwrap_or(copy.layout);
    let place = config.place(layout)?;
    if args.layout.is_none() && Layout::of_name(&place).is_some_and(|other| other != layout) {
        let message = format!("{} does not have the layout of {}.", place.display(), copy.content.path.display());
        let hint = format!("Name the right file with --config, or pass --layout {} if it is that one.", layout.name());
        return Err(Failure::refused("options_invalid", message).hint(hint).into());
    }
    let _lock = Lock::unless_dry(call, "file", &place.display().to_string(), args.dry.dry_run)?;
    let plan = plan(&copy, &place)?;
    let restored = Restored {
        saved: copy.content.path.display().to_string(),
        layout,
        path: place.display().to_string(),
        sha256: copy.content.sha256(),
        size_bytes: copy.content.bytes.len() as u64,
        previous: plan.previous.as_ref().map(Previous::display),
        plan: plan.actions.clone(),
    };
    if args.dry.dry_run {
        plan.try_to_write()?;
    } else if !plan.actions.is_empty() {
        call.check()?;
        plan.act(call, &place).map_err(|failure| call.stopped(failure, restored.clone()))?;
    }
    let was_link = copy.saved.as_ref().and_then(|saved| saved.link.as_deref());
    if let (Some(link), None, false) = (was_link, &plan.link, place.is_symlink()) {
        let message = format!("{} was a link to {link}, whose file has changed: it is a file of the saved bytes.", restored.path);
        call.review("not_restored", message);
    }
    Ok(restored)
}

fn plan<'a>(copy: &'a Copy, place: &Path) -> Result<Plan<'a>, Failure> {
    let action = "read the configuration";
    let recorded = copy.saved.as_ref().map(recorded).transpose()?;
    // A link that leads nowhere is no file, and one is put in its place.
    let path = if place.exists() && place.is_symlink() {
        fs::canonicalize(place).map_err(|error| Failure::io(action, place, &error))?
    } else {
        place.to_owned()
    };
    let old = if path.exists() { Some(Content::read_no_link(action, &path)?) } else { None };
    let is_so = |now: &Content| {
        now.bytes == copy.content.bytes && wanted(recorded.as_ref(), Some(&now.rights), &now.rights) == now.rights
    };
    // The link is enough if what it led to is as it was saved.
    let link = copy.saved.as_ref().and_then(|saved| saved.link.as_deref()).filter(|_| !place.is_symlink()).map(PathBuf::from);
    let link = link.filter(|link| {
        let target = fs::canonicalize(file::folder_of(place).join(link)).ok();
        target.and_then(|target| Content::read_own(action, &target).ok()).is_some_and(|target| is_so(&target))
    });
    let previous = old.as_ref().filter(|old| old.bytes != copy.content.bytes).map(shipped).transpose()?;
    let mut actions: Vec<Action> =
        previous.iter().map(|previous| Action::file(&path, format!("previous file: {}", previous.display()))).collect();
    if let Some(link) = &link {
        actions.push(Action::file(&path, format!("link to {}", link.display())));
    } else if !old.as_ref().is_some_and(is_so) {
        actions.push(Action::file(&path, format!("write the bytes of {}", copy.content.path.display())));
    }
    Ok(Plan { copy, recorded, path, link, old, previous, actions })
}

impl Plan<'_> {
    /// Gives a new file the bytes and the rights.
    fn fill(&self, file: &mut File) -> Result<(), Failure> {
        let fault = |error: io::Error| Failure::io("write the configuration", &self.path, &error);
        file.write_all(&self.copy.content.bytes).map_err(fault)?;
        let new = Rights::of(file).map_err(fault)?;
        wanted(self.recorded.as_ref(), self.old.as_ref().map(|old| &old.rights), &new).give(file, &self.path)?;
        file.sync_all().map_err(fault)
    }

    /// Writes a nameless file in the directory, or in that where the directory is to be made: a dry run finds what prevents it.
    fn try_to_write(&self) -> Result<(), Failure> {
        let fault = |error: io::Error| Failure::io("write the configuration", &self.path, &error);
        let folder = self.path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
        self.fill(&mut tempfile::tempfile_in(folder).map_err(fault)?)?;
        // An immutable or append-only file, or a mount point, cannot be replaced by a rename.
        let attributes = statx(CWD, &self.path, AtFlags::empty(), StatxFlags::empty()).map(|found| found.stx_attributes);
        let has = |wanted| attributes.is_ok_and(|attributes| attributes.intersects(wanted));
        let fixed = has(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND).then_some(Errno::PERM);
        let why = fixed.or(has(StatxAttributes::MOUNT_ROOT).then_some(Errno::BUSY));
        why.map_or(Ok(()), |why| Err(fault(why.into())))
    }

    fn act(&self, call: &Call, place: &Path) -> Result<(), Failure> {
        file::create_folder(call.effects(), file::folder_of(&self.path), 0o755)?;
        call.effects().stays();
        let (old, previous) = (self.old.as_ref(), self.previous.as_ref());
        if let Some(link) = &self.link {
            put(call, &self.path, old, previous, || make_link(link, &self.path))?;
        } else {
            let mut file = CompleteFile::create(&self.path, 0o600)?;
            self.fill(file.file())?;
            put(call, &self.path, old, previous, || file.publish(Existing::Replace))?;
        }
        let written = fs::canonicalize(place).map_err(|error| Failure::io("read the file back", place, &error))?;
        verify(&written, &self.copy.content.bytes)
    }
}

/// Makes a link in the place of what is there, at once.
fn make_link(link: &Path, place: &Path) -> Result<(), Failure> {
    let partial = file::beside(place, ".partial");
    if present(&partial)? {
        fs::remove_file(&partial).map_err(|error| Failure::io("remove an unfinished file", &partial, &error))?;
    }
    let made =
        symlink(link, &partial).and_then(|()| fs::rename(&partial, place).inspect_err(|_| drop(fs::remove_file(&partial))));
    made.map_err(|error| Failure::io("make the link", place, &error))?;
    file::sync_folder_of(place)
}
