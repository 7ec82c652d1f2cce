//! What limits a flow and what it lost, in sentences.

use crate::missing::{bytes, count};
use crate::report::{Direction, FlowReport};
use crate::rounds::Factor;

/// A share of the time of which is told.
const WORTH_TELLING: f64 = 0.05;

/// One direction of a flow, a sentence a line; all but the first are indented.
pub fn lines(flow: &FlowReport, direction: &Direction) -> Vec<String> {
    let mut lines = Vec::new();
    let place = flow.interface.as_ref().map_or(String::new(), |name| format!(" on {name}"));
    let mut first = format!("flow {}{place}: {} to {}", flow.number, direction.from, direction.to);
    first += &format!(
        ", {} in {:.2} s, {}; captured {}",
        bytes(direction.bytes),
        direction.seconds,
        rate(direction.goodput_bps),
        direction.vantage.words()
    );
    lines.push(first);
    let told: Vec<String> = direction
        .limits
        .iter()
        .filter(|limit| limit.share >= WORTH_TELLING)
        .map(|limit| format!("{} {:.0} % of the time", limit.factor.words(), limit.share * 100.0))
        .collect();
    if !told.is_empty() {
        lines.push(format!("  limited by {}", told.join(", ")));
    }
    if let Some(reach) = direction.could_reach_bps.filter(|_| direction.limit != Some(Factor::Bottleneck)) {
        lines.push(format!("  the bottleneck would allow {}", rate(reach)));
    }
    lines.push(format!("  {}", lost(direction)));
    if let (Some(least), Some(mean)) = (direction.rtt_ms, direction.mean_rtt_ms) {
        lines.push(format!(
            "  round trip {least:.1} ms without load, {mean:.1} ms on average; longest queue {:.1} ms",
            direction.longest_queue_ms
        ));
    }
    lines
}

fn lost(direction: &Direction) -> String {
    let Direction { corruption, congestion, unknown, unjudged, .. } = direction;
    let mut said = match corruption + congestion + unknown {
        0 => "nothing lost".to_owned(),
        all => {
            let mut causes = Vec::new();
            let known = [(corruption, "to corruption"), (congestion, "to congestion"), (unknown, "to either")];
            causes.extend(
                known.into_iter().filter(|(number, _)| **number > 0).map(|(number, to)| format!("{number} {to}")),
            );
            format!("{} of {} lost: {}", all, count(direction.packets, "packet"), causes.join(", "))
        }
    };
    let more = [
        (*unjudged, "lost beyond those that are judged"),
        (direction.needless, "retransmitted needlessly"),
        (direction.reordered, "out of order"),
        (direction.marked, "marked"),
    ];
    for (number, what) in more.into_iter().filter(|(number, _)| *number > 0) {
        said += &format!("; {number} {what}");
    }
    if direction.timeouts > 0 {
        said += &format!("; {}", count(direction.timeouts, "timeout"));
    }
    if direction.needless_timeouts > 0 {
        said += &format!(" ({} needless)", direction.needless_timeouts);
    }
    if direction.zero_windows > 0 {
        said += &format!("; window closed {}", count(direction.zero_windows, "time"));
    }
    said
}

/// Bits a second for people.
pub fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate < 1e6 => format!("{:.1} kbps", rate / 1e3),
        rate if rate < 1e9 => format!("{:.2} Mbps", rate / 1e6),
        rate => format!("{:.2} Gbps", rate / 1e9),
    }
}
