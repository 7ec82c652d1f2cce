//! Packets stored for local retransmission. All cached pieces of a super-segment share one buffer.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Packet, Payload, Segment};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Checksum, View, is_read, options_in, parse, part, pieces};

use super::passing::Passing;
use super::verdict::Injection;

/// Capacities of reusable buffers, in bytes. A larger packet gets a buffer of its own.
const ROOMS: [usize; 3] = [256, 2048, 1 << 16];

/// Maximum total size of the spare buffers of one capacity, in bytes.
const MOST_SPARE: usize = 1 << 22;

/// Store for packets: counts their bytes and keeps free buffers.
///
/// Buffers are reused because returning thousands of small ones to the allocator, or allocating a large one, can take
/// longer than all other work for a packet.
#[derive(Clone, Default, Debug)]
pub(super) struct Store(Arc<Shared>);

#[derive(Default, Debug)]
struct Shared {
    bytes: AtomicU64,
    /// Free buffers by capacity.
    spare: [Mutex<Vec<Arc<Buffer>>>; ROOMS.len()],
}

impl Store {
    /// Returns the number of bytes held now.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Returns the list of spare buffers that can hold `len` bytes, and their capacity.
    fn spare(&self, len: usize) -> Option<(&Mutex<Vec<Arc<Buffer>>>, usize)> {
        let which = ROOMS.iter().position(|room| len <= *room)?;
        Some((&self.0.spare[which], ROOMS[which]))
    }

    /// Stores bytes parsed as `view`.
    fn keep(&self, bytes: &[u8], view: &View, checksum: Checksum) -> Held {
        self.0.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let spare = self.spare(bytes.len());
        let (seq, header_len) = (view.segment.seq, view.header_len);
        let options_at = header_len - view.option_bytes(bytes).len();
        if let Some((spare, _)) = spare
            && let Some(mut kept) = spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
            && let Some(buffer) = Arc::get_mut(&mut kept)
        {
            buffer.bytes.clear();
            buffer.bytes.extend_from_slice(bytes);
            (buffer.seq, buffer.header_len, buffer.options_at, buffer.checksum) =
                (seq, header_len, options_at, checksum);
            buffer.store = Some(self.clone());
            return Held(Some(kept));
        }
        let mut room = Vec::with_capacity(spare.map_or(bytes.len(), |(_, room)| room));
        room.extend_from_slice(bytes);
        Held(Some(Arc::new(Buffer { bytes: room, seq, header_len, options_at, checksum, store: Some(self.clone()) })))
    }

    /// Takes back a buffer that is no longer referenced.
    fn take_back(&self, buffer: Arc<Buffer>) {
        self.0.bytes.fetch_sub(buffer.bytes.len() as u64, Ordering::Relaxed);
        let Some((spare, room)) = self.spare(buffer.bytes.len()) else { return };
        let mut spare = spare.lock().unwrap_or_else(PoisonError::into_inner);
        let most = MOST_SPARE / room;
        if spare.capacity() < most {
            // Reserve the full size at once: growing the list would copy it while a packet waits.
            spare.reserve_exact(most);
        }
        if spare.len() < most {
            spare.push(buffer);
        }
    }
}

/// Bytes of a packet as they arrived and were verified.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    /// Sequence number of the first payload byte; the payload starts at `header_len`.
    seq: Seq,
    header_len: usize,
    /// Offset of the TCP options.
    options_at: usize,
    checksum: Checksum,
    /// Store that the buffer returns to; `None` while the buffer is in the store.
    store: Option<Store>,
}

impl Buffer {
    /// Returns the bytes of the packet's TCP options.
    fn options(&self) -> &[u8] {
        self.bytes.get(self.options_at..self.header_len).unwrap_or_default()
    }

    /// Returns `len` bytes of payload starting at `seq`.
    fn payload(&self, seq: Seq, len: u32) -> Option<&[u8]> {
        let at = self.header_len.checked_add(seq.0.wrapping_sub(self.seq.0) as usize)?;
        self.bytes.get(at..at.checked_add(len as usize)?)
    }
}

/// Stored packet that contains a mechanism's packet; empty if the packet cannot be needed again.
#[derive(Clone, Default, Debug)]
pub(super) struct Held(Option<Arc<Buffer>>);

impl Held {
    /// Empty reference.
    pub const NONE: Self = Self(None);
}

impl Drop for Held {
    fn drop(&mut self) {
        // The last reference returns the buffer.
        if let Some(mut kept) = self.0.take()
            && let Some(buffer) = Arc::get_mut(&mut kept)
            && let Some(store) = buffer.store.take()
        {
            store.take_back(kept);
        }
    }
}

impl Payload for Held {
    fn agrees(a: &Packet<Self>, b: &Packet<Self>) -> bool {
        let (held, segments) = ((&a.payload.0, &b.payload.0), a.tcp().zip(b.tcp()));
        let (Some(first), Some(second), Some((one, other))) = (held.0, held.1, segments) else {
            // An observing rule stores no bytes.
            return held.0.is_none() && held.1.is_none();
        };
        let from = one.seq.max(other.seq);
        let len = (one.seq + a.len).min(other.seq + b.len).since(from);
        match (first.payload(from, len), second.payload(from, len)) {
            (Some(first), Some(second)) => first == second,
            _ => false,
        }
    }

    fn unread_options(packet: &Packet<Self>) -> u64 {
        let Some(held) = &packet.payload.0 else { return 0 };
        let mut unread = options_in(held.options()).filter(|option| !is_read(option)).peekable();
        if unread.peek().is_none() {
            return 0;
        }
        let mut digest = DefaultHasher::new();
        unread.for_each(|option| digest.write(option));
        digest.finish().max(1)
    }
}

/// Stores a packet parsed as `view`.
pub(super) fn hold(packet: &[u8], view: &View, checksum: Checksum, store: &Store) -> Held {
    store.keep(&packet[..view.total_len()], view, checksum)
}

/// Stores the part of a super-segment, parsed as `view`, that consists of `segment` and `len` bytes of payload.
pub(super) fn hold_piece(packet: &[u8], view: &View, segment: &Segment, len: u32, store: &Store) -> Held {
    let Some((piece, view)) = part(packet, view, segment, len as usize, Checksum::Pending) else { return Held::NONE };
    store.keep(&piece, &view, Checksum::Complete)
}

/// Appends a packet that a mechanism derived from a stored one to `out`, in pieces of at most `mtu` bytes.
pub(super) fn inject(packet: &Packet<Held>, towards: Port, mtu: usize, out: &mut Vec<Injection>) {
    let Some((held, segment)) = packet.payload.0.as_ref().zip(packet.tcp()) else { return };
    let Some(whole) = parse(&held.bytes) else { return };
    let made = part(&held.bytes, &whole, segment, packet.len as usize, held.checksum);
    push(made, towards, mtu, out);
}

/// Appends the part of a packet that consists of `segment` and `len` bytes of payload to `out`, towards the hop, in
/// pieces of at most `mtu` bytes.
pub(super) fn pass_part(passing: &Passing<'_>, segment: &Segment, len: u32, mtu: usize, out: &mut Vec<Injection>) {
    push(part(passing.packet, passing.view, segment, len as usize, passing.checksum), Port::WIRELESS, mtu, out);
}

fn push(made: Option<(Vec<u8>, View)>, towards: Port, mtu: usize, out: &mut Vec<Injection>) {
    let Some((bytes, view)) = made else { return };
    let most = mtu.saturating_sub(view.header_len).max(1);
    if view.payload_len <= most {
        out.push(Injection { towards, packet: bytes });
    } else {
        out.extend(pieces(&bytes, &view, most).into_iter().map(|packet| Injection { towards, packet }));
    }
}
