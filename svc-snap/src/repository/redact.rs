//! Secrets in a repository's settings, which documents must not show.

use serde_json::{Map, Value, json};
use svc_step::secret::{REDACTED, is_secret_name};

/// The settings with secret-looking values hidden, and addresses without their user-info.
pub(crate) fn redacted(settings: &Map<String, Value>) -> Map<String, Value> {
    settings.iter().map(|(name, value)| (name.clone(), hide(name, value))).collect()
}

fn hide(name: &str, value: &Value) -> Value {
    if is_secret_name(name) {
        return json!(REDACTED);
    }
    match value.as_str().and_then(|text| text.split_once("://")) {
        Some((scheme, rest)) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            json!(format!("{scheme}://{host}{path}"))
        }
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_user_info_are_not_shown() {
        let settings =
            json!({"location": "/x", "client.secret_key": "s", "url": "http://me:pw@host/a@b", "uri": "hdfs://host:1/"});
        let shown = Value::Object(redacted(settings.as_object().unwrap()));
        assert_eq!(
            shown,
            json!({"location": "/x", "client.secret_key": "<redacted>", "url": "http://host/a@b", "uri": "hdfs://host:1/"})
        );
    }
}
