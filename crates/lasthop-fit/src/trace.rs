//! Observations of one direction of a link.

use std::collections::BTreeMap;

use lasthop_proto::time::Duration;

use crate::bits::Bits;

/// Packet sent over the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Start of transmission, from an origin of the trace's own.
    pub at: Duration,
    /// Transmission time; zero if the link's rate is unknown.
    pub air: Duration,
    /// Size in bytes, network header included.
    pub bytes: u32,
    /// True if the packet was lost.
    pub lost: bool,
}

/// Knowledge of the times of transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Times are those of transmission.
    Known,
    /// Only the order is known.
    Unknown,
}

/// Minimum number of packets with an uncommon size that shows whether losses affect packets or bytes. A transfer's last
/// segment is short, and is retransmitted if lost, which shows nothing.
const FEW: u64 = 100;

/// Diversity of packet sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// All packets, or nearly all, have the same size.
    One,
    /// Enough packets have other sizes to show an effect of size.
    Several,
}

/// Size of a packet, and its transmission time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    pub(crate) bytes: u32,
    pub(crate) air: Duration,
}

/// Times at which packets were sent.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Times {
    /// At multiples of an interval.
    Even(Duration),
    /// Listed, in order.
    Listed(Vec<Duration>),
}

/// Packets of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    /// Size in bytes.
    pub(crate) bytes: u32,
    /// Number of packets that arrived.
    pub(crate) arrived: u64,
    /// Number of packets lost.
    pub(crate) lost: u64,
}

impl Tally {
    pub(crate) fn packets(&self) -> u64 {
        self.arrived + self.lost
    }

    pub(crate) fn count(&mut self, lost: bool) {
        *(if lost { &mut self.lost } else { &mut self.arrived }) += 1;
    }
}

/// Packets of one direction of a link, in order of transmission. A packet takes a bit of memory, 8 bytes more if times
/// are irregular, and 4 bytes more if sizes differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LossTrace {
    lost: Bits,
    times: Times,
    /// Distinct sizes, at least one.
    forms: Vec<Form>,
    /// Index into `forms` of each packet; empty if there is one form.
    form_of: Vec<u32>,
    clock: Clock,
    sizes: Sizes,
}

/// Trace under construction.
#[derive(Default)]
pub(crate) struct Builder {
    lost: Bits,
    times: Vec<Duration>,
    forms: Vec<Form>,
    form_of: Vec<u32>,
    numbers: BTreeMap<(u32, u64), u32>,
    is_sorted: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { is_sorted: true, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.lost.len()
    }

    pub(crate) fn push(&mut self, packet: Sent) {
        let form = Form { bytes: packet.bytes, air: packet.air };
        let before = self.form_of.last().map_or(0, |number| *number);
        let number = if self.forms.get(before as usize) == Some(&form) {
            before
        } else {
            let forms = &mut self.forms;
            *self.numbers.entry((form.bytes, form.air.as_nanos())).or_insert_with(|| {
                forms.push(form);
                forms.len() as u32 - 1
            })
        };
        // The indices of the first form are added once there is a second one.
        if number > 0 && self.form_of.is_empty() {
            self.form_of.resize(self.lost.len(), 0);
        }
        if self.forms.len() > 1 {
            self.form_of.push(number);
        }
        self.is_sorted &= self.times.last().is_none_or(|last| *last <= packet.at);
        self.times.push(packet.at);
        self.lost.push(packet.lost);
    }

    /// Returns the trace, sorted by time.
    pub(crate) fn finish(self) -> LossTrace {
        let Self { lost, times, mut forms, form_of, is_sorted, .. } = self;
        if forms.is_empty() {
            forms.push(Form { bytes: 0, air: Duration::ZERO });
        }
        let mut trace =
            LossTrace { lost, times: Times::Listed(times), forms, form_of, clock: Clock::Known, sizes: Sizes::One };
        if !is_sorted {
            let mut packets = trace.packets();
            packets.sort_by_key(|packet| packet.at);
            return LossTrace::timed(packets);
        }
        trace.sizes = trace.diversity();
        trace
    }
}

impl LossTrace {
    /// Creates a trace of packets with known times of transmission, and sorts them by time.
    pub fn timed(packets: Vec<Sent>) -> Self {
        let mut builder = Builder::new();
        packets.into_iter().for_each(|packet| builder.push(packet));
        builder.finish()
    }

    /// Creates a trace of which only order and losses are known: packets of 1,500 bytes, a millisecond apart.
    pub fn ordered(losses: impl IntoIterator<Item = bool>) -> Self {
        Self {
            lost: losses.into_iter().collect(),
            times: Times::Even(Duration::from_millis(1)),
            forms: vec![Form { bytes: 1500, air: Duration::ZERO }],
            form_of: Vec::new(),
            clock: Clock::Unknown,
            sizes: Sizes::One,
        }
    }

    /// Returns the packets as sent on a link with this rate: each occupies it for its transmission time, after those
    /// before it.
    pub fn at_rate(mut self, bits_per_second: f64) -> Self {
        if self.clock == Clock::Unknown {
            return self;
        }
        for form in &mut self.forms {
            form.air = Duration::from_secs_f64(8.0 * f64::from(form.bytes) / bits_per_second);
        }
        let mut free = Duration::ZERO;
        match (&mut self.times, self.forms.as_slice()) {
            (Times::Even(interval), [form]) => *interval = form.air.max(*interval),
            (Times::Even(_), _) => {
                let packets: Vec<Sent> = self.iter().collect();
                let times = packets.iter().map(|packet| {
                    let at = packet.at.max(free);
                    free = at + packet.air;
                    at
                });
                self.times = Times::Listed(times.collect());
            }
            (Times::Listed(times), forms) => {
                for (number, at) in times.iter_mut().enumerate() {
                    let form = self.form_of.get(number).map_or(0, |form| *form as usize);
                    *at = (*at).max(free);
                    free = *at + forms[form].air;
                }
            }
        }
        self
    }

    /// Returns the packets, one per `interval` if their times are unknown.
    pub fn at_even_times(mut self, interval: Duration) -> Self {
        if self.clock == Clock::Unknown {
            self.times = Times::Even(interval);
            self.clock = Clock::Known;
        }
        self
    }

    /// Returns the 10th percentile of the time between the starts of successive packets, in seconds; `None` if times
    /// are unknown, or all the same.
    pub fn closest_spacing(&self) -> Option<f64> {
        let tenth = match &self.times {
            _ if self.clock == Clock::Unknown || self.len() < 2 => return None,
            Times::Even(interval) => interval.as_secs_f64(),
            Times::Listed(times) => {
                let gap = |pair: &[Duration]| pair[1].as_secs_f64() - pair[0].as_secs_f64();
                let mut gaps: Vec<f64> = times.windows(2).map(gap).collect();
                let tenth = gaps.len() / 10;
                *gaps.select_nth_unstable_by(tenth, f64::total_cmp).1
            }
        };
        (tenth > 0.0).then_some(tenth)
    }

    /// Returns the transmission time of a full packet of 1,500 bytes in seconds; `None` if the link's rate is unknown.
    pub fn full_packet_air(&self) -> Option<f64> {
        let sent = self.iter().find(|packet| packet.bytes > 0 && packet.air > Duration::ZERO)?;
        Some(sent.air.as_secs_f64() * 1500.0 / f64::from(sent.bytes))
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.lost.len()
    }

    /// Returns whether the trace has no packets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a list of the packets in order of transmission.
    pub fn packets(&self) -> Vec<Sent> {
        self.iter().collect()
    }

    /// Returns the packets in order of transmission.
    pub fn iter(&self) -> impl Iterator<Item = Sent> + '_ {
        self.timings().zip(self.lost.iter()).map(|((at, form), lost)| Sent {
            at,
            air: form.air,
            bytes: form.bytes,
            lost,
        })
    }

    /// Returns the time and the form of each packet.
    pub(crate) fn timings(&self) -> impl Iterator<Item = (Duration, Form)> + '_ {
        (0..self.len()).map(|number| (self.at(number), self.form(number)))
    }

    /// Returns the time of the packet with this number.
    fn at(&self, number: usize) -> Duration {
        match &self.times {
            Times::Even(interval) => Duration::from_nanos((number as u64).saturating_mul(interval.as_nanos())),
            Times::Listed(times) => times[number],
        }
    }

    /// Returns the form of the packet with this number.
    pub(crate) fn form(&self, number: usize) -> Form {
        self.forms[self.form_of.get(number).map_or(0, |form| *form as usize)]
    }

    /// Returns the time from the first packet to the last.
    pub(crate) fn duration(&self) -> Duration {
        let (Some(first), Some(last)) = (self.iter().next(), self.len().checked_sub(1)) else { return Duration::ZERO };
        Duration::from_nanos(self.at(last).as_nanos() - first.at.as_nanos())
    }

    /// Returns the time between packets if all have the same form and are evenly spaced.
    pub(crate) fn even_interval(&self) -> Option<Duration> {
        match (&self.times, self.forms.as_slice()) {
            (Times::Even(interval), [_]) => Some(*interval),
            _ => None,
        }
    }

    /// Returns the losses.
    pub(crate) fn bits(&self) -> &Bits {
        &self.lost
    }

    /// Returns the losses in order of transmission.
    pub fn losses(&self) -> impl Iterator<Item = bool> + '_ {
        self.lost.iter()
    }

    /// Returns whether times are known.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the number of lost packets.
    pub fn lost(&self) -> u64 {
        self.lost.ones()
    }

    /// Returns whether packets have several sizes.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns the packets of each size.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        if let [form] = self.forms.as_slice() {
            let lost = self.lost();
            return vec![Tally { bytes: form.bytes, arrived: self.len() as u64 - lost, lost }];
        }
        self.tallies_of(|_| true)
    }

    /// Returns the packets of each size among those that `counts` accepts by their losses, in order.
    pub(crate) fn tallies_of(&self, mut counts: impl FnMut(bool) -> bool) -> Vec<Tally> {
        let mut by_form: Vec<Tally> =
            self.forms.iter().map(|form| Tally { bytes: form.bytes, arrived: 0, lost: 0 }).collect();
        for (number, lost) in self.lost.iter().enumerate() {
            if counts(lost) {
                by_form[self.form_of.get(number).map_or(0, |form| *form as usize)].count(lost);
            }
        }
        let mut by_size: BTreeMap<u32, Tally> = BTreeMap::new();
        for Tally { bytes, arrived, lost } in by_form {
            let tally = by_size.entry(bytes).or_insert(Tally { bytes, arrived: 0, lost: 0 });
            tally.arrived += arrived;
            tally.lost += lost;
        }
        by_size.into_values().filter(|tally| tally.packets() > 0).collect()
    }

    fn diversity(&self) -> Sizes {
        let commonest = self.tallies().iter().map(Tally::packets).max().unwrap_or(0);
        if self.len() as u64 - commonest < FEW { Sizes::One } else { Sizes::Several }
    }

    /// Returns the loss, 0 to 1, in each of at most `spans` spans of equal length, preceded by its beginning: in
    /// seconds from the first packet, or in packets if times are unknown. Spans without packets are omitted.
    pub fn loss_over_time(&self, spans: usize) -> Vec<(f64, f64)> {
        let at = |number: usize| match &self.times {
            _ if self.clock == Clock::Unknown => number as f64,
            Times::Even(interval) => {
                Duration::from_nanos((number as u64).saturating_mul(interval.as_nanos())).as_secs_f64()
            }
            Times::Listed(times) => times[number].as_secs_f64() - times[0].as_secs_f64(),
        };
        let Some(last) = self.len().checked_sub(1) else { return Vec::new() };
        let (length, whole) = match self.clock {
            Clock::Known => (at(last), 0.0),
            Clock::Unknown => (self.len() as f64, 1.0),
        };
        // A span must not be shorter than a packet.
        let span = (length / spans.max(1) as f64).max(whole).max(f64::MIN_POSITIVE);
        let mut counts = vec![(0_u64, 0_u64); spans.max(1)];
        for (number, lost) in self.lost.iter().enumerate() {
            let place = ((at(number) / span) as usize).min(counts.len() - 1);
            counts[place].0 += 1;
            counts[place].1 += u64::from(lost);
        }
        let share = |(at, (all, lost)): (usize, &(u64, u64))| {
            (*all > 0).then(|| (at as f64 * span, *lost as f64 / *all as f64))
        };
        counts.iter().enumerate().filter_map(share).collect()
    }

    /// Returns the lengths of the runs of lost packets, in order.
    pub fn runs(&self) -> Vec<u32> {
        self.lost.runs().filter(|(lost, _)| *lost).map(|(_, count)| count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_over_time_are_shares_of_spans() {
        let packet = |millis, lost| Sent { at: Duration::from_millis(millis), air: Duration::ZERO, bytes: 1, lost };
        let trace = LossTrace::timed(vec![packet(0, false), packet(100, true), packet(900, true), packet(1000, true)]);
        // Two spans of half a second each.
        assert_eq!(trace.loss_over_time(2), [(0.0, 0.5), (0.5, 1.0)]);
        assert_eq!(trace.loss_over_time(4), [(0.0, 0.5), (0.75, 1.0)]);
        // By number if times are unknown, and no span shorter than a packet.
        let ordered = LossTrace::ordered([true, false, false, true]);
        assert_eq!(ordered.loss_over_time(2), [(0.0, 0.5), (2.0, 0.5)]);
        assert_eq!(ordered.loss_over_time(100).len(), 4);
        assert_eq!(LossTrace::ordered([true]).loss_over_time(10), [(0.0, 1.0)]);
        assert_eq!(LossTrace::timed(vec![packet(5, true); 3]).loss_over_time(10), [(0.0, 1.0)]);
    }

    /// Packets come out as they went in, sorted by time, whatever their sizes.
    #[test]
    fn a_trace_holds_the_packets_given() {
        let packet = |number: u64| Sent {
            at: Duration::from_millis(number * 7 % 50),
            air: Duration::from_micros(number % 3),
            bytes: [1500, 1500, 40][number as usize % 3],
            lost: number.is_multiple_of(4),
        };
        for count in [0, 1, 2, 3, 200] {
            let mut packets: Vec<Sent> = (0..count).map(packet).collect();
            let trace = LossTrace::timed(packets.clone());
            packets.sort_by_key(|packet| packet.at);
            assert_eq!(trace.packets(), packets);
            assert_eq!(trace.tallies().iter().map(Tally::packets).sum::<u64>(), count);
        }
    }

    /// On a link with a rate, packets at even times leave when those before them have.
    #[test]
    fn even_packets_take_turns_on_a_slow_link() {
        let at = |rate| {
            let trace = LossTrace::ordered([false; 4]).at_even_times(Duration::from_millis(2)).at_rate(rate);
            trace.iter().map(|packet| packet.at.as_nanos() / 1_000_000).collect::<Vec<_>>()
        };
        assert_eq!((at(12e6), at(3e6)), (vec![0, 2, 4, 6], vec![0, 4, 8, 12]));
    }
}
