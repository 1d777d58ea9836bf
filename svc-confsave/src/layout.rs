//! The two layouts of the configuration file (procedure, 2.5), and which one an installation has.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::settings::Product;
use svc_step::{Failure, file};

/// How a configuration is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The newer one, config/svc/svc.yaml
    Yaml,
    /// The older one, conf/svc.conf
    Conf,
}

impl Layout {
    /// As `--layout` takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Conf => "conf",
        }
    }

    /// `svc.yaml` or `svc.conf`.
    pub(crate) fn file_name(self, product: &str) -> String {
        format!("{product}.{}", self.name())
    }

    /// Where the file is in an installation directory.
    fn path_in(self, product: &str) -> PathBuf {
        match self {
            Self::Yaml => Path::new("config").join(product).join(self.file_name(product)),
            Self::Conf => Path::new("conf").join(self.file_name(product)),
        }
    }

    /// What a file's name tells, also that of a kept copy such as `svc.yaml.1`; `None` if it tells nothing.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let parts: Vec<&str> = name.split('.').skip(1).collect();
        if parts.iter().any(|part| matches!(*part, "yaml" | "yml")) {
            return Some(Self::Yaml);
        }
        parts.contains(&"conf").then_some(Self::Conf)
    }
}

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub(crate) product: Product,
    /// The layout of the configuration, and of a saved copy whose name says none; default: the one that is there
    #[arg(long, value_name = "LAYOUT", value_enum)]
    pub(crate) layout: Option<Layout>,
    #[arg(long, value_name = "FILE", env = "SVC_CONFIG_FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl ConfigArgs {
    /// Where the configuration is that was saved from `source`, unless the caller names the file: in the same installation, or in the
    /// one that the caller names; but that very file if it was of neither layout.
    pub(crate) fn of_saved(&self, source: &Path, layout: Layout) -> Self {
        let mut config = self.clone();
        let inside = layout.path_in(self.product.name());
        if !source.ends_with(&inside) {
            config.config.get_or_insert_with(|| source.to_owned());
        } else if self.product.install_dir.is_none() {
            config.product.install_dir = source.ancestors().nth(inside.components().count()).map(PathBuf::from);
        }
        config
    }

    /// Where a configuration of a layout belongs, whether it is there or not.
    ///
    /// # Errors
    /// The current directory is gone.
    pub(crate) fn place(&self, layout: Layout) -> Result<PathBuf, Failure> {
        match &self.config {
            Some(config) => file::absolute(config),
            None => Ok(file::absolute(&self.product.install_dir())?.join(layout.path_in(self.product.name()))),
        }
    }

    /// Finds the configuration file: its absolute path and its layout. If there is one of each layout and none is asked for, or the
    /// file is named and its name tells none, it is of layout `prefer`: a saved copy goes back into its own, whatever an uninstaller
    /// left behind.
    ///
    /// # Errors
    /// There is one of each layout and nothing to prefer (3), or none (4).
    pub(crate) fn find(&self, prefer: Option<Layout>) -> Result<(PathBuf, Layout), Failure> {
        let layouts = match (self.layout, &self.config) {
            (Some(layout), _) => vec![layout],
            (None, Some(config)) => vec![Layout::of_name(config).or(prefer).unwrap_or(Layout::Conf)],
            (None, None) => vec![Layout::Yaml, Layout::Conf],
        };
        let (mut places, mut found) = (Vec::new(), Vec::new());
        for layout in layouts {
            let path = self.place(layout)?;
            places.push(path.display().to_string());
            if present(&path)? {
                found.push((path, layout));
            }
        }
        if found.len() > 1 {
            let message = format!("Both layouts of the configuration exist: {}.", places.join(" and "));
            let both = Failure::refused("options_invalid", message)
                .hint("Remove the one that the service does not read, or pass --layout yaml (the newer one) or --layout conf.");
            return found.into_iter().find(|(_, layout)| Some(*layout) == prefer).ok_or(both);
        }
        found.pop().ok_or_else(|| {
            Failure::not_found("file_not_found", format!("There is no configuration file at {}.", places.join(" nor ")))
                .hint("Name the installation with --install-dir (SVC_INSTALL_DIR), or the file with --config (SVC_CONFIG_FILE).")
        })
    }
}

/// Whether something is there, a dangling link too. A directory that may not be searched is no answer.
pub(crate) fn present(path: &Path) -> Result<bool, Failure> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Failure::io("find the configuration file", path, &error)),
    }
}
