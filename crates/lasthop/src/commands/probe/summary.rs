//! Summary of a probe, in lines of at most 40 columns.

use std::fmt::Write;

use lasthop_probe::report::behaviour::{BehaviourReport, Quantity, TokenBucket};
use lasthop_probe::report::{Bound, DirectionReport, Estimate, MediumReport, QueueReport, Report};

/// Row: label, and a text for each direction.
pub struct Row(pub &'static str, pub [String; 2]);

/// Formats three significant digits.
fn figures(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let places = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a rate.
pub fn rate(bits: f64) -> String {
    if bits >= 1e6 { format!("{} Mbps", figures(bits / 1e6)) } else { format!("{} kbps", figures(bits / 1e3)) }
}

fn percent(share: f64) -> String {
    format!("{} %", figures(share * 100.0))
}

fn interval(of: &Estimate, scale: f64) -> String {
    of.interval.map(|[low, high]| format!("{} to {}", figures(low * scale), figures(high * scale))).unwrap_or_default()
}

/// Formats a quantity that may be unknown.
fn known<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), show)
}

fn queue(queue: Option<&QueueReport>, show: impl Fn(&QueueReport) -> String) -> String {
    queue.map(|queue| format!("{}{}", if queue.filled { "" } else { ">= " }, show(queue))).unwrap_or_default()
}

/// Returns the rows of the table, without empty ones.
pub fn rows(report: &Report) -> Vec<Row> {
    let both = |show: &dyn Fn(&DirectionReport) -> String| [show(&report.down), show(&report.up)];
    let milliseconds = |value: f64| format!("{} ms", figures(value));
    let nothing = || [String::new(), String::new()];
    let alike = |text: String| [text.clone(), text];
    let microseconds = |value: f64| if value > 0.0 { alike(format!("+ {} us", figures(value))) } else { nothing() };
    let medium = |show: &dyn Fn(&MediumReport) -> [String; 2]| report.half_duplex.as_ref().map_or_else(nothing, show);
    let all = vec![
        Row(
            "rate",
            both(&|way| {
                let bound = if way.rate_is_lower_bound { ">= " } else { "" };
                known(way.rate_bps, |found| format!("{bound}{}", rate(found.value)))
            }),
        ),
        Row("  95 %, Mbps", both(&|way| way.rate_bps.map(|found| interval(&found, 1e-6)).unwrap_or_default())),
        Row("medium", medium(&|_| alike("half-duplex".to_owned()))),
        Row(
            "  on the air",
            medium(&|medium| if medium.frame_overhead_us > Some(0.0) { medium.rate_bps.map(rate) } else { nothing() }),
        ),
        Row("  per frame", medium(&|medium| microseconds(medium.frame_overhead_us.unwrap_or(0.0)))),
        Row("  turnaround", medium(&|medium| microseconds(medium.turnaround_us))),
        Row("loss", both(&|way| known(way.loss.share, |share| percent(share.value)))),
        Row("  95 %, %", both(&|way| way.loss.share.map(|share| interval(&share, 100.0)).unwrap_or_default())),
        Row("loss run", both(&|way| if way.runs.runs > 0 { figures(way.runs.mean.value) } else { String::new() })),
        Row("  max", both(&|way| if way.runs.runs > 0 { way.runs.longest.to_string() } else { String::new() })),
        Row("queueing", both(&|way| milliseconds(way.delay.median_ms))),
        Row("  95 %", both(&|way| milliseconds(way.delay.p95_ms))),
        Row("  loaded", both(&|way| way.delay.loaded_p95_ms.map(milliseconds).unwrap_or_default())),
        Row(
            "queue",
            both(&|way| {
                let unknown = way.behaviour.unknown.iter().any(|unknown| unknown.quantity == Quantity::Queue);
                let found = queue(way.queue.as_ref(), |queue| format!("{} pkts", queue.packets));
                if unknown { "unknown".to_owned() } else { found }
            }),
        ),
        Row("", both(&|way| queue(way.queue.as_ref(), |queue| format!("{} KB", figures(queue.bytes as f64 / 1e3))))),
        Row("", both(&|way| queue(way.queue.as_ref(), |queue| milliseconds(queue.milliseconds)))),
        Row(
            "  pkt size",
            both(&|way| match &way.queue {
                Some(queue) if queue.bound != Bound::Packets => format!("{} B", queue.packet_bytes),
                _ => String::new(),
            }),
        ),
        Row(
            "  limit in",
            both(&|way| match way.queue.as_ref().map(|queue| queue.bound) {
                Some(Bound::Packets) => "packets".to_owned(),
                Some(Bound::Bytes) => "bytes".to_owned(),
                Some(Bound::Unknown) | None => String::new(),
            }),
        ),
        Row("reordered", both(&|way| if way.reordered > 0 { way.reordered.to_string() } else { String::new() })),
        Row("duplicated", both(&|way| if way.duplicates > 0 { way.duplicates.to_string() } else { String::new() })),
        Row("path MTU", both(&|way| way.path_mtu.map(|mtu| mtu.to_string()).unwrap_or_default())),
        Row("used", both(&|way| way.used_share.map(percent).unwrap_or_default())),
    ];
    let all = all.into_iter().chain(behaviour([&report.down.behaviour, &report.up.behaviour]));
    all.filter(|Row(_, texts)| texts.iter().any(|text| !text.is_empty())).collect()
}

/// Returns the rows of recognised behaviour.
fn behaviour(ways: [&BehaviourReport; 2]) -> Vec<Row> {
    let part = |show: &dyn Fn(&BehaviourReport) -> Option<String>| ways.map(|way| show(way).unwrap_or_default());
    let ms = |value: f64| format!("{} ms", figures(value));
    let bucket = |bucket: &TokenBucket| format!("{} KB", figures(bucket.burst_bytes as f64 / 1e3));
    let line = |bucket: &TokenBucket| rate(bucket.line_rate_bps);
    vec![
        Row("policer", part(&|way| way.policer.as_ref().map(bucket))),
        Row("  line rate", part(&|way| way.policer.as_ref().map(line))),
        Row("shaper", part(&|way| way.shaper.as_ref().map(bucket))),
        Row("  line rate", part(&|way| way.shaper.as_ref().map(line))),
        Row("rate min", part(&|way| way.varying_rate.as_ref().map(|varying| rate(varying.least_bps)))),
        Row("  max", part(&|way| way.varying_rate.as_ref().map(|varying| rate(varying.most_bps)))),
        Row("bursts of", part(&|way| way.aggregation.map(|found| format!("{} pkts", figures(found.packets_mean))))),
        Row("  every", part(&|way| way.aggregation.map(|found| ms(found.interval_ms)))),
        Row("slots every", part(&|way| way.slots.map(|slots| ms(slots.interval_ms)))),
        Row("jitter", part(&|way| way.jitter.map(|jitter| ms(jitter.p50_ms)))),
        Row("  95 %", part(&|way| way.jitter.map(|jitter| ms(jitter.p95_ms)))),
        Row("out of order", part(&|way| way.reordering.map(|found| percent(found.share)))),
        Row("  late by", part(&|way| way.reordering.map(|found| ms(found.by_ms_p95)))),
        Row("duplicates", part(&|way| way.duplicates.map(|found| percent(found.share)))),
        Row("others use", part(&|way| way.other_traffic.map(|others| percent(others.share)))),
    ]
}

/// Returns a line per unknown quantity with its reason; a single one if it applies to both directions.
pub fn unknown(report: &Report) -> Vec<String> {
    let line = |way: &str, (quantity, reason): (&Quantity, &String)| format!("{way}: {quantity} unknown: {reason}");
    let of = |way: &DirectionReport| -> Vec<(Quantity, String)> {
        way.behaviour.unknown.iter().map(|one| (one.quantity, one.reason.clone())).collect()
    };
    let [down, up] = [of(&report.down), of(&report.up)];
    let mut lines = Vec::new();
    for (quantity, reason) in &down {
        let both = up.iter().any(|(other, why)| (other, why) == (quantity, reason));
        lines.push(line(if both { "both ways" } else { "down" }, (quantity, reason)));
    }
    for (quantity, reason) in &up {
        if !down.iter().any(|(other, why)| (other, why) == (quantity, reason)) {
            lines.push(line("up", (quantity, reason)));
        }
    }
    lines
}

/// Returns the summary.
pub fn text(report: &Report) -> String {
    let mut text = round_trip(report);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{:12} {:>13} {:>13}", "", "down", "up");
    for Row(name, [down, up]) in rows(report) {
        let _ = writeln!(text, "{}", format!("{name:12} {down:>13} {up:>13}").trim_end());
    }
    for remark in unknown(report).iter().chain(&report.remarks) {
        let _ = writeln!(text, "\n{}", wrapped(remark));
    }
    text
}

/// Columns of the summary: the width of a phone's terminal.
const COLUMNS: usize = 40;

/// Breaks `sentence` between words into lines of at most [`COLUMNS`] characters; a longer word has a line of its own.
fn wrapped(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    let mut column = 0;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
}

/// Returns the first lines of the summary: server, round trip, duration.
pub fn round_trip(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", report.server);
    let _ = match (report.base_rtt_ms, report.median_rtt_ms) {
        (Some(base), _) => writeln!(text, "round trip {} ms without load", figures(base)),
        (None, Some(median)) => writeln!(text, "round trip {} ms (median)", figures(median)),
        (None, None) => writeln!(text, "round trip unknown"),
    };
    let _ = writeln!(text, "measured for {:.1} s", report.seconds);
    text
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, wrapped};

    #[test]
    fn remarks_are_broken_between_words() {
        let reason = "both ways: half-duplex medium unknown: simultaneous trains in both directions show it only if \
                      packets arrive evenly";
        let text = wrapped(reason);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(text.replace('\n', " "), reason);
        assert_eq!(text.lines().next(), Some("both ways: half-duplex medium unknown:"));
    }

    #[test]
    fn a_word_longer_than_a_line_is_kept_whole() {
        let word = "x".repeat(COLUMNS + 1);
        assert_eq!(wrapped(&format!("a {word} b")), format!("a\n{word}\nb"));
        assert_eq!(wrapped(""), "");
    }
}
