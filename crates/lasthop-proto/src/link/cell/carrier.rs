//! One direction of a cell: the channels and averages of those that share it, with and without a line.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::fair::Fair;
use super::quality::Channel;
use super::spec::{CellSpec, Direction, bits};
use crate::random::Stream;

/// Time constants of the scheduler's averages for which competing users are simulated before a line becomes active.
const SETTLING: u64 = 4;

/// Members of a carrier: first the lines, then the competing users.
#[derive(Clone, Debug)]
pub(super) struct Carrier {
    direction: Direction,
    fair: Fair,
    channels: Vec<Channel>,
    /// First TTI after the last one in which each line took part.
    left: Vec<u64>,
    /// First TTI that has not been processed for the competing users.
    next: u64,
    /// Failed blocks of the competing users: TTI of the repeat, and resource blocks.
    repeats: VecDeque<(u64, u32)>,
    errors: Stream,
}

impl Carrier {
    /// Returns a carrier on which nobody has sent. `channels` are those of the lines, then of the competing users.
    pub(super) fn new(
        spec: &CellSpec,
        direction: Direction,
        lines: usize,
        channels: Vec<Channel>,
        errors: Stream,
    ) -> Self {
        let mut fair = Fair::new(channels.len(), spec.fairness);
        let carrier = spec.carrier(direction);
        let alone = spec.thresholds().cqi(carrier.quality.mean).map_or(0, |cqi| spec.density(direction, cqi));
        for member in lines..channels.len() {
            let bits = bits(carrier.blocks, alone);
            fair.set_average(member, bits as f64 / f64::from(carrier.others.max(1)));
        }
        Self { direction, fair, channels, left: alloc::vec![0; lines], next: 0, repeats: VecDeque::new(), errors }
    }

    /// Returns the number of lines.
    pub(super) fn lines(&self) -> usize {
        self.left.len()
    }

    /// Begins a TTI with resource blocks for new data: brings the averages of the competing users up to date, and lets
    /// these users take part. Returns the resource blocks that their repeats leave.
    pub(super) fn begin(&mut self, spec: &CellSpec, tti: u64, units: u32) -> u32 {
        let mut left = units;
        if self.channels.len() > self.left.len() {
            let settling = spec.ttis_for(SETTLING * u64::from(spec.fairness), self.direction);
            for earlier in self.next.max(tti.saturating_sub(settling))..tti {
                let units = spec.units(earlier, self.direction);
                if units > 0 {
                    self.offer_others(spec, earlier);
                    let left = self.repeat(spec, earlier, units);
                    if let Some((member, density)) = self.best(spec, earlier).filter(|_| left > 0) {
                        self.serve_other(spec, earlier, (member, density), left);
                    }
                    self.fair.end();
                }
            }
            left = self.repeat(spec, tti, units);
            self.offer_others(spec, tti);
        }
        self.next = tti + 1;
        left
    }

    /// Transmits the repeats of the competing users that are due, and returns the resource blocks that they leave.
    fn repeat(&mut self, spec: &CellSpec, tti: u64, units: u32) -> u32 {
        let mut left = units;
        while let Some(repeat) = self.repeats.front_mut().filter(|(due, _)| *due <= tti && left > 0) {
            // A part if it does not fit.
            let taken = repeat.1.min(left);
            (repeat.1, left) = (repeat.1 - taken, left - taken);
            if repeat.1 == 0 {
                self.repeats.pop_front();
            }
            self.transmit(spec, tti, taken);
        }
        left
    }

    /// Transmits a block of a competing user, and schedules its repeat if it fails.
    fn transmit(&mut self, spec: &CellSpec, tti: u64, units: u32) {
        if self.errors.chance(spec.harq.loss) {
            let due = spec.tti_from(spec.start(tti) + spec.harq.delay);
            self.repeats.push_back((due.max(tti + 1), units));
        }
    }

    /// Lets a competing user fill the rest of a TTI.
    pub(super) fn serve_other(&mut self, spec: &CellSpec, tti: u64, (member, density): (usize, u64), units: u32) {
        self.fair.serve(member, bits(units, density));
        self.transmit(spec, tti, units);
    }

    fn offer_others(&mut self, spec: &CellSpec, tti: u64) {
        for member in self.left.len()..self.channels.len() {
            self.offer(spec, tti, member);
        }
    }

    /// Lets a member take part in a TTI.
    fn offer(&mut self, spec: &CellSpec, tti: u64, member: usize) {
        let density = self.density(spec, tti, member);
        self.fair.offer(member, bits(spec.units(tti, self.direction), density));
    }

    /// Lets a line take part in the TTI that has begun.
    pub(super) fn join(&mut self, spec: &CellSpec, tti: u64, line: usize) {
        let Some(left) = self.left.get_mut(line) else { return };
        let idle = spec.count_ttis(core::mem::replace(left, tti + 1), tti, self.direction);
        if idle > 0 {
            self.fair.decay(line, idle);
        }
        self.offer(spec, tti, line);
    }

    /// Returns the member to serve next, and the density of its channel.
    pub(super) fn best(&mut self, spec: &CellSpec, tti: u64) -> Option<(usize, u64)> {
        let member = self.fair.best()?;
        Some((member, self.density(spec, tti, member)))
    }

    /// Records that a member has received bits and takes nothing more in this TTI.
    pub(super) fn serve(&mut self, member: usize, bits: u64) {
        self.fair.serve(member, bits);
    }

    /// Ends the TTI.
    pub(super) fn end(&mut self) {
        self.fair.end();
    }

    /// Returns the density of a member's channel at a TTI; zero if it is out of range.
    fn density(&mut self, spec: &CellSpec, tti: u64, member: usize) -> u64 {
        let cqi = self.channels.get_mut(member).and_then(|channel| channel.cqi(spec.start(tti)));
        cqi.map_or(0, |cqi| spec.density(self.direction, cqi))
    }
}
