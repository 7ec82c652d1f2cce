//! Padding that appears as payload: a device on the path writes the length of the padded Ethernet frame into the IP
//! header of pure acknowledgments.

use lasthop_proto::packet::Flags;

use super::{Half, LEAST_TIMEOUT, Packet};

/// Minimum payload of an Ethernet frame, without and with a VLAN tag, in bytes.
const MINIMUM: [u32; 2] = [46, 42];
/// IPv4 and TCP headers without options, in bytes.
const HEADERS: u32 = 40;

/// Padding in one direction.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Padding {
    /// The last packet, if its payload may be padding.
    suspect: Option<Suspect>,
    /// True if an earlier packet of this direction was padded.
    is_known: bool,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    seq: u64,
    end: u64,
    time: i64,
    /// True if the packet has the form of a pure acknowledgment.
    is_bare: bool,
    has_fin: bool,
}

impl Half {
    /// Returns whether the whole payload of this packet is padding. Padding has no sequence numbers: the sender's next
    /// packet begins at the end of the data. Once a pure acknowledgment before a packet that arrived sooner than any
    /// retransmission was padded, further packets of the minimum length may be padded.
    pub fn is_padded(&mut self, packet: &Packet<'_>) -> bool {
        let is_short =
            packet.len > 0 && packet.len == packet.wire.saturating_sub(HEADERS) && MINIMUM.contains(&packet.wire);
        let is_bare = is_short && packet.segment.flags == Flags::ACK;
        if self.first.is_none() {
            return false;
        }
        let seq = self.unwrap(packet.segment.seq);
        if let Some(suspect) = self.padding.suspect.take() {
            let begins_there = seq == suspect.seq || is_bare && seq < suspect.end && seq + 1 >= suspect.seq;
            let is_soon = packet.time.saturating_sub(suspect.time) < LEAST_TIMEOUT && self.acknowledged <= suspect.seq;
            self.padding.is_known |= suspect.is_bare && begins_there && is_soon;
            if self.padding.is_known && (suspect.seq..suspect.end).contains(&seq.max(suspect.seq)) {
                self.shorten(suspect, seq);
            }
        }
        if is_short && seq == self.highest && !(is_bare && self.padding.is_known) {
            let (end, has_fin) = (seq + u64::from(packet.len), packet.segment.flags.has(Flags::FIN));
            self.padding.suspect = Some(Suspect { seq, end, time: packet.time, is_bare, has_fin });
        }
        is_bare && self.padding.is_known
    }

    /// Processes the start `next` of the sender's next packet: the data of the suspect ended there, or one number
    /// before if it had a FIN.
    fn shorten(&mut self, suspect: Suspect, next: u64) {
        let end = next.saturating_sub(u64::from(suspect.has_fin)).max(suspect.seq);
        if self.highest != suspect.end {
            return;
        }
        self.on_the_way.cut(end);
        let last = self.on_the_way.len().checked_sub(1).and_then(|last| self.on_the_way.get(last));
        if last.is_none_or(|piece| piece.seq < end || piece.end != suspect.end || piece.passed > 1) {
            return;
        }
        self.on_the_way.pop_back();
        self.highest = end;
        self.counts.bytes = self.counts.bytes.saturating_sub(suspect.end - end);
        self.counts.packets = self.counts.packets.saturating_sub(u64::from(end == suspect.seq));
    }
}
