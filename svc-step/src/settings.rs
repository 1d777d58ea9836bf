//! The settings that several tools share: flag, then environment, then [`environment_file`], then default. What one tool alone
//! needs is its own.

mod environment_file;
mod service;
pub mod table;

use std::path::PathBuf;

use clap::Args;

pub use environment_file::{environment_file, load, others};
pub use service::{known, product, service_settings, setting};

/// A variable of the environment; one that is empty is not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether this call is a step of a script, whose options are not the tool's own.
pub fn is_of_script() -> bool {
    std::env::var_os("SVC_RUN_DIR").is_some()
}

/// The product's name: every other name that is not set is derived from it.
#[derive(Debug, Clone, Args)]
pub struct ServiceArg {
    /// `SVC_NAME`.
    #[arg(id = "service", long, value_name = "NAME", env = "SVC_NAME", default_value = "svc", value_parser = name)]
    pub name: String,
}

/// The product, as it is installed.
#[derive(Debug, Clone, Args)]
pub struct Product {
    #[command(flatten)]
    service: ServiceArg,
    /// `SVC_INSTALL_DIR`.
    #[arg(long, value_name = "DIR", env = "SVC_INSTALL_DIR")]
    pub install_dir: Option<PathBuf>,
}

impl Product {
    /// The product's name.
    pub fn name(&self) -> &str {
        &self.service.name
    }

    /// `${SVC_INSTALL_DIR}`.
    pub fn install_dir(&self) -> PathBuf {
        self.install_dir.clone().unwrap_or_else(|| default_of("SVC_INSTALL_DIR", self.name()).into())
    }
}

/// The value of a setting that nobody has set, for that product: `svc.service` for `SVC_UNIT`.
pub fn default_of(setting: &str, product: &str) -> String {
    table::find(setting).and_then(|setting| setting.default_for(product)).unwrap_or_default()
}

/// The name becomes part of file, unit and database names.
///
/// # Errors
/// A sentence for clap.
pub fn name(text: &str) -> Result<String, String> {
    let valid = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'));
    if valid {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a product name: use a-z, 0-9, - and _, a letter first"))
    }
}
