//! Which database is restored, and whose it is.

use clap::Args;
use svc_pgdump::given;
use svc_step::Failure;
use svc_step::settings::{ServiceArg, default_of};

/// The database that is restored, and whose it is.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// The live database; default: that of the --from document, else NAME_db
    #[arg(long = "dbname", value_name = "NAME", env = "SVC_DATABASE")]
    dbname: Option<String>,
    #[command(flatten)]
    service: ServiceArg,
}

impl DatabaseArgs {
    /// The database's name; `recorded` is that of the document.
    pub(crate) fn name(&self, recorded: Option<&str>) -> String {
        given(self.dbname.as_deref())
            .or(given(recorded))
            .map_or_else(|| default_of("SVC_DATABASE", &self.service.name), str::to_owned)
    }

    /// Whether somebody named it, by the flag or by `SVC_DATABASE`.
    pub(crate) fn is_named(&self) -> bool {
        given(self.dbname.as_deref()).is_some()
    }

    /// The same where a document or a plan names the database already; a flag that names another one is a mistake.
    ///
    /// # Errors
    /// They differ (2).
    pub(crate) fn agrees_with(&self, recorded: &str) -> Result<(), Failure> {
        match given(self.dbname.as_deref()) {
            Some(named) if named != recorded => Err(Failure::usage(
                "other_database",
                format!("The document is about the database {recorded}, not about {named}."),
            )
            .hint(format!("Leave --dbname (SVC_DATABASE) out, or say --dbname {recorded}."))),
            _ => Ok(()),
        }
    }
}

/// The owner of what is restored.
#[derive(Debug, Clone, Args)]
pub struct OwnerArg {
    /// The database's owner; default: SVC_DB_USER, else NAME
    #[arg(long, value_name = "ROLE", env = "SVC_DB_USER")]
    owner: Option<String>,
}

impl OwnerArg {
    /// The role's name.
    pub(crate) fn name(&self, database: &DatabaseArgs) -> String {
        given(self.owner.as_deref()).map_or_else(|| database.service.name.clone(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_names_the_database_then_the_document_then_the_product() {
        let service = ServiceArg { name: "svc".to_owned() };
        let named = |dbname: Option<&str>| DatabaseArgs { dbname: dbname.map(str::to_owned), service: service.clone() };
        assert_eq!(named(Some("a")).name(Some("b")), "a");
        assert_eq!(named(None).name(Some("b")), "b");
        assert_eq!(named(Some("")).name(None), "svc_db");
        assert_eq!(named(Some("a")).agrees_with("b").unwrap_err().code, "other_database");
    }
}
