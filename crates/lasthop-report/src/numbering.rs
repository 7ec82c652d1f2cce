//! Sequence numbers as positions in the streams of connections. A flow of a web session has successive connections,
//! each with its own initial sequence numbers, which its SYN shows.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::HashMap;

use lasthop_proto::packet::{Flags, FlowId, Side};
use lasthop_sim::trace::{Record, Trace};

use crate::describe;

/// Distance from the initial sequence number beyond which a number belongs to the previous connection.
const FAR: u32 = 1 << 31;

/// State of the connections at each capture point. Links deliver in order, so a connection begins with its SYN at each
/// of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbering {
    /// Used for look-ups only.
    streams: HashMap<(u16, FlowId, Side), Stream>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    iss: u32,
    /// Initial sequence number of the previous connection.
    before: Option<u32>,
    /// Bytes of the previous connections.
    base: u64,
    /// End of the data seen, previous connections included.
    end: u64,
}

impl Numbering {
    /// Processes a record, before its numbers are converted.
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

    /// Returns the distance of `seq`, a number of `side`, from the initial sequence number of its connection, as known
    /// at the capture point of `record`.
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

    /// Returns the position of `seq` in the stream of bytes, which begins with 0 after the SYN.
    pub fn place(&self, trace: &Trace, record: &Record, side: Side, seq: u32) -> u32 {
        self.relative(trace, record, side, seq).wrapping_sub(1)
    }

    /// Returns the position of `len` bytes starting at `seq` after the streams of all previous connections, also beyond
    /// 4 GiB.
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
