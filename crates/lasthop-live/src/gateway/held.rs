//! Packets kept for local retransmission: one buffer for a super-segment, however many pieces of it are cached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Packet, Segment};
use lasthop_wire::{View, parse, pieces, stamp};

use super::verdict::Injection;

/// Congestion window reduced (RFC 3168 §6.1.2).
const CWR: u8 = 0x80;

/// How many bytes are held.
#[derive(Clone, Default, Debug)]
pub(super) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A packet's bytes, as they came.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    meter: Meter,
}

impl Buffer {
    fn new(bytes: Box<[u8]>, meter: &Meter) -> Held {
        meter.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Some(Arc::new(Self { bytes, meter: meter.clone() }))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.meter.0.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// The packet that a mechanism's packet is, or is a piece of; nothing where it can't be asked for again.
pub(super) type Held = Option<Arc<Buffer>>;

/// Keeps a packet read as `view`.
pub(super) fn hold(packet: &[u8], view: &View, meter: &Meter) -> Held {
    Buffer::new(packet[..view.total_len()].into(), meter)
}

/// Keeps the part of a packet, read as `view`, that `segment` with `len` bytes of payload is.
pub(super) fn hold_piece(packet: &[u8], view: &View, segment: &Segment, len: u32, meter: &Meter) -> Held {
    Buffer::new(part(packet, view, segment, len)?.0.into(), meter)
}

/// The bytes of a part of a packet, lengths and checksums still those of the whole, and what they read as.
fn part(packet: &[u8], view: &View, segment: &Segment, len: u32) -> Option<(Vec<u8>, View)> {
    let offset = segment.seq.0.wrapping_sub(view.segment.seq.0) as usize;
    let start = view.header_len + offset;
    let payload = packet.get(start..start.checked_add(len as usize)?)?;
    let mut bytes = Vec::with_capacity(view.header_len + payload.len());
    bytes.extend_from_slice(&packet[..view.header_len]);
    bytes.extend_from_slice(payload);
    let flags = &mut bytes[view.ip_len + 13];
    if offset > 0 {
        *flags &= !CWR;
    }
    if offset + (len as usize) < view.payload_len {
        *flags &= !(Flags::FIN.0 | Flags::PSH.0);
    }
    let part = View { segment: *segment, payload_len: payload.len(), ..*view };
    stamp(&mut bytes, view, segment);
    // Held pieces are read again, so that their lengths must be right.
    Some((pieces(&bytes, &part, payload.len()).pop()?, part))
}

/// Puts a packet that a mechanism made out of one that it was given to the end of `out`, in pieces of at most `mtu` bytes.
pub(super) fn inject(packet: &Packet<Held>, towards: Port, mtu: usize, out: &mut Vec<Injection>) {
    let Some((held, segment)) = packet.payload.as_ref().zip(packet.tcp()) else { return };
    let Some(whole) = parse(&held.bytes) else { return };
    let Some((bytes, view)) = part(&held.bytes, &whole, segment, packet.len) else { return };
    let most = mtu.saturating_sub(view.header_len).max(1);
    if view.payload_len <= most {
        out.push(Injection { towards, packet: bytes });
    } else {
        out.extend(pieces(&bytes, &view, most).into_iter().map(|packet| Injection { towards, packet }));
    }
}
