//! State machine of a link with an optional recorder.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use lasthop_daemon::recording::{INBOUND, OUTBOUND, Recorder, of_text, stamp};
use lasthop_proto::link::hybrid::{Bundle, Fate, Frame, Hop, HopConfig, Item, Outgoing, PacketNumber, PathId, Terms};
use lasthop_proto::time::{Duration, Instant};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};

use super::{END, HOP, Head, INNER, KINDS, captured, words_of, words_of_paths};
use crate::inner::packet::Packet;
use crate::plan::terms;

/// Recording shared by all links of an end.
pub type SharedRecorder = Rc<RefCell<Recorder>>;

/// Destination of a link's records.
pub struct Tape {
    /// The recording.
    pub recorder: SharedRecorder,
    /// Number of the link's peer.
    pub peer: u32,
}

/// [`Hop`] with a recording of its inputs and decisions.
pub struct RecordedHop {
    hop: Hop<Packet>,
    tape: Option<Tape>,
    /// Latest input, and the decisions on it so far: more may follow.
    step: Vec<EnhancedPacketBlock<'static>>,
    /// Number of packets in that input, and its time.
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
    /// Creates a link to the named peer, with scheduling slack `lag` for its driver.
    pub fn new(now: Instant, config: HopConfig, lag: Duration, name: &str, tape: Option<Tape>) -> Self {
        let words = tape.is_some().then(|| format!("begin {name}\n{} lag={}", words_of(&config), lag.as_nanos()));
        let mut hop = Hop::new(config);
        hop.tolerate(lag);
        hop.watch();
        let mut recorded = Self { hop, tape, step: Vec::new(), packets: 0, now };
        recorded.event(now, || words.unwrap_or_default());
        recorded
    }

    /// Calls [`Hop::begin_anew`] and [`Hop::add_paths`].
    pub fn begin_anew(&mut self, now: Instant, config: HopConfig, bundle: &Bundle) {
        self.event(now, || format!("anew\n{}{}", words_of(&config), words_of_paths(bundle)));
        self.hop.begin_anew(config);
        self.hop.add_paths(bundle);
    }

    /// Calls [`Hop::on_new_path`].
    pub fn on_new_path(&mut self, now: Instant, path: PathId, header: u16) {
        self.event(now, || match path {
            PathId::FIRST => format!("path {header}"),
            PathId(path) => format!("path {header} {path}"),
        });
        self.hop.on_new_path(path, header);
    }

    /// Calls [`Hop::set_terms`].
    pub fn set_terms(&mut self, now: Instant, path: PathId, terms: Terms) {
        self.event(now, || format!("terms {} {}", path.0, terms::words_of(terms).unwrap_or_default()));
        self.hop.set_terms(path, terms);
    }

    /// Calls [`Hop::handle_item`].
    pub fn handle_item(&mut self, now: Instant, packet: Packet) {
        if self.tape.is_some() {
            let (flow, traffic) = (packet.flow(), packet.traffic());
            let kind = KINDS.iter().find(|kind| kind.1 == traffic).map_or("", |kind| kind.0);
            self.begin(now, 1);
            self.inner(&Head::of_packet(&packet), INBOUND, Some(format!("flow {flow} {kind}")));
            self.end();
        }
        self.hop.handle_item(now, packet);
    }

    /// Calls [`Hop::handle_frame`].
    pub fn handle_frame(&mut self, now: Instant, path: PathId, number: PacketNumber, bytes: u32, frame: Frame<Packet>) {
        if self.tape.is_some() {
            self.begin(now, 1);
            self.frame(path, number, &frame, INBOUND);
        }
        self.hop.handle_frame(now, path, number, bytes, frame);
    }

    /// Calls [`Hop::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.tape.is_some() {
            self.begin(now, 0);
            self.text("timeout");
        }
        self.hop.handle_timeout(now);
    }

    /// Calls [`Hop::poll_item`]; must be repeated until it returns `None`.
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

    /// Calls [`Hop::poll_frame`].
    pub fn poll_frame(&mut self, now: Instant) -> Option<Outgoing<Packet>> {
        let outgoing = self.hop.poll_frame(now);
        if self.tape.is_some() {
            self.begin(now, 0);
            match &outgoing {
                Some(outgoing) => self.frame(outgoing.path, outgoing.packet, &outgoing.frame, OUTBOUND),
                None => self.text("pause"),
            }
            self.end();
        }
        outgoing
    }

    /// Calls [`Hop::give_back`].
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

    /// Calls [`Hop::poll_fate`].
    pub fn poll_fate(&mut self, path: PathId) -> Option<Fate> {
        self.hop.poll_fate(path)
    }

    /// Records a separate event.
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

    /// Completes the step.
    fn end(&mut self) {
        if let Some(tape) = self.tape.as_ref().filter(|_| !self.step.is_empty()) {
            tape.recorder.borrow_mut().step(self.now, self.packets, self.step.drain(..));
        }
    }

    fn text(&mut self, text: &str) {
        let Some(tape) = &self.tape else { return };
        // The comment names the peer; Wireshark shows the text anyway.
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

    fn frame(&mut self, path: PathId, PacketNumber(number): PacketNumber, frame: &Frame<Packet>, direction: u32) {
        let Some(tape) = &self.tape else { return };
        let head = Head::of_frame(frame);
        let number = (number as u32).to_be_bytes();
        let data = [&number[..], &head.bytes].concat();
        let mut options = vec![EnhancedPacketOption::Flags(direction), peer_comment(tape)];
        if path != PathId::FIRST {
            options.push(EnhancedPacketOption::Comment(Cow::Owned(format!("path {}", path.0))));
        }
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
