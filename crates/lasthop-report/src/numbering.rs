//! Sequence numbers as places in the streams of connections. A flow of a web session has one connection after another, each with
//! first sequence numbers of its own, which its SYN tells.
#![expect(clippy::disallowed_types, reason = "only looked up, so that no order shows")]

use std::collections::HashMap;

use lasthop_proto::packet::{Flags, FlowId, Side};
use lasthop_sim::trace::{Record, Trace};

use crate::describe;

/// A number that lies further from the first one of its connection belongs to the connection before.
const FAR: u32 = 1 << 31;

/// What the capture points know of the connections that pass them. Links deliver in order, so at each of them a connection
/// begins with its SYN.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbering {
    /// Looked up only.
    streams: HashMap<(u16, FlowId, Side), Stream>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    iss: u32,
    /// Of the connection before this one.
    before: Option<u32>,
    /// Bytes of the connections before this one.
    base: u64,
    /// The end of what was seen, the connections before this one included.
    end: u64,
}

impl Numbering {
    /// Takes note of a record, before its numbers are asked for.
    pub fn see(&mut self, record: &Record) {
        let Some(packet) = describe::packet(&record.what) else { return };
        let Some(segment) = packet.tcp().filter(|segment| segment.flags.has(Flags::SYN)) else { return };
        let place = (record.point, record.flow, packet.from);
        match self.streams.get_mut(&place) {
            Some(stream) if stream.iss == segment.seq.0 => {}
            Some(stream) => {
                let before = Some(stream.iss);
                *stream = Stream { iss: segment.seq.0, before, base: stream.end, end: stream.end };
            }
            None => {
                self.streams.insert(place, Stream { iss: segment.seq.0, ..Stream::default() });
            }
        }
    }

    /// How far `seq`, a number of `side`'s, is from the first one of its connection, as capture point and flow of `record` know it.
    pub fn relative(&self, trace: &Trace, record: &Record, side: Side, seq: u32) -> u32 {
        let Some(stream) = self.streams.get(&(record.point, record.flow, side)) else {
            let iss = trace.flows.get(record.flow.0 as usize).map_or(0, |flow| flow.iss[side.index()]);
            return seq.wrapping_sub(iss);
        };
        let now = seq.wrapping_sub(stream.iss);
        match stream.before.map(|iss| seq.wrapping_sub(iss)) {
            Some(before) if now >= FAR && before < FAR => before,
            _ => now,
        }
    }

    /// The place of `seq` in the stream of bytes, from 0: behind the SYN.
    pub fn place(&self, trace: &Trace, record: &Record, side: Side, seq: u32) -> u32 {
        self.relative(trace, record, side, seq).wrapping_sub(1)
    }

    /// The place of `len` bytes from `seq` on behind the streams of all connections before this one, beyond 4 GiB too.
    pub fn cumulated(&mut self, trace: &Trace, record: &Record, side: Side, seq: u32, len: u32) -> u64 {
        let iss = trace.flows.get(record.flow.0 as usize).map_or(0, |flow| flow.iss[side.index()]);
        let stream =
            self.streams.entry((record.point, record.flow, side)).or_insert(Stream { iss, ..Stream::default() });
        let place = seq.wrapping_sub(stream.iss).wrapping_sub(1);
        let end = stream.end - stream.base;
        // The nearest number with these 32 bits.
        let ahead = place.wrapping_sub(end as u32) as i32;
        let place = stream.base + end.saturating_add_signed(i64::from(ahead));
        stream.end = stream.end.max(place + u64::from(len));
        place
    }
}
