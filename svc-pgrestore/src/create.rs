//! The statements that make a fresh database with the properties of the one that was dumped. Nothing here speaks to a server.

use svc_step::action::Action;

use crate::names::drop_if_exists;
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
/// From this `server_version_num` on a database has a locale provider.
const PROVIDERS: u32 = 150_000;

/// From this one on it can be chosen how a database is copied.
const STRATEGIES: u32 = 150_000;

/// From this `server_version_num` on event triggers can be turned off, and there are some for the start of a session.
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
        Action::statement(self.shown().to_owned())
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
    /// Nobody but superusers may connect while it is loaded.
    pub(crate) closed: bool,
    /// Nobody may connect to it when it is done: the swap opens it.
    pub(crate) opened_by_swap: bool,
}

impl Creation {
    /// `CREATE DATABASE`, with OWNER: without it, the owner could not make tables on PostgreSQL 15 and later.
    pub(crate) fn create(&self) -> Statement {
        let mut sql = format!(
            "CREATE DATABASE {} OWNER {} TEMPLATE template0",
            escape_identifier(&self.name),
            escape_identifier(&self.owner)
        );
        if let Some(properties) = &self.properties {
            sql.push_str(&format!(" ENCODING {}", escape_literal(&properties.encoding)));
            self.locale(properties, &mut sql);
            if properties.tablespace != "pg_default" {
                sql.push_str(&format!(" TABLESPACE {}", escape_identifier(&properties.tablespace)));
            }
        }
        if self.closed {
            sql.push_str(" CONNECTION LIMIT 0");
        }
        Statement::plain(sql)
    }

    /// `CREATE DATABASE` as a copy of another one on the same server, which has its encoding and locale already. As files, not as
    /// entries of the write-ahead log, which is much quicker for all but small ones; servers before 15 know no other way.
    pub(crate) fn copy_of(&self, template: &str) -> Statement {
        let (name, owner) = (escape_identifier(&self.name), escape_identifier(&self.owner));
        let mut sql = format!("CREATE DATABASE {name} OWNER {owner} TEMPLATE {}", escape_identifier(template));
        if self.server >= STRATEGIES {
            sql.push_str(" STRATEGY FILE_COPY");
        }
        if self.closed {
            sql.push_str(" CONNECTION LIMIT 0");
        }
        Statement::plain(sql)
    }

    fn locale(&self, properties: &Properties, sql: &mut String) {
        sql.push_str(&format!(
            " LC_COLLATE {} LC_CTYPE {}",
            escape_literal(&properties.collate),
            escape_literal(&properties.ctype)
        ));
        if self.server < PROVIDERS {
            return;
        }
        let (provider, key) = match properties.locale_provider {
            LocaleProvider::Libc => ("libc", None),
            LocaleProvider::Icu => ("icu", Some("ICU_LOCALE")),
            LocaleProvider::Builtin => ("builtin", Some("BUILTIN_LOCALE")),
        };
        sql.push_str(&format!(" LOCALE_PROVIDER {provider}"));
        if let (Some(key), Some(locale)) = (key, &properties.locale) {
            sql.push_str(&format!(" {key} {}", escape_literal(locale)));
        }
        if let Some(rules) = &properties.icu_rules {
            sql.push_str(&format!(" ICU_RULES {}", escape_literal(rules)));
        }
    }

    pub(crate) fn grant(&self) -> Statement {
        Statement::plain(format!(
            "GRANT ALL PRIVILEGES ON DATABASE {} TO {}",
            escape_identifier(&self.name),
            escape_identifier(&self.owner)
        ))
    }

    /// What comes before a load: the settings of the database, which decide what a statement of the dump comes to, as they do where
    /// psql reads a dump with `--create`; and event triggers off, or one for the start of a session would see those of the load and
    /// the verification.
    pub(crate) fn before_load(&self) -> Vec<Statement> {
        let off = self.turns_triggers_off().then(|| self.event_triggers("SET event_triggers TO off"));
        let settings = self.settings().filter(|setting| !self.comes_after(setting)).map(|setting| self.setting(setting));
        settings.chain(off).collect()
    }

    /// Only a superuser, from whom the database is closed to others, may turn them off.
    const fn turns_triggers_off(&self) -> bool {
        self.closed && self.server >= EVENT_TRIGGERS
    }

    fn event_triggers(&self, what: &str) -> Statement {
        Statement::plain(format!("ALTER DATABASE {} {what}", escape_identifier(&self.name)))
    }

    /// Whether a setting would undo what holds during a load.
    fn comes_after(&self, setting: &Setting) -> bool {
        self.turns_triggers_off() && setting.name == "event_triggers"
    }

    /// Closes the database to everybody, superusers too; only where it is a copy, which the transaction of its swap opens.
    pub(crate) fn close(&self) -> Option<Statement> {
        self.opened_by_swap
            .then(|| Statement::plain(format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", escape_identifier(&self.name))))
    }

    /// What is executed to try the properties on an empty database of another name.
    pub(crate) fn tried_as(&self, name: &str) -> Vec<Action> {
        let empty = Self { name: name.to_owned(), ..self.clone() };
        let created = std::iter::once(empty.create()).chain(empty.before_load());
        created.map(|statement| statement.action()).chain([Action::statement(drop_if_exists(name))]).collect()
    }

    /// What comes after a load: rights, comment, and the connection limit last.
    pub(crate) fn after_load(&self) -> Vec<Statement> {
        let reset = self.turns_triggers_off().then(|| self.event_triggers("RESET event_triggers"));
        let settings = self.settings().filter(|setting| self.comes_after(setting)).map(|setting| self.setting(setting));
        reset.into_iter().chain(settings).chain(self.ending()).collect()
    }

    /// The same where nothing was loaded: with all settings.
    pub(crate) fn finish(&self) -> Vec<Statement> {
        self.settings().map(|setting| self.setting(setting)).chain(self.ending()).collect()
    }

    fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.properties.iter().flat_map(|properties| &properties.settings)
    }

    fn ending(&self) -> Vec<Statement> {
        let mut statements = Vec::new();
        let limit = self.properties.as_ref().map_or(-1, |properties| properties.connection_limit);
        if let Some(properties) = &self.properties {
            statements.extend(self.rights(properties));
            let comment = properties.comment.as_ref();
            statements.extend(comment.map(|comment| {
                Statement::plain(format!("COMMENT ON DATABASE {} IS {}", escape_identifier(&self.name), escape_literal(comment)))
            }));
        }
        if self.closed || limit != -1 {
            statements
                .push(Statement::plain(format!("ALTER DATABASE {} CONNECTION LIMIT {limit}", escape_identifier(&self.name))));
        }
        statements
    }

    fn rights(&self, properties: &Properties) -> Vec<Statement> {
        let Some(grants) = &properties.acl else { return Vec::new() };
        let name = escape_identifier(&self.name);
        let mut statements = vec![Statement::plain(format!("REVOKE ALL PRIVILEGES ON DATABASE {name} FROM PUBLIC"))];
        for grant in grants {
            let grantee = match &grant.grantee {
                None => "PUBLIC".to_owned(),
                // The owner has all rights already.
                Some(role) if *role == self.owner => continue,
                Some(role) => escape_identifier(role),
            };
            let option = if grant.grantable { " WITH GRANT OPTION" } else { "" };
            statements.push(Statement::plain(format!("GRANT {} ON DATABASE {name} TO {grantee}{option}", grant.privilege)));
        }
        statements
    }

    fn setting(&self, setting: &Setting) -> Statement {
        let name = setting.name.split('.').map(escape_identifier).collect::<Vec<_>>().join(".");
        let whose = match &setting.role {
            None => format!("ALTER DATABASE {}", escape_identifier(&self.name)),
            Some(role) => format!("ALTER ROLE {} IN DATABASE {}", escape_identifier(role), escape_identifier(&self.name)),
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

    pub(crate) fn roles(&self) -> Vec<String> {
        let Some(properties) = &self.properties else { return Vec::new() };
        let grantees = properties.acl.iter().flatten().filter_map(|grant| grant.grantee.clone());
        let mut roles: Vec<String> =
            grantees.chain(properties.settings.iter().filter_map(|setting| setting.role.clone())).collect();
        roles.sort();
        roles.dedup();
        roles
    }

    /// Leaves out what speaks of roles that the server does not have.
    pub(crate) fn without_roles(&mut self, gone: &[String]) {
        let Some(properties) = &mut self.properties else { return };
        let there = |role: &Option<String>| role.as_ref().is_none_or(|role| !gone.contains(role));
        if let Some(grants) = &mut properties.acl {
            grants.retain(|grant| there(&grant.grantee));
        }
        properties.settings.retain(|setting| there(&setting.role));
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
            text_sha256: None,
            owner: "svc".to_owned(),
            encoding: "UTF8".to_owned(),
            locale_provider: LocaleProvider::Libc,
            collate: "C.UTF-8".to_owned(),
            ctype: "C.UTF-8".to_owned(),
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

    #[test]
    fn the_database_is_made_of_template0_for_its_owner_with_its_encoding_and_locale() {
        assert_eq!(
            creation(150_018, Some(properties())).create().sql,
            "CREATE DATABASE \"svc_db_staged_r\" OWNER \"svc\" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8' \
             LOCALE_PROVIDER libc CONNECTION LIMIT 0"
        );
        assert!(!creation(140_000, Some(properties())).create().sql.contains("PROVIDER"));
        let icu = Properties { locale_provider: LocaleProvider::Icu, locale: Some("de".to_owned()), ..properties() };
        assert!(creation(160_000, Some(icu)).create().sql.contains("LOCALE_PROVIDER icu ICU_LOCALE 'de'"));
        assert_eq!(
            creation(150_018, None).create().sql,
            "CREATE DATABASE \"svc_db_staged_r\" OWNER \"svc\" TEMPLATE template0 CONNECTION LIMIT 0"
        );
    }

    #[test]
    fn who_owned_it_before_keeps_his_rights_under_another_owner() {
        let creation = Creation { owner: "Reader".to_owned(), ..creation(150_018, Some(properties())) };
        let sql: Vec<String> = creation.finish().into_iter().map(|one| one.sql).collect();
        assert!(sql.contains(&"GRANT CREATE ON DATABASE \"svc_db_staged_r\" TO \"svc\"".to_owned()), "{sql:?}");
        assert!(!sql.iter().any(|sql| sql.starts_with("GRANT") && sql.contains("Reader")), "{sql:?}");
        assert!(creation.roles().contains(&"svc".to_owned()));
    }

    #[test]
    fn a_copy_is_made_of_files_where_the_server_gives_the_choice() {
        let closed = "CREATE DATABASE \"svc_db_staged_r\" OWNER \"svc\" TEMPLATE \"Live\" STRATEGY FILE_COPY CONNECTION LIMIT 0";
        assert_eq!(creation(150_000, None).copy_of("Live").sql, closed);
        assert!(!creation(140_019, None).copy_of("Live").sql.contains("STRATEGY"));
    }

    #[test]
    fn settings_rights_and_comment_are_given_and_the_limit_last() {
        let sql: Vec<String> = creation(150_018, Some(properties())).finish().into_iter().map(|one| one.sql).collect();
        assert_eq!(
            sql,
            [
                "ALTER DATABASE \"svc_db_staged_r\" SET \"search_path\" TO '$user', 'odd \"s', 'public'",
                "ALTER ROLE \"gone\" IN DATABASE \"svc_db_staged_r\" SET \"app\".\"key\" TO 'hush'",
                "REVOKE ALL PRIVILEGES ON DATABASE \"svc_db_staged_r\" FROM PUBLIC",
                "GRANT TEMPORARY ON DATABASE \"svc_db_staged_r\" TO PUBLIC",
                "GRANT CONNECT ON DATABASE \"svc_db_staged_r\" TO \"Reader\" WITH GRANT OPTION",
                "COMMENT ON DATABASE \"svc_db_staged_r\" IS 'it''s'",
                "ALTER DATABASE \"svc_db_staged_r\" CONNECTION LIMIT 17",
            ]
        );
    }

    #[test]
    fn settings_come_before_the_load_and_only_there_and_event_triggers_are_off_during_it_where_that_can_be() {
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
        assert_eq!(sql(creation(170_006).finish()), [zone, "SET \"event_triggers\" TO 'x'"]);
        let open = Creation { closed: false, ..creation(170_006) };
        assert_eq!(sql(open.before_load()), [zone, "SET \"event_triggers\" TO 'x'"]);
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let shown =
            format!("{:?}", creation(150_018, Some(properties())).finish().iter().map(Statement::action).collect::<Vec<_>>());
        assert!(shown.contains("<redacted>") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn roles_that_are_gone_can_be_left_out() {
        let mut creation = creation(150_018, Some(properties()));
        assert_eq!(creation.roles(), ["Reader", "gone", "svc"]);
        creation.without_roles(&["gone".to_owned(), "Reader".to_owned()]);
        assert_eq!(creation.finish().len(), 5);
    }
}
