//! The server's address: credentials in it are taken out and never shown again.

use percent_encoding::percent_decode_str;
use svc_step::Failure;
use svc_step::line_secrets::user_of_url;
use svc_step::secret::Secret;

/// A checked address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host, port and path, without user-info and without a slash at its end.
    pub base: String,
    /// The user that stood in it.
    pub user: Option<String>,
    /// The password that stood in it.
    pub password: Option<Secret>,
}

/// Reads an address. What is wrong with it is said without repeating it, since it may hold a password.
///
/// # Errors
/// It is no `http://` or `https://` address of a host (2).
pub(super) fn parse(url: &Secret) -> Result<Address, Failure> {
    let wrong = |why: &str| {
        Failure::usage("search_url_invalid", format!("The address of the server is not right: {why}."))
            .hint("Write --url (SVC_SEARCH_URL) as http://HOST:PORT or https://HOST:PORT.")
    };
    let (scheme, rest) = url.expose().trim().split_once("://").ok_or_else(|| wrong("it has no http:// or https://"))?;
    let scheme = scheme.to_ascii_lowercase();
    if scheme != "http" && scheme != "https" {
        return Err(wrong("it starts with neither http:// nor https://"));
    }
    if rest.contains(['?', '#']) || rest.chars().any(|one| one.is_whitespace() || one.is_control()) {
        return Err(wrong("it has a query, a fragment or white space in it"));
    }
    let (info, host) = user_of_url(rest);
    if info.is_some_and(|info| info.contains('/')) {
        return Err(wrong("a slash in its user-info is not written as %2F"));
    }
    if host.is_empty() || host.starts_with([':', '/']) {
        return Err(wrong("it names no host"));
    }
    let decode = |text: &str| {
        percent_decode_str(text).decode_utf8().map(|text| text.into_owned()).map_err(|_| wrong("its user-info is no UTF-8 text"))
    };
    let (user, password) = match info.map(|info| info.split_once(':').unwrap_or((info, ""))) {
        None => (None, None),
        Some((user, password)) => (Some(decode(user)?), Some(decode(password)?).filter(|password| !password.is_empty())),
    };
    let base = format!("{scheme}://{}", host.trim_end_matches('/'));
    base.parse::<ureq::http::Uri>().map_err(|_| wrong("it is no URL"))?;
    Ok(Address { base, user, password: password.map(Secret::new) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address, Failure> {
        parse(&Secret::new(url.to_owned()))
    }

    #[test]
    fn credentials_are_taken_out_of_an_address() {
        let address = read("https://svc:p%40ss@es1:9200/prefix/").unwrap();
        assert_eq!(address.base, "https://es1:9200/prefix");
        assert_eq!(address.user.as_deref(), Some("svc"));
        assert_eq!(address.password.as_ref().map(Secret::expose), Some("p@ss"));
        let plain = read("HTTP://[::1]:9200").unwrap();
        assert_eq!((plain.base.as_str(), plain.user), ("http://[::1]:9200", None));
    }

    #[test]
    fn a_wrong_address_is_never_repeated() {
        for bad in [
            "svc:secret@es1:9200",
            "ftp://svc:secret@es1",
            "http://svc:secret@",
            "http://svc:secret@es1/?a",
            "http://:9200",
            "http:///secret",
            "http://svc:1/secret@es1",
        ] {
            let failure = read(bad).unwrap_err();
            assert_eq!(failure.status.code(), 2, "{bad}");
            assert!(!format!("{failure:?}").contains("secret"), "{bad}");
        }
    }
}
