//! The statements that make a fresh database with the properties of the one that was dumped. Nothing here speaks to a server.

use std::collections::BTreeSet;

use svc_step::action::Action;

use crate::names::drop_statement;
use svc_pgdump::pg::{escape_identifier, escape_literal};
use svc_pgdump::properties::{LocaleProvider, Properties, Setting};

/// Settings that are lists of names, of all versions from 13 to 18: each name is a value of its own.
const LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];
/// From this `server_version_num` on a database has a locale provider, and it can be chosen how it is copied.
const PROVIDERS_AND_STRATEGIES: u32 = 150_000;
/// From this one on event triggers can be turned off, and there are some for the start of a session.
const EVENT_TRIGGERS: u32 = 170_000;

/// A statement, and how it is shown: what may be a secret is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    shown: Option<String>,
}

impl Statement {
    fn plain(sql: String) -> Self {
        Self { sql, shown: None }
    }

    pub(crate) fn shown(&self) -> &str {
        self.shown.as_ref().unwrap_or(&self.sql)
    }

    pub(crate) const fn is_shown(&self) -> bool {
        self.shown.is_none()
    }

    pub(crate) fn action(&self) -> Action {
        Action::statement(self.shown())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Creation {
    pub(crate) name: String,
    pub(crate) owner: String,
    /// What it is to be like; `None` is the server's defaults.
    pub(crate) properties: Option<Properties>,
    /// `server_version_num`.
    pub(crate) server: u32,
    /// Only superusers may connect while it is loaded.
    pub(crate) closed: bool,
    /// No user may connect to it when it is done: the swap opens it.
    pub(crate) opened_by_swap: bool,
}

impl Creation {
    /// `CREATE DATABASE`, with OWNER: without it, the owner could not make tables on PostgreSQL 15 and later.
    pub(crate) fn create(&self) -> Statement {
        let mut options = String::new();
        if let Some(properties) = &self.properties {
            options = format!(" ENCODING {}{}", escape_literal(&properties.encoding), self.locale(properties));
            if properties.tablespace != "pg_default" {
                options += &format!(" TABLESPACE {}", escape_identifier(&properties.tablespace));
            }
        }
        self.of_template("template0", &options)
    }

    /// `CREATE DATABASE` as a copy of another one on the same server, which has its encoding and locale already. As files, not as
    /// entries of the write-ahead log, which is much quicker for all but small ones; servers before 15 know no other way.
    pub(crate) fn copy_of(&self, template: &str) -> Statement {
        let strategy = if self.server >= PROVIDERS_AND_STRATEGIES { " STRATEGY FILE_COPY" } else { "" };
        // Else the server refuses one whose collation the operating system has a newer version of, which is no matter of the copy's.
        let version = self.properties.as_ref().and_then(|own| own.collation_version.as_ref());
        let version = version.map_or_else(String::new, |version| format!(" COLLATION_VERSION {}", escape_literal(version)));
        self.of_template(&escape_identifier(template), &(strategy.to_owned() + &version))
    }

    fn of_template(&self, template: &str, options: &str) -> Statement {
        let (name, owner) = (escape_identifier(&self.name), escape_identifier(&self.owner));
        let limit = if self.closed { " CONNECTION LIMIT 0" } else { "" };
        Statement::plain(format!("CREATE DATABASE {name} OWNER {owner} TEMPLATE {template}{options}{limit}"))
    }

    fn locale(&self, properties: &Properties) -> String {
        let (collate, ctype) = (escape_literal(&properties.collate), escape_literal(&properties.ctype));
        let mut options = format!(" LC_COLLATE {collate} LC_CTYPE {ctype}");
        if self.server < PROVIDERS_AND_STRATEGIES {
            return options;
        }
        let locale = properties.locale.as_ref().map(|locale| escape_literal(locale));
        options += &match (properties.locale_provider, locale) {
            (LocaleProvider::Icu, Some(locale)) => format!(" LOCALE_PROVIDER icu ICU_LOCALE {locale}"),
            (LocaleProvider::Icu, None) => " LOCALE_PROVIDER icu".to_owned(),
            (LocaleProvider::Builtin, Some(locale)) => format!(" LOCALE_PROVIDER builtin BUILTIN_LOCALE {locale}"),
            (LocaleProvider::Builtin, None) => " LOCALE_PROVIDER builtin".to_owned(),
            (LocaleProvider::Libc, _) => " LOCALE_PROVIDER libc".to_owned(),
        };
        if let Some(rules) = &properties.icu_rules {
            options += &format!(" ICU_RULES {}", escape_literal(rules));
        }
        options
    }

    pub(crate) fn grant(&self) -> Statement {
        let (name, owner) = (escape_identifier(&self.name), escape_identifier(&self.owner));
        Statement::plain(format!("GRANT ALL PRIVILEGES ON DATABASE {name} TO {owner}"))
    }

    /// What comes before the first other session in it: the settings of the database, which decide what a statement of the dump comes
    /// to, as they do if psql reads a dump with `--create`; and event triggers off, or one for the start of a session would see
    /// those of the load and the verification.
    pub(crate) fn before_load(&self) -> Vec<Statement> {
        let off = self.turns_triggers_off().then(|| self.alter("SET event_triggers TO off"));
        self.settings(false).chain(off).collect()
    }

    /// What comes after it: the setting that would have undone what held until then, rights, comment, and the connection limit last.
    pub(crate) fn after_load(&self) -> Vec<Statement> {
        let reset = self.turns_triggers_off().then(|| self.alter("RESET event_triggers"));
        let mut statements: Vec<_> = reset.into_iter().chain(self.settings(true)).collect();
        if let Some(properties) = &self.properties {
            statements.extend(self.rights(properties));
            let comment = properties.comment.iter().map(|comment| escape_literal(comment));
            let name = escape_identifier(&self.name);
            statements.extend(comment.map(|comment| Statement::plain(format!("COMMENT ON DATABASE {name} IS {comment}"))));
        }
        let limit = self.properties.as_ref().map_or(-1, |properties| properties.connection_limit);
        if self.closed || limit != -1 {
            statements.push(self.alter(&format!("CONNECTION LIMIT {limit}")));
        }
        statements
    }

    /// Closes the database to everybody, superusers too; only if it is a copy, which the transaction of its swap opens.
    pub(crate) fn close(&self) -> Option<Statement> {
        self.opened_by_swap.then(|| self.alter("ALLOW_CONNECTIONS false"))
    }

    /// What is executed to try the properties on an empty database of another name.
    pub(crate) fn tried_as(&self, name: &str) -> Vec<Action> {
        let empty = Self { name: name.to_owned(), ..self.clone() };
        let created = std::iter::once(empty.create()).chain(empty.before_load());
        created.map(|statement| statement.action()).chain([Action::statement(drop_statement(name))]).collect()
    }

    fn alter(&self, what: &str) -> Statement {
        Statement::plain(format!("ALTER DATABASE {} {what}", escape_identifier(&self.name)))
    }

    /// Only a superuser, from whom the database is closed to others, may turn them off.
    const fn turns_triggers_off(&self) -> bool {
        self.closed && self.server >= EVENT_TRIGGERS
    }

    fn settings(&self, after_load: bool) -> impl Iterator<Item = Statement> {
        let settings = self.properties.iter().flat_map(|properties| &properties.settings);
        let is_after = move |setting: &&Setting| (self.turns_triggers_off() && setting.name == "event_triggers") == after_load;
        settings.filter(is_after).map(|setting| self.setting(setting))
    }

    fn rights(&self, properties: &Properties) -> Vec<Statement> {
        let Some(grants) = &properties.acl else { return Vec::new() };
        let name = escape_identifier(&self.name);
        let is_owner = properties.owner == self.owner;
        let owner = if is_owner { format!(", {}", escape_identifier(&self.owner)) } else { String::new() };
        let mut statements = vec![Statement::plain(format!("REVOKE ALL PRIVILEGES ON DATABASE {name} FROM PUBLIC{owner}"))];
        for grant in grants {
            let grantee = match &grant.grantee {
                None => "PUBLIC".to_owned(),
                // A new owner has all rights already.
                Some(role) if *role == self.owner && !is_owner => continue,
                Some(role) => escape_identifier(role),
            };
            let option = if grant.grantable { " WITH GRANT OPTION" } else { "" };
            statements.push(Statement::plain(format!("GRANT {} ON DATABASE {name} TO {grantee}{option}", grant.privilege)));
        }
        statements
    }

    fn setting(&self, setting: &Setting) -> Statement {
        let name = setting.name.split('.').map(escape_identifier).collect::<Vec<_>>().join(".");
        let database = escape_identifier(&self.name);
        let whose = match &setting.role {
            None => format!("ALTER DATABASE {database}"),
            Some(role) => format!("ALTER ROLE {} IN DATABASE {database}", escape_identifier(role)),
        };
        let value = if LISTS.contains(&setting.name.as_str()) {
            names(&setting.value).iter().map(|name| escape_literal(name)).collect::<Vec<_>>().join(", ")
        } else {
            escape_literal(&setting.value)
        };
        // An application's own settings (with a dot in their names) may hold secrets.
        let shown = setting.name.contains('.').then(|| format!("{whose} SET {name} TO '<redacted>'"));
        Statement { sql: format!("{whose} SET {name} TO {value}"), shown }
    }

    /// The roles of its rights and settings.
    pub(crate) fn roles(&self) -> BTreeSet<String> {
        let grantees = self.properties.iter().flat_map(|all| all.acl.iter().flatten().map(|grant| &grant.grantee));
        let settings = self.properties.iter().flat_map(|all| all.settings.iter().map(|setting| &setting.role));
        grantees.chain(settings).flatten().cloned().collect()
    }

    /// Leaves out the rights and settings of roles that the server does not have.
    pub(crate) fn without_roles(&mut self, missing: &[String]) {
        let Some(properties) = &mut self.properties else { return };
        let exists = |role: &Option<String>| role.as_ref().is_none_or(|role| !missing.contains(role));
        if let Some(grants) = &mut properties.acl {
            grants.retain(|grant| exists(&grant.grantee));
        }
        properties.settings.retain(|setting| exists(&setting.role));
    }
}

/// The names in a list as the server keeps it: `"$user", "odd schema", public`.
fn names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut inside = false;
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => {
                letters.next();
                name.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => names.push(std::mem::take(&mut name)),
            space if space.is_whitespace() && !inside => {}
            other => name.push(other),
        }
    }
    names.push(name);
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use svc_pgdump::properties::Grant;

    fn properties() -> Properties {
        Properties {
            database: "svc_db".to_owned(),
            oid: None,
            text_sha256: None,
            owner: "svc".to_owned(),
            encoding: "UTF8".to_owned(),
            locale_provider: LocaleProvider::Libc,
            collate: "C.UTF-8".to_owned(),
            ctype: "C.UTF-8".to_owned(),
            collation_version: None,
            locale: None,
            icu_rules: None,
            connection_limit: 17,
            tablespace: "pg_default".to_owned(),
            comment: Some("it's".to_owned()),
            acl: Some(vec![
                Grant { grantee: None, privilege: "TEMPORARY".to_owned(), grantable: false },
                Grant { grantee: Some("svc".to_owned()), privilege: "CREATE".to_owned(), grantable: false },
                Grant { grantee: Some("Reader".to_owned()), privilege: "CONNECT".to_owned(), grantable: true },
            ]),
            settings: vec![
                Setting { role: None, name: "search_path".to_owned(), value: "\"$user\", \"odd \"\"s\", public".to_owned() },
                Setting { role: Some("gone".to_owned()), name: "app.key".to_owned(), value: "hush".to_owned() },
            ],
        }
    }

    fn creation(server: u32, properties: Option<Properties>) -> Creation {
        Creation {
            name: "svc_db_staged_r".to_owned(),
            owner: "svc".to_owned(),
            properties,
            server,
            closed: true,
            opened_by_swap: true,
        }
    }

    fn all(creation: &Creation) -> Vec<String> {
        creation.before_load().into_iter().chain(creation.after_load()).map(|one| one.sql).collect()
    }

    #[test]
    fn create_database_names_owner_template_and_locale() {
        let start = "CREATE DATABASE \"svc_db_staged_r\" OWNER \"svc\" TEMPLATE ";
        let like = "template0 ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'";
        let icu = Properties { locale_provider: LocaleProvider::Icu, locale: Some("de".to_owned()), ..properties() };
        for (created, wanted) in [
            (creation(150_018, Some(properties())).create(), format!("{like} LOCALE_PROVIDER libc")),
            (creation(140_000, Some(properties())).create(), like.to_owned()),
            (creation(160_000, Some(icu)).create(), format!("{like} LOCALE_PROVIDER icu ICU_LOCALE 'de'")),
            (creation(150_018, None).create(), "template0".to_owned()),
            (creation(150_000, None).copy_of("Live"), "\"Live\" STRATEGY FILE_COPY".to_owned()),
            (creation(140_019, None).copy_of("Live"), "\"Live\"".to_owned()),
        ] {
            assert_eq!(created.sql, format!("{start}{wanted} CONNECTION LIMIT 0"));
        }
    }

    #[test]
    fn properties_are_applied_with_connection_limit_last() {
        let creation = creation(150_018, Some(properties()));
        let wanted = [
            "ALTER DATABASE \"svc_db_staged_r\" SET \"search_path\" TO '$user', 'odd \"s', 'public'",
            "ALTER ROLE \"gone\" IN DATABASE \"svc_db_staged_r\" SET \"app\".\"key\" TO 'hush'",
            "REVOKE ALL PRIVILEGES ON DATABASE \"svc_db_staged_r\" FROM PUBLIC, \"svc\"",
            "GRANT TEMPORARY ON DATABASE \"svc_db_staged_r\" TO PUBLIC",
            "GRANT CREATE ON DATABASE \"svc_db_staged_r\" TO \"svc\"",
            "GRANT CONNECT ON DATABASE \"svc_db_staged_r\" TO \"Reader\" WITH GRANT OPTION",
            "COMMENT ON DATABASE \"svc_db_staged_r\" IS 'it''s'",
            "ALTER DATABASE \"svc_db_staged_r\" CONNECTION LIMIT 17",
        ];
        assert_eq!(all(&creation), wanted);
        // A new owner has all rights already, and the previous one keeps its own.
        let creation = Creation { owner: "Reader".to_owned(), ..creation };
        let sql = all(&creation);
        assert!(sql.contains(&wanted[4].to_owned()) && creation.roles().contains("svc"), "{sql:?}");
        assert!(!sql.iter().any(|sql| sql.starts_with("GRANT") && sql.contains("Reader")), "{sql:?}");
        let shown: Vec<Action> = creation.before_load().iter().map(Statement::action).collect();
        let shown = format!("{shown:?}");
        assert!(shown.contains("<redacted>") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn event_triggers_are_off_during_load_where_possible() {
        let mut properties = properties();
        let own = |name: &str| Setting { role: None, name: name.to_owned(), value: "x".to_owned() };
        properties.settings = vec![own("TimeZone"), own("event_triggers")];
        let creation = |server: u32| creation(server, Some(properties.clone()));
        let sql = |all: Vec<Statement>| {
            let all = all.into_iter().map(|one| one.sql.replace("ALTER DATABASE \"svc_db_staged_r\" ", ""));
            all.filter(|sql| sql.contains("SET ")).collect::<Vec<_>>()
        };
        let zone = "SET \"TimeZone\" TO 'x'";
        assert_eq!(sql(creation(150_018).before_load()), [zone, "SET \"event_triggers\" TO 'x'"]);
        assert_eq!(sql(creation(150_018).after_load()), Vec::<String>::new());
        assert_eq!(sql(creation(170_006).before_load()), [zone, "SET event_triggers TO off"]);
        assert_eq!(sql(creation(170_006).after_load()), ["RESET event_triggers", "SET \"event_triggers\" TO 'x'"]);
        let open = Creation { closed: false, ..creation(170_006) };
        assert_eq!(sql(open.before_load()), [zone, "SET \"event_triggers\" TO 'x'"]);
    }
}
