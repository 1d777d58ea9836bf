//! The one loop that observes a unit; stable: active, the same main process, no restart for `--settle`; ready: the service answers.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use svc_step::progress::Unit::Items;
use svc_step::redact::without_secrets;
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, deadline, file};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::report::Report;
use crate::state::State;
use crate::systemctl;

/// How often the state is read, unless less is left to wait.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// Gets the state into `report.after` until `left` has nothing left to wait for; it says how long until the next time, at most.
pub(crate) fn until(
    call: &Call,
    report: &mut Report,
    doing: &str,
    mut left: impl FnMut(&Report) -> Result<Option<Duration>, Failure>,
) -> Result<(), Failure> {
    let progress = call.progress(&format!("{doing} {}", report.unit.name), Items("s"));
    let started = Instant::now();
    loop {
        report.after = systemctl::state(call, "status", &report.unit)?;
        progress.set(started.elapsed().as_secs(), 0, None);
        progress.at(&report.after.phrase());
        match left(report)? {
            Some(time) => call.pause(time.min(INTERVAL))?,
            None => return Ok(()),
        }
    }
}

/// Whether the unit ended, or was started again, since it was in that state (or waits to be).
fn is_broken(now: &State, since: Option<&State>) -> bool {
    now.is_inactive() || now.is_between_restarts() || since.is_some_and(|since| !now.is_same_run(since))
}

/// Active for the first time, or with a main process that was handed over: it counts from now.
fn is_new(now: &State, since: Option<&State>) -> bool {
    now.is_active() && since.is_none_or(|since| now.main_pid != since.main_pid)
}

/// Waits until the unit has been stable for `wanted`. `by_others`: somebody else starts it, so it counts again after a restart,
/// and an inactive unit is waited for; else either is a failure.
pub(crate) fn until_stable(call: &Call, report: &mut Report, wanted: Duration, by_others: bool) -> Result<(), Failure> {
    let mut since: Option<(State, Instant, Duration)> = None;
    // A oneshot unit that was seen at its work and is inactive then has done it; one that was not started is no longer here.
    let mut worked = report.after.is_starting() || report.requested_at.is_some();
    until(call, report, "wait for", |report| {
        let (now, then) = (&report.after, since.as_ref().map(|(state, ..)| state));
        worked |= now.is_starting();
        if worked && now.has_done_its_work() {
            return Ok(None);
        }
        if is_broken(now, then) {
            if !by_others || (now.is_inactive() && now.active_state == "failed") {
                return Err(died(report, since.is_some()));
            }
            since = None;
        } else if now.is_active() && now.sub_state == "exited" {
            return Ok(None);
        } else if is_new(now, then) {
            // From when it became active, so that one that has been so for long need not be observed.
            let age = if since.is_none() { now.active_for() } else { Duration::ZERO };
            since = Some((now.clone(), Instant::now(), age));
        }
        let stable_for = since.as_ref().filter(|_| now.is_active()).map(|(_, from, age)| from.elapsed() + *age);
        let left = stable_for.map_or(INTERVAL, |time| wanted.saturating_sub(time));
        Ok((!left.is_zero()).then_some(left))
    })
}

/// The failure of a unit that did not start or did not stay active.
pub(crate) fn died(report: &Report, was_active: bool) -> Failure {
    let (unit, flag, now) = (&report.unit.name, report.unit.manager.flag(), &report.after);
    let quoted = shell_quoted(&[unit]);
    // Nothing of the result is of this request: systemd leaves the former one if it refuses a further start.
    let is_former = report.requested_at.is_some() && now.invocation_id == report.before.invocation_id;
    let was_refused = is_former && now.active_state == "failed";
    // A unit may be active for a moment in which nobody looks: systemd has written it down.
    let what = match (was_refused, was_active || now.active_enter_epoch_ms >= report.requested_epoch_ms.or(Some(u64::MAX))) {
        (true, _) => "was not started again by systemd",
        (false, true) => "started but did not stay active",
        (false, false) => "did not start",
    };
    let hint = if was_refused || now.result == "start-limit-hit" {
        format!("Started too often in a short time? Fix it, then systemctl {flag}reset-failed {quoted}, and start it again.")
    } else if now.active_state == "inactive" && matches!(now.result.as_str(), "success" | "") {
        format!(
            "Its program ended by itself, a condition of the unit is not met, or a unit that it requires failed: systemctl {flag}status {quoted}."
        )
    } else {
        format!("Read why with journalctl {flag}-u {quoted} (result.journal has the last lines); then start it again.")
    };
    Failure::failed("unit_failed", format!("{unit} {what}: it is {}.", now.phrase())).hint(hint)
}

/// How long the unit must be stable, and what must answer, before it counts as started.
#[derive(Debug, Args)]
pub(crate) struct ReadyArgs {
    /// How long it must be active with the same main process and without a restart
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = deadline::parse)]
    settle: Duration,
    /// Wait until a GET of this URL answers with a 2xx status
    #[arg(long, value_name = "URL", value_parser = url)]
    ready_url: Option<String>,
    /// Trust only the certificates of this PEM file (default: the well-known authorities)
    #[arg(long, value_name = "FILE", requires = "ready_url")]
    ready_ca: Option<PathBuf>,
    /// Wait until a TCP connection is accepted there
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    ready_tcp: Option<String>,
}

fn url(text: &str) -> Result<String, String> {
    let uri: ureq::http::Uri = text.parse().map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err("a URL with a user and password in it would be readable in the process list".to_owned())
        }
        (Some("http" | "https"), Some(_)) => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not a URL: write http://HOST:PORT/PATH")),
    }
}

fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0) => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not of the form HOST:PORT")),
    }
}

pub(crate) struct Ready {
    pub settle: Duration,
    tcp: Option<String>,
    url: Option<(String, Agent)>,
}

impl ReadyArgs {
    /// Reads the certificates, before anything is changed.
    pub(crate) fn ready(&self) -> Result<Ready, Failure> {
        let roots = match &self.ready_ca {
            Some(path) => file::certificates(path, "--ready-ca")?.iter().map(|one| Certificate::from_der(one).to_owned()).into(),
            None => RootCerts::WebPki,
        };
        let agent = || {
            let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
            config.tls_config(TlsConfig::builder().root_certs(roots).build()).build().into()
        };
        Ok(Ready { settle: self.settle, tcp: self.ready_tcp.clone(), url: self.ready_url.clone().map(|url| (url, agent())) })
    }
}

impl Ready {
    /// Waits until everything that was named answers while the unit stays as it is.
    pub(crate) fn until_answered(&self, call: &Call, report: &mut Report) -> Result<(), Failure> {
        if self.tcp.is_none() && self.url.is_none() {
            return Ok(());
        }
        let since = report.after.clone();
        let mut answer = Err(String::new());
        let waited = until(call, report, "wait for an answer of", |report| {
            // A oneshot unit that has done its work is stable; what it has set up may still have to become ready.
            if !since.has_done_its_work() && is_broken(&report.after, Some(&since)) {
                return Err(died(report, true));
            }
            // Only the state after an answer ends it: the answer may be somebody else's, the unit having died meanwhile.
            if answer.is_ok() {
                return Ok(None);
            }
            answer = match (self.ask(call), &answer) {
                // What the time limit has ended says nothing.
                (Err(_), Err(last)) if !last.is_empty() && call.check().is_err() => Err(last.clone()),
                (now, _) => now,
            };
            Ok(Some(if answer.is_ok() { Duration::ZERO } else { INTERVAL }))
        });
        waited.map_err(|failure| {
            let why = without_secrets(&answer.err().unwrap_or_default());
            if failure.code != "timeout" {
                return failure.cause(why);
            }
            let (unit, state) = (shell_quoted(&[report.unit.to_string()]), report.after.phrase());
            let message = format!("{} is {state}, and did not answer within the time limit.", report.unit.name);
            let hint = format!("Read the service's own log; svc-unit wait {unit} with the same --ready options continues.");
            Failure::timeout("not_ready", message).hint(hint).cause(why)
        })
    }

    fn ask(&self, call: &Call) -> Result<(), String> {
        if let Some(address) = &self.tcp {
            connect(call, address)?;
        }
        let Some((url, agent)) = &self.url else { return Ok(()) };
        match agent.get(url).config().timeout_global(Some(limit(call))).build().call() {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("{url} answers {}", answer.status())),
            Err(error) => Err(format!("{url}: {error}")),
        }
    }
}

fn connect(call: &Call, address: &str) -> Result<(), String> {
    let mut why = format!("{address} has no address");
    for one in address.to_socket_addrs().map_err(|error| format!("{address}: {error}"))?.take_while(|_| call.check().is_ok()) {
        match TcpStream::connect_timeout(&one, limit(call)) {
            Ok(_) => return Ok(()),
            Err(error) => why = format!("{one}: {error}"),
        }
    }
    Err(why)
}

/// How long the next attempt may take.
fn limit(call: &Call) -> Duration {
    call.deadline().at_most(Duration::from_secs(5)).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_is_stable_with_same_run_and_main_process() {
        let state = |text: &str| State::from(&text.split(' ').filter_map(|pair| pair.split_once('=')).collect());
        let first = state("ActiveState=active SubState=running MainPID=10 InvocationID=a");
        for (shown, broken, new) in [
            ("active SubState=running MainPID=10 InvocationID=a", false, false),
            ("reloading SubState=reload MainPID=10 InvocationID=a", false, false),
            ("deactivating SubState=stop-post InvocationID=a", false, false),
            ("active SubState=running MainPID=11 InvocationID=a", false, true),
            ("active SubState=running MainPID=11 InvocationID=b", true, true),
            ("active SubState=running MainPID=11 InvocationID=a NRestarts=1", true, true),
            ("activating SubState=auto-restart InvocationID=a", true, false),
            ("activating SubState=start-pre InvocationID=b", true, false),
            ("failed InvocationID=a", true, false),
            ("inactive", true, false),
        ] {
            let now = state(&format!("ActiveState={shown}"));
            assert_eq!((is_broken(&now, Some(&first)), is_new(&now, Some(&first))), (broken, new), "{shown}");
        }
        assert!(is_new(&first, None));
    }
}
