//! The client's certificate and its key (`PGSSLCERT`, `PGSSLKEY`, else libpq's own places).

use std::path::{Path, PathBuf};

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder};
use svc_step::secret::Secret;
use svc_step::{Failure, file};

use crate::environment::Environment;

/// More of a file of certificates than this is not read.
const LONGEST: u64 = 1024 * 1024;

/// Where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// The certificate, and those of authorities between it and one that the server knows.
    pub(super) certificate: PathBuf,
    /// Its private key, not encrypted.
    pub(super) key: PathBuf,
}

impl Identity {
    /// # Errors
    /// One of the two is there without the other (2).
    pub(super) fn from_environment(env: &Environment) -> Result<Option<Self>, Failure> {
        let certificate = env.path("PGSSLCERT").or_else(|| env.of_home("postgresql.crt"));
        let key = env.path("PGSSLKEY").or_else(|| certificate.as_ref().and_then(|_| env.of_home("postgresql.key")));
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Self { certificate, key })),
            (Some(certificate), None) => {
                Err(Failure::usage("sslkey_missing", format!("The client certificate {} has no key.", certificate.display()))
                    .hint("Name the key's file in PGSSLKEY, or lay it at ~/.postgresql/postgresql.key (mode 0600)."))
            }
            (None, Some(_)) => {
                Err(Failure::usage("sslcert_missing", "PGSSLKEY names a key, and no client certificate is named.").hint(
                    "Name the certificate's file in PGSSLCERT, or lay it at ~/.postgresql/postgresql.crt; or unset PGSSLKEY.",
                ))
            }
        }
    }

    /// # Errors
    /// A file cannot be read (3, 4), others can read the key (3), or they hold no certificate and its key (7).
    pub(super) fn shown_by(&self, builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> Result<ClientConfig, Failure> {
        let bad = |what: &str, path: &Path, error: String| {
            Failure::invalid("client_certificate_invalid", format!("{} holds no {what} that can be used.", path.display()))
                .hint("Name PEM files: the certificate in PGSSLCERT, and its key, not encrypted, in PGSSLKEY.")
                .cause(error)
        };
        let text = file::read_text("read the client certificate", &self.certificate, LONGEST)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        let certificates = certificates.map_err(|error| bad("certificate", &self.certificate, error.to_string()))?;
        if certificates.is_empty() {
            return Err(bad("certificate", &self.certificate, "no PEM certificate in it".to_owned()));
        }
        let key = Secret::whole_file("private key", &self.key)?;
        let key =
            PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|error| bad("key", &self.key, error.to_string()))?;
        builder
            .with_client_auth_cert(certificates, key)
            .map_err(|error| bad("key of the certificate", &self.key, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_without_its_key_is_refused_and_so_is_a_key_alone() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = [("HOME", "/nowhere")].iter().chain(pairs).copied().collect();
            Identity::from_environment(&Environment::of(&pairs))
        };
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("PGSSLCERT", "/c")]).unwrap_err().code, "sslkey_missing");
        assert_eq!(of(&[("PGSSLKEY", "/k")]).unwrap_err().code, "sslcert_missing");
        assert!(of(&[("PGSSLCERT", "/c"), ("PGSSLKEY", "/k")]).unwrap().is_some());
    }

    #[test]
    fn the_files_of_libpqs_own_folder_are_found() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".postgresql");
        std::fs::create_dir(&folder).unwrap();
        for name in ["postgresql.crt", "postgresql.key"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let identity = Identity::from_environment(&Environment::of(&[("HOME", home.path().to_str().unwrap())])).unwrap().unwrap();
        assert_eq!(identity.key, folder.join("postgresql.key"));
    }
}
