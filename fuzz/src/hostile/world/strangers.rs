//! Packets that neither end sent, and damaged packets: which end refuses them, and which faults they excuse if an end
//! accepts them.

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Options, SackBlock, Segment, Timestamps};
use lasthop_proto::seq::Seq;

use super::super::ends::{Bounds, Content, Judgement, Pkt, RECEIVER_ISS, SENDER_ISS};
use super::super::middle::{Coming, Middle};
use super::{Demand, Fate, Seen, World};

/// Bytes of a probe (RFC 9293 §3.8.6.1), its FIN included.
const PROBE: u32 = 2;

impl<M: Middle> World<'_, M> {
    /// Returns an attacker's packet to the end that expects `seq` and `ack`.
    fn forged(&mut self, seqs: [Seq; 4], ack: Seq, clocks: [u32; 2]) -> Pkt {
        let (kind, shape) = (self.script.byte(), self.script.byte());
        let flags = match kind & 0xf {
            0 => Flags::RST,
            1 => Flags::RST.with(Flags::ACK),
            2 => Flags::SYN,
            3 => Flags::SYN.with(Flags::ACK),
            4 => Flags::FIN.with(Flags::ACK),
            5 => Flags((self.script.byte() & 0x1f).into()),
            _ => Flags::ACK,
        };
        let seq = Seq(self.script.near(seqs[usize::from(kind >> 4 & 3)].0, self.terms.mss));
        let ack = Seq(self.script.near(ack.0, self.terms.mss));
        let len = match shape & 3 {
            0 => 0,
            1 => self.terms.mss,
            2 => u32::from(self.script.byte()) + 1,
            _ => 3 * self.terms.mss,
        };
        let mut options = Options::default();
        if self.terms.timestamps != (shape & 0x1c == 0x1c) {
            options.timestamps =
                Some(Timestamps { val: self.script.near(clocks[0], 1000), ecr: self.script.near(clocks[1], 1000) });
        }
        if shape & 0x60 == 0x60 {
            let left = Seq(self.script.near(ack.0, self.terms.mss));
            options.sack.push(SackBlock { left, right: Seq(self.script.near(left.0, self.terms.mss)) });
        }
        let window = if kind & 0x40 == 0 { 500 } else { self.script.word() as u16 };
        let segment = Segment { seq, ack, window, flags, options };
        let content = if kind & 0x80 == 0 { Content::Forged } else { Content::Genuine };
        Pkt { segment, len, content, odd: shape & 0x80 != 0 }
    }

    /// Sends an attacker's packet from beyond the wire to the receiver.
    pub fn forge_down(&mut self) {
        let seqs = [self.receiver.next, self.receiver.edge, self.sender.next, self.sender.oldest];
        let packet = self.forged(seqs, RECEIVER_ISS + 1, [self.sender.clock, self.receiver.clock]);
        let shown = self.receiver_shown;
        let bounds = Bounds {
            next: (shown.next, self.receiver.next),
            // An attacker on the hop may have announced a larger window than the receiver, in an acknowledgment that
            // the sender accepts.
            edge: shown.edge.max(self.receiver.edge).max(self.granted),
            sent: self.claimed_down,
            recent: self.receiver.bounds().recent.map(|(_, now)| (shown.recent, now)),
            acks: (self.receiver.bounds().acks.0, self.claimed),
        };
        // The data that the gateway considers sent ends with the sender's bytes that it saw, or with any of these. If
        // an attacker has let the sender send more than the receiver accepts, it ends with the last byte that the
        // receiver accepts.
        let (taken, overrun) = (self.receiver.edge, self.sender.next.gt(self.receiver.edge));
        let last = |at: Seq| {
            let cut_short = overrun && at.ge(shown.next) && at.le(taken);
            cut_short
                || at == self.sent_down
                || at == self.carried_down
                || self.excused.iter().any(|&(_, end)| end == at)
        };
        let seen = match bounds.judge(&packet, SENDER_ISS + 1) {
            Judgement::Reset => return self.fate = Fate::Over,
            Judgement::Refused if packet.segment.flags.has(Flags::RST) && last(packet.segment.seq) => {
                return self.fate = Fate::Over;
            }
            // It acknowledges bytes that another attacker sent with the receiver's address: the gateway then refuses
            // the receiver's own.
            Judgement::Taken | Judgement::Old if packet.segment.ack.gt(RECEIVER_ISS + 1) => {
                return self.fate = Fate::Over;
            }
            Judgement::Taken if packet.segment.flags.has(Flags::FIN) => return self.fate = Fate::Over,
            Judgement::Taken => {
                let is_from_before = packet.segment.seq.lt(SENDER_ISS + 1) || packet.segment.ack.lt(RECEIVER_ISS + 1);
                if is_from_before || !self.is_sure(&packet) {
                    self.lose_sight();
                }
                self.excused.push((packet.segment.seq, packet.end()));
                let Segment { ack, window, .. } = packet.segment;
                self.claimed_down = self.claimed_down.max(packet.end());
                self.granted_up = self.granted_up.max(ack + (u32::from(window) << self.terms.scale));
                if let Some(times) = packet.segment.options.timestamps {
                    self.stamps.push(times.val);
                    self.claimed_recent = Seq(self.claimed_recent).max(Seq(times.ecr)).0;
                }
                Seen::Both
            }
            Judgement::Old => {
                // A gateway that has lost the receiver's state may still expect them, and may send the receiver packets
                // that it refuses.
                if self.demand == Demand::Outcome {
                    self.excused.push((packet.segment.seq, packet.end()));
                }
                Seen::Both
            }
            Judgement::Refused => {
                // At the edge of a closed window it may be a probe, which the receiver accepts once it has opened the
                // window. The acknowledgment that announces this may be lost.
                let (seq, end) = (packet.segment.seq, packet.end());
                let probed =
                    seq.0.wrapping_sub(shown.next.0) <= self.receiver.next.since(shown.next) && seq.ge(shown.edge);
                if probed && (1..=PROBE).contains(&end.since(seq)) {
                    self.claimed_down = self.claimed_down.max(end);
                }
                Seen::One
            }
        };
        self.give(packet, Port::WIRED, Coming::default(), seen, Content::Forged);
    }

    /// Handles an attacker's packet that an end accepts but a gateway may have to refuse, since no true end could have
    /// sent it in the states that they have shown. Until both show their state, the gateway has no more information
    /// about this connection than about one that it picks up midway, and accepts any sender's packets. All earlier
    /// checks of the packets that reach the ends still apply.
    fn lose_sight(&mut self) {
        self.demand = Demand::Outcome;
    }

    /// Sends an attacker's packet from the hop to the sender.
    pub fn forge_up(&mut self) {
        let own = RECEIVER_ISS + 1;
        let seqs = [own, own + 1, own - 1, own + self.terms.buffer];
        let packet = self.forged(seqs, self.receiver.next, [self.receiver.clock, self.sender.clock]);
        let own_bounds = self.sender.bounds();
        let bounds = Bounds {
            edge: self.granted_up,
            recent: own_bounds.recent.map(|(_, now)| (self.sender_recent, Seq(now).max(Seq(self.claimed_recent)).0)),
            sent: self.claimed,
            acks: (own_bounds.acks.0, own_bounds.acks.1.max(self.claimed_down)),
            ..own_bounds
        };
        let seen = match bounds.judge(&packet, own) {
            Judgement::Reset => return self.fate = Fate::Over,
            Judgement::Taken => {
                let Segment { seq, ack, window, options, .. } = packet.segment;
                if packet.end() != packet.segment.seq || ack.gt(self.receiver.next) {
                    return self.fate = Fate::Over;
                }
                // The window that the sender has shown, and the stream's first number.
                if seq.gt(self.sender_edge) || ack.lt(SENDER_ISS + 1) {
                    self.lose_sight();
                }
                self.granted = self.granted.max(ack + (u32::from(window) << self.terms.scale));
                // It may echo a timestamp between the sender's clock and that of an attacker on the other side.
                let between = |times: &Timestamps| self.stamps.iter().any(|&stamp| Seq(times.ecr).le(Seq(stamp)));
                if let Some(times) = options.timestamps.filter(between) {
                    self.stamps.push(times.ecr);
                }
                self.claimed = self.claimed.max(seq);
                Seen::Both
            }
            Judgement::Old => Seen::Both,
            Judgement::Refused => Seen::One,
        };
        self.give(packet, Port::WIRELESS, Coming::default(), seen, Content::Forged);
    }

    /// Sends an attacker's packet on one side with the address of the end on the other side.
    pub fn forge_astray(&mut self) {
        let port = if self.script.byte() & 1 == 0 { Port::WIRED } else { Port::WIRELESS };
        let own = RECEIVER_ISS + 1;
        let packet = if port == Port::WIRED {
            self.forged([own, own + 1, own - 1, own], self.receiver.next, [self.receiver.clock, self.sender.clock])
        } else {
            let seqs = [self.receiver.next, self.receiver.edge, self.sender.next, self.sender.oldest];
            self.forged(seqs, own, [self.sender.clock, self.receiver.clock])
        };
        self.give(packet, port, Coming { astray: true, ..Coming::default() }, Seen::One, Content::Forged);
    }

    /// Damages a packet in flight, or a copy of it.
    pub fn damage(&mut self, rest: u8) {
        let flips = [self.script.word() as u16, self.script.word() as u16];
        let flips = if rest & 1 == 0 { [flips[0]; 2] } else { flips };
        // Flipping the same bit twice does no damage.
        let flips = if flips[0] == flips[1] { [flips[0], flips[0] ^ 0x1f8] } else { flips };
        let down = rest & 2 == 0;
        let packet = if down { self.wired.front().map(|&(packet, _)| packet) } else { self.up.front().copied() };
        let port = if down { Port::WIRED } else { Port::WIRELESS };
        let own =
            if down { self.sender.data(self.sender.oldest, self.terms.mss) } else { self.receiver.acknowledgment() };
        let coming = Coming { flips: Some(flips), ..Coming::default() };
        self.give(packet.unwrap_or(own), port, coming, Seen::One, Content::Genuine);
        if rest & 4 != 0 {
            // The damaged packet was this one.
            if down {
                self.wired.pop_front();
            } else {
                self.up.pop_front();
            }
        }
    }
}
