//! Sentences on the limit and the losses of a flow.

use crate::missing::{bytes, count};
use crate::report::{Causes, Direction, FlowReport};
use crate::rounds::Factor;

/// Minimum share of the time of a factor that is mentioned.
const WORTH_TELLING: f64 = 0.05;

/// Returns one direction of a flow, with one sentence per line; all but the first are indented.
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
    let Causes { corruption, congestion, policed, path_mtu, unknown, unjudged, .. } = direction.causes;
    let either = unknown.saturating_sub(policed + path_mtu);
    let by_policer = match direction.causes.policer_bps {
        Some(bits) => format!("policed at {}", rate(bits)),
        None => "policed".to_owned(),
    };
    let mut said = match direction.causes.lost {
        0 => "nothing lost".to_owned(),
        all => {
            let known = [
                (corruption, "to corruption"),
                (congestion, "to congestion"),
                (policed, by_policer.as_str()),
                (path_mtu, "to a path-MTU black hole (larger than the path MTU)"),
                (either, "to an unknown cause"),
            ];
            let causes: Vec<String> = known
                .into_iter()
                .filter(|(number, _)| *number > 0)
                .map(|(number, to)| format!("{number} {to}"))
                .collect();
            format!("{} of {} lost: {}", all, count(direction.packets, "packet"), causes.join(", "))
        }
    };
    let more = [
        (unjudged, "lost but not classified"),
        (direction.resent.needless, "spuriously retransmitted"),
        (direction.reordered, "out of order"),
        (direction.duplicated, "duplicated on the path"),
        (direction.marked, "marked"),
    ];
    for (number, what) in more.into_iter().filter(|(number, _)| *number > 0) {
        said += &format!("; {number} {what}");
    }
    if direction.resent.timeouts > 0 {
        said += &format!("; {}", count(direction.resent.timeouts, "timeout"));
    }
    if direction.resent.needless_timeouts > 0 {
        said += &format!(" ({} spurious)", direction.resent.needless_timeouts);
    }
    said + &window(direction)
}

/// Returns a clause on the receiver's window.
fn window(direction: &Direction) -> String {
    let mut said = String::new();
    if direction.window.zero_windows > 0 {
        said += &format!("; window closed {}", count(direction.window.zero_windows, "time"));
    }
    if direction.window.window_probes > 0 {
        said += &format!("; {}", count(direction.window.window_probes, "window probe"));
    }
    if direction.window.keep_alives > 0 {
        said += &format!("; {}", count(direction.window.keep_alives, "keep-alive"));
    }
    if direction.window.discarded > 0 {
        let packets = count(direction.window.discarded, "packet");
        said += &format!("; {packets} discarded by the receiver beyond its window");
        if direction.window.discarded_closed > 0 {
            said += &format!(" ({} while the window was closed)", direction.window.discarded_closed);
        }
    }
    said
}

/// Formats a rate, given in bits per second, with a suitable unit.
pub fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate < 1e6 => format!("{:.1} kbps", rate / 1e3),
        rate if rate < 1e9 => format!("{:.2} Mbps", rate / 1e6),
        rate => format!("{:.2} Gbps", rate / 1e9),
    }
}
