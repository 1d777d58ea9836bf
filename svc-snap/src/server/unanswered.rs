//! Why there is no answer, or none that can be used: what the network and TLS say, as sentences.

use std::io::ErrorKind;

use rustls::{AlertDescription, CertificateError};
use svc_step::Failure;
use ureq::Timeout;

use crate::server::transport::{Fate, Trouble};

/// What was known of the connection when it failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way<'a> {
    /// The address, without credentials.
    pub base: &'a str,
    /// Whether a client certificate was shown.
    pub shows_certificate: bool,
}

impl Way<'_> {
    /// No answer has begun to come.
    pub(crate) fn no_answer(self, error: &ureq::Error) -> Trouble {
        if let Some(error) = tls_error(error) {
            return self.tls(error);
        }
        let cause = error.to_string();
        let never_left = |failure: Failure| Trouble { failure: failure.cause(&cause), fate: Fate::NoEffect };
        match error {
            ureq::Error::HostNotFound => never_left(self.host_not_found()),
            ureq::Error::Tls(_) => {
                never_left(self.not_trusted(format!("No TLS connection can be made to the search database at {}.", self.base)))
            }
            ureq::Error::ConnectionFailed | ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                never_left(self.unreachable("does not answer"))
            }
            ureq::Error::Io(fault) => match fault.kind() {
                ErrorKind::ConnectionRefused
                | ErrorKind::NetworkUnreachable
                | ErrorKind::HostUnreachable
                | ErrorKind::AddrNotAvailable
                | ErrorKind::InvalidInput => never_left(self.unreachable("does not answer")),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                    self.lost("closed the connection without an answer", &cause)
                }
                _ => self.lost("does not answer", &cause),
            },
            ureq::Error::Timeout(_) => self.lost("has not answered in time", &cause),
            ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
                let failure = Failure::refused("search_speaks_no_http", format!("What answers at {} speaks no HTTP.", self.base))
                    .hint("Check --url (SVC_SEARCH_URL): it is the search database's own address, with its port for HTTP.");
                Trouble { failure: failure.cause(cause), fate: Fate::Unknown }
            }
            _ => self.lost("does not answer", &cause),
        }
    }

    /// An answer has begun to come and did not come to its end.
    pub(crate) fn cut(self, error: std::io::Error) -> Trouble {
        // Of TLS too: its handshake was over by then, and the request was sent.
        let error = ureq::Error::from(error);
        match &error {
            ureq::Error::Timeout(_) => self.lost("has begun an answer and not ended it in time", &error.to_string()),
            _ => self.lost("broke off in the middle of an answer", &error.to_string()),
        }
    }

    /// The answer ended, and it is half a JSON text.
    pub(crate) fn half(self, error: &serde_json::Error) -> Trouble {
        self.lost("broke off in the middle of an answer", &error.to_string())
    }

    /// More than anybody would read.
    pub(crate) fn endless(self, limit: u64) -> Trouble {
        let failure = Failure::failed(
            "answer_too_large",
            format!("An answer of the search database at {} is larger than {} MiB and was cut.", self.base, limit >> 20),
        )
        .hint("Check that --url (SVC_SEARCH_URL) is the search database's own address.");
        Trouble { failure, fate: Fate::Unknown }
    }

    /// Connected, and no answer: what the request did is not known.
    fn lost(self, what: &str, cause: &str) -> Trouble {
        Trouble { failure: self.unreachable(what).cause(cause), fate: Fate::Unknown }
    }

    fn unreachable(self, what: &str) -> Failure {
        Failure::unavailable("search_unreachable", format!("The search database at {} {what}.", self.base)).hint(
            "Check that it runs (svc-unit status UNIT) and that --url (SVC_SEARCH_URL) is right; https:// where it speaks TLS.",
        )
    }

    fn host_not_found(self) -> Failure {
        Failure::unavailable("search_unreachable", format!("No host is known by the name in {}.", self.base))
            .hint("Check the name in --url (SVC_SEARCH_URL), and that names are resolved: getent hosts NAME.")
    }

    fn not_trusted(self, message: String) -> Failure {
        Failure::refused("search_not_trusted", message).hint(
            "Name the authority of its certificate with --ca-cert (SVC_SEARCH_CA), and check that --url says the name that is in the certificate.",
        )
    }

    /// What TLS says. Before its handshake is over no request is sent, and a server that refuses our certificate hears none.
    fn tls(self, error: &rustls::Error) -> Trouble {
        use rustls::Error as Tls;
        let (failure, fate) = match error {
            Tls::InvalidCertificate(why) => (self.certificate(why), Fate::NoEffect),
            Tls::InvalidMessage(_) => (self.speaks_no_tls(), Fate::Unknown),
            Tls::AlertReceived(alert) => self.alert(*alert),
            Tls::PeerIncompatible(_) => (
                Failure::refused(
                    "search_tls_incompatible",
                    format!("The search database at {} speaks no TLS that is spoken here (1.2 and 1.3).", self.base),
                )
                .hint("Let the server offer TLS 1.2 or 1.3, with the suites of today."),
                Fate::NoEffect,
            ),
            _ => (self.unreachable("broke the TLS connection"), Fate::Unknown),
        };
        Trouble { failure: failure.cause(error.to_string()), fate }
    }

    pub(crate) fn speaks_no_tls(self) -> Failure {
        Failure::refused(
            "search_speaks_no_tls",
            format!("What answers at {} speaks no TLS, and the address says https://.", self.base),
        )
        .hint(format!("Write --url (SVC_SEARCH_URL) as {} if the connection is to be in the clear.", other_scheme(self.base)))
    }

    pub(crate) fn speaks_tls(self) -> Failure {
        Failure::refused("search_speaks_tls", format!("What answers at {} speaks TLS, and the address says http://.", self.base))
            .hint(format!("Write --url (SVC_SEARCH_URL) as {}.", other_scheme(self.base)))
    }

    fn certificate(self, why: &CertificateError) -> Failure {
        let base = self.base;
        match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Failure::refused(
                "search_certificate_expired",
                format!("The certificate of the search database at {base} has expired."),
            )
            .hint("Put a new certificate into the search database; check this host's clock too (date -u)."),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Failure::refused(
                "search_certificate_expired",
                format!("The certificate of the search database at {base} is not valid yet."),
            )
            .hint("Check this host's clock (date -u), and from when on the certificate is valid."),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                let failure = Failure::refused(
                    "search_certificate_other_name",
                    format!("The certificate of the search database at {base} is for another host name."),
                );
                match names(why) {
                    Some(names) => failure.hint(format!(
                        "Write --url (SVC_SEARCH_URL) with a name that is in it: {names}; or put a certificate with this name into the search database."
                    )),
                    None => failure.hint("Write --url (SVC_SEARCH_URL) with a name that is in it: openssl s_client -connect HOST:PORT shows it."),
                }
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                self.not_trusted(format!("No trusted authority has signed the certificate of the search database at {base}."))
            }
            _ => self.not_trusted(format!("The certificate of the search database at {base} is not to be trusted.")),
        }
    }

    fn alert(self, alert: AlertDescription) -> (Failure, Fate) {
        use AlertDescription as Alert;
        match alert {
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied => (self.client_certificate(alert), Fate::NoEffect),
            Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity | Alert::UnrecognisedName => (
                Failure::refused(
                    "search_tls_incompatible",
                    format!("The search database at {} refused to speak TLS with this client.", self.base),
                )
                .hint("See the cause; the server's own log says more."),
                Fate::NoEffect,
            ),
            _ => (self.unreachable("broke the TLS connection"), Fate::Unknown),
        }
    }

    fn client_certificate(self, alert: AlertDescription) -> Failure {
        let base = self.base;
        if !self.shows_certificate {
            return Failure::refused(
                "search_client_certificate_wanted",
                format!("The search database at {base} wants a client certificate, and none was shown."),
            )
            .hint("Name one with --client-cert (SVC_SEARCH_CLIENT_CERT) and --client-key (SVC_SEARCH_CLIENT_KEY).");
        }
        let why = match alert {
            AlertDescription::CertificateExpired => " since it has expired",
            AlertDescription::CertificateRevoked => " since it is revoked",
            AlertDescription::UnknownCA => " since it does not know who signed it",
            _ => "",
        };
        Failure::refused(
            "search_client_certificate_refused",
            format!("The search database at {base} does not accept the client certificate{why}."),
        )
        .hint("Name one that its authority has signed and that is still valid with --client-cert (SVC_SEARCH_CLIENT_CERT).")
    }
}

/// What TLS itself has to say, wherever ureq has put it.
fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The names that are in the certificate.
fn names(why: &CertificateError) -> Option<String> {
    match why {
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            let plain = presented.iter().map(|name| match name.split_once('(') {
                Some((_, inner)) => inner.trim_end_matches(')').trim_matches('"').to_owned(),
                None => name.clone(),
            });
            Some(plain.collect::<Vec<_>>().join(", "))
        }
        _ => None,
    }
}

/// The address with the other of `http` and `https`.
pub(crate) fn other_scheme(base: &str) -> String {
    match base.strip_prefix("https://") {
        Some(rest) => format!("http://{rest}"),
        None => base.replacen("http://", "https://", 1),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const WAY: Way<'_> = Way { base: "https://h:9200", shows_certificate: false };

    #[test]
    fn a_tls_connection_that_breaks_is_5_and_nobody_knows_what_the_request_did() {
        let broken = || rustls::Error::DecryptError;
        let early = WAY.no_answer(&ureq::Error::Rustls(broken()));
        for trouble in [
            early,
            WAY.cut(io::Error::other(broken())),
            WAY.cut(io::Error::other(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType))),
        ] {
            assert_eq!((trouble.failure.status.code(), trouble.fate), (5, Fate::Unknown), "{}", trouble.failure);
        }
        let untrusted = WAY.no_answer(&ureq::Error::Rustls(rustls::Error::InvalidCertificate(CertificateError::Revoked)));
        assert_eq!((untrusted.failure.code.as_str(), untrusted.fate), ("search_not_trusted", Fate::NoEffect));
        assert_eq!(untrusted.failure.message, "The certificate of the search database at https://h:9200 is not to be trusted.");
    }
}
