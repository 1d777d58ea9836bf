//! The saved copy: what its save records of it, and where `diff`, `restore` and `carry` find it.

use std::path::{Path, PathBuf};

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::document::Time;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, file};

use crate::content::Content;
use crate::layout::{ConfigArgs, Layout};

/// A configuration that is saved.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    /// The configuration file.
    pub source: String,
    /// Its layout.
    pub layout: Layout,
    /// Where the source leads to, being a symbolic link; `null` if it is none.
    pub link: Option<String>,
    /// The copy.
    pub path: String,
    /// The SHA-256 of both.
    pub sha256: String,
    /// The size of both.
    pub size_bytes: u64,
    /// The source's owner; `null` if the number has no name.
    pub owner: Option<String>,
    /// The source's owner as a number.
    pub uid: u32,
    /// The source's group; `null` if the number has no name.
    pub group: Option<String>,
    /// The source's group as a number.
    pub gid: u32,
    /// The source's permission bits, in octal.
    pub mode: String,
    /// The source's POSIX ACL as the kernel keeps it, in hex; `null` if it has none.
    pub acl: Option<String>,
    /// When the source was last changed.
    pub modified_at: Time,
    /// Where the previous copy, of other content, is; `null` if there was none.
    pub previous: Option<String>,
    /// What is done; empty if the copy was there already.
    pub plan: Vec<Action>,
}

/// A saved copy, whatever is in it.
pub(crate) struct Copy {
    pub content: Content,
    pub layout: Layout,
    /// What its save has recorded, if that is at hand.
    pub saved: Option<Saved>,
}

/// Which saved copy.
#[derive(Debug, Clone, Args)]
pub struct SavedArgs {
    /// The saved copy
    #[arg(value_name = "SAVED", conflicts_with = "from", required_unless_present = "from")]
    saved: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) from: FromArg,
}

impl SavedArgs {
    /// Reads the saved copy, and finds where the configuration is that it is compared with.
    ///
    /// # Errors
    /// It is missing (4), a link, or somebody else's in a world-writable directory (3), or not what the document says (7); nothing tells
    /// its layout (3, 4).
    pub(crate) fn copy(&self, call: &Call, config: &ConfigArgs) -> Result<(Copy, ConfigArgs), Failure> {
        if let Some(from) = &self.from.from {
            let (content, saved) = of_document(call, from)?;
            let config = config.of_saved(Path::new(&saved.source), saved.layout);
            return Ok((Copy { content, layout: saved.layout, saved: Some(saved) }, config));
        }
        let path = file::absolute(self.saved.as_deref().unwrap_or(Path::new("")))?;
        // The name goes first: --layout may be of the new configuration alone.
        let named = Layout::of_name(&path).or(config.layout).or_else(|| Layout::of_name(config.config.as_deref()?));
        let there = || config.find(None).map(|(_, layout)| layout);
        let layout = named.map_or_else(there, Ok).map_err(|failure| {
            failure.hint("Pass --layout yaml or --layout conf: neither the name of the saved copy nor what is there tells it.")
        })?;
        Ok((Copy { content: Content::read_own("read the saved copy", &path)?, layout, saved: None }, config.clone()))
    }
}

fn of_document(call: &Call, from: &Path) -> Result<(Content, Saved), Failure> {
    let received = Received::read(call, from, &["svc-confsave.save/1"], Accept::Successful)?;
    let saved: Saved = received.result()?;
    let fits = |path: &Path| {
        let read = Content::read_no_link("read the saved copy", path);
        read.is_ok_and(|content| content.sha256() == saved.sha256)
    };
    let path = file::absolute(&received.locate(Path::new(&saved.path), fits))?;
    let content = Content::read_no_link("read the saved copy", &path)?;
    if content.sha256() != saved.sha256 {
        return Err(Failure::invalid("content_differs", format!("{} is not what the --from document says.", path.display()))
            .hint("Find the copy that was saved then, or name the file that is meant instead of --from.")
            .cause(format!("its SHA-256 is {}, the document has {}", content.sha256(), saved.sha256)));
    }
    Ok((content, saved))
}
