//! Data from the wire: what is kept, what is forwarded, and what is answered here.

use super::super::cache::{Cached, Origin, Overlap, Whereabouts};
use super::super::snoop_config::SnoopConfig;
use super::timestamps::copy_of;
use super::{Outbox, Passage, Repair, Sizes};
use crate::event::Event;
use crate::node::{Port, Why};
use crate::packet::{Cause, Packet, Payload, Priority, Segment};
use crate::scheme::TcpAwareness;
use crate::seq::Seq;
use crate::time::Instant;

/// Most packets kept here that are compared with one from the wire: no sender of large segments has sent so small ones before.
const MOST_MET: usize = 64;

/// What to do with data from the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum DataVerdict {
    /// Keep it, if there is room, and forward it.
    Store(Place),
    /// Forward it.
    Forward,
    /// The mobile host has it; it was answered here.
    Absorbed,
    /// It is kept, and goes later.
    Held,
    /// There is no room for it: drop it, as any full queue does.
    Refused,
    /// Forward it; what is kept does not fit what the sender sends, and is void.
    Restart,
}

/// Where data belongs in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum Place {
    /// Behind all that was seen.
    Back,
    /// In place of `count` packets from `first` on; the sender resent it, or it is late.
    Within {
        /// Index of the first.
        first: usize,
        /// How many; none for a hole.
        count: usize,
    },
}

impl<P: Payload> Repair<P> {
    /// A FIN without data passed; `end` is one past it.
    pub fn on_fin(&mut self, end: Seq) {
        self.high = self.high.max(end);
    }

    /// Data from the wire that ends at `end`: what to do with it.
    pub fn on_data(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> DataVerdict {
        let (seq, end) = (segment.seq, segment.seq + packet.seq_len());
        self.large = self.large.filter(|large| end.le(large.0) || seq.ge(large.1));
        if self.sizes.are_exceeded_by(packet.len) {
            // Whether it arrives all the same will be seen.
            self.large.get_or_insert((seq, end));
            return self.pass_by(segment, end, out);
        }
        if seq.ge(self.high) {
            self.high = end;
            // A one-byte probe of a closed window is not worth keeping: it would stand in the way of the real data.
            return if self.window_closed() { DataVerdict::Forward } else { DataVerdict::Store(Place::Back) };
        }
        self.high = self.high.max(end);
        let overlap = self.cache.overlap(seq, end);
        let (first, count) = overlap.range();
        if count > MOST_MET {
            return DataVerdict::Restart;
        }
        if !self.cache.agrees(first, count, packet) {
            self.disown(first, count, out);
            self.copies.by_sender(end);
            return DataVerdict::Forward;
        }
        if !self.sleeps(now) && self.has_in_hand(now, config, seq, end, overlap) {
            out.events.push_back((packet.flow, Event::Absorbed { seq }));
            return DataVerdict::Absorbed;
        }
        self.copies.by_sender(end);
        self.goes_ahead(segment);
        if !matches!(overlap, Overlap::Cuts { .. }) {
            return DataVerdict::Store(Place::Within { first, count });
        }
        // What there is stays as it is: whichever form arrives, acknowledgments take both out.
        for index in first..first + count {
            self.cache.set_resent(index);
            if let Some(old) = self.cache.get_mut(index) {
                // A sender that begins inside a packet that it has sent may send as much at once as ever.
                if packet.len < old.len {
                    self.sizes.is_cut(old.len, old.local);
                }
                old.unproven = old.unproven.saturating_add(1);
                self.order.leave(&mut old.sendings, Priority::Normal);
                (old.last_sent, old.again_sent, old.local, old.by_timer) = (now, now, 0, 0);
            }
        }
        DataVerdict::Forward
    }

    /// Data from the wire up to `end` that is not kept: what there is of it here is given up.
    pub fn pass_by(&mut self, segment: &Segment, end: Seq, out: &mut Outbox<P>) -> DataVerdict {
        self.high = self.high.max(end);
        let (first, count) = self.cache.overlap(segment.seq, end).range();
        if count > MOST_MET {
            return DataVerdict::Restart;
        }
        self.disown(first, count, out);
        self.copies.by_sender(end);
        DataVerdict::Forward
    }

    /// News that packets are too large for the hop, once: from where on the connection begins anew, since what is kept of it must not
    /// go again, and what is known of sizes and of the window's edge goes on.
    pub fn take_size_news(&mut self) -> Option<(Seq, Sizes, Option<Seq>)> {
        let sizes = self.sizes.take_news()?;
        Some((self.high, sizes, self.edge()))
    }

    /// Goes on with what was known before it began anew.
    pub fn keep_sizes(&mut self, sizes: Sizes, edge: Option<Seq>) {
        self.sizes = sizes;
        self.tell_edge(edge);
    }

    /// Packets of which somebody has sent another version: which is right only the ends can tell. What was held of them goes as it
    /// would have gone.
    fn disown(&mut self, first: usize, count: usize, out: &mut Outbox<P>) {
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

    /// The sender has not seen the acknowledgment: repeats it, instead of the data.
    pub fn on_acknowledged_data(
        &mut self,
        config: &SnoopConfig,
        now: Instant,
        packet: &Packet<P>,
        out: &mut Outbox<P>,
    ) -> DataVerdict {
        let Some(last_ack) = self.last_ack else { return DataVerdict::Forward };
        // A keepalive asks whether the mobile host is there, not the base station.
        let keepalive = packet.len <= 1;
        let answer = self.answer.as_ref().filter(|answer| answer.tcp().is_some_and(|tcp| tcp.ack == last_ack));
        match answer {
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

    /// Data that the mobile host has goes to it all the same, and it answers.
    pub fn pass_old_data(&mut self) {
        if let Some(last_ack) = self.last_ack {
            self.expect_echoes(1);
            self.copies.by_sender(last_ack);
        }
    }

    /// Keeps a packet, and says whether it may go now.
    pub fn store(&mut self, now: Instant, packet: Packet<P>, seq: Seq, place: Place, out: &mut Outbox<P>) -> Passage {
        let len = packet.len;
        match place {
            Place::Back => {
                self.cache.push(Cached::new(now, packet, seq, Origin::Fresh, &mut out.places));
                let passage = self.admit(now, self.cache.len() - 1, len);
                self.expect(now);
                passage
            }
            Place::Within { first, count } => {
                let mut cached = Cached::new(now, packet, seq, Origin::Resent, &mut out.places);
                let (mut all_marked, mut copies) = (count > 0, u32::from(count > 0));
                let (mut on_hop, mut held) = (0, 0);
                for index in first..first + count {
                    if let Some(old) = self.cache.get_mut(index) {
                        // If it comes back, nobody knows whose copy was needless.
                        self.reordering.repeated(old.seq);
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
                self.order.leave(&mut cached.sendings, Priority::Normal);
                if all_marked {
                    cached.whereabouts = Whereabouts::Arrived;
                }
                self.cache.replace(first, count, cached, &mut out.places);
                // What the sender resends goes ahead of what waits.
                if let Some(hop) = &mut self.hop {
                    hop.out_of_sight(on_hop.into());
                    hop.unheld(held);
                    hop.leave(now, len);
                    if !all_marked {
                        hop.sent(len);
                    }
                }
                self.expect(now);
                Passage::Now
            }
        }
    }
}
