//! Round-trip time of the hop, and the datagram that caused an acknowledgment.

use super::alternatives::Alternatives;
use super::copies::Copies;
use crate::time::{Duration, Instant};

/// Longest round trip of a hop for which a hold is long enough, and silence after which a burst begins.
const LONGEST: Duration = Duration::from_millis(100);
const SILENCE: Duration = Duration::from_millis(40);

/// Maximum number of datagrams on each side of the likely ones that are resent with them.
const MOST_UNSURE: u64 = 2;

/// Increase of the round trip that counts as a queue behind the device.
const QUEUE: Duration = Duration::from_millis(5);

/// Tolerance for the time at which an answer is expected.
const MARGIN: Duration = Duration::from_millis(1);

/// Longest spacing that counts as one.
const LONGEST_SPACING: Duration = Duration::from_millis(20);

/// Round-trip time of the hop from exchanges that match.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HopTime {
    /// Estimate, once there is one.
    rtt: Option<Duration>,
    /// Shortest sample from the handshake and bursts. A client's cryptography lengthens the answer to a handshake.
    initial: Option<Duration>,
    /// Number of bursts that were answered.
    bursts: u32,
    /// True once an acknowledgment has revealed a gap.
    has_gap: bool,
    /// The shortest sample from a repair.
    shortest: Option<Duration>,
    /// Mean deviation of the samples from repairs.
    deviation: Duration,
    /// Number of samples from repairs.
    repairs: u32,
    /// Mean distance between an acknowledgment and the datagram that is taken for its cause.
    blur: Duration,
    /// Mean spacing of datagrams to the hop.
    spacing: Duration,
    last_sent: Option<Instant>,
    /// The first two datagrams after a silence, until the first answer.
    burst: [Option<Instant>; 2],
    alternatives: Alternatives,
}

fn mix(old: Duration, new: Duration, weight: u64) -> Duration {
    (old * (weight - 1) + new) / weight
}

impl HopTime {
    /// Returns the estimate.
    pub const fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Returns the time after which an answer to a copy is overdue. Where a hold of `hold` is long enough for another
    /// copy, it is early enough for its answer.
    pub fn overdue(&self, hold: Duration) -> Option<Duration> {
        let rtt = self.rtt?;
        let overdue = rtt + rtt / 8 + self.deviation * 4 + MARGIN;
        let latest = hold.saturating_sub(rtt + MARGIN);
        Some(if latest > rtt { overdue.min(latest) } else { overdue })
    }

    /// Returns whether an acknowledgment at `now` answers a datagram that departed at `departed`, rather than a copy or
    /// a timer.
    pub fn is_answer(&self, now: Instant, departed: Instant) -> bool {
        let Some(rtt) = self.rtt else { return false };
        let sample = now.since(departed);
        let off = sample.saturating_sub(rtt).max(rtt.saturating_sub(sample));
        off <= (self.blur * 3).max(MARGIN / 4)
    }

    /// Returns whether a copy sent `ago` cannot have been answered yet.
    pub fn is_early(&self, ago: Duration) -> bool {
        let doubt = self.blur.max(self.deviation) * 2;
        self.rtt.is_some_and(|rtt| self.repairs > 0 && (ago + doubt) * 2 < rtt)
    }

    /// Returns the number of datagrams by which the cause of an acknowledgment is uncertain.
    pub fn uncertainty(&self) -> u64 {
        let doubt = self.blur.max(self.deviation) * 2;
        let spacing = self.spacing.as_nanos().max(1);
        let packets = (doubt.as_nanos() + spacing * 7 / 10) / spacing;
        packets.min(MOST_UNSURE).max(u64::from(self.repairs == 0))
    }

    /// Records a datagram sent to the hop.
    pub fn on_sent(&mut self, departs: Instant) {
        match self.last_sent {
            Some(last) if departs.since(last) < SILENCE => {
                let spacing = departs.since(last).min(LONGEST_SPACING);
                self.spacing = if self.spacing == Duration::ZERO { spacing } else { mix(self.spacing, spacing, 16) };
                if self.burst[0].is_some() && self.burst[1].is_none() {
                    self.burst[1] = Some(departs);
                }
            }
            _ => self.burst = [Some(departs), None],
        }
        self.last_sent = Some(departs);
    }

    /// Records the answer to a handshake, which is immediate.
    pub fn on_handshake(&mut self, now: Instant) {
        let [first, _] = core::mem::take(&mut self.burst);
        self.start(first.map(|first| now.since(first)));
    }

    /// Records an acknowledgment, and whether it reveals a gap. The first one after a silence that reveals none answers the
    /// second datagram of the burst, since everything before the silence has been acknowledged.
    ///
    /// The burst after the handshake may begin with HANDSHAKE_DONE (RFC 9000 §19.20), which the client acknowledges at
    /// once. After the first gap a burst may be probes, which are acknowledged at once if they ask for it
    /// (draft-ietf-quic-ack-frequency, IMMEDIATE_ACK).
    pub fn on_ack(&mut self, now: Instant, reveals_gap: bool) {
        let [first, second] = core::mem::take(&mut self.burst);
        self.has_gap |= reveals_gap;
        let may_start = self.initial.is_none() || (!self.has_gap && self.bursts > 0);
        self.bursts += u32::from(first.is_some());
        self.start(second.filter(|second| may_start && now > *second).map(|second| now.since(second)));
    }

    fn start(&mut self, sample: Option<Duration>) {
        if let Some(sample) = sample
            && sample < LONGEST
            && self.initial.is_none_or(|initial| sample < initial)
        {
            self.initial = Some(sample.max(Duration::from_micros(1)));
            self.alternatives.clear();
            // Samples from repairs are exact.
            if self.repairs == 0 {
                self.rtt = self.initial;
            }
        }
    }

    /// Returns the number of the datagram that an acknowledgment answers.
    pub fn answered<P>(&self, now: Instant, copies: &Copies<P>) -> Option<u64> {
        let sent = now.since(Instant::ZERO).as_nanos().checked_sub(self.rtt?.as_nanos())?;
        copies.closest(Instant::from_nanos(sent))
    }

    /// Refines the estimate by an acknowledgment and its cause.
    pub fn refine(&mut self, now: Instant, departed: Instant) {
        let Some(rtt) = self.rtt else { return };
        let sample = now.since(departed);
        let off = sample.saturating_sub(rtt).max(rtt.saturating_sub(sample));
        self.blur = mix(self.blur, off.min(LONGEST_SPACING), 16);
        if off * 2 < self.spacing {
            self.rtt = Some(mix(rtt, sample, 16));
        }
    }

    /// Replaces the estimate if another one names the causes of acknowledgments much more exactly.
    pub fn compare<P>(&mut self, now: Instant, copies: &Copies<P>) {
        let Some(rtt) = self.rtt else { return };
        if let Some(better) = self.alternatives.compare(now, (rtt, self.spacing), copies) {
            *self = Self { rtt: Some(better), shortest: None, deviation: Duration::ZERO, repairs: 0, ..*self };
        }
    }

    /// Records the time from a copy to the acknowledgment that it caused, which names its cause without doubt.
    pub fn on_repair(&mut self, sample: Duration) {
        let Some(rtt) = self.rtt else { return };
        let off = sample.saturating_sub(rtt).max(rtt.saturating_sub(sample));
        self.deviation = mix(self.deviation, off, 4);
        self.rtt = Some(if self.repairs == 0 { sample } else { mix(rtt, sample, 4) });
        // The first sample may be by chance.
        if self.repairs > 0 {
            self.shortest = Some(self.shortest.map_or(sample, |shortest| shortest.min(sample)));
        }
        self.repairs = self.repairs.saturating_add(1);
    }

    /// Returns whether a queue grows behind the device: the round trip is well above the shortest that repairs took. If
    /// so, the estimate begins anew at the shortest.
    pub fn rises(&mut self) -> bool {
        let (Some(rtt), Some(shortest)) = (self.rtt, self.shortest) else { return false };
        let rises = rtt > shortest + shortest / 4 + QUEUE;
        if rises {
            self.rtt = Some(shortest);
        }
        rises
    }

    /// Returns to the first estimate: the present one names the wrong datagrams.
    pub fn restart(&mut self) {
        let Self { initial, bursts, has_gap, spacing, last_sent, .. } = *self;
        *self = Self { rtt: initial, initial, bursts, has_gap, spacing, last_sent, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    /// Sends two datagrams from `us` on, 1.2 ms apart, and returns the estimate after an acknowledgment `later`.
    fn burst(hop: &mut HopTime, us: u64, later: u64, reveals_gap: bool) -> Option<Duration> {
        hop.on_sent(at(us));
        hop.on_sent(at(us + 1200));
        hop.on_ack(at(us + later), reveals_gap);
        hop.rtt()
    }

    /// A client that computes for 2 ms answers the handshake late. Bursts before the first loss show the round trip.
    #[test]
    fn bursts_correct_a_late_answer_to_the_handshake() {
        let mut hop = HopTime::default();
        let ms = |us: u64| Some(Duration::from_micros(us));
        hop.on_sent(at(0));
        hop.on_handshake(at(4200));
        assert_eq!(hop.rtt(), ms(4200));
        // The client acknowledges the datagram with HANDSHAKE_DONE at once: 0.9 ms after the second one.
        assert_eq!(burst(&mut hop, 50_000, 2100, false), ms(4200));
        assert_eq!(burst(&mut hop, 100_000, 3700, false), ms(2500));
        assert_eq!(burst(&mut hop, 150_000, 4700, false), ms(2500), "a late answer shows nothing");
        assert_eq!(burst(&mut hop, 200_000, 3300, false), ms(2100));
        // After a loss, the first of two probes is acknowledged at once.
        assert_eq!(burst(&mut hop, 250_000, 2200, true), ms(2100));
        assert_eq!(burst(&mut hop, 300_000, 2200, false), ms(2100));
        hop.restart();
        assert_eq!(burst(&mut hop, 350_000, 2200, false), ms(2100));
    }
}
