//! Secrets in a repository's settings, which documents must not show: by the settings' names, and in addresses wherever they stand.

use serde_json::{Map, Value, json};
use svc_step::secret::{REDACTED, is_secret_name};

/// The settings with secret-looking values hidden, and addresses without their user-info.
pub(crate) fn redacted(settings: &Map<String, Value>) -> Map<String, Value> {
    settings.iter().map(|(name, value)| (name.clone(), hide(name, value))).collect()
}

fn hide(name: &str, value: &Value) -> Value {
    match value {
        _ if is_secret_name(name) => json!(REDACTED),
        Value::Object(below) => Value::Object(redacted(below)),
        Value::Array(items) => items.iter().map(|item| hide(name, item)).collect(),
        Value::String(text) => json!(without_secrets(text)),
        _ => value.clone(),
    }
}

/// A text whose addresses, of which it may hold several, have neither user-info nor secrets among their parameters.
fn without_secrets(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // A password may hold anything but a slash.
        let (authority, path) = part.split_at(part.find('/').unwrap_or(part.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        shown = format!("{shown}://{}", without_parameters(&format!("{host}{path}")));
    }
    shown
}

/// `sig` is the signature of a shared access to Azure's storage, which is worth as much as a password.
fn without_parameters(text: &str) -> String {
    let hide = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if is_secret_name(name.trim_start_matches('?')) || name.trim_start_matches('?') == "sig" => {
            format!("{name}={REDACTED}")
        }
        _ => parameter.to_owned(),
    };
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    format!("{path}{}", query.split('&').map(hide).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_user_info_are_not_shown() {
        for (name, value, shown) in [
            ("location", json!("/x"), json!("/x")),
            ("client.secret_key", json!("s"), json!("<redacted>")),
            ("url", json!("http://me:pw@host/a@b"), json!("http://host/a@b")),
            ("uri", json!("hdfs://host:1/"), json!("hdfs://host:1/")),
            ("url", json!("http://me:p@w,#?@host"), json!("http://host")),
            ("urls", json!("http://me:pw@a/,ftp://you:pw@b/"), json!("http://a/,ftp://b/")),
            ("urls", json!(["http://me:pw@a/", 1]), json!(["http://a/", 1])),
            ("conf", json!({"a": {"uri": "hdfs://me:pw@host"}}), json!({"a": {"uri": "hdfs://host"}})),
            ("url", json!("https://h/c?sv=2&sig=abc&token=t"), json!("https://h/c?sv=2&sig=<redacted>&token=<redacted>")),
            ("url", json!("https://h?sig=abc"), json!("https://h?sig=<redacted>")),
        ] {
            let settings = json!({name: value});
            assert_eq!(Value::Object(redacted(settings.as_object().unwrap())), json!({name: shown}), "{value}");
        }
    }
}
