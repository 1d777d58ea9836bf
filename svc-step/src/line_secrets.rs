//! The one redactor: secrets inside a text, in URLs and connection strings, behind their names, behind flags, in JSON. Its table of cases is
//! the test below.

use serde_json::{Map, Value};

use crate::secret::{REDACTED, is_secret_name};

/// A text as it may be shown.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    text.split_inclusive(['\n', '\r'])
        .map(|line| {
            let (line, end) = line.split_at_checked(line.trim_end_matches(['\n', '\r']).len()).unwrap_or((line, ""));
            // First what has a name: a sign of it must not be taken for the end of a user in a URL.
            users(&url_users(&after_names(line))) + end
        })
        .collect()
}

/// The lines of a text, which ends them with LF, CRLF or a CR alone, as YAML does.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

/// JSON members as they may be shown: by their names, and else by what their texts hold.
#[must_use]
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
#[must_use]
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

/// A text without the words that are not to be shown, wherever they stand in it: those of at least four bytes, and what stands behind their
/// first `=`.
#[must_use]
pub fn without_words(text: &[u8], words: &[Vec<u8>]) -> Vec<u8> {
    let parts = |word: &'_ Vec<u8>| [word.clone(), word.splitn(2, |byte| *byte == b'=').nth(1).unwrap_or_default().to_vec()];
    let mut hidden: Vec<Vec<u8>> = words.iter().flat_map(parts).filter(|word| word.len() >= 4).collect();
    hidden.sort_by_key(|word| std::cmp::Reverse(word.len()));
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

/// Whether a word on a command line is a flag whose next word is a secret, as `--password`.
#[must_use]
pub fn is_secret_flag(word: &str) -> bool {
    word.starts_with('-') && !word.contains(['=', ' ']) && is_secret_name(word)
}

/// Whether a word on a command line is a flag whose next word may be `user:password`, as curl's `-u`.
#[must_use]
pub fn takes_user(word: &str) -> bool {
    matches!(word, "-u" | "-U" | "--user" | "--proxy-user")
}

/// Whether the first word of `text` is `user:password`.
#[must_use]
pub fn has_password(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
}

/// User and password in a URL, of which `rest` is what stands behind `://`; and host and path. A password may hold any sign, so
/// everything up to the last `@` is taken for them, although that may be of a path.
#[must_use]
pub fn user_of_url(rest: &str) -> (Option<&str>, &str) {
    rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host))
}

/// Takes user and password out of URLs with a scheme.
fn url_users(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(after.len());
        let (url, behind) = after.split_at_checked(end).unwrap_or((after, ""));
        match user_of_url(url) {
            // Several URLs without a blank between: each on its own.
            (Some(user), host) if !user.contains("://") => {
                out.push_str(&format!("{REDACTED}@{host}"));
                rest = behind;
            }
            _ => rest = after,
        }
    }
    out.push_str(rest);
    out
}

/// Takes `user:password` out from before an `@` where no scheme is named: `//u:p@h`, `root:p@tcp(h)/db`.
fn users(line: &str) -> String {
    if !line.contains('@') {
        return line.to_owned();
    }
    let ends_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ',' | '(' | '[' | '{');
    let mut out = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let word_end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(rest.len());
        let (word, behind) = rest.split_at_checked(word_end).unwrap_or((rest, ""));
        let slashes = if word.starts_with("//") { 2 } else { 0 };
        let (slashes, tail) = word.split_at_checked(slashes).unwrap_or(("", word));
        let is_sum = |host: &str| host.starts_with("sha256:") || host.starts_with("sha512:");
        let found = tail.rsplit_once('@').filter(|(user, host)| is_user(user, slashes) && !is_sum(host));
        if let Some((_, host)) = found {
            out.push_str(&format!("{slashes}{REDACTED}@{host}"));
            rest = behind;
            continue;
        }
        // The next word may start inside of this one: behind a `=`, a bracket, a quote.
        let next = rest.char_indices().find(|(_, c)| ends_word(*c)).map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (done, more) = rest.split_at_checked(next).unwrap_or((rest, ""));
        out.push_str(done);
        rest = more;
    }
    out
}

/// Whether this is `name:password`; behind slashes the name may be missing.
fn is_user(text: &str, slashes: &str) -> bool {
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-');
    text.split_once(':').is_some_and(|(name, password)| {
        let is_url = password.starts_with("//") || password.contains("://");
        !password.is_empty() && !is_url && name.chars().all(of_name) && (!name.is_empty() || !slashes.is_empty())
    })
}

/// Takes out what follows `password=`, `token: ` or `--secret ` inside a line: to the end of the line where the name starts
/// it, else to the end of the word.
fn after_names(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['=', ':', ' ']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let mut signs = from.chars();
        let sign = signs.next();
        let after = signs.as_str();
        out.push_str(before);
        out.extend(sign);
        rest = after;
        let (name, first) = name_at_end_of(&out);
        let names = is_secret_name(&name) && (sign != Some(' ') || name.starts_with("--"));
        let names = names || (sign != Some(':') && takes_user(&name) && has_password(after));
        if !names || after.trim().is_empty() {
            continue;
        }
        let blank = after.len() - after.trim_start().len();
        let (blank, value) = after.split_at_checked(blank).unwrap_or(("", after));
        if value.starts_with(REDACTED) || (sign == Some(' ') && value.starts_with(['=', ':'])) {
            continue;
        }
        out.push_str(blank);
        out.push_str(REDACTED);
        rest = if first { "" } else { behind_value(value) };
    }
    out.push_str(rest);
    out
}

/// The name that ends before the last sign of `text`, and whether it is the first thing of the line.
fn name_at_end_of(text: &str) -> (String, bool) {
    let mut signs = text.chars();
    signs.next_back();
    let head = signs.as_str().trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let start = head.char_indices().rev().take_while(|(_, c)| of_name(*c)).last().map_or(head.len(), |(at, _)| at);
    let (before, name) = head.split_at_checked(start).unwrap_or(("", head));
    let first = before.chars().all(|c| c.is_whitespace() || matches!(c, '#' | ';' | '-' | '"' | '\'' | '+' | '!'));
    (name.to_owned(), first)
}

/// What stands behind a value, which ends at its closing quote, or else where a word ends.
fn behind_value(value: &str) -> &str {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let end = match quote {
        Some(quote) => value.char_indices().skip(1).find(|(_, c)| *c == quote).map(|(at, c)| at + c.len_utf8()),
        None => value.find(|c: char| c.is_whitespace() || matches!(c, '&' | ';' | '}' | '"' | '\'')),
    };
    end.and_then(|end| value.get(end..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_inside_a_text_are_taken_out() {
        for (text, shown) in [
            ("http://u:p@h:9200/x", "http://<redacted>@h:9200/x"),
            // A password may hold any sign, also where it should have been written otherwise.
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

    #[test]
    fn what_stands_before_the_last_at_sign_of_a_url_is_its_user() {
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
    fn given_words_are_taken_out_wherever_they_stand() {
        let words = ["--licence=AB-12", "t0p s3cret", "1", "-y"].map(|word| word.as_bytes().to_vec());
        let shown = |text: &[u8]| String::from_utf8(without_words(text, &words)).unwrap();
        assert_eq!(
            shown(b"+ x --licence=AB-12 1 -y\nlicence AB-12, (t0p s3cret)t0p s3cret"),
            "+ x <redacted> 1 -y\nlicence <redacted>, (<redacted>)<redacted>"
        );
        assert_eq!(without_words(b"\xff1 t0p", &words), b"\xff1 t0p");
    }

    #[test]
    fn a_line_ends_at_each_sign_that_ends_one() {
        for (text, found) in
            [("", vec![""]), ("a\nb", vec!["a", "b"]), ("a\r\nb\n", vec!["a", "b"]), ("a\rb\r\r\nc", vec!["a", "b", "", "c"])]
        {
            assert_eq!(lines(text).collect::<Vec<_>>(), found, "{text:?}");
        }
    }

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    /// Where a secret may stand in a line. None of these holds a letter of a secret.
    const PLACES: [&str; 16] = [
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
        "; db_password = {}",
        "\"clientSecret\" : \"{}\", \"x\": 1",
    ];

    proptest! {
        // The same cases in every run.
        #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_a_secret_is_and_wherever_it_stands_it_is_not_shown(place in prop::sample::select(PLACES.to_vec()), secret in "[A-Z0-9][A-Z0-9!$%^*+./:~@#_-]{6,14}[A-Z0-9]") {
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
