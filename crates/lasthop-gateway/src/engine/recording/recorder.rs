//! Writes an engine's inputs and decisions to a recording.

use std::borrow::Cow;

use lasthop_daemon::recording::{INBOUND, OUTBOUND, RecordFile, Recorder as Writer, of_text, stamp};
use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;
use lasthop_wire::Checksum;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};

use super::{
    DROPPED, ENGINE, FORMAT, INJECTED, INTERFACES, PENDING, REPLACED, REPLACEMENT, SEGMENTS, WRONG, headers_len,
};
use crate::engine::{Condition, Injection, Offloaded, Verdict};

/// A recording in progress, or one that has ended.
pub struct Recorder(Writer);

impl Recorder {
    /// Starts recording an engine with this configuration and seed. Logs errors.
    pub fn start(file: RecordFile, configuration: &str, seed: u64) -> Option<Self> {
        let [wired, wireless, engine] = INTERFACES;
        let interfaces = [(wired, DataLink::RAW), (wireless, DataLink::RAW), (engine, DataLink::WIRESHARK_UPPER_PDU)];
        file.start(&format!("{FORMAT}{seed}\n{configuration}"), &interfaces).map(Self)
    }

    /// Records a packet and the decision on it.
    pub fn packet(
        &mut self,
        now: Instant,
        port: Port,
        packet: &[u8],
        offloaded: Offloaded,
        verdict: &Verdict,
        sent: &[Injection],
    ) {
        let (comment, replacement) = match verdict {
            Verdict::Accept => (None, None),
            Verdict::Drop => (Some(DROPPED), None),
            Verdict::Replace(replacement) => (Some(REPLACED), Some(&replacement[..])),
        };
        let mut given = of_packet(now, port, packet, INBOUND, comment);
        let size = offloaded.size.map(|size| Cow::Owned(format!("{SEGMENTS}{size}")));
        let condition = lasthop_wire::parse(packet).map(|view| offloaded.condition(packet, &view));
        let wrong = (condition == Some(Condition::Damaged)).then_some(Cow::Borrowed(WRONG));
        let pending = (offloaded.checksum == Checksum::Pending).then_some(Cow::Borrowed(PENDING));
        given.options.extend(size.into_iter().chain(pending).chain(wrong).map(EnhancedPacketOption::Comment));
        let beyond = port.across();
        let replacement = replacement.map(|packet| of_packet(now, beyond, packet, OUTBOUND, Some(REPLACEMENT)));
        self.0.step(now, 1, [Some(given), replacement].into_iter().flatten().chain(injected(now, sent)));
    }

    /// Records another input; `text` describes it, and Wireshark shows its first line.
    pub fn event(&mut self, now: Instant, text: &str, sent: &[Injection]) {
        self.0.step(now, 0, std::iter::once(of_text(now, ENGINE, text)).chain(injected(now, sent)));
    }
}

fn injected(now: Instant, sent: &[Injection]) -> impl Iterator<Item = EnhancedPacketBlock<'_>> {
    sent.iter().map(move |sent| of_packet(now, sent.towards, &sent.packet, OUTBOUND, Some(INJECTED)))
}

fn of_packet<'p>(
    now: Instant,
    port: Port,
    packet: &'p [u8],
    direction: u32,
    comment: Option<&'static str>,
) -> EnhancedPacketBlock<'p> {
    let mut options = vec![EnhancedPacketOption::Flags(direction)];
    options.extend(comment.map(|comment| EnhancedPacketOption::Comment(Cow::Borrowed(comment))));
    EnhancedPacketBlock {
        interface_id: u32::from(port.0 & 1),
        timestamp: stamp(now),
        original_len: packet.len() as u32,
        data: Cow::Borrowed(&packet[..headers_len(packet)]),
        options,
    }
}
