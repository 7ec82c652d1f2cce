//! Names and numbers in traces, shared by all formats.

use lasthop_proto::event::Event;
use lasthop_proto::link::arq::Header;
use lasthop_proto::link::hybrid;
use lasthop_proto::packet::headers::LinkProtocol;
use lasthop_proto::packet::{
    AckCongestionOption, Cause, Ecn, EcnCounters, Flags, FlowId, Integrity, LinkHeaders, Options, Packet, SackBlocks,
    Side,
};
use lasthop_proto::pep::srp::{Message, SessionHeader};
use lasthop_proto::seq::Seq;
use lasthop_sim::trace::{FlowInfo, Record, Trace, What};

use crate::error::ReportError;

/// Flags by name, in the customary order (`SYN|ACK`), with their one-letter forms.
const FLAGS: [(u16, &str, char); 9] = [
    (Flags::SYN.0, "SYN", 'S'),
    (Flags::FIN.0, "FIN", 'F'),
    (Flags::RST.0, "RST", 'R'),
    (Flags::PSH.0, "PSH", 'P'),
    (Flags::URG.0, "URG", 'U'),
    (Flags::ECE.0, "ECE", 'E'),
    (Flags::CWR.0, "CWR", 'W'),
    (Flags::AE.0, "AE", 'e'),
    (Flags::ACK.0, "ACK", '.'),
];

/// Returns the names of flags: `SYN|ACK`.
pub fn flag_names(flags: Flags) -> String {
    let names: Vec<&str> = FLAGS.iter().filter(|(bit, ..)| flags.0 & bit != 0).map(|(_, name, _)| *name).collect();
    names.join("|")
}

/// Returns the letters of flags, as tcpdump prints them: `S.`.
pub fn flag_letters(flags: Flags) -> String {
    FLAGS.iter().filter(|(bit, ..)| flags.0 & bit != 0).map(|(.., letter)| *letter).collect()
}

/// Formats SACK blocks as `left-right left-right`, with each number mapped by `number`.
pub fn sack_blocks(blocks: &SackBlocks, separator: char, number: impl Fn(Seq) -> u32) -> String {
    let blocks: Vec<String> = blocks
        .as_slice()
        .iter()
        .map(|block| format!("{}{separator}{}", number(block.left), number(block.right)))
        .collect();
    blocks.join(" ")
}

/// Formats options other than SACK blocks: `mss=1360 wscale=2 sackok ts=10/7 smart=4201 eln ackratio=4`.
pub fn options(options: &Options, smart: impl Fn(Seq) -> u32) -> String {
    let mut words = Vec::new();
    words.extend(options.mss.map(|mss| format!("mss={mss}")));
    words.extend(options.window_scale.map(|shift| format!("wscale={shift}")));
    words.extend(options.sack_permitted.then(|| "sackok".to_owned()));
    words.extend(options.timestamps.map(|ts| format!("ts={}/{}", ts.val, ts.ecr)));
    words.extend(options.smart.map(|seq| format!("smart={}", smart(seq))));
    words.extend(options.eln.then(|| "eln".to_owned()));
    words.extend(options.ack_congestion.map(|option| match option {
        AckCongestionOption::Permitted => "ackcc".to_owned(),
        AckCongestionOption::Ratio(ratio) => format!("ackratio={ratio}"),
    }));
    words.extend(options.ecn_counters.map(ecn_counters));
    words.join(" ")
}

/// Formats the counters of accurate ECN in the order of the wire, as tcpdump prints them: `e1b=1 ceb=0 e0b=1001`.
fn ecn_counters(counters: EcnCounters) -> String {
    let name = |ecn| match ecn {
        Ecn::Ect1 => "e1b",
        Ecn::Ce => "ceb",
        Ecn::Ect0 | Ecn::NotEct => "e0b",
    };
    let words: Vec<_> = counters.fields().map(|(ecn, value)| format!("{}={value}", name(ecn))).collect();
    if words.is_empty() { "accecn".to_owned() } else { words.join(" ") }
}

/// Describes the headers of link protocols, the outermost first: `data 17`, `ack 18`, `nack 17`, `skip 18`; `None`
/// without any.
pub fn link_headers(headers: &LinkHeaders) -> Option<String> {
    let describe = |(protocol, bytes): (LinkProtocol, &[u8])| {
        if let Some(header) = hybrid::Header::from_bytes(bytes).filter(|_| protocol == LinkProtocol::TWO_ENDED) {
            return two_ended(header);
        }
        if protocol == LinkProtocol::SRP {
            return srp(bytes);
        }
        let arq = Header::from_bytes(bytes).filter(|_| protocol == LinkProtocol::ARQ);
        match arq {
            Some(Header::Data(number)) => format!("data {number}"),
            Some(Header::Ack(number)) => format!("ack {number}"),
            Some(Header::Nack(number)) => format!("nack {number}"),
            Some(Header::Skip(number)) => format!("skip {number}"),
            None => format!("protocol {} of {} bytes", protocol.0, bytes.len()),
        }
    };
    let all: Vec<_> = headers.iter().map(describe).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Describes an SRP header: `session 0`, or its message: `open`, `stream`, `taken 1400`, `close`, `abort`.
fn srp(bytes: &[u8]) -> String {
    match (SessionHeader::from_bytes(bytes), Message::from_bytes(bytes)) {
        (Some(SessionHeader(number)), _) => format!("session {number}"),
        (None, Some(Message::Open)) => "open".to_owned(),
        (None, Some(Message::Data { .. })) => "stream".to_owned(),
        (None, Some(Message::Taken { taken })) => format!("taken {taken}"),
        (None, Some(Message::Close)) => "close".to_owned(),
        (None, Some(Message::Abort)) => "abort".to_owned(),
        (None, None) => format!("protocol {} of {} bytes", LinkProtocol::SRP.0, bytes.len()),
    }
}

/// Describes a header of the two-ended link: `packet 9 symbol 7 chain 1`, `packet 9 repair 3+5 key 0`,
/// `packet 9 feedback`, `packet 9 floor 7`, `packet 9 probe`.
fn two_ended(header: hybrid::Header) -> String {
    match header {
        hybrid::Header::Symbol { packet, symbol, label } => {
            format!("packet {packet} symbol {symbol} chain {}", label.chain)
        }
        hybrid::Header::Repair { packet, first, count, key } => {
            format!("packet {packet} repair {first}+{count} key {key}")
        }
        hybrid::Header::Feedback { packet } => format!("packet {packet} feedback"),
        hybrid::Header::Floor { packet, symbol } => format!("packet {packet} floor {symbol}"),
        hybrid::Header::Probe { packet } => format!("packet {packet} probe"),
        hybrid::Header::Bare { packet } => format!("packet {packet} unrepaired"),
    }
}

/// Returns the link headers of a record's packet, if it has one.
pub fn link(record: &Record) -> LinkHeaders {
    packet(&record.what).map_or(LinkHeaders::NONE, |packet| packet.link)
}

/// Returns the flow of a record; `None` for a link's control frames, which belong to no flow.
///
/// # Errors
///
/// Returns an error if the trace does not define the flow.
pub fn flow<'t>(trace: &'t Trace, record: &Record) -> Result<Option<&'t FlowInfo>, ReportError> {
    if record.flow == FlowId::NONE {
        return Ok(None);
    }
    trace.flows.get(record.flow.0 as usize).map(Some).ok_or(ReportError::NoSuchFlow(record.flow.0))
}

/// Returns `initiator` or `acceptor`.
pub const fn side_name(side: Side) -> &'static str {
    match side {
        Side::Initiator => "initiator",
        Side::Acceptor => "acceptor",
    }
}

/// Returns whether the flow's sender, or a hop on the path, has sent this data before.
pub const fn is_retransmission(cause: Cause) -> bool {
    cause.is_source_retransmission() || cause.is_local_retransmission()
}

/// Returns the event of a record in a word: the `event` column of a trace.
pub const fn event_name(what: &What) -> &'static str {
    match what {
        What::Sent(packet) if is_retransmission(packet.cause) => "retransmitted",
        What::Sent(_) => "sent",
        What::Received(_) => "received",
        What::Dropped(..) => "dropped",
        What::Event(event) => event.name(),
    }
}

/// Returns the reason of an event in a word: the `reason` column of a trace.
pub fn reason(what: &What) -> &'static str {
    match what {
        What::Sent(packet) => packet.cause.name(),
        What::Received(Packet { integrity: Integrity::PayloadDamaged, .. }) => "damaged",
        What::Received(_) | What::Event(_) => "",
        What::Dropped(_, reason) => reason.name(),
    }
}

/// Returns the packet of a record, if it has one.
pub const fn packet(what: &What) -> Option<&Packet> {
    match what {
        What::Sent(packet) | What::Received(packet) | What::Dropped(packet, _) => Some(packet),
        What::Event(_) => None,
    }
}

/// Numbers of an event.
#[derive(Clone, Copy, Default)]
pub struct EventNumbers {
    pub seq: Option<Seq>,
    pub ack: Option<Seq>,
    /// Congestion window and slow-start threshold.
    pub window: Option<(u32, u32)>,
}

/// Returns the numbers of `event`.
pub fn event_numbers(event: &Event) -> EventNumbers {
    let none = EventNumbers::default();
    match *event {
        Event::Timeout { seq }
        | Event::RecoveryEntered { seq }
        | Event::TailProbe { seq }
        | Event::LossJudged { seq, .. }
        | Event::Absorbed { seq } => EventNumbers { seq: Some(seq), ..none },
        Event::RecoveryLeft { ack }
        | Event::DupAckSuppressed { ack }
        | Event::ElnMarked { ack }
        | Event::AckReconstructed { ack } => EventNumbers { ack: Some(ack), ..none },
        Event::Window { cwnd, ssthresh } => EventNumbers { window: Some((cwnd, ssthresh)), ..none },
        Event::Established
        | Event::PeerClosed
        | Event::Closed
        | Event::Aborted
        | Event::Undone { .. }
        | Event::ZeroWindow
        | Event::Evicted => none,
    }
}
