//! The unit, and its manager, that a step is about.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::settings::{self, ServiceArg};

/// The types of unit, as their names end.
const TYPES: [&str; 11] =
    ["service", "socket", "target", "timer", "path", "mount", "automount", "swap", "slice", "scope", "device"];

/// A manager of units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Manager {
    /// The host's own, process 1.
    #[default]
    System,
    /// That of the calling user.
    User,
}

/// One unit: `svc.service`, or `user:svc.service` in the manager of the calling user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Unit {
    /// The unit's name.
    #[serde(rename = "unit")]
    pub(crate) name: String,
    /// Who manages it.
    pub(crate) manager: Manager,
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (manager, name) = text.strip_prefix("user:").map_or((Manager::System, text), |name| (Manager::User, name));
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
        if name.is_empty() || name.len() > 255 || name.starts_with(['-', '.', '@']) || !name.bytes().all(is_allowed) {
            return Err(format!("`{text}` is not the name of a unit: write one name such as svc.service, without patterns"));
        }
        let is_typed = name.rsplit_once('.').is_some_and(|(_, suffix)| TYPES.contains(&suffix));
        let name = if is_typed { name.to_owned() } else { format!("{name}.service") };
        if name.contains("@.") {
            return Err(format!("`{text}` is a template: name an instance of it, such as {}", name.replacen("@.", "@main.", 1)));
        }
        Ok(Self { name, manager })
    }
}

impl Manager {
    /// The option of systemd's programs, with a space after it.
    pub(crate) const fn flag(self) -> &'static str {
        if matches!(self, Self::User) { "--user " } else { "" }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.manager == Manager::User { "user:" } else { "" };
        write!(out, "{prefix}{}", self.name)
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct UnitArgs {
    /// The unit; default: SVC_UNIT, else NAME.service. The prefix user: means the user manager
    #[arg(value_name = "UNIT")]
    unit: Option<Unit>,
    /// The unit that is meant if none is named; apart from UNIT, so that a --from document comes before it
    #[arg(long, value_name = "UNIT", env = "SVC_UNIT", hide = true)]
    default_unit: Option<Unit>,
    #[command(flatten)]
    service: ServiceArg,
    /// The unit belongs to the calling user's own manager
    #[arg(long)]
    user: bool,
}

impl UnitArgs {
    /// The unit that the command line itself names.
    pub(crate) fn named(&self) -> Option<Unit> {
        self.unit.clone().map(|unit| self.of_manager(unit))
    }

    /// The unit that is meant if no document names one.
    pub(crate) fn unit(&self) -> Unit {
        let derived = || Unit { name: settings::default_of("SVC_UNIT", &self.service.name), manager: Manager::System };
        self.named().unwrap_or_else(|| self.of_manager(self.default_unit.clone().unwrap_or_else(derived)))
    }

    fn of_manager(&self, unit: Unit) -> Unit {
        if self.user { Unit { manager: Manager::User, ..unit } } else { unit }
    }
}
