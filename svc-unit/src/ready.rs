//! Ready means: the service answers, not only runs.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use clap::Args;
use svc_step::{Call, Failure};

use crate::manager;
use crate::report::Report;
use crate::settle::{Look, died, look};

/// How long is waited between two tries.
const BETWEEN: Duration = Duration::from_millis(500);
/// How long one try may take.
const TRY: Duration = Duration::from_secs(5);

/// What must answer before the unit counts as started.
#[derive(Debug, Clone, Default, Args)]
pub struct ReadyArgs {
    /// Wait until a GET of this URL answers with a 2xx status
    #[arg(long, value_name = "URL", value_parser = url)]
    ready_url: Option<String>,
    /// Wait until a TCP connection is accepted there
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    ready_tcp: Option<String>,
}

fn url(text: &str) -> Result<String, String> {
    let uri: ureq::http::Uri = text.parse().map_err(|error| format!("`{text}` is no URL: {error}"))?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    // The URL is part of messages, so a password has no place in it.
    match uri.authority() {
        Some(authority) if known && !authority.as_str().contains('@') => Ok(text.to_owned()),
        Some(_) if known => Err("a URL with a user and password in it would be readable in the process list".to_owned()),
        _ => Err(format!("`{text}` is no URL: write http://HOST:PORT/PATH")),
    }
}

fn address(text: &str) -> Result<String, String> {
    let good =
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    if good { Ok(text.to_owned()) } else { Err(format!("`{text}` is not of the form HOST:PORT")) }
}

/// Waits until what was asked for answers, while the unit holds.
///
/// # Errors
/// The unit ended or was restarted meanwhile (1), nothing answered within the time limit (6), a signal.
pub(crate) fn wait(call: &Call, args: &ReadyArgs, report: &mut Report) -> Result<(), Failure> {
    if args.ready_url.is_none() && args.ready_tcp.is_none() {
        return Ok(());
    }
    let base = report.after.clone();
    // A oneshot unit that has done its work has nothing to hold; what it has set up may still have to become ready.
    let holds = !base.has_done_its_work();
    loop {
        let why = unready(call, args);
        // Also after an answer: it may have come from somebody else, the unit having died meanwhile.
        let state = manager::state(call, &report.unit());
        report.after = state.map_err(|failure| not_ready(failure, report, why.as_deref().unwrap_or_default()))?;
        if holds && matches!(look(&report.after, Some(&base)), Look::AtRest | Look::Restarted) {
            return Err(died(report, true));
        }
        let Some(why) = why else { return Ok(()) };
        call.pause(BETWEEN).map_err(|failure| not_ready(failure, report, &why))?;
    }
}

fn not_ready(failure: Failure, report: &Report, why: &str) -> Failure {
    if failure.code != "timeout" {
        return failure.cause(why);
    }
    Failure::timeout(
        "not_ready",
        format!("{} is {}, and did not answer within the time limit.", report.unit, report.after.phrase()),
    )
    .hint(format!("Look at the service's own log; svc-unit wait {} with the same --ready flags waits on.", report.unit()))
    .cause(why)
}

/// Why it is not ready; `None` where it is.
fn unready(call: &Call, args: &ReadyArgs) -> Option<String> {
    let tcp = args.ready_tcp.as_deref().and_then(|address| refuses(call, address));
    tcp.or_else(|| args.ready_url.as_deref().and_then(|url| declines(url, limit(call))))
}

/// How long the next try may take.
fn limit(call: &Call) -> Duration {
    call.deadline().at_most(TRY).max(Duration::from_millis(1))
}

fn refuses(call: &Call, address: &str) -> Option<String> {
    let mut why = format!("{address} has no address");
    match address.to_socket_addrs() {
        Err(error) => why = format!("{address}: {error}"),
        Ok(found) => {
            for one in found {
                if call.check().is_err() {
                    break;
                }
                match TcpStream::connect_timeout(&one, limit(call)) {
                    Ok(_) => return None,
                    Err(error) => why = format!("{one}: {error}"),
                }
            }
        }
    }
    Some(why)
}

fn declines(url: &str, limit: Duration) -> Option<String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(limit))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .build()
        .into();
    match agent.get(url).call() {
        Ok(answer) if answer.status().is_success() => None,
        Ok(answer) => Some(format!("{url} answers {}", answer.status())),
        Err(error) => Some(format!("{url}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls_are_checked_when_they_are_typed() {
        assert!(address("127.0.0.1:80").is_ok() && address("[::1]:80").is_ok());
        assert!(
            address("nonsense").is_err() && address(":80").is_err() && address("a:0").is_err() && address("a:99999").is_err()
        );
        assert!(url("http://127.0.0.1:8080/ready").is_ok() && url("https://svc.example").is_ok());
        assert!(url("ftp://x/").is_err() && url("/ready").is_err() && url("http://u:p@h/").is_err());
    }
}
