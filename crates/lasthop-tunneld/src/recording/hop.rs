//! A link's state machine, which is recorded if somebody wants it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use lasthop_daemon::recording::{INBOUND, OUTBOUND, Recorder, of_text, stamp};
use lasthop_proto::link::hybrid::{Fate, Frame, Hop, HopConfig, Item, Outgoing, PacketNumber};
use lasthop_proto::time::{Duration, Instant};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};

use super::{END, HOP, Head, INNER, KINDS, captured, words_of};
use crate::inner::packet::Packet;

/// One recording of all links of an end.
pub type SharedRecorder = Rc<RefCell<Recorder>>;

/// Where a link's part of a recording goes.
pub struct Tape {
    /// The recording.
    pub recorder: SharedRecorder,
    /// The number of its peer.
    pub peer: u32,
}

/// [`Hop`], and a recording of all that it is told and decides.
pub struct RecordedHop {
    hop: Hop<Packet>,
    tape: Option<Tape>,
    /// What it was told last and has decided so far: it may hand on more.
    step: Vec<EnhancedPacketBlock<'static>>,
    /// The packets that came in it, and its time.
    packets: u64,
    now: Instant,
}

impl Deref for RecordedHop {
    type Target = Hop<Packet>;

    fn deref(&self) -> &Hop<Packet> {
        &self.hop
    }
}

impl RecordedHop {
    /// A new link to the peer of that name, whose driver may be late by `lag`.
    pub fn new(now: Instant, config: HopConfig, lag: Duration, name: &str, tape: Option<Tape>) -> Self {
        let words = tape.is_some().then(|| format!("begin {name}\n{} lag={}", words_of(&config), lag.as_nanos()));
        let mut hop = Hop::new(config);
        hop.tolerate(lag);
        hop.watch();
        let mut recorded = Self { hop, tape, step: Vec::new(), packets: 0, now };
        recorded.event(now, || words.unwrap_or_default());
        recorded
    }

    /// [`Hop::begin_anew`]
    pub fn begin_anew(&mut self, now: Instant, config: HopConfig) {
        self.event(now, || format!("anew\n{}", words_of(&config)));
        self.hop.begin_anew(config);
    }

    /// [`Hop::on_new_path`]
    pub fn on_new_path(&mut self, now: Instant, header: u16) {
        self.event(now, || format!("path {header}"));
        self.hop.on_new_path(header);
    }

    /// [`Hop::offer`]
    pub fn offer(&mut self, now: Instant, packet: Packet) {
        if self.tape.is_some() {
            let (flow, traffic) = (packet.flow(), packet.traffic());
            let kind = KINDS.iter().find(|kind| kind.1 == traffic).map_or("", |kind| kind.0);
            self.begin(now, 1);
            self.inner(&Head::of_packet(&packet), INBOUND, Some(format!("flow {flow} {kind}")));
            self.end();
        }
        self.hop.offer(now, packet);
    }

    /// [`Hop::receive`]
    pub fn receive(&mut self, now: Instant, number: PacketNumber, bytes: u32, frame: Frame<Packet>) {
        if self.tape.is_some() {
            self.begin(now, 1);
            self.frame(number, &frame, INBOUND);
        }
        self.hop.receive(now, number, bytes, frame);
    }

    /// [`Hop::on_timeout`]
    pub fn on_timeout(&mut self, now: Instant) {
        if self.tape.is_some() {
            self.begin(now, 0);
            self.text("timeout");
        }
        self.hop.on_timeout(now);
    }

    /// [`Hop::poll_item`], until there is none.
    pub fn poll_item(&mut self, now: Instant) -> Option<Packet> {
        let item = self.hop.poll_item(now);
        if self.tape.is_some() {
            match &item {
                Some(item) => self.inner(&Head::of_packet(item), OUTBOUND, None),
                None => self.end(),
            }
        }
        item
    }

    /// [`Hop::poll_frame`]
    pub fn poll_frame(&mut self, now: Instant) -> Option<Outgoing<Packet>> {
        let outgoing = self.hop.poll_frame(now);
        if self.tape.is_some() {
            self.begin(now, 0);
            match &outgoing {
                Some(outgoing) => self.frame(outgoing.packet, &outgoing.frame, OUTBOUND),
                None => self.text("pause"),
            }
            self.end();
        }
        outgoing
    }

    /// [`Hop::give_back`]
    pub fn give_back(&mut self, now: Instant) -> Vec<Packet> {
        let back = self.hop.give_back(now);
        if self.tape.is_some() {
            self.begin(now, 0);
            self.text("back");
            for packet in &back {
                self.inner(&Head::of_packet(packet), OUTBOUND, Some("back".to_owned()));
            }
        }
        back
    }

    /// [`Hop::poll_fate`]
    pub fn poll_fate(&mut self) -> Option<Fate> {
        self.hop.poll_fate()
    }

    /// It is told something by itself.
    fn event(&mut self, now: Instant, text: impl FnOnce() -> String) {
        if self.tape.is_some() {
            self.begin(now, 0);
            self.text(&text());
            self.end();
        }
    }

    fn begin(&mut self, now: Instant, packets: u64) {
        self.end();
        (self.now, self.packets) = (now, packets);
    }

    /// The step is complete.
    fn end(&mut self) {
        if let Some(tape) = self.tape.as_ref().filter(|_| !self.step.is_empty()) {
            tape.recorder.borrow_mut().step(self.now, self.packets, self.step.drain(..));
        }
    }

    fn text(&mut self, text: &str) {
        let Some(tape) = &self.tape else { return };
        // The peer stands in place of the text, which Wireshark shows anyway.
        let options = vec![peer_comment(tape)];
        let EnhancedPacketBlock { interface_id, timestamp, original_len, data, .. } = of_text(self.now, END, text);
        let data = Cow::Owned(data.into_owned());
        self.step.push(EnhancedPacketBlock { interface_id, timestamp, original_len, data, options });
    }

    fn inner(&mut self, head: &Head, direction: u32, comment: Option<String>) {
        let Some(tape) = &self.tape else { return };
        let (data, len) = captured(head);
        let comment = comment.map(|comment| EnhancedPacketOption::Comment(Cow::Owned(comment)));
        let options = [EnhancedPacketOption::Flags(direction), peer_comment(tape)].into_iter().chain(comment).collect();
        self.step.push(block(self.now, INNER, data.to_vec(), len, options));
    }

    fn frame(&mut self, PacketNumber(number): PacketNumber, frame: &Frame<Packet>, direction: u32) {
        let Some(tape) = &self.tape else { return };
        let head = Head::of_frame(frame);
        let number = (number as u32).to_be_bytes();
        let data = [&number[..], &head.bytes].concat();
        let options = vec![EnhancedPacketOption::Flags(direction), peer_comment(tape)];
        self.step.push(block(self.now, HOP, data, number.len() + head.len, options));
    }
}

impl Drop for RecordedHop {
    fn drop(&mut self) {
        self.end();
    }
}

fn peer_comment(tape: &Tape) -> EnhancedPacketOption<'static> {
    EnhancedPacketOption::Comment(Cow::Owned(format!("peer {}", tape.peer)))
}

fn block(
    now: Instant,
    interface: u32,
    data: Vec<u8>,
    len: usize,
    options: Vec<EnhancedPacketOption<'static>>,
) -> EnhancedPacketBlock<'static> {
    EnhancedPacketBlock {
        interface_id: interface,
        timestamp: stamp(now),
        original_len: len as u32,
        data: Cow::Owned(data),
        options,
    }
}
