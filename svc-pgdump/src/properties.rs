//! The database's own properties, which a dump without `--create` does not hold: owner, encoding, locale, settings, rights,
//! comment and connection limit. They lie beside the dump as `<output>.properties.json`.

use std::path::{Path, PathBuf};

use postgres::Client;
use postgres::types::Json;
use serde::{Deserialize, Serialize};
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, file};

use crate::check::Dump;
use crate::pg;

/// A file of properties larger than this is another file.
const LONGEST: u64 = 16 * 1024 * 1024;
/// Columns that not every server has are taken from the row as JSON.
const READ: &str = "
SELECT pg_catalog.json_build_object(
    'database', d.datname, 'oid', d.oid::int8, 'owner', pg_catalog.pg_get_userbyid(d.datdba), 'encoding', pg_catalog.pg_encoding_to_char(d.encoding),
    'locale_provider', CASE own->>'datlocprovider' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
    'collate', d.datcollate, 'ctype', d.datctype, 'collation_version', own->>'datcollversion',
    'locale', COALESCE(own->>'datlocale', own->>'daticulocale'), 'icu_rules', own->>'daticurules',
    'connection_limit', d.datconnlimit, 'tablespace', t.spcname, 'comment', pg_catalog.shobj_description(d.oid, 'pg_database'),
    'acl', CASE WHEN d.datacl IS NOT NULL THEN (
        SELECT COALESCE(pg_catalog.json_agg(pg_catalog.json_build_object('grantee', grantee, 'privilege', privilege_type, 'grantable', is_grantable)
            ORDER BY grantee NULLS FIRST, privilege_type), '[]')
        FROM pg_catalog.aclexplode(d.datacl) AS a(grantor, id, privilege_type, is_grantable)
        CROSS JOIN LATERAL (SELECT CASE WHEN id <> 0 THEN pg_catalog.pg_get_userbyid(id)::text END) AS g(grantee)) END,
    'settings', (
        SELECT COALESCE(pg_catalog.json_agg(pg_catalog.json_build_object('role', role, 'name', pg_catalog.split_part(pair, '=', 1),
            'value', pg_catalog.substr(pair, pg_catalog.strpos(pair, '=') + 1)) ORDER BY role NULLS FIRST, place), '[]')
        FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL pg_catalog.unnest(s.setconfig) WITH ORDINALITY AS c(pair, place)
        CROSS JOIN LATERAL (SELECT CASE WHEN s.setrole <> 0 THEN pg_catalog.pg_get_userbyid(s.setrole)::text END) AS r(role)
        WHERE s.setdatabase = d.oid))
FROM pg_catalog.pg_database d JOIN pg_catalog.pg_tablespace t ON t.oid = d.dattablespace
CROSS JOIN LATERAL pg_catalog.to_jsonb(d) AS own
WHERE d.datname = COALESCE($1, pg_catalog.current_database()::text)";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Properties {
    pub database: String,
    /// Its OID when they were read.
    pub oid: Option<u32>,
    /// The SHA-256 of the SQL of the dump that they belong to; `null` for those that `svc-pgrestore --in-place` saves.
    pub text_sha256: Option<String>,
    pub owner: String,
    pub encoding: String,
    /// Who gives its locale: `libc`, `icu` or `builtin`; `libc` on servers before 15, which know no other.
    pub locale_provider: LocaleProvider,
    pub collate: String,
    pub ctype: String,
    pub collation_version: Option<String>,
    /// The locale of `icu` or `builtin`; `null` with `libc`.
    pub locale: Option<String>,
    /// Own collation rules of `icu` (from server 16 on).
    pub icu_rules: Option<String>,
    /// How many may be connected; -1 is no limit.
    pub connection_limit: i32,
    pub tablespace: String,
    pub comment: Option<String>,
    /// Its rights; `null` if they were never changed, so that the server's defaults hold.
    pub acl: Option<Vec<Grant>>,
    /// Its settings by ALTER DATABASE … SET and ALTER ROLE … IN DATABASE … SET.
    pub settings: Vec<Setting>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocaleProvider {
    Libc,
    /// The ICU library (from server 15 on).
    Icu,
    /// PostgreSQL itself (from server 17 on).
    Builtin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who has it; `null` is PUBLIC.
    pub grantee: Option<String>,
    /// `CREATE`, `CONNECT` or `TEMPORARY`.
    pub privilege: String,
    pub grantable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// For this role only; `null` is for all.
    pub role: Option<String>,
    pub name: String,
    /// Its value, as the server stores it; that of a list setting (`search_path`) is a list of quoted names.
    pub value: String,
}

impl Properties {
    /// Those of the database that the session is in, which is refused (3) if a pooler or a name that the server cuts has led elsewhere.
    pub fn read(client: &mut Client, named: &str) -> Result<Self, Failure> {
        let own = Self::of(client, None)?;
        let Self { database, .. } = &own;
        if database == named {
            return Ok(own);
        }
        let option = shell_quoted(&["--dbname", database]);
        Err(Failure::refused("options_invalid", format!("The database {named} is called {database} on its server."))
            .hint(format!("Pass {option}; if a pooler does not know that name, connect to the server itself (--host, --port).")))
    }

    /// Those of a database that takes no connection, from a session in another one; `None`: of the database that the session is in.
    pub fn of(client: &mut Client, database: Option<&str>) -> Result<Self, Failure> {
        let read = client.query_one(READ, &[&database]).and_then(|row| row.try_get(0));
        read.map(|Json(own)| own).map_err(|error| pg::of_query(&error, "read the database's own properties"))
    }

    /// Warns (9) of a database that takes nobody but superusers.
    pub fn warn_if_closed(&self, call: &Call) {
        if self.connection_limit == 0 {
            let message = "is or was closed (CONNECTION LIMIT 0), as a failed svc-pgrestore --in-place leaves it: it may be incomplete, and its restore is closed too.";
            call.review("not_verified", format!("The database {} {message}", self.database));
        }
    }

    /// Whether they were written with that dump, with a warning if not: a kill or a copy may leave those of another one beside it.
    pub fn belong(&self, call: &Call, dump: &Dump, path: &Path) -> bool {
        let belong = self.text_sha256.as_ref() == Some(&dump.sha256);
        if !belong {
            let message = format!("{} is of another dump, and is not used.", Self::path_of(path).display());
            call.warn("not_restored", message);
        }
        belong
    }

    /// Where the properties of a dump lie.
    pub fn path_of(dump: &Path) -> PathBuf {
        file::beside(dump, ".properties.json")
    }

    /// Those in a file; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read (3, 4), or does not hold properties (7).
    pub fn find(path: &Path) -> Result<Option<Self>, Failure> {
        if !path.exists() {
            return Ok(None);
        }
        let text = file::read_text("read the database's properties", path, LONGEST)?;
        serde_json::from_str(&text).map(Some).map_err(|error| {
            Failure::invalid("dump_invalid", format!("{} does not hold a database's properties.", path.display()))
                .hint("Use the file that svc-pgdump wrote beside the dump, or write a new dump.")
                .cause(error.to_string())
        })
    }

    pub fn to_text(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Failure::fault(error.to_string()))
    }
}
