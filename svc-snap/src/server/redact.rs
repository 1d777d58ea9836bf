//! Secrets in a repository's settings, which documents must not show: by the settings' names, and in addresses wherever they stand.
//! A server's own words may hold such settings too.

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

/// A server's words without the secrets in them: Elasticsearch 7.17 has been seen to write a repository's settings as JSON into a
/// reason.
pub(crate) fn words(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, object)) = rest.find("{\"").and_then(|at| rest.split_at_checked(at)) {
        shown.push_str(&addresses(before, &WORDS_END));
        let mut objects = serde_json::Deserializer::from_str(object).into_iter::<Map<String, Value>>();
        let (said, end) = match objects.next() {
            Some(Ok(settings)) => (json!(redacted(&settings)).to_string(), objects.byte_offset()),
            _ => ("{".to_owned(), 1),
        };
        shown.push_str(&said);
        rest = object.get(end..).unwrap_or_default();
    }
    shown + &addresses(rest, &WORDS_END)
}

/// What ends the host of an address in a sentence.
const WORDS_END: [char; 5] = ['/', '"', '\'', ' ', '\n'];

/// A password may hold anything but a slash.
fn without_secrets(text: &str) -> String {
    addresses(text, &['/'])
}

/// A text whose addresses, of which it may hold several, have neither user-info nor secrets among their parameters; `ends` are what
/// may stand behind a host.
fn addresses(text: &str, ends: &[char]) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (authority, path) = part.split_at(part.find(ends).unwrap_or(part.len()));
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

    #[test]
    fn a_servers_words_show_none_either_and_stay_what_they_are_otherwise() {
        for (said, shown) in [
            (
                r#"[r] Found unexpected [RepositoryMetadata{r}{fs}{{"address":"http://me:pw@far/","client.key":"pw","chunk_size":"1mb"}}{2}]"#,
                r#"[r] Found unexpected [RepositoryMetadata{r}{fs}{{"address":"http://far/","client.key":"<redacted>","chunk_size":"1mb"}}{2}]"#,
            ),
            ("cannot reach http://me:pw@far:1 for you@home", "cannot reach http://far:1 for you@home"),
            (r#"half {"a":"ftp://me:pw@far/"#, r#"half {"a":"ftp://far/"#),
            (
                "[svc-3][127.0.0.1:26464][internal:admin/repository/verify]",
                "[svc-3][127.0.0.1:26464][internal:admin/repository/verify]",
            ),
        ] {
            assert_eq!(words(said), shown);
        }
    }
}
