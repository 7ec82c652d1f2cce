//! Passes packets to the gateway, and checks its decisions and the packets that it sends.

use std::fmt::Debug;

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::seq::Seq;

use super::super::ends::{Content, Pkt, Reaction, SENDER_ISS, byte};
use super::super::middle::{Coming, Middle, Passed, Sent};
use super::trace::{Trace, brief, line, print_difference, trace};
use super::{Demand, Fate, Seen, World};

/// Flags that open, end or reset a connection.
const SPECIAL: Flags = Flags::SYN.with(Flags::FIN).with(Flags::RST);

/// Returns whether a packet from the gateway is a piece of the packet that has just arrived, which the gateway may not
/// pass as a whole. The author of the whole packet is then responsible for the piece.
fn is_piece(sent: &Sent, packet: &Pkt, port: Port) -> bool {
    let (first, end) = (sent.segment.seq, sent.segment.seq + sent.len);
    let segment = Segment { seq: packet.segment.seq, flags: packet.segment.flags, ..sent.segment };
    let same = match &sent.odd {
        None => packet.content == Content::Genuine,
        Some(odd) => odd.iter().zip(0..).all(|(&is, at)| is == byte((first + at).0, packet.content)),
    };
    let within = first.ge(packet.segment.seq) && end.le(packet.end());
    sent.towards != port && sent.len > 0 && within && segment == packet.segment && same
}

/// Returns whether a packet looks like an acknowledgment of the receiver that arrives after a later one: Linux may act
/// on it, so a gateway that repairs the missing data may absorb it.
fn may_be_kept(packet: &Pkt, port: Port) -> bool {
    let Segment { flags, options, .. } = packet.segment;
    port == Port::WIRELESS && packet.len == 0 && !flags.meets(SPECIAL) && options.timestamps.is_some()
}

impl<M: Middle> World<'_, M> {
    /// Passes a packet to the gateway, and its output to the other end.
    pub fn give(&mut self, packet: Pkt, port: Port, coming: Coming, seen: Seen, author: Content) {
        let Some(made) = M::packet(&packet, port, coming) else { return };
        let said = self.gateway.take(self.now, port, &made);
        let (passed, sent) = M::read(&said);
        if trace() != Trace::Nothing {
            let whose = if author == Content::Forged { "attacker" } else { "end" };
            eprintln!("{} {whose}, by {port:?}, {seen:?}: {} {coming:?}", self.now, line(&packet.segment, packet.len));
            let (due, twin) = (self.gateway.poll_deadline(), self.twin.poll_deadline());
            eprintln!("    {} and {}, wakes at {due:?}, twin {twin:?}", brief(&passed), sent.len());
        }
        match seen {
            Seen::Both => {
                let twin = self.twin.take(self.now, port, &made);
                self.same(&said, &twin, packet);
            }
            Seen::One if self.demand == Demand::Outcome => {}
            Seen::One => {
                let passes = passed == Passed::Unchanged || passed == Passed::No && may_be_kept(&packet, port);
                assert!(passes && sent.is_empty(), "not passed unchanged: {packet:?}: {passed:?}, {sent:?}");
            }
        }
        if trace() == Trace::States {
            print_difference(&self.gateway, &self.twin);
        }
        self.same(&self.gateway.poll_deadline(), &self.twin.poll_deadline(), packet);
        match passed {
            Passed::Unchanged if coming.flips.is_some() || coming.astray => {}
            Passed::Unchanged => self.arrive(&packet, port, coming.merged),
            Passed::No => {}
            // An attacker's packet passes unchanged.
            Passed::As(_) if seen == Seen::One => self.arrive(&packet, port, coming.merged),
            Passed::As(sent) => {
                assert_eq!(
                    (sent.segment.seq, sent.segment.ack, sent.len),
                    (packet.segment.seq, packet.segment.ack, packet.len)
                );
                self.sent(sent);
            }
        }
        for sent in sent {
            if author == Content::Forged && is_piece(&sent, &packet, port) {
                let Sent { segment, len, .. } = sent;
                self.arrive(&Pkt { segment, len, ..packet }, port, None);
            } else {
                self.sent(sent);
            }
        }
    }

    /// Checks that attackers' packets changed nothing.
    pub fn same<T: PartialEq + Debug>(&self, gateway: &T, twin: &T, after: impl Debug) {
        assert!(
            self.demand == Demand::Outcome || gateway == twin,
            "after {after:?}: {gateway:?}, without attackers {twin:?}"
        );
    }

    /// Handles a packet that the gateway sends.
    pub fn sent(&mut self, sent: Sent) {
        if trace() != Trace::Nothing {
            eprintln!("{} gateway to {:?}: {}", self.now, sent.towards, line(&sent.segment, sent.len));
        }
        let Segment { seq, ack, window, flags, options } = sent.segment;
        assert!(!flags.meets(SPECIAL), "the gateway opens, ends or resets the connection: {sent:?}");
        if sent.towards == Port::WIRELESS {
            if let Some(times) = options.timestamps {
                // If an attacker chooses two timestamps half a circle apart, neither is the later one.
                let known = Seq(times.val).le(Seq(self.sender.clock)) || self.stamps.contains(&times.val);
                assert!(known, "the timestamp is later than the sender's clock: {sent:?}");
            }
            for at in 0..sent.len {
                let at = seq + at;
                let forged =
                    sent.odd.as_ref().is_some_and(|odd| odd[at.since(seq) as usize] != byte(at.0, Content::Genuine));
                let known = if forged { false } else { at.gt(SENDER_ISS) && at.lt(self.sender.next) };
                let excused = || self.excused.iter().any(|&(from, to)| at.ge(from) && at.lt(to));
                assert!(known || excused(), "byte {at} differs from the sender's, or was never sent: {sent:?}");
            }
            // The position distinguishes an attacker's bytes from the sender's.
            let content = if sent.odd.is_some() { Content::Forged } else { Content::Genuine };
            let packet = Pkt { segment: sent.segment, len: sent.len, content, odd: false };
            self.arrive(&packet, Port::WIRED, None);
        } else {
            assert!(ack.le(self.receiver.next), "the gateway acknowledges data that the receiver lacks: {sent:?}");
            let edge = ack + (u32::from(window) << self.terms.scale);
            assert!(edge.le(self.granted), "the gateway exceeds the receiver's window: {sent:?}");
            assert!(sent.len == 0, "the gateway sends data from the receiver, which sends none: {sent:?}");
            self.arrive(&Pkt::bare(sent.segment), Port::WIRELESS, None);
        }
    }

    /// Delivers a packet that arrived at `port` to the other end, or loses it on the hop.
    fn arrive(&mut self, packet: &Pkt, port: Port, merged: Option<u32>) {
        if port == Port::WIRELESS {
            let reaction = self.sender.take(packet);
            self.react_sender(reaction);
            return;
        }
        let most = merged.unwrap_or(packet.len).max(1);
        let mut at = 0;
        loop {
            let len = most.min(packet.len - at);
            let mut piece = Pkt { len, ..*packet };
            piece.segment.seq += at;
            at += len;
            if !self.is_lost() {
                let reaction = self.receiver.take(&piece);
                if reaction == Reaction::Broken || self.receiver.next.gt(self.sender.next) {
                    self.fate = Fate::Over;
                }
                if reaction == Reaction::Acknowledge {
                    self.acknowledge();
                }
            }
            if at >= packet.len {
                break;
            }
        }
    }

    fn is_lost(&mut self) -> bool {
        if self.lossless {
            return false;
        }
        // Two bits per packet: a byte of the script for four packets.
        if self.losses <= 1 {
            self.losses = 0b1_0000;
            let byte = self.script.byte();
            self.bits = byte;
        }
        self.losses >>= 1;
        let lost = self.bits & 3 == 1;
        self.bits >>= 2;
        lost
    }
}
