//! Data from the wire: what is kept, what is forwarded, and what is answered here.

use super::super::cache::{Cached, Origin, Overlap, Whereabouts};
use super::super::snoop_config::SnoopConfig;
use super::{Outbox, Passage, Repair};
use crate::event::Event;
use crate::node::Port;
use crate::packet::{Cause, Flags, Packet, Segment};
use crate::scheme::TcpAwareness;
use crate::seq::Seq;
use crate::time::Instant;

/// What to do with data from the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum DataVerdict {
    /// Keep it, if there is room, and forward it.
    Store(Place),
    /// Forward it.
    Forward,
    /// The mobile host has it; it was answered here.
    Absorbed,
    /// It belongs to another time of this flow: start over.
    Foreign,
    /// It is kept, and goes later.
    Held,
    /// There is no room for it: drop it, as any full queue does.
    Refused,
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

impl<P: Clone> Repair<P> {
    /// A SYN or FIN without data passed, up to `end`.
    pub fn on_control(&mut self, segment: &Segment, end: Seq) {
        if self.is_near(end) {
            self.high = self.high.max(end);
            if segment.flags.has(Flags::FIN) {
                self.fin = Some(end);
            }
        }
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
        if !self.is_near(end) || !self.is_near(seq) {
            return DataVerdict::Foreign;
        }
        if let Some(last_ack) = self.last_ack
            && end.le(last_ack)
        {
            return self.on_acknowledged_data(config, packet, last_ack, out);
        }
        if segment.flags.has(Flags::FIN) {
            self.fin = Some(end);
        }
        if seq.ge(self.high) {
            self.high = end;
            // A one-byte probe of a closed window is not worth keeping: it would stand in the way of the real data.
            return if self.window_closed() { DataVerdict::Forward } else { DataVerdict::Store(Place::Back) };
        }
        self.high = self.high.max(end);
        self.recheck = self.recheck.min(now + self.rtt.round_trip(config));
        let overlap = self.cache.overlap(seq, end);
        if self.has_in_hand(config, seq, end, overlap) {
            out.events.push_back((packet.flow, Event::Absorbed { seq }));
            return DataVerdict::Absorbed;
        }
        self.forwarded_again(packet, end);
        match overlap {
            Overlap::None(first) => DataVerdict::Store(Place::Within { first, count: 0 }),
            Overlap::Covers { first, count } => DataVerdict::Store(Place::Within { first, count }),
            Overlap::Cuts { first, count } => {
                // Kept as it is: whichever form arrives, acknowledgments take both out.
                for index in first..first + count {
                    self.cache.set_resent(index);
                    if let Some(old) = self.cache.get_mut(index) {
                        old.unproven = old.unproven.saturating_add(1);
                        (old.last_sent, old.local, old.by_timer) = (now, 0, 0);
                    }
                }
                DataVerdict::Forward
            }
        }
    }

    /// The sender has not seen the acknowledgment: repeats it, instead of the data.
    fn on_acknowledged_data(
        &mut self,
        config: &SnoopConfig,
        packet: &Packet<P>,
        last_ack: Seq,
        out: &mut Outbox<P>,
    ) -> DataVerdict {
        // A keepalive asks whether the mobile host is there, not the base station.
        let keepalive = packet.len <= 1;
        let answer = self.answer.as_ref().filter(|answer| answer.tcp().is_some_and(|tcp| tcp.ack == last_ack));
        match answer {
            Some(answer) if config.awareness == TcpAwareness::Aware && !keepalive => {
                out.events.push_back((packet.flow, Event::Absorbed { seq: last_ack }));
                out.packets.push_back((Port::WIRED, Packet { cause: Cause::LocalAck, ..answer.clone() }));
                DataVerdict::Absorbed
            }
            _ => {
                self.expect_echoes(1);
                self.forwarded_again(packet, last_ack);
                DataVerdict::Forward
            }
        }
    }

    /// What the sender resent, up to `end`, goes on to the mobile host.
    fn forwarded_again(&mut self, packet: &Packet<P>, end: Seq) {
        self.newest.note(packet);
        self.copies.by_sender(end);
    }

    /// Keeps a packet, and says whether it may go now.
    pub fn store(&mut self, now: Instant, packet: Packet<P>, seq: Seq, place: Place) -> Passage {
        let len = packet.len;
        match place {
            Place::Back => {
                self.cache.push(Cached::new(now, packet, seq, Origin::Fresh));
                self.admit(self.cache.len() - 1, len)
            }
            Place::Within { first, count } => {
                let mut cached = Cached::new(now, packet, seq, Origin::Resent);
                let (mut all_marked, mut copies) = (count > 0, u32::from(count > 0));
                let mut replaced = 0;
                for index in first..first + count {
                    if let Some(old) = self.cache.get_mut(index) {
                        all_marked &= old.whereabouts == Whereabouts::Arrived;
                        if old.whereabouts == Whereabouts::OnHop {
                            replaced += u64::from(old.packet.len);
                        }
                        copies = copies.saturating_add(old.unproven);
                    }
                }
                cached.unproven = copies;
                if all_marked {
                    cached.whereabouts = Whereabouts::Arrived;
                }
                self.cache.replace(first, count, cached);
                // What the sender resends goes ahead of what waits.
                if let Some(hop) = &mut self.hop {
                    hop.landed(replaced);
                    if !all_marked {
                        hop.sent(len);
                    }
                }
                Passage::Now
            }
        }
    }
}
