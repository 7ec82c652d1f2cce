//! The option of accurate ECN at the receiver of data: numbers of bytes by their ECN field (RFC 9768 §3.2.3; Linux
//! `tcp_established_options`, `tcp_options_fit_accecn`).

use super::{Connection, failure};
use crate::packet::{Ecn, EcnCounters, Options, Segment, Side};
use crate::seq::Seq;
use crate::tcp::config::{CommonConfig, EcnOption, Switch};
use crate::tcp::stream::{Seen, counter_of, initial_bytes};
use crate::time::Instant;

/// Kind of the option that this end sends: ECT(1) first.
const KIND: u8 = 174;
/// ECN fields in the order of the option.
const ORDER: [Ecn; 3] = [Ecn::Ect1, Ecn::Ce, Ecn::Ect0];
/// Length of the option with all counters, padded.
const FULL: u32 = 12;
/// Minimum number of SACK blocks that the option leaves.
const LEAST_BLOCKS: usize = 2;
/// Change of a counter, in bits, that has to be reported: before half of its 24 bits.
const REPORTED_BITS: u32 = 22;

/// Numbers of bytes that arrived, and their reports.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp::connection) struct Counting {
    /// Use of the option (`net.ipv4.tcp_ecn_option`).
    option: EcnOption,
    /// Bytes that arrived with ECT(1), ECT(0) and CE.
    bytes: [u32; 3],
    /// Number of counters that the next option has to contain.
    needed: u8,
    /// Number of segments that have to carry the option.
    demanded: u8,
    /// Time of the last option.
    sent_at: Instant,
    /// First number of the duplicate data that the last segment reported together with the option.
    duplicate: Option<Seq>,
    /// Bytes by which segments are shorter, for the option.
    reserved: u32,
    /// On if a SYN-ACK has left.
    answered: Switch,
}

impl Counting {
    pub fn new(config: &CommonConfig) -> Self {
        Self {
            option: config.ecn_option,
            bytes: [0; 3],
            needed: 0,
            demanded: 0,
            sent_at: Instant::ZERO,
            duplicate: None,
            reserved: 0,
            answered: Switch::Off,
        }
    }

    pub fn bytes(&self) -> [u32; 3] {
        self.bytes
    }

    /// Requires the option in the next segments.
    pub fn demand(&mut self, segments: u8) {
        self.demanded = self.demanded.max(segments);
    }

    /// Counts the payload of a packet.
    pub fn count(&mut self, ecn: Ecn, len: u32) {
        let Some(counter) = counter_of(ecn).filter(|_| len > 0) else { return };
        let before = self.bytes[counter];
        self.bytes[counter] = before.wrapping_add(len);
        let place = ORDER.iter().position(|field| *field == ecn).unwrap_or(0);
        self.needed = self.needed.max(place as u8 + 1);
        if (self.bytes[counter] ^ before) >> REPORTED_BITS != 0 {
            self.demand(1);
        }
    }

    /// Returns the option with its first `count` counters.
    fn counters(&self, count: usize) -> Option<EcnCounters> {
        let value = |ecn: Ecn| {
            let bytes = counter_of(ecn).map_or(0, |counter| self.bytes[counter]);
            bytes.wrapping_add(initial_bytes(ecn))
        };
        EcnCounters::new(KIND, &ORDER.map(value)[..count])
    }

    /// Adds the option to others, with as many counters as there is space for, in place of a SACK block if necessary.
    /// Returns whether there is space for the needed ones.
    fn fit(&self, options: &mut Options) -> bool {
        let (blocks, needed) = (options.sack, usize::from(self.needed));
        let least = if needed > 0 { LEAST_BLOCKS.min(blocks.len()) } else { blocks.len() };
        for kept in (least..=blocks.len()).rev() {
            options.sack.truncate(kept);
            let space = options.space();
            let fits = |counters: &EcnCounters| counters.padded_len(kept > 0) <= space;
            let counters = (needed..=3).rev().find_map(|count| self.counters(count).filter(fits));
            if counters.is_some() {
                options.ecn_counters = counters;
                return true;
            }
        }
        options.sack = blocks;
        false
    }
}

impl Connection {
    /// Changes the use of the option of accurate ECN (`net.ipv4.tcp_ecn_option`).
    pub fn set_ecn_option(&mut self, option: EcnOption) {
        if let Some(accurate) = &mut self.accurate {
            accurate.counting.option = option;
        }
    }

    /// Evaluates the option of the peer's SYN-ACK, which this end answers with its own.
    pub(super) fn see_option_of_syn(&mut self, segment: &Segment) {
        let Some(option) = segment.options.ecn_counters else { return };
        let feedback = self.sender.stream_mut().feedback_mut();
        let (Some(accurate), Some(feedback)) = (&mut self.accurate, feedback) else { return };
        if feedback.seen < Seen::Counters {
            feedback.see_option(Some(option));
            accurate.counting.demand(2);
        }
    }

    /// Records that data at `seq`, all of which is present, arrived again. If this was reported together with the
    /// option, the report was lost twice: the path may drop segments with the option (RFC 9768 §3.2.3.2.2).
    pub(in crate::tcp::connection) fn see_repeated(&mut self, seq: Seq) {
        if let Some(accurate) = &mut self.accurate
            && accurate.counting.duplicate == Some(seq)
        {
            accurate.failures |= failure::OPTION_SENT;
        }
    }

    /// Returns whether the next segment carries the option.
    fn sends_option(&self, now: Instant) -> bool {
        let (Some(accurate), Some(feedback)) = (&self.accurate, self.sender.stream().feedback()) else { return false };
        let counting = &accurate.counting;
        let works = accurate.failures & failure::OPTION_SENT == 0;
        let is_known = feedback.seen != Seen::Nothing;
        is_known
            && match counting.option {
                EcnOption::Off => false,
                EcnOption::Persistent => true,
                EcnOption::Full => works,
                EcnOption::Minimum => works && (counting.demanded > 0 || self.is_beacon_due(now, counting.sent_at)),
            }
    }

    /// Returns whether the last option, of `sent_at`, is old (`tcp_accecn_option_beacon_check`).
    fn is_beacon_due(&self, now: Instant, sent_at: Instant) -> bool {
        let beacon = u64::from(self.config.common.ecn_option_beacon);
        let srtt = self.sender.stream().rtt().srtt().map_or(0, |srtt| srtt.as_nanos());
        beacon > 0 && now.since(sent_at).as_nanos().saturating_mul(beacon) >= srtt
    }

    /// Adopts the segment size that leaves space for the option in the next segment.
    #[inline(never)]
    pub(in crate::tcp::connection) fn reserve_for_option(&mut self, now: Instant) {
        let needed = if self.sends_option(now) { FULL } else { 0 };
        let whole = self.sender.stream().full_mss() + self.reserved_for_option();
        // A peer may announce a tiny segment size.
        let reserved = needed.min(whole - 1);
        if let Some(accurate) = &mut self.accurate
            && accurate.counting.reserved != reserved
        {
            accurate.counting.reserved = reserved;
            self.sender.stream_mut().set_mss(whole - reserved);
        }
    }

    /// Returns the number of bytes by which segments are shorter, for the option.
    pub(in crate::tcp::connection) fn reserved_for_option(&self) -> u32 {
        self.accurate.as_ref().map_or(0, |accurate| accurate.counting.reserved)
    }

    /// Adds the option to those of a segment that leaves, if it is its turn. `duplicate` is the first number of the
    /// duplicate data that the segment reports.
    pub(in crate::tcp::connection) fn put_counters(
        &mut self,
        now: Instant,
        options: &mut Options,
        duplicate: Option<Seq>,
    ) {
        let sends = self.sends_option(now) && !self.is_remnant();
        let Some(accurate) = &mut self.accurate else { return };
        let counting = &mut accurate.counting;
        counting.duplicate = None;
        if sends && counting.fit(options) {
            counting.needed = 0;
            counting.sent_at = now;
            counting.duplicate = duplicate;
            counting.demanded = counting.demanded.saturating_sub(1);
        }
    }

    /// Adds the option to those of a SYN-ACK: to the first one, as the path may drop it, or to two in a simultaneous
    /// open.
    pub(in crate::tcp::connection) fn put_initial_counters(&mut self, options: &mut Options) {
        let retries = self.sender.stream().syn_retries();
        let is_initiator = self.side == Side::Initiator;
        let Some(accurate) = &mut self.accurate else { return };
        let answered = core::mem::replace(&mut accurate.counting.answered, Switch::On).is_on();
        let is_early = if is_initiator { retries < super::ATTEMPTS } else { !answered };
        if is_early && accurate.counting.option != EcnOption::Off {
            Counting { bytes: [0; 3], needed: 0, ..accurate.counting }.fit(options);
        }
    }
}
