//! `--rate-limit`: the throttles of Elasticsearch and OpenSearch (40 MB/s by default), for the time of one step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_step::{Action, Call, Failure};

use crate::client::Server;
use crate::temporary::{Change, Left, Target, why};

/// A lower rate blocks every snapshot of the node for hours: the server sleeps in the throttle, and cannot be cancelled.
const LEAST: u64 = 64 << 10;

/// `none`, or a size a second as the server writes it (`100mb`); `None` leaves the throttle as the server has it.
pub(crate) type Rate = Option<String>;

#[derive(Debug, Clone, clap::Args)]
pub struct RateArg {
    #[arg(long = "rate-limit", value_name = "none|SIZE|server", env = "SVC_RATE_LIMIT", default_value = "server",
          value_parser = rate, allow_hyphen_values = true)]
    pub(crate) rate: Rate,
}

fn rate(text: &str) -> Result<Rate, String> {
    if ["none", "server"].contains(&text) {
        return Ok(Some(text.to_owned()).filter(|text| text == "none"));
    }
    let rate = text.to_ascii_lowercase();
    match size(&rate) {
        None => Err(format!("`{text}` is not a rate limit: write none, server, or a size a second such as 100mb")),
        Some(bytes) if bytes < LEAST => {
            Err(format!("{text} a second would never end: write 64kb or more, or none for no throttle"))
        }
        Some(_) => Ok(Some(rate)),
    }
}

/// A size as the servers write it: `500mb`, `20GB`; `-1` is none.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, unit) = text.split_at(text.find(|one: char| one.is_ascii_alphabetic()).unwrap_or(text.len()));
    let units = ["b", "kb", "mb", "gb", "tb", "pb"];
    let power = units.iter().position(|name| *name == unit || name.strip_suffix('b') == Some(unit))?;
    digits.parse::<u64>().ok()?.checked_mul(1 << (10 * power))
}

/// What became of a throttle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttle {
    /// What was asked for: `none`, or a size a second.
    pub asked: String,
    /// The setting: `max_snapshot_bytes_per_sec` of the repository, or `indices.recovery.max_bytes_per_sec` of the cluster.
    pub setting: String,
    /// Its value before; `null` if it was not set (the server's own default is 40 MB/s) or could not be read.
    pub was: Option<String>,
    /// Its value during the step; `null` if it was so already, or if a warning says why not.
    pub set: Option<String>,
    /// Whether it was put back; `null` if nothing was set, or if that is unknown (the next call that finds it changed puts it back).
    pub put_back: Option<bool>,
}

/// A repository's settings without the change of a run, and whether that was a run of this state directory, which has ended.
pub(crate) fn without_record(call: &Call, definition: &Value) -> (Map<String, Value>, bool) {
    let found = Target::Repository("").read(definition.clone());
    let (_, body) = found.restored();
    let settings = body.get("settings").and_then(Value::as_object).cloned().unwrap_or_default();
    (settings, found.record.is_some_and(|record| record.is_of_here(call)))
}

#[derive(Debug)]
pub(crate) struct Rates<'a> {
    pub left: Left<'a>,
    target: Target<'a>,
    pub used: Option<Throttle>,
    planned: Option<Change<'a>>,
}

impl<'a> Rates<'a> {
    /// What forbids a change is a warning (`setting_not_changed`), `why_not` for example.
    pub(crate) fn plan(
        call: &Call,
        server: &Server,
        target: Target<'a>,
        rate: &Rate,
        why_not: Option<&str>,
    ) -> Result<Self, Failure> {
        let left = Left::find(call, server, if let Target::Repository(name) = target { Some(name) } else { None })?;
        let setting = target.keys().0.to_owned();
        let used = rate.clone().map(|asked| Throttle { asked, setting, was: None, set: None, put_back: None });
        let mut rates = Self { left, target, used, planned: None };
        rates.planned = rates.change(call, server, why_not);
        call.check()?;
        Ok(rates)
    }

    /// How it is changed, by what the server has of it now; `None` if it is left as it is.
    fn change(&mut self, call: &Call, server: &Server, why_not: Option<&str>) -> Option<Change<'a>> {
        let used = self.used.as_mut()?;
        let none = if self.target == Target::Cluster { "-1" } else { "0" };
        let wanted = if used.asked == "none" { none } else { used.asked.as_str() }.to_owned();
        let server = server.interruptible();
        let found = match self.target.get(|path| server.get(path)) {
            Ok(found) => found,
            Err(failure) => return self.leave(call, &why(&failure)),
        };
        used.was = found.was();
        if used.was.as_ref() == Some(&wanted) {
            return None;
        }
        match why_not.map(str::to_owned).or_else(|| found.why_not_changeable(call, &server)) {
            Some(why) => self.leave(call, &why),
            None => Some(found.change(call, wanted, None)),
        }
    }

    fn leave<T>(&self, call: &Call, why: &str) -> Option<T> {
        call.warn("setting_not_changed", format!("Left as it is, {}: {}.", self.target.name(), why.trim_end_matches('.')));
        None
    }

    /// A plan's requests between those that change the throttle and put it back, after those that put back what dead runs have left.
    pub(crate) fn around(&self, requests: Vec<Action>) -> Vec<Action> {
        let requests = match &self.planned {
            Some(change) if !requests.is_empty() => change.around(requests),
            _ => requests,
        };
        self.left.actions().chain(requests).collect()
    }

    /// Does `work` at the rate that was asked for, and puts the throttle back on every way out.
    pub(crate) fn during<T>(&mut self, call: &Call, server: &Server, work: impl FnOnce() -> T) -> T {
        let made = self.make(call, server);
        let done = work();
        if let (Some(made), Some(used)) = (made, &mut self.used) {
            used.put_back = made.put_back_own(call, server);
        }
        done
    }

    /// By what the server has of it now, since it may have been changed after it was planned.
    fn make(&mut self, call: &Call, server: &Server) -> Option<Change<'a>> {
        self.planned.take()?;
        let made = match self.change(call, server, None)?.make(server) {
            Ok(made) => made,
            Err(failure) => return self.leave(call, &why(&failure)),
        };
        self.used.iter_mut().for_each(|used| used.set = Some(made.record.set.clone()));
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_is_keyword_or_size() {
        for (text, expected) in [("100mb", "100mb"), ("100MB", "100mb"), ("2g", "2g"), ("64k", "64k")] {
            assert_eq!(rate(text), Ok(Some(expected.to_owned())), "{text}");
        }
        assert_eq!((rate("none"), rate("server")), (Ok(Some("none".to_owned())), Ok(None)));
        for bad in ["", "fast", "0", "0mb", "5", "100b", "63kb", "-1", "1.5mb", "mb", "10mb/s", "99999999999g"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
