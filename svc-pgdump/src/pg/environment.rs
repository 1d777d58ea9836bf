//! libpq's environment variables and its service file, which `PGSERVICE` picks. The settings of a service must reach `pg_dump` and `psql`
//! too, and lose against the options, so they become environment variables, which they outrank (libpq's manual, "The Connection
//! Service File").

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use svc_step::user::OsUser;
use svc_step::{Failure, file};

/// The environment; an empty variable counts as unset, as in libpq.
#[derive(Clone)]
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// That of this process; what is not UTF-8 is left out.
    pub(super) fn of_process() -> Self {
        Self(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect(),
        )
    }

    #[cfg(test)]
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// The same with these variables in the place of what they were.
    pub(super) fn with(&self, variables: &[(&'static str, String)]) -> Self {
        let mut all = self.0.clone();
        all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Self(all)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Refuses what a person has asked libpq for, by one of these variables, and what is not done here: it is about who is on
    /// the other end of a connection, so passing over it would be worse than stopping. `harmless` are the values that ask for
    /// nothing.
    pub(super) fn refuse(&self, names: &[&str], harmless: &[&str]) -> Result<(), Failure> {
        let set = names.iter().find(|name| self.text(name).is_some_and(|value| !harmless.contains(&value.as_str())));
        match set {
            None => Ok(()),
            Some(name) => {
                Err(Failure::usage("environment_unsupported", format!("{name} is set, and is not supported.")).hint(format!(
                    "Unset {name} for this call, if the connection may do without it; PGSSLMODE=verify-full proves the server."
                )))
            }
        }
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The caller's home folder, where libpq's own files lie.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.path("HOME").or_else(|| OsUser::current().map(|user| user.home))
    }

    /// One of libpq's own files, such as `~/.postgresql/root.crt`, where it is there.
    pub(super) fn of_home(&self, name: &str) -> Option<PathBuf> {
        self.home().map(|home| home.join(".postgresql").join(name)).filter(|path| path.exists())
    }

    pub(super) fn value<T: FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| {
            Failure::usage("environment_invalid", format!("The variable {name} is `{text}`, which it cannot be."))
                .hint(format!("Set {name} right, or unset it."))
        })
    }
}

/// More of a service file than this is not read.
const LONGEST: u64 = 1024 * 1024;
/// Where Debian's libpq looks for the host's own file.
const SYSTEM: &str = "/etc/postgresql-common";

/// Keywords, and the variables that say the same.
const VARIABLES: [(&str, &str); 25] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("options", "PGOPTIONS"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslcrl", "PGSSLCRL"),
    ("sslcrldir", "PGSSLCRLDIR"),
    ("sslcertmode", "PGSSLCERTMODE"),
    ("sslnegotiation", "PGSSLNEGOTIATION"),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("gssencmode", "PGGSSENCMODE"),
    ("requiressl", "PGREQUIRESSL"),
    ("requirepeer", "PGREQUIREPEER"),
    ("require_auth", "PGREQUIREAUTH"),
    ("application_name", "PGAPPNAME"),
    ("client_encoding", "PGCLIENTENCODING"),
];

/// Keywords that ask nothing of the server's identity or of the way to it, so that a step may do without.
const WITHOUT_EFFECT: [&str; 14] = [
    "fallback_application_name",
    "gssdelegation",
    "gsslib",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "sslcompression",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "max_protocol_version",
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) database: Option<String>,
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Service {
    /// The service that `PGSERVICE` names: from `PGSERVICEFILE`, else `~/.pg_service.conf`; where that does not have it, from the
    /// host's own file (`PGSYSCONFDIR`).
    pub(super) fn wanted(env: &Environment) -> Result<Option<Self>, Failure> {
        let Some(name) = env.text("PGSERVICE") else { return Ok(None) };
        let mut files: Vec<PathBuf> = Vec::new();
        match env.path("PGSERVICEFILE") {
            Some(path) => files.push(path),
            None => files.extend(env.home().map(|home| home.join(".pg_service.conf")).filter(|path| path.exists())),
        }
        let system = env.path("PGSYSCONFDIR").unwrap_or_else(|| PathBuf::from(SYSTEM)).join("pg_service.conf");
        files.extend(Some(system).filter(|path| path.exists()));
        for path in &files {
            let text = file::read_text("read the service file", path, LONGEST)?;
            if let Some(service) = parse(&text, &name, path)? {
                return Ok(Some(service));
            }
        }
        let places: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        let looked =
            if places.is_empty() { "there is no service file".to_owned() } else { format!("looked in {}", places.join(", ")) };
        Err(Failure::not_found(
            "service_not_found",
            format!("No service file has a service {name}, which PGSERVICE names ({looked})."),
        )
        .hint("Write it into ~/.pg_service.conf, name the right file in PGSERVICEFILE, or unset PGSERVICE."))
    }
}

/// The settings under `[name]`; `None` where the file has no such name.
fn parse(text: &str, name: &str, path: &Path) -> Result<Option<Service>, Failure> {
    let wrong = |number: usize, what: String| {
        Failure::usage("service_invalid", format!("Line {number} of the service file {} {what}.", path.display()))
            .hint("Write host, port, user and the like as keyword=value, without spaces around the =; or unset PGSERVICE.")
    };
    let heading = format!("[{name}]");
    let mut found: Option<Service> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            if found.is_some() {
                break;
            }
            found = line.starts_with(&heading).then(|| Service { name: name.to_owned(), ..Service::default() });
            continue;
        }
        let Some(service) = &mut found else { continue };
        if line.starts_with("ldap:") || line.starts_with("ldaps:") {
            return Err(wrong(number, "asks an LDAP server, which is not supported".to_owned()));
        }
        let (keyword, value) = line.split_once('=').ok_or_else(|| wrong(number, "is no setting".to_owned()))?;
        if keyword == "dbname" {
            service.database.get_or_insert_with(|| value.to_owned());
        } else if let Some((_, variable)) = VARIABLES.iter().find(|(known, _)| *known == keyword) {
            // As in libpq, the first of two decides.
            if !service.variables.iter().any(|(there, _)| there == variable) {
                service.variables.push((variable, value.to_owned()));
            }
        } else if !WITHOUT_EFFECT.contains(&keyword) {
            return Err(wrong(number, format!("has `{keyword}`, which is not supported")));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# ours\n[other]\nhost=x\n\n [svc]  \n  host=db1\nport=5433\nhost=db2\noptions=-c a=b c\ndbname=svc_db\n\
        keepalives=1\n# comment\npassword= s=3 \n[more]\nnonsense\n";

    fn read(text: &str, name: &str) -> Result<Option<Service>, Failure> {
        parse(text, name, Path::new("/f"))
    }

    #[test]
    fn the_settings_of_one_name_are_found_as_libpq_finds_them() {
        let service = read(FILE, "svc").unwrap().unwrap();
        assert_eq!(service.database.as_deref(), Some("svc_db"));
        let wanted = [("PGHOST", "db1"), ("PGPORT", "5433"), ("PGOPTIONS", "-c a=b c"), ("PGPASSWORD", " s=3")];
        assert_eq!(service.variables, wanted.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(read(FILE, "nobody").unwrap(), None);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_with_its_line() {
        for (line, word) in [
            ("nonsense", "no setting"),
            ("service=x", "`service`"),
            ("host = x", "`host `"),
            ("sslpassword=x", "`sslpassword`"),
            ("ldap://h/x", "LDAP"),
        ] {
            let failure = read(&format!("[svc]\nport=1\n{line}\n"), "svc").unwrap_err();
            assert_eq!(failure.code, "service_invalid");
            assert!(failure.message.contains(word) && failure.message.contains("Line 3"), "{}", failure.message);
        }
    }

    #[test]
    fn a_service_that_no_file_has_is_not_found() {
        let env = Environment::of(&[("PGSERVICE", "svc"), ("HOME", "/nowhere"), ("PGSYSCONFDIR", "/nowhere")]);
        assert_eq!(Service::wanted(&env).unwrap_err().code, "service_not_found");
        let env = Environment::of(&[("PGSERVICE", "svc"), ("PGSERVICEFILE", "/nowhere/f")]);
        assert_eq!(Service::wanted(&env).unwrap_err().code, "file_not_found");
        assert_eq!(Service::wanted(&Environment::of(&[])).unwrap(), None);
    }
}
