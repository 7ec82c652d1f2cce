//! Answers of a daemon: repeated status, and figures with units.

use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::time::Duration;

use lasthop_scenario::read_limited;
use lasthop_study::promise::Promise;
pub use lasthop_study::promise::digits;
use serde_json::Value;

use crate::cli::JsonArgs;
use crate::error::Error;
use crate::output::{count, print_json};
use crate::terminal::{fold, width};

/// Maximum size of a promise in bytes.
const LARGEST_PROMISE: u64 = 1 << 20;

/// Reads the promise of `lasthop advise`.
pub fn promise(path: &Path) -> Result<Promise, Error> {
    let bytes = read_limited(path, LARGEST_PROMISE).map_err(Error::file(path))?;
    Promise::read(&String::from_utf8_lossy(&bytes)).map_err(|error| Error::Promise { path: path.to_path_buf(), error })
}

/// Prints the answers of `ask`, as JSON or as `tell` formats them next to the previous answer; once, or at the interval
/// `watch`.
pub fn status(
    json: &JsonArgs,
    watch: Option<Duration>,
    ask: impl Fn() -> Result<Value, Error>,
    tell: impl Fn(&Value, Option<&Value>) -> String,
) -> Result<(), Error> {
    let mut before = None;
    loop {
        let answer = ask()?;
        let mut out = stdout().lock();
        match (json.json, watch) {
            (true, None) => return print_json(&answer),
            // One line per answer, for programs.
            (true, Some(_)) => writeln!(out, "{answer}")?,
            (false, None) => {
                let text = fold(&tell(&answer, None), width());
                return Ok(out.write_all(text.as_bytes())?);
            }
            (false, Some(_)) => {
                let text = fold(&tell(&answer, before.as_ref()), width());
                // On a terminal, replaces the previous answer: cursor home, then clear.
                let (begin, end) = if out.is_terminal() { ("\x1b[H\x1b[J", "") } else { ("", "\n") };
                write!(out, "{begin}{text}{end}")?;
            }
        }
        out.flush()?;
        drop(out);
        before = Some(answer);
        std::thread::sleep(watch.unwrap_or_default());
    }
}

/// Returns the rate in bits per second between two answers of the same worker.
pub fn rate_since(answer: &Value, before: Option<&Value>, bytes: &str) -> Option<f64> {
    let before = before.filter(|before| before.pointer("/worker") == answer.pointer("/worker"))?;
    let seconds = number(answer, "/uptime_seconds") - number(before, "/uptime_seconds");
    let carried = number(answer, bytes) - number(before, bytes);
    (seconds > 0.0 && carried >= 0.0).then(|| 8.0 * carried / seconds)
}

pub fn at(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64)
}

/// Returns 0 if the gateway's version does not report the value.
pub fn number(value: &Value, pointer: &str) -> f64 {
    at(value, pointer).unwrap_or_default()
}

pub fn counted(value: &Value, pointer: &str, what: &str) -> String {
    count(number(value, pointer) as usize, what)
}

pub fn word<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("?")
}

pub fn unit_of(bits: f64) -> (&'static str, f64) {
    match bits {
        bits if bits >= 1e9 => ("Gbit/s", 1e9),
        bits if bits >= 1e6 => ("Mbit/s", 1e6),
        _ => ("kbit/s", 1e3),
    }
}

pub fn rate(bits: f64) -> String {
    let (unit, size) = unit_of(bits);
    format!("{} {unit}", digits(bits / size))
}

pub fn bytes(bytes: f64) -> String {
    let (unit, size) = match bytes {
        bytes if bytes >= 1_073_741_824.0 => ("GiB", 1_073_741_824.0),
        bytes if bytes >= 1_048_576.0 => ("MiB", 1_048_576.0),
        bytes if bytes >= 1024.0 => ("KiB", 1024.0),
        _ => return format!("{bytes:.0} B"),
    };
    format!("{} {unit}", digits(bytes / size))
}

/// Formats a duration in its two largest units: "3 d 2 h", "1 min 4 s".
pub fn span(seconds: f64) -> String {
    let seconds = seconds as u64;
    let parts = [("d", seconds / 86_400), ("h", seconds / 3600 % 24), ("min", seconds / 60 % 60), ("s", seconds % 60)];
    let first = parts.iter().position(|(_, number)| *number > 0).unwrap_or(parts.len() - 1);
    let told = parts[first..].iter().take(2).enumerate().filter(|(place, (_, number))| *place == 0 || *number > 0);
    told.map(|(_, (unit, number))| format!("{number} {unit}")).collect::<Vec<_>>().join(" ")
}

/// Describes two arms that have no interval yet: goodputs, numbers of connections, and what is still missing.
fn few(flows: [usize; 2], goodputs: [Option<f64>; 2]) -> String {
    let arm = |index: usize, name: &str| match goodputs[index] {
        Some(bits) => format!("{} {name} ({})", rate(bits), count(flows[index], "connection")),
        None if flows[index] > 0 => format!("{} {name}", count(flows[index], "connection")),
        None => format!("none {name}"),
    };
    let ratio = match goodputs {
        [Some(with), Some(without)] if without > 0.0 => {
            format!(": {} times as fast so far (no interval yet)", digits(with / without))
        }
        _ => String::new(),
    };
    let missing = ["treated", "untreated"].into_iter().zip(flows).filter(|(_, flows)| *flows < 2);
    let missing: Vec<_> = missing.map(|(name, flows)| format!("{} more {name}", 2 - flows)).collect();
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!("; needs {}, of at least 100 kB each", missing.join(" and "))
    };
    format!("{}, {}{ratio}{missing}", arm(0, "treated"), arm(1, "untreated"))
}

/// Formats a gain: "13.9 Mbit/s treated (5 connections), 1.7 untreated (5): 8.3 times as fast (4.6-14.9, 95 %)"
pub fn gain(rule: &Value) -> String {
    let flows = ["/treated/flows", "/untreated/flows"].map(|arm| number(rule, arm) as usize);
    let goodputs = ["/treated/goodput_bps", "/untreated/goodput_bps"].map(|arm| at(rule, arm));
    let treated = |bits| format!("{} treated ({})", rate(bits), count(flows[0], "connection"));
    if word(rule, "/mode") == "observe" {
        return match goodputs {
            [_, Some(bits)] | [Some(bits), _] => {
                format!("{} ({}); nothing is treated", rate(bits), count(flows[0] + flows[1], "connection"))
            }
            _ => "too few connections of at least 100 kB so far; nothing is treated".to_owned(),
        };
    }
    if number(rule, "/ab") == 0.0 {
        return match goodputs[0] {
            Some(bits) => format!("{}; no untreated connections to compare with (`ab` is 0)", treated(bits)),
            None => "too few connections of at least 100 kB so far".to_owned(),
        };
    }
    let [ratio, low, high] = ["/gain/ratio", "/gain/low", "/gain/high"].map(|part| at(rule, part));
    let (Some(ratio), Some(low), Some(high), [Some(with), Some(without)]) = (ratio, low, high, goodputs) else {
        return few(flows, goodputs);
    };
    let (unit, size) = unit_of(with.max(without));
    let doubt = if low < 1.0 && high > 1.0 { "; may be chance" } else { "" };
    format!(
        "{} {unit} treated ({}), {} untreated ({}): {} times as fast ({}-{}, 95 %{doubt})",
        digits(with / size),
        count(flows[0], "connection"),
        digits(without / size),
        flows[1],
        digits(ratio),
        digits(low),
        digits(high)
    )
}
