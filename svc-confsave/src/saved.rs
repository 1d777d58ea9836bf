//! The saved copy that `diff`, `restore` and `carry` work from: named, the one of a save's document, or the procedure's place.

use std::path::{Path, PathBuf};

use clap::Args;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::settings::Product;
use svc_step::{Call, Failure, file};

use crate::config::Config;
use crate::content::Content;
use crate::layout::{ConfigArgs, Layout, present};
use crate::save::Saved;

/// A saved copy, whatever is in it.
pub(crate) struct Copy {
    pub content: Content,
    pub layout: Layout,
    /// What its save has recorded, where that is at hand.
    pub saved: Option<Saved>,
}

/// Which saved copy.
#[derive(Debug, Clone, Args)]
pub struct SavedArgs {
    /// The saved copy; default: /tmp/NAME.yaml or /tmp/NAME.conf
    #[arg(value_name = "SAVED", conflicts_with = "from")]
    saved: Option<PathBuf>,
    #[command(flatten)]
    from: FromArg,
}

impl SavedArgs {
    /// Whether the copy comes with a document, whose layout then decides between two configuration files.
    pub(crate) const fn decides(&self) -> bool {
        self.from.from.is_some()
    }

    /// Reads the saved copy by key, and finds out where the configuration is that it is held against.
    ///
    /// # Errors
    /// Those of [`Self::copy`], and those of [`Config::read`].
    pub(crate) fn read(&self, call: &Call, config: &ConfigArgs) -> Result<(Config, ConfigArgs), Failure> {
        let copy = self.copy(call, config)?;
        let config = config.of_saved(copy.saved.as_ref());
        Ok((Config::read(copy.content, copy.layout)?, config))
    }

    /// Reads the saved copy.
    ///
    /// # Errors
    /// There is none (4); there is one of either layout, or it is a link or somebody else's in a folder that anybody can
    /// write (3); it is not what the document says (7).
    pub(crate) fn copy(&self, call: &Call, config: &ConfigArgs) -> Result<Copy, Failure> {
        if let Some(from) = &self.from.from {
            return of_document(call, from);
        }
        let (path, layout) = match &self.saved {
            Some(path) => {
                // The name goes first, since --layout may well be of the new configuration alone: across layouts.
                let layout = Layout::said_by(path).or(config.layout).unwrap_or(Layout::Conf);
                (file::absolute(path)?, layout)
            }
            None => usual(&config.product, config.layout)?,
        };
        Ok(Copy { content: Content::read_own("read the saved copy", &path)?, layout, saved: None })
    }
}

fn of_document(call: &Call, from: &Path) -> Result<Copy, Failure> {
    let received = Received::read(call, from, &["svc-confsave.save/1"], Accept::Good)?;
    let saved: Saved = received.result()?;
    let path = file::absolute(&received.locate(Path::new(&saved.path)))?;
    let content = Content::read_no_link("read the saved copy", &path)?;
    if content.sha256() != saved.sha256 {
        return Err(Failure::invalid("saved_altered", format!("{} is not what the --from document says.", path.display()))
            .hint("Find the copy that was saved then; without --from, name the file that is meant.")
            .cause(format!("its SHA-256 is {}, the document has {}", content.sha256(), saved.sha256)));
    }
    Ok(Copy { content, layout: saved.layout, saved: Some(saved) })
}

/// The procedure's place. Where there is a copy of each layout, it is the one that is asked for.
fn usual(product: &Product, wanted: Option<Layout>) -> Result<(PathBuf, Layout), Failure> {
    let name = product.name();
    let yaml = (Layout::Yaml.saved_path(name), Layout::Yaml);
    let conf = (Layout::Conf.saved_path(name), Layout::Conf);
    match (present(&yaml.0)?, present(&conf.0)?) {
        (true, true) if wanted == Some(Layout::Yaml) => Ok(yaml),
        (true, true) if wanted == Some(Layout::Conf) => Ok(conf),
        (true, false) => Ok(yaml),
        (false, true) => Ok(conf),
        (true, true) => Err(Failure::refused(
            "saved_in_both_layouts",
            format!("There are two saved copies, {} and {}.", yaml.0.display(), conf.0.display()),
        )
        .hint(
            "Say --layout yaml or --layout conf, name the copy that is meant, or hand over the document of its save with --from.",
        )),
        (false, false) => Err(Failure::not_found(
            "saved_not_found",
            format!("There is no saved copy at {} nor {}.", yaml.0.display(), conf.0.display()),
        )
        .hint("Name it, or make one with svc-confsave save.")),
    }
}
