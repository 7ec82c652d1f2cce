//! Verdicts on all losses of one direction, and its limiting factors.

use crate::At;
use crate::half::Half;
use crate::loss::{Loss, Needless, Seen, Side, put_rows};
use crate::policer::Place;
use crate::report::{Limit, LossReport, Vantage, seconds};
use crate::rounds::{FACTORS, Factor};
use crate::verdict::{Cause, Judge, Marks};

/// Confidence of a verdict that follows from all losses of a flow together.
const TOGETHER: f64 = 0.95;

/// Returns the rates of the policers that explain a direction's losses, in bits of IP packets per second, by side of
/// the capture. A sender limited by its application also sends at one rate.
pub(crate) fn policers(half: &Half) -> [Option<f64>; 2] {
    let total: i64 = FACTORS.iter().map(|&factor| half.rounds.known(factor)).sum();
    let all = half.losses.list().iter().fold(total, |sum, loss| sum.saturating_add(loss.charged));
    if half.rounds.known(Factor::Application).saturating_mul(2) > all {
        return [None; 2];
    }
    [Place::Before, Place::Beyond].map(|place| half.passed.policer(place))
}

/// Returns the losses with their verdicts, in the order in which they were noticed.
pub(crate) fn judged(half: &Half, policers: [Option<f64>; 2], begin: i64, at: At) -> Vec<LossReport> {
    let marks =
        if half.counts.markable > 0 && half.counts.marks + half.counts.echoes > 0 { Marks::Seen } else { Marks::None };
    let losses = half.losses.list();
    let mut all: Vec<Seen> = losses.iter().map(|loss| loss.seen).collect();
    put_rows(&mut all);
    let mut judges = [Judge::new(&half.before, marks), Judge::new(&half.beyond, marks)];
    for (side, judge) in [Side::Before, Side::Beyond].into_iter().zip(&mut judges) {
        let lost = |(loss, seen): &(&Loss, &Seen)| loss.needless.is_none() && seen.side == side;
        judge.learn(losses.iter().zip(&all).filter(lost).map(|(_, seen)| seen));
    }
    let verdict = |seen: &Seen| {
        let verdict = judges[seen.side as usize].judge(seen);
        if seen.side == Side::Beyond && half.black_hole.explains(seen.time, seen.packet_len) {
            verdict.instead(Cause::PathMtu, TOGETHER)
        } else if policers[seen.side as usize].is_some() {
            verdict.instead(Cause::Policed, TOGETHER)
        } else {
            verdict
        }
    };
    // If the user declares the capture to be the receiver's, its packets have arrived. If derived, the position is not
    // certain: a capture before a short hop would look alike.
    let has_arrived = |seen: &Seen| seen.side == Side::Beyond && at == At::Given(Vantage::Receiver);
    let report = |(loss, seen): (&Loss, &Seen)| LossReport {
        packet: loss.seen.number,
        repaired_by: loss.seen.repaired_by,
        time_s: seconds(loss.seen.time.saturating_sub(begin)),
        seq: loss.seen.seq,
        bytes: loss.seen.len,
        side: loss.seen.side,
        repair: loss.seen.repair,
        transmission: loss.seen.passed,
        needless: loss.needless.or(has_arrived(seen).then_some(Needless::Captured)),
        verdict: verdict(seen),
    };
    losses.iter().zip(&all).map(report).collect()
}

/// Returns the shares of the time by factor, the largest first.
pub(crate) fn limits(half: &Half, losses: &[LossReport]) -> Vec<Limit> {
    let mut nanos = FACTORS.map(|factor| half.rounds.known(factor));
    nanos[Factor::AfterCongestion as usize] += half.losses.after_marks();
    let mut cause = None;
    for (loss, report) in half.losses.list().iter().zip(losses) {
        // A needless retransmission represents the loss before it.
        if report.needless.is_none() {
            cause = Some(match report.verdict.cause {
                Cause::Corruption => Factor::AfterCorruption,
                Cause::Congestion => Factor::AfterCongestion,
                Cause::Policed => Factor::Policer,
                Cause::PathMtu => Factor::PathMtu,
                Cause::Unknown => Factor::AfterUnknown,
            });
        }
        // Reordered packets did not reduce the window, unless the sender declared them lost.
        let first = if report.needless == Some(Needless::Overtaken) { Factor::SlowStart } else { Factor::AfterUnknown };
        let factor = cause.unwrap_or(first);
        nanos[factor as usize] = nanos[factor as usize].saturating_add(loss.charged);
    }
    if losses.iter().any(|loss| loss.needless.is_none() && loss.verdict.cause == Cause::Policed) {
        // The policer's rate is the bottleneck rate, regardless of the queue in front of it.
        nanos[Factor::Policer as usize] += std::mem::take(&mut nanos[Factor::Bottleneck as usize]);
    }
    let total: f64 = nanos.iter().map(|&nanos| nanos as f64).sum();
    let share = |nanos: i64| (nanos as f64 / total * 1e4).round() / 1e4;
    let mut limits: Vec<Limit> = FACTORS
        .into_iter()
        .zip(nanos)
        .filter(|&(_, nanos)| nanos > 0)
        .map(|(factor, nanos)| Limit { factor, share: share(nanos) })
        .collect();
    limits.sort_by(|a, b| b.share.total_cmp(&a.share));
    limits
}
