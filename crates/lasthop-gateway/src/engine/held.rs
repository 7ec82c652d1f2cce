//! Packets kept for local retransmission: one buffer for a super-segment, however many pieces of it are cached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Packet, Payload, Segment};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Checksum, View, parse, pieces, stamp};

use super::verdict::Injection;

/// How many bytes are held.
#[derive(Clone, Default, Debug)]
pub(super) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A packet's bytes, as they came and were verified.
#[derive(Debug)]
struct Buffer {
    bytes: Box<[u8]>,
    /// The sequence number of the first byte of payload, and where that is.
    seq: Seq,
    header_len: usize,
    checksum: Checksum,
    meter: Meter,
}

impl Buffer {
    fn held(bytes: Box<[u8]>, view: &View, checksum: Checksum, meter: &Meter) -> Held {
        meter.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let (seq, header_len) = (view.segment.seq, view.header_len);
        Held(Some(Arc::new(Self { bytes, seq, header_len, checksum, meter: meter.clone() })))
    }

    /// `len` bytes of payload from `seq` on.
    fn payload(&self, seq: Seq, len: u32) -> Option<&[u8]> {
        let at = self.header_len.checked_add(seq.0.wrapping_sub(self.seq.0) as usize)?;
        self.bytes.get(at..at.checked_add(len as usize)?)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.meter.0.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// The packet that a mechanism's packet is, or is a piece of; nothing where it can't be asked for again.
#[derive(Clone, Default, Debug)]
pub(super) struct Held(Option<Arc<Buffer>>);

impl Held {
    /// Nothing is kept.
    pub const NONE: Self = Self(None);
}

impl Payload for Held {
    fn agrees(a: &Packet<Self>, b: &Packet<Self>) -> bool {
        let (held, segments) = ((&a.payload.0, &b.payload.0), a.tcp().zip(b.tcp()));
        let (Some(first), Some(second), Some((one, other))) = (held.0, held.1, segments) else {
            // Who only watches keeps no bytes.
            return held.0.is_none() && held.1.is_none();
        };
        let from = one.seq.max(other.seq);
        let len = (one.seq + a.len).min(other.seq + b.len).since(from);
        match (first.payload(from, len), second.payload(from, len)) {
            (Some(first), Some(second)) => first == second,
            _ => false,
        }
    }
}

/// Keeps a packet read as `view`.
pub(super) fn hold(packet: &[u8], view: &View, checksum: Checksum, meter: &Meter) -> Held {
    Buffer::held(packet[..view.total_len()].into(), view, checksum, meter)
}

/// Keeps the part of a super-segment, read as `view`, that `segment` with `len` bytes of payload is.
pub(super) fn hold_piece(packet: &[u8], view: &View, segment: &Segment, len: u32, meter: &Meter) -> Held {
    let Some((piece, view)) = part(packet, view, segment, len, Checksum::Pending) else { return Held::NONE };
    Buffer::held(piece.into(), &view, Checksum::Complete, meter)
}

/// The part of a packet that `segment` with `len` bytes of payload is, with its window and timestamp, and what it reads as. The
/// whole carries a complete checksum on; a piece has none yet, and gets its own.
fn part(packet: &[u8], view: &View, segment: &Segment, len: u32, checksum: Checksum) -> Option<(Vec<u8>, View)> {
    let offset = segment.seq.0.wrapping_sub(view.segment.seq.0) as usize;
    let start = view.header_len + offset;
    let payload = packet.get(start..start.checked_add(len as usize)?)?;
    let mut bytes = Vec::with_capacity(view.header_len + payload.len());
    bytes.extend_from_slice(&packet[..view.header_len]);
    bytes.extend_from_slice(payload);
    stamp(&mut bytes, view, segment);
    let part = View { segment: *segment, payload_len: payload.len(), ..*view };
    if payload.len() == view.payload_len && checksum == Checksum::Complete {
        return Some((bytes, part));
    }
    let flags = &mut bytes[view.ip_len + 13];
    if offset > 0 {
        *flags &= !Flags::CWR.low_byte();
    }
    if offset + (len as usize) < view.payload_len {
        *flags &= !Flags::FIN.with(Flags::PSH).low_byte();
    }
    // Held pieces are read again, so that their lengths must be right.
    Some((pieces(&bytes, &part, payload.len()).pop()?, part))
}

/// Puts a packet that a mechanism made out of one that it was given to the end of `out`, in pieces of at most `mtu` bytes.
pub(super) fn inject(packet: &Packet<Held>, towards: Port, mtu: usize, out: &mut Vec<Injection>) {
    let Some((held, segment)) = packet.payload.0.as_ref().zip(packet.tcp()) else { return };
    let Some(whole) = parse(&held.bytes) else { return };
    let Some((bytes, view)) = part(&held.bytes, &whole, segment, packet.len, held.checksum) else { return };
    let most = mtu.saturating_sub(view.header_len).max(1);
    if view.payload_len <= most {
        out.push(Injection { towards, packet: bytes });
    } else {
        out.extend(pieces(&bytes, &view, most).into_iter().map(|packet| Injection { towards, packet }));
    }
}
