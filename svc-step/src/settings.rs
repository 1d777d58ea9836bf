//! The settings that several tools share: flag, then environment, then [`environment_file`], then default. What one tool alone
//! needs is its own.

mod environment_file;
mod service;

use std::path::PathBuf;

use clap::Args;

pub use environment_file::{environment_file, load};
pub use service::{KNOWN, service_settings};

/// A variable of the environment; one that is empty is not set.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The product's name: every other name that is not set is derived from it.
#[derive(Debug, Clone, Args)]
pub struct ServiceArg {
    /// The product's name, from which unit, database and database user are derived
    #[arg(id = "service", long, value_name = "NAME", env = "SVC_NAME", default_value = "svc", value_parser = name)]
    pub name: String,
}

/// The product, as it is installed.
#[derive(Debug, Clone, Args)]
pub struct Product {
    #[command(flatten)]
    service: ServiceArg,
    /// The installation directory; default: /opt/NAME
    #[arg(long, value_name = "DIR", env = "SVC_INSTALL_DIR")]
    pub install_dir: Option<PathBuf>,
}

impl Product {
    /// The product's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.service.name
    }

    /// `${SVC_INSTALL_DIR}`.
    #[must_use]
    pub fn install_dir(&self) -> PathBuf {
        self.install_dir.clone().unwrap_or_else(|| PathBuf::from(format!("/opt/{}", self.name())))
    }
}

/// `svc.service`: the unit of a product that has no `SVC_UNIT`.
#[must_use]
pub fn unit_of(name: &str) -> String {
    format!("{name}.service")
}

/// `svc_db`: the database of a product that has no `SVC_DATABASE`.
#[must_use]
pub fn database_of(name: &str) -> String {
    format!("{name}_db")
}

/// The name becomes part of file, unit and database names.
///
/// # Errors
/// A sentence for clap.
pub fn name(text: &str) -> Result<String, String> {
    let good = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'));
    if good { Ok(text.to_owned()) } else { Err(format!("`{text}` is no product name: use a-z, 0-9, - and _, a letter first")) }
}
