//! Why there is no answer, or none that can be used: what the network and TLS say, as five errors.

use std::io::ErrorKind;

use rustls::{AlertDescription as Alert, Error as Tls};
use svc_step::Failure;
use ureq::Timeout;

use crate::server::client::{Effect, RequestError};
use crate::server::refusal::not_a_search_database;

/// No answer has begun to come from `base`, an address without credentials.
pub(crate) fn no_answer(base: &str, error: &ureq::Error) -> RequestError {
    if let Some(error) = tls_error(error) {
        return tls(base, error);
    }
    let never_left =
        |what: &str| RequestError { failure: unreachable(base, what).cause(error.to_string()), effect: Effect::None };
    match error {
        ureq::Error::HostNotFound => never_left("has no known address: its host name is not resolved"),
        ureq::Error::Tls(_) => {
            RequestError { failure: not_trusted(base, "offers no TLS connection").cause(error.to_string()), effect: Effect::None }
        }
        ureq::Error::ConnectionFailed | ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
            never_left("does not answer")
        }
        ureq::Error::Io(fault) => match fault.kind() {
            ErrorKind::ConnectionRefused
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::AddrNotAvailable
            | ErrorKind::InvalidInput => never_left("does not answer"),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                lost(base, "closed the connection without an answer", &error.to_string())
            }
            _ => lost(base, "does not answer", &error.to_string()),
        },
        ureq::Error::Timeout(_) => lost(base, "has not answered in time", &error.to_string()),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => RequestError {
            failure: not_a_search_database(base).cause(format!("It speaks no HTTP: {error}")),
            effect: Effect::Unknown,
        },
        _ => lost(base, "does not answer", &error.to_string()),
    }
}

/// An answer has begun to come and is incomplete: the request was sent, also where TLS broke.
pub(crate) fn cut(base: &str, error: &dyn std::fmt::Display) -> RequestError {
    lost(base, "broke off in the middle of an answer", &error.to_string())
}

/// A larger answer than is read.
pub(crate) fn endless(base: &str, limit: u64) -> RequestError {
    let message = format!("An answer of the server at {base} is larger than {} MiB and was cut.", limit >> 20);
    let failure =
        Failure::failed("answer_too_large", message).hint("Check that --url (SVC_SEARCH_URL) is the server's own address.");
    RequestError { failure, effect: Effect::Unknown }
}

/// Connected, and no answer: what the request did is unknown.
fn lost(base: &str, what: &str, cause: &str) -> RequestError {
    RequestError { failure: unreachable(base, what).cause(cause), effect: Effect::Unknown }
}

fn unreachable(base: &str, what: &str) -> Failure {
    Failure::unavailable("search_unreachable", format!("The server at {base} {what}.")).hint(
        "Check that it runs (svc-unit status UNIT) and that --url (SVC_SEARCH_URL) is right: its scheme is https:// if the server speaks TLS.",
    )
}

fn not_trusted(base: &str, what: &str) -> Failure {
    Failure::refused("search_not_trusted", format!("The server at {base} {what}.")).hint(
        "Name the authority of its certificate with --ca-cert (SVC_SEARCH_CA), write --url with a name that is in the certificate, and check its dates and this host's clock; the cause says which it is.",
    )
}

/// What TLS says. Before its handshake is over no request is sent, and a server that refuses our certificate reads none.
fn tls(base: &str, error: &Tls) -> RequestError {
    let (failure, effect) = match error {
        Tls::InvalidCertificate(_) => (not_trusted(base, "shows a certificate that is not trusted"), Effect::None),
        Tls::InvalidMessage(_) => {
            let plain = base.replacen("https://", "http://", 1);
            let hint =
                format!("It speaks no TLS: write --url (SVC_SEARCH_URL) as {plain} if the connection is to be in the clear.");
            (not_a_search_database(base).hint(hint), Effect::Unknown)
        }
        Tls::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => {
            let message = format!("The server at {base} requires a client certificate, or does not accept this one.");
            let failure = Failure::refused("search_client_certificate_refused", message)
                .hint("Name one that its authority has signed and that is valid with --client-cert (SVC_SEARCH_CLIENT_CERT) and --client-key.");
            (failure, Effect::None)
        }
        Tls::PeerIncompatible(_)
        | Tls::AlertReceived(
            Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity | Alert::UnrecognisedName,
        ) => (not_trusted(base, "offers no TLS 1.2 or 1.3 that this client accepts"), Effect::None),
        _ => (unreachable(base, "broke the TLS connection"), Effect::Unknown),
    };
    RequestError { failure: failure.cause(error.to_string()), effect }
}

/// What TLS itself has to say, wherever ureq has put it.
fn tls_error(error: &ureq::Error) -> Option<&Tls> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_tls_connection_that_breaks_is_5_and_what_the_request_did_is_unknown() {
        let base = "https://h:9200";
        for trouble in [no_answer(base, &ureq::Error::Rustls(Tls::DecryptError)), cut(base, &io::Error::other(Tls::DecryptError))]
        {
            assert_eq!((trouble.failure.status.code(), trouble.effect), (5, Effect::Unknown), "{}", trouble.failure);
        }
        let untrusted = Tls::InvalidCertificate(rustls::CertificateError::Revoked);
        let untrusted = no_answer(base, &ureq::Error::Rustls(untrusted));
        assert_eq!((untrusted.failure.code.as_str(), untrusted.effect), ("search_not_trusted", Effect::None));
    }
}
