//! Comparison of two stacks' segments.

use lasthop_proto::packet::Flags;
use lasthop_proto::time::Duration;

use super::case::{Case, Observed};
use crate::format;
use crate::script::{OptionsSpec, SegmentSpec, TcpOption};

/// Deviation of times that counts as equal, besides an eighth of the time since the previous event: two ticks of a
/// kernel with 250 Hz, whose phase is unknown, and the scheduling delay of the reference.
const TOLERANCE: Duration = Duration::from_millis(10);

/// Maximum time between segments of one burst.
const BURST: Duration = Duration::from_millis(1);

/// First difference of two stacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Number of the segment, from 0.
    pub at: usize,
    /// Part of the segment that differs, such as `window`.
    pub what: &'static str,
    /// Segment of the reference; `None` if it sent no more.
    pub reference: Option<String>,
    /// Segment of the stack; `None` if it sent no more.
    pub stack: Option<String>,
}

/// Returns the first difference between the segments of the reference and those of the stack. Without `with_push`, PSH
/// is not compared.
pub fn compare(case: &Case, reference: &[Observed], stack: &[Observed], with_push: bool) -> Option<Mismatch> {
    let end = case.last_step() + Case::TAIL;
    let longest = reference.len().max(stack.len());
    (0..longest).find_map(|at| {
        let what = match (reference.get(at), stack.get(at)) {
            (Some(a), Some(b)) => {
                let keeps_push = with_push && !is_inside_burst(reference, at);
                differs(a, b, tolerance(case, reference, at, a.at), keeps_push)?
            }
            // A segment near the end may be beyond the end of the other run.
            (Some(only), None) | (None, Some(only))
                if is_near(only.at, end, tolerance(case, reference, at, only.at)) =>
            {
                return None;
            }
            (Some(_), None) => "missing segment",
            (None, Some(_)) => "additional segment",
            (None, None) => return None,
        };
        Some(Mismatch { at, what, reference: reference.get(at).map(text), stack: stack.get(at).map(text) })
    })
}

fn text(observed: &Observed) -> String {
    format!("{:.6} > {}", observed.at.as_secs_f64(), format::segment(&observed.segment))
}

/// Returns the tolerance for segment `at`, which leaves at `own`: it grows with the time since the previous event.
fn tolerance(case: &Case, reference: &[Observed], at: usize, own: Duration) -> Duration {
    let mut previous = at.checked_sub(1).and_then(|at| reference.get(at)).map_or(Duration::ZERO, |other| other.at);
    let mut time = Duration::ZERO;
    for step in &case.steps {
        time = time + step.after;
        if time <= own {
            previous = previous.max(time);
        }
    }
    TOLERANCE.max(Duration::from_nanos(own.saturating_sub(previous).as_nanos() / 8))
}

fn is_near(a: Duration, b: Duration, tolerance: Duration) -> bool {
    a.saturating_sub(b) <= tolerance && b.saturating_sub(a) <= tolerance
}

fn differs(a: &Observed, b: &Observed, tolerance: Duration, keeps_push: bool) -> Option<&'static str> {
    let (own, other) = (&a.segment, &b.segment);
    let ignored = if keeps_push { Flags::default() } else { Flags::PSH };
    let flags = |segment: &SegmentSpec| Flags(segment.flags).without(ignored);
    let checks = [
        ("sequence number", own.seq == other.seq),
        ("length", own.len == other.len),
        ("acknowledgment", own.ack == other.ack),
        ("flags", flags(own) == flags(other)),
        ("window", own.window == other.window),
        ("ECN field", own.ecn == other.ecn),
        ("options", same_options(own, other, tolerance)),
        ("time", is_near(a.at, b.at, tolerance)),
    ];
    checks.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
}

/// Returns whether another segment of the same burst follows. Segmentation offload sets PSH at the end of each packet that
/// it splits, of which a burst may have several.
fn is_inside_burst(reference: &[Observed], at: usize) -> bool {
    let continues = |next: &Observed| next.segment.len > 0 && next.at.saturating_sub(reference[at].at) <= BURST;
    reference.get(at + 1).is_some_and(continues)
}

fn same_options(a: &SegmentSpec, b: &SegmentSpec, tolerance: Duration) -> bool {
    let (OptionsSpec::List(a), OptionsSpec::List(b)) = (&a.options, &b.options) else { return a.options == b.options };
    let ticks = (tolerance.as_nanos() / 1_000_000) as u32 + 1;
    a.len() == b.len()
        && a.iter().zip(b).all(|pair| match pair {
            (TcpOption::Timestamps(val, echo), TcpOption::Timestamps(other, other_echo)) => {
                echo == other_echo && (val.wrapping_sub(*other) as i32).unsigned_abs() <= ticks
            }
            (a, b) => a == b,
        })
}
