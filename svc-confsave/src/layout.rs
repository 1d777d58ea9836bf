//! The two layouts of the configuration file (procedure, 2.5), and which one an installation has.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::settings::Product;
use svc_step::{Failure, file};

use crate::save::Saved;

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
    const BOTH: [Self; 2] = [Self::Yaml, Self::Conf];

    /// `svc.yaml` or `svc.conf`.
    pub(crate) fn file_name(self, product: &str) -> String {
        match self {
            Self::Yaml => format!("{product}.yaml"),
            Self::Conf => format!("{product}.conf"),
        }
    }

    /// Where the file is in an installation directory.
    fn path_in(self, product: &str) -> PathBuf {
        match self {
            Self::Yaml => Path::new("config").join(product).join(self.file_name(product)),
            Self::Conf => Path::new("conf").join(self.file_name(product)),
        }
    }

    /// The procedure's place for the saved copy.
    pub(crate) fn saved_path(self, product: &str) -> PathBuf {
        Path::new("/tmp").join(self.file_name(product))
    }

    /// What a file's name says, also that of a kept copy such as `svc.yaml.1`; a name that says nothing is of the older one.
    pub(crate) fn by_name(path: &Path) -> Self {
        Self::said_by(path).unwrap_or(Self::Conf)
    }

    /// The same; `None` where the name says nothing.
    pub(crate) fn said_by(path: &Path) -> Option<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let mut said = name.split('.').skip(1).filter_map(|part| match part {
            "yaml" | "yml" => Some(Self::Yaml),
            "conf" => Some(Self::Conf),
            _ => None,
        });
        let first = said.next();
        if said.any(|other| other == Self::Yaml) { Some(Self::Yaml) } else { first }
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
    /// Where the configuration is that was saved, unless the caller says it: in the installation that it was saved from, or the very
    /// file, where that was of neither layout.
    pub(crate) fn of_saved(&self, saved: Option<&Saved>) -> Self {
        let mut config = self.clone();
        if let (Some(saved), None, None) = (saved, &self.config, &self.product.install_dir) {
            let source = Path::new(&saved.source);
            let inside = saved.layout.path_in(self.product.name());
            if source.ends_with(&inside) {
                config.product.install_dir = source.ancestors().nth(inside.components().count()).map(PathBuf::from);
            } else {
                config.config = Some(source.to_owned());
            }
        }
        config
    }

    /// Where a configuration of a layout belongs, whether it is there or not.
    ///
    /// # Errors
    /// The current folder is gone.
    pub(crate) fn place(&self, layout: Layout) -> Result<PathBuf, Failure> {
        match &self.config {
            Some(config) => file::absolute(config),
            None => Ok(file::absolute(&self.product.install_dir())?.join(layout.path_in(self.product.name()))),
        }
    }

    /// Finds the configuration file: its absolute path and its layout. Where there is one of each layout and none is asked
    /// for, it is the one of layout `prefer`: a saved copy goes back into its own, whatever an uninstaller left behind.
    ///
    /// # Errors
    /// There is one of each layout and nothing to prefer (3), or none (4).
    pub(crate) fn find(&self, prefer: Option<Layout>) -> Result<(PathBuf, Layout), Failure> {
        if let Some(config) = &self.config {
            let path = file::absolute(config)?;
            let layout = self.layout.unwrap_or_else(|| Layout::by_name(&path));
            return if present(&path)? { Ok((path, layout)) } else { Err(no_config(&path.display().to_string())) };
        }
        let folder = file::absolute(&self.product.install_dir())?;
        let name = self.product.name();
        let mut found = Vec::new();
        for layout in Layout::BOTH.into_iter().filter(|layout| self.layout.is_none_or(|wanted| wanted == *layout)) {
            let path = folder.join(layout.path_in(name));
            if present(&path)? {
                found.push((path, layout));
            }
        }
        if let (2.., Some(prefer)) = (found.len(), prefer) {
            found.retain(|(_, layout)| *layout == prefer);
        }
        match found.len() {
            0 | 1 => found.pop().ok_or_else(|| {
                let wanted = Layout::BOTH.into_iter().filter(|layout| self.layout.is_none_or(|wanted| wanted == *layout));
                let paths: Vec<String> = wanted.map(|layout| folder.join(layout.path_in(name)).display().to_string()).collect();
                no_config(&paths.join(" nor "))
            }),
            _ => Err(Failure::refused(
                "config_in_both_layouts",
                format!("{} has a configuration file of either layout, and nothing says which one is meant.", folder.display()),
            )
            .hint("Say --layout yaml for the newer one or --layout conf for the older one.")),
        }
    }
}

fn no_config(paths: &str) -> Failure {
    Failure::not_found("config_not_found", format!("There is no configuration file at {paths}."))
        .hint("Name the installation with --install-dir (SVC_INSTALL_DIR), or the file with --config (SVC_CONFIG_FILE).")
}

/// Whether something is there, a dangling link too. A folder that may not be searched is no answer.
pub(crate) fn present(path: &Path) -> Result<bool, Failure> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Failure::io("look for the configuration file", path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_derive_from_the_products_name() {
        assert_eq!(Layout::Yaml.path_in("acme"), Path::new("config/acme/acme.yaml"));
        assert_eq!(Layout::Conf.path_in("acme"), Path::new("conf/acme.conf"));
        assert_eq!(Layout::Yaml.saved_path("svc"), Path::new("/tmp/svc.yaml"));
    }

    #[test]
    fn the_layout_of_a_named_file_is_what_its_name_says() {
        for (name, layout) in [
            ("/tmp/svc.yaml", Layout::Yaml),
            ("svc.yaml.1", Layout::Yaml),
            ("a/svc.YML", Layout::Yaml),
            ("svc.conf", Layout::Conf),
            ("svc.conf.before-20261120t020003z-hand", Layout::Conf),
            ("yaml", Layout::Conf),
        ] {
            assert_eq!(Layout::by_name(Path::new(name)), layout, "{name}");
        }
    }
}
