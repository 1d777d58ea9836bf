//! Which unit of which manager is meant.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::settings::{self, ServiceArg};

/// The kinds of unit that systemd knows, as their names end.
const KINDS: [&str; 11] =
    ["service", "socket", "target", "timer", "path", "mount", "automount", "swap", "slice", "scope", "device"];
/// systemd's own limit.
const LONGEST: usize = 255;

/// A manager of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Manager {
    /// The host's own, process 1.
    System,
    /// That of the calling user.
    User,
}

/// One unit: `svc.service`, or `user:svc.service` in the manager of the calling user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name with its kind.
    pub name: String,
    /// Who manages it.
    pub manager: Manager,
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (manager, name) = match text.strip_prefix("user:") {
            Some(name) => (Manager::User, name),
            None => (Manager::System, text),
        };
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
        if name.is_empty() || name.len() > LONGEST || name.starts_with(['-', '.', '@']) || !name.bytes().all(good) {
            return Err(format!("`{text}` is no unit's name: write one name such as svc.service, without patterns"));
        }
        let kind = name.rsplit_once('.').map(|(_, kind)| kind).filter(|kind| KINDS.contains(kind));
        let name = if kind.is_some() { name.to_owned() } else { format!("{name}.service") };
        if name.contains("@.") {
            return Err(format!("`{text}` is a template: name an instance of it, such as {}", name.replacen("@.", "@main.", 1)));
        }
        Ok(Self { name, manager })
    }
}

impl Unit {
    /// What goes between a program of systemd and its verb, with a space after it.
    #[must_use]
    pub(crate) const fn flag(&self) -> &'static str {
        match self.manager {
            Manager::System => "",
            Manager::User => "--user ",
        }
    }
}

/// As an operator types it.
impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.manager {
            Manager::System => out.write_str(&self.name),
            Manager::User => write!(out, "user:{}", self.name),
        }
    }
}

/// Which unit a step is about.
#[derive(Debug, Clone, Args)]
pub struct UnitArgs {
    /// The unit; default: SVC_UNIT, else NAME.service. The prefix user: means the user manager
    #[arg(value_name = "UNIT")]
    unit: Option<Unit>,
    /// The unit that is meant where none is named; apart from UNIT, so that a --from document comes before it
    #[arg(long, value_name = "UNIT", env = "SVC_UNIT", hide = true)]
    default_unit: Option<Unit>,
    #[command(flatten)]
    service: ServiceArg,
    /// The unit is one of the calling user's own manager
    #[arg(long)]
    user: bool,
}

impl UnitArgs {
    /// The unit that the command line itself names.
    #[must_use]
    pub fn named(&self) -> Option<Unit> {
        self.unit.clone().map(|unit| self.of_manager(unit))
    }

    /// The unit that is meant where no document names one.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.named().unwrap_or_else(|| {
            let derived = || Unit { name: settings::default_of("SVC_UNIT", &self.service.name), manager: Manager::System };
            self.of_manager(self.default_unit.clone().unwrap_or_else(derived))
        })
    }

    fn of_manager(&self, unit: Unit) -> Unit {
        if self.user { Unit { manager: Manager::User, ..unit } } else { unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        text.parse::<Unit>().map(|unit| unit.to_string())
    }

    #[test]
    fn a_name_without_a_kind_is_a_service_and_the_prefix_names_the_user_manager() {
        assert_eq!(read("svc").unwrap(), "svc.service");
        assert_eq!(read("my.app").unwrap(), "my.app.service");
        assert_eq!(read("svc.socket").unwrap(), "svc.socket");
        assert_eq!(read("postgresql@15-main").unwrap(), "postgresql@15-main.service");
        assert_eq!(read("user:svc.service").unwrap(), "user:svc.service");
        assert_eq!("user:svc".parse::<Unit>().unwrap().manager, Manager::User);
    }

    #[test]
    fn patterns_options_templates_and_nothing_are_no_unit() {
        for bad in ["", "user:", "svc*", "svc?.service", "[a]", "--all", "a b", "/dev/sda", "svc@.service", "svc@", "@x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
