//! A small HTTP client for what tests ask the search database themselves, beside the tools.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use ureq::http::Request;

/// Sends one request, with a JSON body or none, and returns the status and the answer; an answer that is no JSON comes as a
/// string. An HTTP error status is an answer, not a failure.
pub fn request(method: &str, url: &str, body: Option<&Value>) -> Result<(u16, Value)> {
    let text = body.map(Value::to_string).unwrap_or_default();
    send(method, url, "application/json", text)
}

/// Sends a `_bulk` request whose body are lines of JSON; fails unless every line was accepted.
pub fn bulk(url: &str, lines: &str) -> Result<()> {
    let (status, answer) = send("POST", &format!("{url}/_bulk?refresh=true"), "application/x-ndjson", lines.to_owned())?;
    ensure!(status == 200 && answer["errors"] == false, "the bulk request was not accepted: {status} {answer}");
    Ok(())
}

/// Sends a body of lines of JSON, such as a `_bulk` request's, and returns the answer, whatever was accepted of it.
pub fn lines(url: &str, lines: String) -> Result<Value> {
    send("POST", url, "application/x-ndjson", lines).map(|(_, answer)| answer)
}

/// Like [`request`], and fails unless the status is 2xx.
pub fn expect(method: &str, url: &str, body: Option<&Value>) -> Result<Value> {
    let (status, answer) = request(method, url, body)?;
    ensure!((200..300).contains(&status), "{method} {url}: {status} {answer}");
    Ok(answer)
}

fn send(method: &str, url: &str, content_type: &str, text: String) -> Result<(u16, Value)> {
    let config = ureq::Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true).proxy(None);
    let agent: ureq::Agent = config.timeout_global(Some(crate::wait::HANG)).build().into();
    let request = Request::builder().method(method).uri(url);
    let answer = if text.is_empty() {
        agent.run(request.body(())?)
    } else {
        agent.run(request.header("content-type", content_type).body(text)?)
    };
    let mut answer = answer.with_context(|| format!("{method} {url}"))?;
    let status = answer.status().as_u16();
    let text = answer.body_mut().with_config().limit(1 << 30).read_to_string()?;
    Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
}
