//! libpq's service file: a connection's settings under a name, which `PGSERVICE` picks. Crates that read it make a configuration of
//! their own client of it; here the settings must reach `pg_dump` and `psql` too, and lose against the flags, so they become
//! libpq's environment variables, which they outrank (libpq's manual, "The Connection Service File").

use std::path::{Path, PathBuf};

use svc_step::{Failure, file};

use crate::environment::Environment;

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

/// What a service file says under one name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// Its name.
    pub(crate) name: String,
    /// The database that it names.
    pub(crate) database: Option<String>,
    /// All else, by libpq's variables.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Service {
    /// The service that `PGSERVICE` names: from `PGSERVICEFILE`, else `~/.pg_service.conf`; where that does not have it, from the
    /// host's own file (`PGSYSCONFDIR`).
    ///
    /// # Errors
    /// No file has it (4), a file cannot be read (3, 4, 7), or what it says is wrong or not supported (2).
    pub(crate) fn wanted(env: &Environment) -> Result<Option<Self>, Failure> {
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
