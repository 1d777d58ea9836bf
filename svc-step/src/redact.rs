//! Secrets in texts, URLs, connection strings, arguments and JSON are replaced by `<redacted>`. The table of cases is the test below;
//! each line is read once, however long it is.

use serde_json::{Map, Value};

use crate::secret::{REDACTED, is_secret_name};

/// A text as it may be shown.
pub fn without_secrets(text: &str) -> String {
    text.split_inclusive(['\n', '\r'])
        .map(|line| {
            let (line, end) = line.split_at_checked(line.trim_end_matches(['\n', '\r']).len()).unwrap_or((line, ""));
            // First what has a name: a sign of it must not be taken for the end of a user in a URL.
            let ends_word = |c: char| c.is_whitespace() || is_quote(c);
            without_values(line).split_inclusive(ends_word).map(without_users).collect::<String>() + end
        })
        .collect()
}

/// JSON members as they may be shown: by their names, and else by what their texts hold.
pub fn json_without_secrets(members: &Map<String, Value>) -> Map<String, Value> {
    members.iter().map(|(name, value)| (name.clone(), member_without_secrets(name, value))).collect()
}

fn member_without_secrets(name: &str, value: &Value) -> Value {
    match value {
        _ if is_secret_name(name) => REDACTED.into(),
        Value::Object(below) => Value::Object(json_without_secrets(below)),
        Value::Array(items) => items.iter().map(|item| member_without_secrets(name, item)).collect(),
        Value::String(text) => without_secrets(text).into(),
        _ => value.clone(),
    }
}

/// Another program's sentence as it may be shown: JSON objects may stand in it (Elasticsearch 7.17 has been seen to write a repository's
/// settings into a reason).
pub fn sentence_without_secrets(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, object)) = rest.find("{\"").and_then(|at| rest.split_at_checked(at)) {
        shown.push_str(&without_secrets(before));
        let mut objects = serde_json::Deserializer::from_str(object).into_iter::<Map<String, Value>>();
        let Some(Ok(members)) = objects.next() else { return shown + &without_secrets(object) };
        shown.push_str(&Value::Object(json_without_secrets(&members)).to_string());
        rest = object.get(objects.byte_offset()..).unwrap_or_default();
    }
    shown + &without_secrets(rest)
}

/// A text without the arguments that are not to be shown, wherever they stand in it: those of at least four bytes, and what stands behind
/// their first `=`.
pub fn without_arguments(text: &[u8], arguments: &[Vec<u8>]) -> Vec<u8> {
    let parts =
        |argument: &'_ Vec<u8>| [argument.clone(), argument.splitn(2, |byte| *byte == b'=').nth(1).unwrap_or_default().to_vec()];
    let mut hidden: Vec<Vec<u8>> = arguments.iter().flat_map(parts).filter(|part| part.len() >= 4).collect();
    hidden.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let (mut shown, mut rest) = (Vec::new(), text);
    while let Some((first, behind)) = rest.split_first() {
        match hidden.iter().find_map(|word| rest.strip_prefix(word.as_slice())) {
            Some(behind) => {
                shown.extend(REDACTED.as_bytes());
                rest = behind;
            }
            None => {
                shown.push(*first);
                rest = behind;
            }
        }
    }
    shown
}

/// The arguments of a command as they may be shown: the one after a flag such as `--password` is a secret too.
pub fn arguments_without_secrets(arguments: &[String]) -> Vec<String> {
    let before = std::iter::once("").chain(arguments.iter().map(String::as_str));
    let shown = before.zip(arguments).map(|(before, argument)| {
        let is_flag = argument.starts_with('-') && !takes_user(before);
        if !is_flag && is_secret_after(before, argument) { REDACTED.to_owned() } else { without_secrets(argument) }
    });
    shown.collect()
}

/// Whether the argument after a flag is a secret: `--password x`, `-u user:password`.
pub fn is_secret_after(flag: &str, value: &str) -> bool {
    is_secret_flag(flag) || (takes_user(flag) && has_password(value))
}

/// Whether an argument is a flag whose next one is a secret, as `--password`.
fn is_secret_flag(argument: &str) -> bool {
    argument.starts_with('-') && !argument.contains(['=', ' ']) && is_secret_name(argument)
}

/// Whether an argument is a flag whose next one may be `user:password`, as curl's `-u`.
fn takes_user(argument: &str) -> bool {
    matches!(argument, "-u" | "-U" | "--user" | "--proxy-user")
}

/// Whether the first word of `text` is `user:password`.
fn has_password(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
}

/// User and password in a URL (`rest` is what stands behind `://`), and host and path. A password may hold any sign, so
/// everything up to the last `@` is taken for them, although that may be of a path.
pub fn user_of_url(rest: &str) -> (Option<&str>, &str) {
    rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host))
}

const fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'')
}

/// A word without users and passwords: those of each URL in it, and `user:password` before an `@` if no scheme is named.
fn without_users(word: &str) -> String {
    let part = |(number, part): (usize, &str)| {
        let (Some(user), host) = user_of_url(part) else { return part.to_owned() };
        let start = if number == 0 { start_of_user(user, host) } else { Some(0) };
        start.and_then(|start| user.get(..start)).map_or_else(|| part.to_owned(), |kept| format!("{kept}{REDACTED}@{host}"))
    };
    word.split("://").enumerate().map(part).collect::<Vec<_>>().join("://")
}

/// Where `name:password` begins, which ends `text`: `root:p`, `dsn=root:p`; behind `//` the name may be missing.
fn start_of_user(text: &str, host: &str) -> Option<usize> {
    if host.starts_with("sha256:") || host.starts_with("sha512:") {
        return None;
    }
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-');
    let starts = text.match_indices(['=', ',', '(', '[', '{']).map(|(at, _)| at + 1);
    std::iter::once(0).chain(starts).find_map(|start| {
        let word = text.get(start..)?;
        let user = word.strip_prefix("//").unwrap_or(word);
        let name = user.split(|c| !of_name(c)).next()?;
        let password = user.strip_prefix(name)?.strip_prefix(':')?;
        let is_user = !password.is_empty() && (!name.is_empty() || word != user);
        is_user.then_some(text.len() - user.len())
    })
}

/// Takes out what follows `password=`, `token: ` or `--secret ` inside a line: to the end of the line if the name starts
/// it, else to the end of the value.
fn without_values(line: &str) -> String {
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let starts_line = |c: char| c.is_whitespace() || is_quote(c) || matches!(c, '#' | ';' | '+' | '!' | '-');
    let (mut out, mut rest, mut is_first) = (String::new(), line, true);
    while let Some((before, from)) = rest.find(of_name).and_then(|at| rest.split_at_checked(at)) {
        let name = from.split(|c| !of_name(c)).next().unwrap_or_default();
        let after = from.strip_prefix(name).unwrap_or_default();
        is_first = is_first && before.chars().all(starts_line);
        out.extend([before, name]);
        rest = after;
        if let Some(value) = value_of(name, after) {
            out.extend([after.strip_suffix(value).unwrap_or_default(), REDACTED]);
            // Of a header, such as `'token: a b'`.
            let quote = before.chars().next_back().filter(|c| is_quote(*c) && after.starts_with(':'));
            rest = if is_first { "" } else { behind_value(value, quote) };
        }
        is_first = is_first && name.chars().all(starts_line);
    }
    out + rest
}

/// The secret behind the name of one; none if the name is no secret's, or nothing is left to be hidden.
fn value_of<'a>(name: &str, after: &'a str) -> Option<&'a str> {
    let sign = after.trim_start_matches(|c: char| c.is_whitespace() || is_quote(c));
    let value = match (sign.strip_prefix('='), sign.strip_prefix(':')) {
        (Some(value), _) if is_secret_name(name) || (takes_user(name) && has_password(value)) => value,
        (_, Some(value)) if is_secret_name(name) => value,
        (None, None) => {
            let value = after.trim_start_matches(is_quote).strip_prefix(char::is_whitespace)?;
            Some(value).filter(|value| is_secret_after(name, value))?
        }
        _ => return None,
    };
    Some(value.trim_start()).filter(|value| !value.is_empty() && !value.starts_with(REDACTED))
}

/// Of HTTP's authentication: the secret is the next word.
const SCHEMES: [&str; 6] = ["bearer", "basic", "digest", "negotiate", "apikey", "token"];

/// What stands behind a value, which ends at its closing quote, at the one that was opened before its name, or else where a word ends.
fn behind_value(value: &str, opened: Option<char>) -> &str {
    let ends_word = |c: char| c.is_whitespace() || is_quote(c) || matches!(c, '&' | ';' | '}');
    if let Some(own) = value.chars().next().filter(|c| is_quote(*c)) {
        let behind = value.strip_prefix(own).map(|value| from_end(value, |c| c == own)).unwrap_or_default();
        return behind.strip_prefix(own).unwrap_or_default();
    }
    if let Some(opened) = opened {
        return from_end(value, |c| c == opened);
    }
    let behind = from_end(value, ends_word);
    let word = value.strip_suffix(behind).unwrap_or_default();
    let is_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    if is_scheme { from_end(behind.trim_start(), ends_word) } else { behind }
}

/// The text from its first sign on that ends a value; one behind a backslash does not.
fn from_end(text: &str, ends: impl Fn(char) -> bool) -> &str {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let is_end = !is_escaped && ends(c);
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.and_then(|end| text.get(end..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_inside_a_text_are_taken_out() {
        for (text, shown) in [
            ("http://u:p@h:9200/x", "http://<redacted>@h:9200/x"),
            // A password may hold any sign, even if it should have been written otherwise.
            ("http://u:p/w@h:9200/x", "http://<redacted>@h:9200/x"),
            ("http://u:1/p@w%40x@h", "http://<redacted>@h"),
            ("http://u:p?#,w@h", "http://<redacted>@h"),
            ("SVC_SEARCH_URL=http://u:p/w@h", "SVC_SEARCH_URL=http://<redacted>@h"),
            ("SVC_TOKEN=a b", "SVC_TOKEN=<redacted>"),
            ("SVC_UNINSTALL='/opt/svc/rm' --password x -y", "SVC_UNINSTALL='/opt/svc/rm' --password <redacted> -y"),
            ("https://h/c?sv=2&sig=abc&x=1", "https://h/c?sv=2&sig=<redacted>&x=1"),
            ("a\rpassword: my pass phrase\rb", "a\rpassword: <redacted>\rb"),
            ("a: 1\r\ntoken: x y\nb: 2\n", "a: 1\r\ntoken: <redacted>\nb: 2\n"),
            ("postgres://u:p/w@1@h/db", "postgres://<redacted>@h/db"),
            ("a http://u:p@h, http://v:q@i", "a http://<redacted>@h, http://<redacted>@i"),
            ("http://h/x?token=abc&y=1", "http://h/x?token=<redacted>&y=1"),
            ("host=h password=abc dbname=d", "host=h password=<redacted> dbname=d"),
            ("host=h password='a b' dbname=d", "host=h password=<redacted> dbname=d"),
            ("# password: hunter2 or so", "# password: <redacted>"),
            ("password = my pass phrase", "password = <redacted>"),
            ("run --password hunter2 -v", "run --password <redacted> -v"),
            ("{\"token\": \"abc\", \"x\": 1}", "{\"token\": <redacted>, \"x\": 1}"),
            ("Authorization: Bearer abc", "Authorization: <redacted>"),
            ("U=\"curl -H 'Authorization: Bearer abc-d' https://h\"", "U=\"curl -H 'Authorization: <redacted>' https://h\""),
            ("curl -H 'authorization: token abc' -v", "curl -H 'authorization: <redacted>' -v"),
            ("curl -H X-Api-Key:\\ abc -v", "curl -H X-Api-Key:<redacted> -v"),
            ("send Authorization: Bearer abc to", "send Authorization: <redacted> to"),
            ("send Proxy-Authorization: Basic abc= to", "send Proxy-Authorization: <redacted> to"),
            ("send Authorization=apikey abc; then", "send Authorization=<redacted>; then"),
            ("run -password hunter2 -v", "run -password <redacted> -v"),
            ("a \"password\": \"x\\\"y z\", b", "a \"password\": <redacted>, b"),
            ("http://u:p@h,http://v:q@i", "http://<redacted>@h,http://<redacted>@i"),
            ("psql //u:x@h/db", "psql //<redacted>@h/db"),
            ("redis //:x@h", "redis //<redacted>@h"),
            ("root:x@tcp(h:3306)/db", "<redacted>@tcp(h:3306)/db"),
            ("dsn=root:x/y@z@tcp(h)/db", "dsn=<redacted>@tcp(h)/db"),
            ("'u:p@h', \"v:q@i\"", "'<redacted>@h', \"<redacted>@i\""),
            ("curl -u a:x http://h", "curl -u <redacted> http://h"),
            ("curl --user=a:x -k h", "curl --user=<redacted> -k h"),
            ("curl -u a http://h", "curl -u a http://h"),
            ("git@host:path to me@example.org at 12:30", "git@host:path to me@example.org at 12:30"),
            ("registry/app:1.2@sha256:ab", "registry/app:1.2@sha256:ab"),
            ("app:1.2@sha256:ab", "app:1.2@sha256:ab"),
            ("https://host:9200/path", "https://host:9200/path"),
            // That may be a password with a slash in it.
            ("https://host/a@b", "https://<redacted>@b"),
            ("password_file: /etc/x", "password_file: /etc/x"),
            ("session:", "session:"),
            ("# To be changed before use", "# To be changed before use"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    /// A pass that is not linear takes very long for these.
    #[test]
    fn secret_in_long_line_is_redacted() {
        for part in [" ", "a", "=", "a=", "a ", "'", "a://", ",a:", "//@", "-u a ", "{\"a\":1}", "a: '"] {
            let long = part.repeat(200_000 / part.len());
            let shown = sentence_without_secrets(&format!("{long} https://u:s3cr3t@h"));
            assert!(!shown.contains("s3cr3t"), "{part}");
        }
    }

    #[test]
    fn url_user_ends_at_last_at_sign() {
        for (rest, user, host) in [
            ("h:9200/x", None, "h:9200/x"),
            ("u:p%40w@h:9200/x/", Some("u:p%40w"), "h:9200/x/"),
            ("u:p@w@h", Some("u:p@w"), "h"),
            ("u:1/p@h", Some("u:1/p"), "h"),
            ("h/a@b", Some("h/a"), "b"),
            ("@h", Some(""), "h"),
        ] {
            assert_eq!(user_of_url(rest), (user, host), "{rest}");
        }
    }

    #[test]
    fn secrets_inside_json_are_taken_out() {
        for (said, shown) in [
            (r#"{"location":"/x"}"#, r#"{"location":"/x"}"#),
            (r#"{"client.secret_key":"s"}"#, r#"{"client.secret_key":"<redacted>"}"#),
            (r#"{"credentials":{"a":"s"}}"#, r#"{"credentials":"<redacted>"}"#),
            (r#"{"uri":"hdfs://host:1/"}"#, r#"{"uri":"hdfs://host:1/"}"#),
            (r#"{"url":"http://me:p@w,#?@host"}"#, r#"{"url":"http://<redacted>@host"}"#),
            (r#"{"urls":["http://me:pw@a/",1]}"#, r#"{"urls":["http://<redacted>@a/",1]}"#),
            (r#"{"conf":{"a":{"uri":"hdfs://me:pw@host"}}}"#, r#"{"conf":{"a":{"uri":"hdfs://<redacted>@host"}}}"#),
            (r#"{"url":"https://h?sig=abc"}"#, r#"{"url":"https://h?sig=<redacted>"}"#),
            (
                r#"[r] Found [Metadata{r}{fs}{"address":"http://me:pw@far/","client.key":"pw","chunk_size":"1mb"}{2}]"#,
                r#"[r] Found [Metadata{r}{fs}{"address":"http://<redacted>@far/","client.key":"<redacted>","chunk_size":"1mb"}{2}]"#,
            ),
            ("cannot reach http://me:pw@far:1 for you@home", "cannot reach http://<redacted>@far:1 for you@home"),
            (r#"half {"a":"ftp://me:pw@far/"#, r#"half {"a":"ftp://<redacted>@far/"#),
            (
                "[svc-3][127.0.0.1:26464][internal:admin/repository/verify]",
                "[svc-3][127.0.0.1:26464][internal:admin/repository/verify]",
            ),
        ] {
            assert_eq!(sentence_without_secrets(said), shown);
        }
    }

    #[test]
    fn argument_after_secret_flag_is_taken_out() {
        let words = ["run", "--password", "hunter2", "-u", "a:x", "--token", "-v", "--password-file", "f", "x=1", "token=y"];
        let shown = arguments_without_secrets(&words.map(str::to_owned)).join(" ");
        assert_eq!(shown, "run --password <redacted> -u <redacted> --token -v --password-file f x=1 token=<redacted>");
    }

    #[test]
    fn given_words_are_taken_out_wherever_they_stand() {
        let words = ["--licence=AB-12", "t0p s3cret", "1", "-y"].map(|word| word.as_bytes().to_vec());
        let shown = |text: &[u8]| String::from_utf8(without_arguments(text, &words)).unwrap();
        assert_eq!(
            shown(b"+ x --licence=AB-12 1 -y\nlicence AB-12, (t0p s3cret)t0p s3cret"),
            "+ x <redacted> 1 -y\nlicence <redacted>, (<redacted>)<redacted>"
        );
        assert_eq!(without_arguments(b"\xff1 t0p", &words), b"\xff1 t0p");
    }

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    /// Where a secret may stand in a line. None of these holds a letter of a secret.
    const PLACES: [&str; 22] = [
        "http://u:{}@h:1/x",
        "a=https://u:{}@h b",
        "[http://u:{}@h, http://v:{}@h]",
        "{url: 'amqp://u:{}@h//v', x: 1}",
        "https://{}@h/x.git",
        "redis://:{}@h:1/0",
        "mongodb://u:{}@h,i/d?x=1",
        "jdbc:postgresql://h/d?user=u&password={}&x=1",
        "host=h password={} x=1",
        "run --password {} -v",
        "run --api-key={} -v",
        "dsn = root:{}@tcp(h:1)/d",
        "# old: '//u:{}@h'",
        "Authorization: Bearer {}",
        "curl -H 'authorization: bearer {}' -v",
        "u=\"curl -H proxy-authorization:basic {} -v\"",
        "send authorization: digest {} x",
        "send x-auth: apikey {} x",
        "curl -H \"private-token: {}\" x",
        "run -password {} -v",
        "; db_password = {}",
        "\"clientSecret\" : \"{}\", \"x\": 1",
    ];

    proptest! {
        // The same cases in every run.
        #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn secret_in_any_known_place_is_redacted(place in prop::sample::select(PLACES.to_vec()), secret in "[A-Z0-9][A-Z0-9!$%^*+./:~@#_-]{6,14}[A-Z0-9]") {
            // That looks like a second URL.
            prop_assume!(!secret.contains("://"));
            let shown = without_secrets(&place.replace("{}", &secret));
            prop_assert!(shown.contains(REDACTED), "{} became {}", secret, shown);
            // Nor a part of it, such as what stands behind a sign in it.
            let left = shown.replace(REDACTED, "").chars().filter(|c| c.is_ascii_uppercase() || c.is_ascii_digit()).collect::<String>();
            let place = place.chars().filter(|c| c.is_ascii_uppercase() || c.is_ascii_digit()).collect::<String>();
            prop_assert!(left.len() <= place.len(), "{} in {} became {}", secret, place, shown);
        }
    }
}
