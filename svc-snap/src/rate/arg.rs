//! `--rate`: how fast, as it is written on the command line and as the servers write it.

/// How fast a snapshot is taken or brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rate {
    /// As the search database has it.
    Server,
    /// Without a throttle.
    Unlimited,
    /// So many bytes a second, as the server writes sizes: `100mb`.
    Size(String),
}

/// How fast.
#[derive(Debug, Clone, clap::Args)]
pub struct RateArg {
    #[arg(long, value_name = "unlimited|SIZE|server", env = "SVC_SEARCH_RATE", default_value = "server",
          value_parser = rate, allow_hyphen_values = true)]
    pub(crate) rate: Rate,
}

/// A rate below this one blocks every snapshot of the node for hours: the server sleeps in the throttle, and cannot be cancelled.
const LEAST_KB: u64 = 64;

fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "server" => return Ok(Rate::Server),
        "unlimited" => return Ok(Rate::Unlimited),
        _ => {}
    }
    let no_rate = || format!("`{text}` is no rate: write unlimited, server, or a size a second such as 100mb");
    let lower = text.to_ascii_lowercase();
    let (number, unit) = lower.split_at(lower.find(|one: char| !one.is_ascii_digit()).unwrap_or(lower.len()));
    let number: u64 = number.parse::<u32>().map_err(|_| no_rate())?.into();
    let (unit, kilobytes) = match unit {
        "k" | "kb" => ("kb", number),
        "m" | "mb" => ("mb", number << 10),
        "g" | "gb" => ("gb", number << 20),
        _ => return Err(no_rate()),
    };
    if kilobytes < LEAST_KB {
        return Err(format!("{text} a second would never end: say {LEAST_KB}kb or more, or unlimited to take the throttle off"));
    }
    Ok(Rate::Size(format!("{number}{unit}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_word_or_a_size_a_second() {
        for (text, expected) in [("100mb", "100mb"), ("100MB", "100mb"), ("2g", "2gb"), ("64k", "64kb"), ("0070k", "70kb")] {
            assert_eq!(rate(text), Ok(Rate::Size(expected.to_owned())), "{text}");
        }
        assert_eq!((rate("unlimited"), rate("server")), (Ok(Rate::Unlimited), Ok(Rate::Server)));
        for bad in ["", "fast", "0", "0mb", "5", "100b", "63kb", "-1", "1.5mb", "mb", "10mb/s", "99999999999g"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
