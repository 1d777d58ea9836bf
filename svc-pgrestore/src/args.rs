//! Which dump is restored, into which database, and who owns it.

use clap::Args;
use svc_pgdump::pg::{database_name, given};
use svc_step::Failure;
use svc_step::settings::ServiceArg;

use crate::admin::AdminArgs;
use crate::input::InputArgs;
use crate::load::LoaderArgs;

/// What staging and restoring need to know.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// The database's owner; default: SVC_DB_USER, else NAME
    #[arg(long, value_name = "ROLE", env = "SVC_DB_USER")]
    owner: Option<String>,
    #[command(flatten)]
    pub(crate) loader: LoaderArgs,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

impl RestoreArgs {
    pub(crate) fn owner(&self) -> String {
        given(self.owner.as_deref()).unwrap_or(&self.database.service.name).to_owned()
    }
}

/// The database that is restored.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// The live database; default: that of the --from document, else NAME_db
    #[arg(long = "dbname", value_name = "NAME", env = "SVC_DATABASE")]
    dbname: Option<String>,
    #[command(flatten)]
    service: ServiceArg,
}

impl DatabaseArgs {
    /// The database's name; `recorded` is that of the document. A connection string is refused (2).
    pub(crate) fn name(&self, recorded: Option<&str>) -> Result<String, Failure> {
        database_name(self.named().or(given(recorded)), &self.service.name)
    }

    /// The one that `--dbname` or `SVC_DATABASE` names.
    pub(crate) fn named(&self) -> Option<&str> {
        given(self.dbname.as_deref())
    }

    /// Refuses (2) an option that names another database than the document.
    pub(crate) fn check(&self, recorded: &str) -> Result<(), Failure> {
        self.name(Some(recorded))?;
        match self.named() {
            Some(named) if named != recorded => Err(Failure::usage(
                "other_database",
                format!("The document is about the database {recorded}, not about {named}."),
            )
            .hint(format!("Omit --dbname (SVC_DATABASE), or pass --dbname {recorded}."))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_names_the_database_then_the_document_then_the_product() {
        let service = ServiceArg { name: "svc".to_owned() };
        let named = |dbname: Option<&str>| DatabaseArgs { dbname: dbname.map(str::to_owned), service: service.clone() };
        assert_eq!(named(Some("a")).name(Some("b")).unwrap(), "a");
        assert_eq!(named(None).name(Some("b")).unwrap(), "b");
        assert_eq!(named(Some("")).name(None).unwrap(), "svc_db");
        let secret = named(Some("postgresql://u:s3cret@h/d"));
        for refused in [secret.name(None).unwrap_err(), secret.check("b").unwrap_err()] {
            assert!(refused.code == "dbname_is_connection_string" && !format!("{refused:?}").contains("s3cret"), "{refused:?}");
        }
        assert_eq!(named(Some("a")).check("b").unwrap_err().code, "other_database");
    }
}
