//! Answers of a daemon: repeated status, and figures with units.

use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::time::Duration;

use lasthop_daemon::ab::Gain;
use lasthop_daemon::status::{Status, WorkerStatus};
use lasthop_scenario::read_limited;
use lasthop_study::promise::Promise;
pub use lasthop_study::promise::digits;
use serde::de::DeserializeOwned;
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

/// Reads an answer as its type.
pub fn read<T: DeserializeOwned>(answer: &Value) -> Result<T, Error> {
    Ok(T::deserialize(answer).map_err(std::io::Error::from)?)
}

/// Prints the answers of `ask`, as JSON or as `tell` formats them next to the previous answer; once, or at the interval
/// `watch`.
pub fn status<S: DeserializeOwned>(
    json: &JsonArgs,
    watch: Option<Duration>,
    ask: impl Fn() -> Result<Value, Error>,
    tell: impl Fn(&S, Option<&S>) -> String,
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
                let text = fold(&tell(&read(&answer)?, None), width());
                return Ok(out.write_all(text.as_bytes())?);
            }
            (false, Some(_)) => {
                let answer = read(&answer)?;
                let text = fold(&tell(&answer, before.as_ref()), width());
                before = Some(answer);
                // On a terminal, replaces the previous answer: cursor home, then clear.
                let (begin, end) = if out.is_terminal() { ("\x1b[H\x1b[J", "") } else { ("", "\n") };
                write!(out, "{begin}{text}{end}")?;
            }
        }
        out.flush()?;
        drop(out);
        std::thread::sleep(watch.unwrap_or_default());
    }
}

/// Returns the rate in bits per second of the traffic that `bytes` counts, between two answers of the same worker.
pub fn rate_since<T>(answer: &Status<T>, before: Option<&Status<T>>, bytes: impl Fn(&T) -> u64) -> Option<f64> {
    let before = before.filter(|before| before.worker == answer.worker)?;
    let seconds = answer.uptime_seconds - before.uptime_seconds;
    let carried = bytes(&answer.more).checked_sub(bytes(&before.more))?;
    (seconds > 0.0).then(|| 8.0 * carried as f64 / seconds)
}

/// Counter that is zero if all is well, and its meaning.
pub type Trouble<T> = (fn(&T) -> u64, &'static str);

/// Describes the counters that are not zero.
pub fn troubles<T>(of: &T, all: &[Trouble<T>]) -> impl Iterator<Item = String> {
    all.iter().filter_map(|(read, what)| match read(of) {
        0 => None,
        times => Some(format!("{times} {what}")),
    })
}

/// Describes the worker; `without` is the consequence if there is none.
pub fn worker(worker: WorkerStatus, without: &str) -> String {
    let restarts = match worker.restarts {
        0 => "never replaced".to_owned(),
        times => format!("replaced {}", count(times as usize, "time")),
    };
    match worker.pid {
        Some(pid) => format!("worker {pid}, {restarts}"),
        None => format!("NO WORKER: {without} ({restarts})"),
    }
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

/// Describes two arms that have no interval yet: goodputs, numbers of connections, and the missing number of
/// connections.
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

/// Comparison of treated and untreated connections, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// True if nothing is treated.
    pub observes: bool,
    /// Share of connections that are left untreated.
    pub ab: f64,
    /// Number of connections measured.
    pub flows: [u64; 2],
    /// Means of the connections' goodputs, in bits per second.
    pub goodputs: [Option<f64>; 2],
    /// Ratio of the goodputs.
    pub gain: Option<Gain>,
}

/// Formats a gain: "13.9 Mbit/s treated (5 connections), 1.7 untreated (5): 8.3 times as fast (4.6-14.9, 95 %)"
pub fn gain(compared: &Compared) -> String {
    let Compared { observes, ab, goodputs, .. } = *compared;
    let flows = compared.flows.map(|flows| flows as usize);
    let treated = |bits| format!("{} treated ({})", rate(bits), count(flows[0], "connection"));
    if observes {
        return match goodputs {
            [_, Some(bits)] | [Some(bits), _] => {
                format!("{} ({}); nothing is treated", rate(bits), count(flows[0] + flows[1], "connection"))
            }
            _ => "too few connections of at least 100 kB so far; nothing is treated".to_owned(),
        };
    }
    if ab == 0.0 {
        return match goodputs[0] {
            Some(bits) => format!("{}; no untreated connections to compare with (`ab` is 0)", treated(bits)),
            None => "too few connections of at least 100 kB so far".to_owned(),
        };
    }
    let (Some(Gain { ratio, low, high }), [Some(with), Some(without)]) = (compared.gain, goodputs) else {
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
