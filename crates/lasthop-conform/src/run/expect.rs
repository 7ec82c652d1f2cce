//! Comparison of a stack's segments with those that a script expects.
//!
//! As in packetdrill, the script may expect segments of one burst as one. Options are compared without padding and
//! order, since a stack under test may have no wire format. In contrast to packetdrill, echoed timestamps are compared.

use lasthop_proto::packet::Flags;
use lasthop_proto::time::{Duration, Instant};

use super::{Run, Step, Stop, differs};
use crate::format;
use crate::script::{EcnSpec, OptionsSpec, SegmentSpec, TcpOption, Time};
use crate::stack::Segment;

/// Time that the runner waits for a segment after the expected one, as packetdrill does.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum wait for a segment at any time.
const LONGEST: Duration = Duration::from_secs(86_400);

impl Run<'_> {
    /// Takes the next segments of the stack and compares them with the expected one.
    pub(super) fn outbound(&mut self, spec: &SegmentSpec) -> Step {
        let expected = format::segment(spec);
        let limit = match self.clock.latest() {
            Some(latest) => latest.max(self.clock.now) + PATIENCE,
            None => self.clock.now + LONGEST,
        };
        let (at, mut segment) = self.next_sent(limit).map_err(|stop| missing(stop, &expected))?;
        let first_len = segment.len;
        while segment.len < spec.len && !self.plan.is_strict {
            let Some((_, next)) = self.sent.front() else {
                self.next_waiting(limit).map_err(|stop| missing(stop, &expected))?;
                continue;
            };
            if !continues(&segment, next, spec.len - segment.len, first_len) {
                break;
            }
            if let Some((_, next)) = self.sent.pop_front() {
                join(&mut segment, &next);
            }
        }
        // Segmentation offload sets PSH at the end of each packet that it splits, of which a burst may have several.
        let goes_on = self.sent.front().is_some_and(|(next_at, next)| {
            *next_at == at && first_len > 0 && continues(&segment, next, u32::MAX, next.len)
        });
        if goes_on && Flags(spec.flags).has(Flags::PSH) {
            segment.flags |= Flags::PSH.0;
        }
        let got = self.in_script_numbers(spec, &segment);
        let wrong = |what: &str| Err(differs(expected.clone(), format!("{} ({what} differs)", format::segment(&got))));
        if let Some(what) = self.mismatch(spec, &got) {
            return wrong(what);
        }
        let time = if self.clock.latest() == Some(self.clock.start()) {
            Time::Absolute(Duration::ZERO)
        } else {
            Time::AbsoluteRange(Duration::ZERO, Duration::ZERO)
        };
        if let Some(when) = self.clock.mismatch(at, &self.plan.tolerance, time) {
            return Err(differs(format!("{expected} {when}"), format!("it at {:.6} s", at.as_secs_f64())));
        }
        Ok(())
    }

    /// Returns the next segment of the stack, for which it waits until `limit`.
    fn next_sent(&mut self, limit: Instant) -> Result<(Instant, Segment), Stop> {
        loop {
            if let Some(next) = self.sent.pop_front() {
                return Ok(next);
            }
            self.next_waiting(limit)?;
        }
    }

    /// Lets time pass until a segment may have left.
    fn next_waiting(&mut self, limit: Instant) -> Step {
        if self.advance_a_step(limit)? || !self.sent.is_empty() {
            Ok(())
        } else {
            Err(differs("", format!("nothing until {:.6} s", limit.as_secs_f64())))
        }
    }

    /// Returns a segment of the stack in the numbers of the script, and remembers its initial numbers.
    fn in_script_numbers(&mut self, spec: &SegmentSpec, segment: &Segment) -> SegmentSpec {
        let flags = Flags(segment.flags);
        let connection = &mut self.connection;
        if flags.has(Flags::SYN) && connection.iss.is_none() {
            connection.iss = Some((segment.seq, spec.seq));
        }
        let offset = connection.offset();
        let mut options = segment.options.clone();
        let expected = match &spec.options {
            OptionsSpec::List(list) => list.iter().find_map(timestamps),
            OptionsSpec::Any => None,
        };
        for option in &mut options {
            if let TcpOption::Timestamps(val, _) = option {
                let live = *val;
                if let Some((script, _)) = expected {
                    connection.first_timestamp.get_or_insert((live, script));
                    connection.timestamps.insert(script, live);
                }
                if let Some((first, script)) = connection.first_timestamp {
                    *val = script.wrapping_add(live.wrapping_sub(first));
                }
            }
        }
        SegmentSpec {
            ecn: Some(EcnSpec::Is(segment.ecn)),
            ports: Some((segment.local_port, segment.remote_port)),
            flags: segment.flags,
            ace: spec.ace.map(|_| ace(segment.flags)),
            seq: if flags.has(Flags::RST) && connection.iss.is_none() {
                segment.seq
            } else {
                segment.seq.wrapping_sub(offset)
            },
            len: segment.len,
            ack: flags.has(Flags::ACK).then_some(segment.ack),
            window: spec.window.map(|_| segment.window),
            urgent: None,
            options: OptionsSpec::List(options),
        }
    }

    /// Returns the first part in which two segments differ.
    fn mismatch(&self, spec: &SegmentSpec, got: &SegmentSpec) -> Option<&'static str> {
        let marks = Flags::ECE.with(Flags::CWR).with(Flags::AE);
        let flags =
            |spec: &SegmentSpec| if spec.ace.is_some() { Flags(spec.flags).without(marks).0 } else { spec.flags };
        let checks = [
            ("flags", flags(spec) == flags(got)),
            ("ACE counter", spec.ace == got.ace),
            ("sequence number", spec.seq == got.seq),
            ("length", spec.len == got.len),
            ("acknowledgment", spec.ack == got.ack),
            ("window", spec.window == got.window),
            ("ECN field", spec.ecn.is_none_or(|ecn| accepts(ecn, got.ecn))),
            ("option", self.same_options(&spec.options, &got.options)),
            ("port", spec.ports.is_none_or(|ports| Some(ports) == got.ports)),
        ];
        checks.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
    }

    fn same_options(&self, expected: &OptionsSpec, got: &OptionsSpec) -> bool {
        let (OptionsSpec::List(expected), OptionsSpec::List(got)) = (expected, got) else { return true };
        let sorted = |list: &[TcpOption]| {
            let mut list = list.to_vec();
            list.sort();
            list
        };
        let (expected, got) = (sorted(expected), sorted(got));
        expected.len() == got.len()
            && expected.iter().zip(&got).all(|pair| match pair {
                (TcpOption::Timestamps(val, echo), TcpOption::Timestamps(got_val, got_echo)) => {
                    echo == got_echo && self.is_near_timestamp(*val, *got_val)
                }
                (expected, got) => expected == got,
            })
    }

    /// Returns whether a timestamp is within the tolerance, which counts from the start of the script.
    fn is_near_timestamp(&self, expected: u32, got: u32) -> bool {
        let Some(tick) = self.plan.timestamp_tick else { return true };
        let ticks = u64::from((expected.wrapping_sub(got) as i32).unsigned_abs());
        let tolerance = self.plan.tolerance.of(self.clock.start().since(Instant::ZERO));
        tick.saturating_mul(ticks) <= tolerance
    }
}

fn missing(stop: Stop, expected: &str) -> Stop {
    match stop {
        Stop::Differs { expected: empty, got } if empty.is_empty() => differs(expected, got),
        other => other,
    }
}

fn timestamps(option: &TcpOption) -> Option<(u32, u32)> {
    match option {
        TcpOption::Timestamps(val, echo) => Some((*val, *echo)),
        _ => None,
    }
}

/// Returns the counter of marked packets in the flags.
fn ace(flags: u16) -> u8 {
    let bit = |flag, value| if Flags(flags).has(flag) { value } else { 0 };
    bit(Flags::AE, 4) | bit(Flags::CWR, 2) | bit(Flags::ECE, 1)
}

fn accepts(spec: EcnSpec, got: Option<EcnSpec>) -> bool {
    match (spec, got) {
        (EcnSpec::Capable, Some(EcnSpec::Is(ecn))) => ecn.bits() == 1 || ecn.bits() == 2,
        (spec, got) => Some(spec) == got,
    }
}

/// Returns whether `next` continues the burst of `segment`, which lacks `missing` bytes: as packetdrill determines it, by
/// equal headers and equal lengths of all segments but the last.
fn continues(segment: &Segment, next: &Segment, missing: u32, first_len: u32) -> bool {
    let loose = Flags::FIN.with(Flags::PSH).with(Flags::CWR);
    let flags = |segment: &Segment| Flags(segment.flags).without(loose);
    next.seq == segment.seq.wrapping_add(segment.len)
        && segment.len > 0
        && next.len > 0
        && flags(next) == flags(segment)
        && next.ack == segment.ack
        && next.window == segment.window
        && next.ecn == segment.ecn
        && (next.len >= missing || next.len == first_len)
}

/// Appends the next segment of a burst. PSH and FIN are those of the last.
fn join(segment: &mut Segment, next: &Segment) {
    segment.len = segment.len.saturating_add(next.len);
    segment.flags = Flags(segment.flags).without(Flags::PSH).0 | next.flags;
}
