//! Arrivals at one end, in order, and their encoding in reports to the other end.

use lasthop_proto::time::{Duration, Instant};

use crate::source::{MOST_PACKETS, Sent};
use crate::wire::{BODY, Header, Reader, put_signed};

/// Maximum number of arrivals in one report.
const AT_ONCE: usize = 220;
/// Maximum encoded size of an arrival in bytes: two numbers and a code point.
const LONGEST: usize = 5 + 9 + 1;
/// Maximum number of packets whose sending can be requested at once.
pub(crate) const ASKED: usize = 60;
/// Resolution of reported times of arrival, in nanoseconds.
const STEP: i64 = 100;

/// First arrival of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Sequence number.
    pub seq: u32,
    /// Time, by the receiver's clock.
    pub at: Instant,
    /// DSCP on arrival.
    pub dscp: u8,
}

/// Receiving half of an end.
#[derive(Default)]
pub struct Sink {
    arrivals: Vec<Arrival>,
    /// Bitmap of the numbers received.
    seen: Vec<u64>,
    /// Contents of headers, by sequence number.
    sent: Vec<Option<Sent>>,
    /// Number of duplicates received.
    pub duplicates: u32,
}

impl Sink {
    /// Takes an authenticated packet of `size` bytes, IP header included. Returns whether it is new.
    pub fn take(&mut self, at: Instant, header: &Header, size: u16, dscp: u8) -> bool {
        let (word, bit) = ((header.seq / 64) as usize, 1 << (header.seq % 64));
        if header.seq as usize >= MOST_PACKETS {
            return false;
        }
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicates = self.duplicates.saturating_add(1);
            return false;
        }
        self.seen[word] |= bit;
        self.arrivals.push(Arrival { seq: header.seq, at, dscp });
        self.know(
            header.seq,
            Sent {
                at: Instant::from_nanos(header.sent),
                size,
                order: header.order,
                index: header.index,
                dscp: header.dscp,
            },
        );
        true
    }

    /// Returns all arrivals, in order.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Returns how a packet was sent, if known.
    pub fn sent(&self, seq: u32) -> Option<&Sent> {
        self.sent.get(seq as usize)?.as_ref()
    }

    /// Records how a packet was sent.
    pub fn know(&mut self, seq: u32, sent: Sent) {
        let at = seq as usize;
        if at < MOST_PACKETS {
            if self.sent.len() <= at {
                self.sent.resize(at + 1, None);
            }
            self.sent[at] = Some(sent);
        }
    }

    /// Encodes arrivals starting at index `from`, as many as fit into `room` bytes.
    pub(crate) fn tell(&self, from: u32, room: usize) -> Vec<u8> {
        let mut bytes = from.to_be_bytes().to_vec();
        bytes.push(0);
        let mut before = Arrival { seq: 0, at: Instant::ZERO, dscp: 0 };
        for arrival in self.arrivals.iter().skip(from as usize).take(AT_ONCE) {
            if bytes.len() + LONGEST > room.min(BODY) {
                break;
            }
            bytes[4] += 1;
            let steps = |at: Instant| at.as_nanos() as i64 / STEP;
            put_signed(&mut bytes, i64::from(arrival.seq) - i64::from(before.seq));
            put_signed(&mut bytes, steps(arrival.at).wrapping_sub(steps(before.at)));
            bytes.push(arrival.dscp);
            before = *arrival;
        }
        bytes
    }
}

/// Decodes a report: the index of its first arrival, and the arrivals.
pub(crate) fn told(bytes: &[u8]) -> Option<(u32, Vec<Arrival>)> {
    let mut reader = Reader(bytes);
    let (from, count) = (reader.u32()?, reader.u8()?);
    let (mut seq, mut at) = (0_i64, 0_i64);
    let mut arrivals = Vec::with_capacity(count.into());
    for _ in 0..count {
        seq = seq.checked_add(reader.signed()?)?;
        at = at.checked_add(reader.signed()?)?;
        let number = u32::try_from(seq).ok().filter(|seq| (*seq as usize) < MOST_PACKETS)?;
        let at = Instant::from_nanos(u64::try_from(at).ok()?.checked_mul(STEP as u64)?);
        arrivals.push(Arrival { seq: number, at, dscp: reader.u8()? });
    }
    Some((from, arrivals))
}

/// Encodes how the requested packets of `log` were sent.
pub(crate) fn tell_sent(log: &[Sent], mut asked: Reader<'_>) -> Option<Vec<u8>> {
    let count = usize::from(asked.u8()?).min(ASKED);
    let mut bytes = vec![0];
    for _ in 0..count {
        let seq = asked.u32()?;
        let Some(Sent { at, size, order, index, dscp }) = log.get(seq as usize) else { continue };
        bytes[0] += 1;
        bytes.extend(seq.to_be_bytes());
        // 48 bits in units of 100 ns: 325 days.
        bytes.extend(&(at.as_nanos() / STEP as u64).to_be_bytes()[2..]);
        bytes.extend([*size, *order, *index].map(u16::to_be_bytes).concat());
        bytes.push(*dscp);
    }
    Some(bytes)
}

/// Decodes the answer to such a request.
pub(crate) fn told_sent(bytes: &[u8]) -> Option<Vec<(u32, Sent)>> {
    let mut reader = Reader(bytes);
    let count = reader.u8()?;
    let mut all = Vec::with_capacity(count.into());
    for _ in 0..count {
        let seq = reader.u32()?;
        let steps = (u64::from(reader.u16()?) << 32) | u64::from(reader.u32()?);
        let at = Instant::ZERO + Duration::from_nanos(steps.checked_mul(STEP as u64)?);
        let (size, order, index) = (reader.u16()?, reader.u16()?, reader.u16()?);
        all.push((seq, Sent { at, size, order, index, dscp: reader.u8()? }));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Kind;

    fn header(seq: u32) -> Header {
        Header { kind: Kind::Data, session: 0, seq, order: 1, index: 2, dscp: 46, sent: u64::from(seq) * 1000 }
    }

    #[test]
    fn arrivals_are_told_as_they_came() {
        let mut sink = Sink::default();
        let numbers = [3, 4, 7, 5, 6, 100_000];
        for (place, seq) in numbers.into_iter().enumerate() {
            assert!(sink.take(Instant::from_nanos((1 << 40) | (place as u64 * 700)), &header(seq), 100, 8));
        }
        assert!(!sink.take(Instant::from_nanos(1 << 50), &header(4), 100, 8));
        assert!(!sink.take(Instant::from_nanos(1 << 50), &header(u32::MAX), 100, 8));
        assert_eq!(sink.duplicates, 1);
        let (from, arrivals) = told(&sink.tell(2, 200)).unwrap();
        assert_eq!((from, arrivals.len()), (2, 4));
        assert!(arrivals.iter().zip(&sink.arrivals()[2..]).all(|(told, kept)| {
            (told.seq, told.dscp) == (kept.seq, kept.dscp) && kept.at.as_nanos() - told.at.as_nanos() < 100
        }));
        let log = [Sent { at: Instant::from_nanos(5_000), size: 100, order: 1, index: 2, dscp: 46 }];
        let told = told_sent(&tell_sent(&log, Reader(&[2, 0, 0, 0, 0, 0, 0, 0, 9])).unwrap()).unwrap();
        assert_eq!(told, [(0, log[0])]);
    }

    proptest! {
        #[test]
        fn anything_is_read_without_a_panic(bytes: Vec<u8>) {
            let _ = (told(&bytes), told_sent(&bytes), tell_sent(&[], Reader(&bytes)));
        }
    }
}
