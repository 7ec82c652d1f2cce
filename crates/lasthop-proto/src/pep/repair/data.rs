//! Handling of data from the wire: what is cached, forwarded, or answered here.

use super::super::cache::{Cached, Origin, Overlap, Whereabouts};
use super::super::snoop_config::{SnoopConfig, TcpAwareness};
use super::timestamps::copy_of;
use super::{Outbox, Passage, Repair, Sizes};
use crate::event::Event;
use crate::node::{Port, Why};
use crate::packet::{Cause, Packet, Payload, Priority, Segment};
use crate::seq::Seq;
use crate::time::Instant;

/// Maximum number of cached packets compared with one from the wire. A sender of large segments has not sent such small
/// ones before.
const MOST_MET: usize = 64;

/// Verdict on data from the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum DataVerdict {
    /// Cache it, if there is capacity, and forward it.
    Store(Place),
    /// Forward it.
    Forward,
    /// Absorb it: the mobile host has the data, and this node has acknowledged it.
    Absorbed,
    /// Hold it: it is cached and sent later.
    Held,
    /// Drop it for lack of capacity, as any full queue does.
    Refused,
    /// Forward it and restart: the cached data does not fit the sender's and is void.
    Restart,
}

/// Position of data in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum Place {
    /// After all data seen.
    Back,
    /// Replaces `count` packets starting at `first`: a retransmission by the sender, or late data.
    Within {
        /// Index of the first.
        first: usize,
        /// Number of packets; 0 for a hole.
        count: usize,
    },
}

impl<P: Payload> Repair<P> {
    /// Records a FIN without data that has passed; `end` is one past it.
    pub fn on_fin(&mut self, end: Seq) {
        self.stream.high = self.stream.high.max(end);
    }

    /// Judges data from the wire that ends at `end`.
    pub fn on_data(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> DataVerdict {
        let (seq, end) = (segment.seq, segment.seq + packet.seq_len());
        if self.sizes.exceeds(packet.len, seq, end) {
            return self.pass_uncached(segment, end, out);
        }
        if seq.ge(self.stream.high) {
            self.stream.high = end;
            // A one-byte probe of a closed window is not worth caching: it would be in the way of the real data.
            return if self.stream.is_closed() { DataVerdict::Forward } else { DataVerdict::Store(Place::Back) };
        }
        self.stream.high = self.stream.high.max(end);
        let overlap = self.cache.overlap(seq, end);
        let (first, count) = overlap.range();
        if count > MOST_MET {
            return DataVerdict::Restart;
        }
        if !self.cache.agrees(first, count, packet) {
            self.drop_overlapped(first, count, out);
            self.detection.copies.by_sender(end);
            return DataVerdict::Forward;
        }
        if !self.is_left_to_sender(now) && self.is_repairing(now, config, seq, end, overlap) {
            out.events.push_back((packet.flow, Event::Absorbed { seq }));
            return DataVerdict::Absorbed;
        }
        self.detection.copies.by_sender(end);
        self.note_timestamp(segment);
        if !matches!(overlap, Overlap::Cuts { .. }) {
            return DataVerdict::Store(Place::Within { first, count });
        }
        // Existing packets stay as they are: acknowledgments remove them whichever form arrives.
        for index in first..first + count {
            self.cache.set_resent(index);
            if let Some(old) = self.cache.get_mut(index) {
                // A sender that starts inside a packet it has sent may still send segments of the same size.
                if packet.len < old.len {
                    self.sizes.is_cut(old.len, old.local);
                }
                old.unproven = old.unproven.saturating_add(1);
                self.detection.order.leave(&mut old.sendings, Priority::Normal);
                (old.last_sent, old.again_sent, old.local, old.by_timer) = (now, now, 0, 0);
            }
        }
        DataVerdict::Forward
    }

    /// Lets data from the wire up to `end` pass uncached. Cached packets that it overlaps are dropped.
    pub fn pass_uncached(&mut self, segment: &Segment, end: Seq, out: &mut Outbox<P>) -> DataVerdict {
        self.stream.high = self.stream.high.max(end);
        let (first, count) = self.cache.overlap(segment.seq, end).range();
        if count > MOST_MET {
            return DataVerdict::Restart;
        }
        self.drop_overlapped(first, count, out);
        self.detection.copies.by_sender(end);
        DataVerdict::Forward
    }

    /// Returns, once, the news that packets exceed the path MTU: the number from which the connection restarts, since
    /// cached packets must not be retransmitted, and the known sizes and right edge, which stay valid.
    pub fn take_size_news(&mut self) -> Option<(Seq, Sizes, Option<Seq>)> {
        let sizes = self.sizes.take_news()?;
        Some((self.stream.high, sizes, self.edge()))
    }

    /// Restores sizes and right edge after a restart.
    pub fn keep_sizes(&mut self, sizes: Sizes, edge: Option<Seq>) {
        self.sizes = sizes;
        self.set_edge(edge);
    }

    /// Drops packets of which another version was sent: only the ends can tell which is right. Held ones are sent as
    /// planned.
    fn drop_overlapped(&mut self, first: usize, count: usize, out: &mut Outbox<P>) {
        let recent = self.recent();
        let Outbox { packets, places, .. } = out;
        self.cache.remove(first, count, places, |old| {
            let len = old.len;
            let Some(hop) = &mut self.hop else { return };
            match old.whereabouts {
                Whereabouts::Held => {
                    hop.unheld(len);
                    packets.push_back((Port::WIRELESS, Why::Released, copy_of(&old.packet, recent)));
                }
                Whereabouts::OnHop => hop.out_of_sight(len.into()),
                Whereabouts::Arrived => {}
            }
        });
    }

    /// Answers data that was already acknowledged: repeats the acknowledgment, which the sender has not seen, instead
    /// of forwarding the data.
    pub fn on_acknowledged_data(
        &mut self,
        config: &SnoopConfig,
        now: Instant,
        packet: &Packet<P>,
        out: &mut Outbox<P>,
    ) -> DataVerdict {
        let Some(last_ack) = self.stream.last_ack else { return DataVerdict::Forward };
        // A keepalive probes the mobile host, not the base station.
        let keepalive = packet.len <= 1;
        match self.answers.ready(last_ack) {
            Some(answer) if config.awareness == TcpAwareness::Aware && !keepalive && self.is_certain(now) => {
                out.events.push_back((packet.flow, Event::Absorbed { seq: last_ack }));
                out.send(Port::WIRED, Why::LocalAck, Packet { cause: Cause::LocalAck, ..answer.clone() });
                DataVerdict::Absorbed
            }
            _ => {
                self.pass_old_data();
                DataVerdict::Forward
            }
        }
    }

    /// Records that old data passes to the mobile host, which will answer it.
    pub fn pass_old_data(&mut self) {
        if let Some(last_ack) = self.stream.last_ack {
            self.expect_spurious(1);
            self.detection.copies.by_sender(last_ack);
        }
    }

    /// Caches a packet and decides whether it may be sent now.
    pub fn store(&mut self, now: Instant, packet: Packet<P>, seq: Seq, place: Place, out: &mut Outbox<P>) -> Passage {
        let len = packet.len;
        match place {
            Place::Back => {
                self.cache.push(Cached::new(now, packet, seq, Origin::Fresh, &mut out.places));
                let passage = self.admit(now, self.cache.len() - 1, len);
                self.on_sender_data(now);
                passage
            }
            Place::Within { first, count } => {
                let mut cached = Cached::new(now, packet, seq, Origin::Resent, &mut out.places);
                let (mut all_marked, mut copies) = (count > 0, u32::from(count > 0));
                let (mut on_hop, mut held) = (0, 0);
                for index in first..first + count {
                    if let Some(old) = self.cache.get_mut(index) {
                        // If it returns in a D-SACK block, it is ambiguous whose copy was spurious.
                        self.detection.reordering.repeated(old.seq);
                        all_marked &= old.whereabouts == Whereabouts::Arrived;
                        match old.whereabouts {
                            Whereabouts::OnHop => on_hop += old.len,
                            Whereabouts::Held => held += old.len,
                            Whereabouts::Arrived => {}
                        }
                        copies = copies.saturating_add(old.unproven);
                        cached.sendings = old.sendings;
                    }
                }
                cached.unproven = copies;
                self.detection.order.leave(&mut cached.sendings, Priority::Normal);
                if all_marked {
                    cached.whereabouts = Whereabouts::Arrived;
                }
                self.cache.replace(first, count, cached, &mut out.places);
                // The sender's retransmissions overtake held data.
                if let Some(hop) = &mut self.hop {
                    hop.out_of_sight(on_hop.into());
                    hop.unheld(held);
                    hop.leave(now, len);
                    if !all_marked {
                        hop.sent(len);
                    }
                }
                self.on_sender_data(now);
                Passage::Now
            }
        }
    }
}
