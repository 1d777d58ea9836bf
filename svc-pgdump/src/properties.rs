//! The database's own properties, which a dump without `--create` does not hold: owner, encoding, locale, settings, rights,
//! comment and connection limit. They lie beside the dump as `<output>.properties.json`.

use std::path::{Path, PathBuf};

use postgres::{Client, Row};
use serde::{Deserialize, Serialize};
use svc_step::{Call, Failure, file};

use crate::check::Dump;
use crate::pg;

/// A file of properties larger than this is another file.
const LONGEST: u64 = 16 * 1024 * 1024;
/// What the queries here are for, as the end of "Cannot …".
const WHAT: &str = "read the database's own properties";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Properties {
    pub database: String,
    /// The SHA-256 of the SQL of the dump that they belong to; `null` for those that `svc-pgrestore --in-place` keeps.
    pub text_sha256: Option<String>,
    pub owner: String,
    pub encoding: String,
    /// Who gives its locale: `libc`, `icu` or `builtin`; `libc` on servers before 15, which know no other.
    pub locale_provider: LocaleProvider,
    pub collate: String,
    pub ctype: String,
    /// The locale of `icu` or `builtin`; `null` with `libc`.
    pub locale: Option<String>,
    /// Own collation rules of `icu` (from server 16 on).
    pub icu_rules: Option<String>,
    /// How many may be connected; -1 is no limit.
    pub connection_limit: i32,
    pub tablespace: String,
    pub comment: Option<String>,
    /// Its rights; `null` where nobody ever changed them, so that the server's defaults hold.
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
    /// Its value, as the server keeps it; that of a list setting (`search_path`) is a list of quoted names.
    pub value: String,
}

impl Properties {
    pub fn read(client: &mut Client, server_major: u32) -> Result<Self, Failure> {
        let (provider, locale, rules) = columns(server_major);
        let sql = format!(
            "SELECT d.datname::text, pg_catalog.pg_get_userbyid(d.datdba)::text, pg_catalog.pg_encoding_to_char(d.encoding)::text, \
             {provider}, d.datcollate::text, d.datctype::text, {locale}, {rules}, d.datconnlimit, t.spcname::text, \
             pg_catalog.shobj_description(d.oid, 'pg_database'), d.datacl IS NULL \
             FROM pg_catalog.pg_database d JOIN pg_catalog.pg_tablespace t ON t.oid = d.dattablespace \
             WHERE d.datname = pg_catalog.current_database()"
        );
        let row = client.query_one(&sql, &[]).map_err(|error| pg::of_query(&error, WHAT))?;
        let provider: String = get(&row, 3)?;
        let default_acl: bool = get(&row, 11)?;
        let acl = if default_acl { None } else { Some(grants(client)?) };
        Ok(Self {
            database: get(&row, 0)?,
            text_sha256: None,
            owner: get(&row, 1)?,
            encoding: get(&row, 2)?,
            locale_provider: match provider.as_str() {
                "i" => LocaleProvider::Icu,
                "b" => LocaleProvider::Builtin,
                _ => LocaleProvider::Libc,
            },
            collate: get(&row, 4)?,
            ctype: get(&row, 5)?,
            locale: get(&row, 6)?,
            icu_rules: get(&row, 7)?,
            connection_limit: get(&row, 8)?,
            tablespace: get(&row, 9)?,
            comment: get(&row, 10)?,
            acl,
            settings: settings(client)?,
        })
    }

    /// Whether they were written with that dump, with a warning if not: a kill or a copy may leave those of another one beside it.
    pub fn belong(&self, call: &Call, dump: &Dump, path: &Path) -> bool {
        let belong = self.text_sha256.as_ref() == Some(&dump.sha256);
        if !belong {
            let message = format!("{} is of another dump, and is not used.", Self::path_of(path).display());
            call.warn("properties_of_another_dump", message);
        }
        belong
    }

    /// Where the properties of a dump lie.
    pub fn path_of(dump: &Path) -> PathBuf {
        file::beside(dump, ".properties.json")
    }

    /// Those beside a dump; `None` if there are none.
    pub fn beside(dump: &Path) -> Result<Option<Self>, Failure> {
        let path = Self::path_of(dump);
        path.exists().then(|| Self::load(&path)).transpose()
    }

    pub fn to_text(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| {
            Failure::failed("properties_not_json", "The database's properties cannot be written as JSON.")
                .cause(error.to_string())
        })
    }

    /// # Errors
    /// The file cannot be read (3, 4), or does not hold properties (7).
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let text = file::read_text("read the database's properties", path, LONGEST)?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::invalid("properties_invalid", format!("{} does not hold a database's properties.", path.display()))
                .hint("Use the file that svc-pgdump wrote beside the dump, or write a new dump.")
                .cause(error.to_string())
        })
    }
}

/// The columns of `pg_database` that differ between servers: provider, locale, ICU rules.
const fn columns(major: u32) -> (&'static str, &'static str, &'static str) {
    match major {
        0..=14 => ("'c'::text", "NULL::text", "NULL::text"),
        15 => ("d.datlocprovider::text", "d.daticulocale::text", "NULL::text"),
        16 => ("d.datlocprovider::text", "d.daticulocale::text", "d.daticurules::text"),
        _ => ("d.datlocprovider::text", "d.datlocale::text", "d.daticurules::text"),
    }
}

fn grants(client: &mut Client) -> Result<Vec<Grant>, Failure> {
    let sql = "SELECT CASE WHEN a.grantee = 0 THEN NULL ELSE pg_catalog.pg_get_userbyid(a.grantee)::text END, \
               a.privilege_type::text, a.is_grantable \
               FROM pg_catalog.pg_database d CROSS JOIN LATERAL pg_catalog.aclexplode(d.datacl) a \
               WHERE d.datname = pg_catalog.current_database() ORDER BY 1 NULLS FIRST, 2";
    let rows = client.query(sql, &[]).map_err(|error| pg::of_query(&error, WHAT))?;
    rows.iter().map(|row| Ok(Grant { grantee: get(row, 0)?, privilege: get(row, 1)?, grantable: get(row, 2)? })).collect()
}

fn settings(client: &mut Client) -> Result<Vec<Setting>, Failure> {
    let sql = "SELECT CASE WHEN s.setrole = 0 THEN NULL ELSE pg_catalog.pg_get_userbyid(s.setrole)::text END, c.setting \
               FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) WITH ORDINALITY AS c(setting, place) \
               JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase \
               WHERE d.datname = pg_catalog.current_database() ORDER BY 1 NULLS FIRST, c.place";
    let rows = client.query(sql, &[]).map_err(|error| pg::of_query(&error, WHAT))?;
    let mut found = Vec::new();
    for row in &rows {
        let pair: String = get(row, 1)?;
        if let Some((name, value)) = pair.split_once('=') {
            found.push(Setting { role: get(row, 0)?, name: name.to_owned(), value: value.to_owned() });
        }
    }
    Ok(found)
}

fn get<'a, T: postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Failure> {
    row.try_get(at).map_err(|error| pg::of_query(&error, WHAT))
}
