//! What goes wrong with TLS, as a sentence with what helps.

use std::error::Error;

use rustls::{AlertDescription, CertificateError};
use svc_step::Failure;

use crate::target::Target;

/// What TLS itself has to say, wherever the client library has put it.
pub(crate) fn said<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(said) = error.downcast_ref() {
            return Some(said);
        }
        // What is inside of an error of input and output is not its source.
        let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(said) = inside.and_then(|inside| inside.downcast_ref()) {
            return Some(said);
        }
        next = error.source();
    }
    None
}

/// The failure; the sentences of a server's certificate, of ours, and of all else.
pub(crate) fn of(error: Option<&rustls::Error>, target: &Target) -> Failure {
    let place = target.place();
    match error {
        Some(rustls::Error::InvalidCertificate(why)) => certificate(why, &place),
        Some(rustls::Error::InvalidCertRevocationList(_)) => no_list(&place),
        Some(rustls::Error::AlertReceived(alert)) => match client_certificate(*alert, target) {
            Some(failure) => failure,
            None => other(&place),
        },
        _ => other(&place),
    }
}

fn other(place: &str) -> Failure {
    Failure::refused("postgres_tls", format!("No TLS connection to the server at {place} came about."))
        .hint("Check PGSSLMODE, and whether the server has TLS (SHOW ssl).")
}

fn certificate(why: &CertificateError, place: &str) -> Failure {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Failure::refused("postgres_certificate_expired", format!("The certificate of the server at {place} has expired."))
                .hint("Put a new certificate into the server; check this host's clock too (date -u).")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Failure::refused("postgres_certificate_expired", format!("The certificate of the server at {place} is not valid yet."))
                .hint("Check this host's clock (date -u), and from when on the certificate is valid.")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Failure::refused(
            "postgres_certificate_other_name",
            format!("The certificate of the server at {place} is for another host name."),
        )
        .hint("Say --host (PGHOST) with a name that is in the certificate, with PGHOSTADDR if it leads elsewhere; PGSSLMODE=verify-ca does without the name."),
        CertificateError::Revoked => {
            Failure::refused("postgres_not_trusted", format!("The certificate of the server at {place} is revoked."))
                .hint("Put a new certificate into the server.")
        }
        CertificateError::UnknownRevocationStatus => no_list(place),
        _ => Failure::refused(
            "postgres_not_trusted",
            format!("The certificate of the server at {place} is not signed by a trusted authority."),
        )
        .hint("Name its authority's certificate in PGSSLROOTCERT; of a certificate that is its own authority, that certificate itself."),
    }
}

fn no_list(place: &str) -> Failure {
    Failure::refused(
        "postgres_not_trusted",
        format!("No revocation list is at hand of who signed the certificate of the server at {place}."),
    )
    .hint("Put the list of each authority into the file of PGSSLCRL (~/.postgresql/root.crl), or unset it.")
}

/// What the server has against our certificate, or the lack of one.
fn client_certificate(alert: AlertDescription, target: &Target) -> Option<Failure> {
    let about_it = matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    );
    let place = target.place();
    let sentence = match target.tls.shows_certificate() {
        true => format!("The server at {place} does not accept the client certificate."),
        false => format!("The server at {place} wants a client certificate, and none was shown."),
    };
    about_it.then(|| {
        Failure::refused("postgres_client_certificate", sentence).hint(
            "Name one that the server's authority (ssl_ca_file) has signed and that is still valid in PGSSLCERT, and its key in PGSSLKEY.",
        )
    })
}
