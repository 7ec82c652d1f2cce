//! Writing of a measured link as a scenario for `compare`.

use std::fmt::Write;

use crate::family::{Fit, Parameter, Unit};
use crate::measurement::Notes;
use crate::{Family, Report};

/// Value with its origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Value as in a scenario, without quotes: `10 Mbps`.
    pub value: String,
    /// Origin of the value: `--rate`, `assumed`.
    pub origin: String,
}

/// Half-duplex medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HalfDuplex {
    /// Overhead of each frame; `None` if frames are aggregated.
    pub frame_overhead: Option<Told>,
    /// Additional time when the direction changes.
    pub turnaround: Told,
}

/// Further key of the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Name of the key: `policer_down`.
    pub key: String,
    /// Value as TOML.
    pub value: String,
    /// Origin of the value.
    pub origin: String,
}

/// Properties of a link besides its losses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Half-duplex medium, if both directions share one.
    pub half_duplex: Option<HalfDuplex>,
    /// Rate of the downlink, and of the uplink if `rate_up` is `None`.
    pub rate: Told,
    /// Rate of the uplink.
    pub rate_up: Option<Told>,
    /// One-way delay.
    pub delay: Told,
    /// Queue of the downlink, and of the uplink if `queue_up` is `None`.
    pub queue: Told,
    /// Queue of the uplink.
    pub queue_up: Option<Told>,
    /// One-way delay of the path behind the gateway.
    pub wire_delay: Told,
    /// Policers, varying rates, jitter, duplicates.
    pub keys: Vec<Key>,
}

/// Losses of one direction, with the trace's name.
#[derive(Clone, Copy, Debug)]
pub struct Direction<'r> {
    /// Name of the trace.
    pub name: &'r str,
    /// Result of fitting the trace.
    pub report: &'r Report,
}

/// Returns a scenario file with a server, a base station, a client behind the link, and a download of 16 MiB. It states
/// the origin of each value, and the properties of the measurement that the scenario omits.
pub fn scenario(link: &Link, down: Direction<'_>, up: Option<Direction<'_>>, notes: &Notes) -> String {
    let mut text = String::new();
    let names = [Some(down), up].into_iter().flatten().map(|direction| direction.name).collect::<Vec<_>>().join(", ");
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        r#"# A link fitted by `lasthop fit` to {names}.
title = "A fitted link"
scheme = "E2E-CUBIC"
runs = 30
seed = 1
limit = "1000 s"

[tcp]
preset = "linux-6.18"

[hosts.server]
[hosts.client]
[routers.base]

[links.wire]
between = ["server", "base"]
rate = "1 Gbps"               # assumed: faster than the lossy hop
delay = {wire_delay}

[links.hop]
between = ["base", "client"]
{medium}rate = {rate}
{rate_up}delay = {delay}
queue = {queue}
{queue_up}{keys}"#,
        names = names.replace(['\n', '\r'], " "),
        wire_delay = told(&link.wire_delay),
        medium = link.half_duplex.as_ref().map(medium).unwrap_or_default(),
        rate = told(&link.rate),
        delay = told(&link.delay),
        queue = told(&link.queue),
        rate_up = line("rate_up", &link.rate_up),
        queue_up = line("queue_up", &link.queue_up),
        keys = link.keys.iter().map(key).collect::<String>(),
    );
    let _ = errors(&mut text, "down", Some(down));
    let _ = errors(&mut text, "up", up);
    text.push_str(
        r#"
[flows.download]
from = "server"
to = "client"
size = "16 MiB"

[base_station]                # where a cure on the path would be installed
router = "base"
link = "hop"
"#,
    );
    notes.write(&mut text);
    text
}

fn medium(HalfDuplex { frame_overhead, turnaround }: &HalfDuplex) -> String {
    let overhead = line("frame_overhead", frame_overhead);
    format!("medium = \"half-duplex\"\n{overhead}turnaround = {}\n", told(turnaround))
}

fn line(key: &str, of: &Option<Told>) -> String {
    of.as_ref().map(|of| format!("{key} = {}\n", told(of))).unwrap_or_default()
}

fn key(Key { key, value, origin }: &Key) -> String {
    format!("{key} = {value}   # {origin}\n")
}

fn told(told: &Told) -> String {
    format!("{:<22} # {}", format!("\"{}\"", told.value), told.origin)
}

fn errors(text: &mut String, direction: &str, of: Option<Direction<'_>>) -> std::fmt::Result {
    let Some(Direction { name, report }) = of else {
        // A table is needed here: keys after the other direction's table would belong to that.
        return writeln!(text, "\n# No trace for this direction.\n[links.hop.errors_{direction}]\nmodel = \"none\"");
    };
    let chosen = report.chosen();
    writeln!(text, "\n# {name}: {} of {} packets lost.", report.lost, report.packets)?;
    if !report.adequacy.fits() {
        writeln!(text, "# No model fits the losses (see `lasthop fit`). The nearest one:")?;
    }
    writeln!(text, "[links.hop.errors_{direction}]\nmodel = \"{}\"", chosen.family.name())?;
    for parameter in &chosen.parameters {
        write!(text, "{} = {}", parameter.key, value(parameter))?;
        match parameter.interval {
            Some([low, high]) => {
                writeln!(text, "   # 95 %: {} to {}", shown(parameter.unit, low), shown(parameter.unit, high))?
            }
            None => writeln!(text)?,
        }
    }
    Ok(())
}

/// Formats a fitted model as TOML on one line.
pub(crate) fn inline(fit: &Fit) -> String {
    let parameters = fit.parameters.iter().map(|parameter| format!(", {} = {}", parameter.key, value(parameter)));
    format!("{{ model = \"{}\"{} }}", fit.family.name(), parameters.collect::<String>())
}

/// Formats a parameter's value as a scenario reads it.
fn value(parameter: &Parameter) -> String {
    match parameter.unit {
        Unit::Share => format!("{}", digits(parameter.value)),
        Unit::Seconds => format!("\"{}\"", milliseconds(parameter.value * 1e3)),
        Unit::Bytes => format!("{}", parameter.value.round().max(1.0) as u64),
        Unit::Packets => format!("{}", parameter.value),
    }
}

/// Formats a value for display.
pub fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Share => format!("{} %", figures(value * 100.0)),
        Unit::Seconds if value < 1.0 => format!("{} ms", figures(value * 1e3)),
        Unit::Seconds => format!("{} s", figures(value)),
        Unit::Bytes => format!("{} bytes", figures(value)),
        Unit::Packets => format!("{value} packets"),
    }
}

/// Formats the parameters of a fit for display: `frame_loss 3.02 % (2.7 to 3.37)`.
pub fn parameters(fit: &Fit) -> Vec<String> {
    let one = |parameter: &Parameter| {
        let interval = parameter
            .interval
            .map(|[low, high]| format!(" ({} to {})", shown(parameter.unit, low), shown(parameter.unit, high)));
        format!("{} {}{}", parameter.key, shown(parameter.unit, parameter.value), interval.unwrap_or_default())
    };
    // A parameter that was not fitted is shown only if it is neither 0 nor 1.
    let told = |parameter: &&Parameter| {
        parameter.interval.is_some() || !matches!(parameter.value, 0.0 | 1.0) || fit.family == Family::Uniform
    };
    fit.parameters.iter().filter(told).map(one).collect()
}

/// Rounds to six significant digits, which a scenario takes without an exponent.
pub(crate) fn digits(value: f64) -> f64 {
    round(value, 6)
}

/// Formats a time as a scenario takes it: in whole nanoseconds, with at most six significant digits.
pub(crate) fn milliseconds(value: f64) -> String {
    let nanos = libm::round(digits(value) * 1e6);
    format!("{} ms", if value > 0.0 { nanos.max(1.0) / 1e6 } else { 0.0 })
}

/// Rounds to three significant digits.
pub(crate) fn figures(value: f64) -> f64 {
    round(value, 3)
}

fn round(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = digits - 1 - libm::floor(libm::log10(value.abs())) as i32;
    format!("{value:.*}", places.max(0) as usize).parse().unwrap_or(value)
}
