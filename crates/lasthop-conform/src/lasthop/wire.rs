//! Segments of scripts as packets of lasthop, and back.

use lasthop_proto::packet::{
    Body, Ecn, EcnCounters, Flags, FlowId, Options, Packet, SackBlock, Segment as Header, Side, Timestamps,
};
use lasthop_proto::seq::Seq;

use crate::script::{AccEcnField, TcpOption};
use crate::stack::Segment;

/// Bytes of the headers without options.
const HEADERS: u16 = 40;

/// Returns the packet that carries a segment to the stack.
pub(crate) fn to_packet(segment: &Segment, flow: FlowId, from: Side) -> Packet {
    let mut options = Options::default();
    for option in &segment.options {
        match option {
            TcpOption::Mss(mss) => options.mss = Some(*mss),
            TcpOption::WindowScale(shift) => options.window_scale = Some(*shift),
            TcpOption::SackPermitted => options.sack_permitted = true,
            TcpOption::Timestamps(val, ecr) => options.timestamps = Some(Timestamps { val: *val, ecr: *ecr }),
            TcpOption::Sack(blocks) => {
                for (left, right) in blocks {
                    options.sack.push(SackBlock { left: Seq(*left), right: Seq(*right) });
                }
            }
            TcpOption::AccEcn(counters) => options.ecn_counters = to_counters(counters),
            TcpOption::FastOpen(..) | TcpOption::Md5 => {}
        }
    }
    let header = Header {
        seq: Seq(segment.seq),
        ack: Seq(segment.ack),
        window: segment.window,
        flags: Flags(segment.flags & Flags::ALL.0),
        options,
    };
    Packet {
        flow,
        from,
        ecn: segment.ecn,
        header_len: HEADERS + options.wire_len(),
        len: segment.len,
        body: Body::Tcp(header),
        ..Packet::default()
    }
}

/// Returns the option with these counters: of the kind whose order begins with the first one.
fn to_counters(counters: &[(AccEcnField, u32)]) -> Option<EcnCounters> {
    let is_second_kind = counters.first().is_none_or(|(field, _)| *field == AccEcnField::E1);
    let values: Vec<u32> = counters.iter().map(|(_, value)| *value).collect();
    EcnCounters::new(if is_second_kind { 174 } else { 172 }, &values)
}

fn to_field((ecn, value): (Ecn, u32)) -> (AccEcnField, u32) {
    let field = match ecn {
        Ecn::Ect1 => AccEcnField::E1,
        Ecn::Ce => AccEcnField::Ce,
        Ecn::Ect0 | Ecn::NotEct => AccEcnField::E0,
    };
    (field, value)
}

/// Returns the segment in a packet of the stack.
pub(crate) fn from_packet(packet: &Packet, ports: (u16, u16)) -> Option<Segment> {
    let header = packet.tcp()?;
    let given = &header.options;
    let mut options = Vec::new();
    options.extend(given.mss.map(TcpOption::Mss));
    options.extend(given.window_scale.map(TcpOption::WindowScale));
    options.extend(given.sack_permitted.then_some(TcpOption::SackPermitted));
    options.extend(given.timestamps.map(|timestamps| TcpOption::Timestamps(timestamps.val, timestamps.ecr)));
    if !given.sack.is_empty() {
        let blocks = given.sack.as_slice().iter().map(|block| (block.left.0, block.right.0));
        options.push(TcpOption::Sack(blocks.collect()));
    }
    options.extend(given.ecn_counters.map(|counters| TcpOption::AccEcn(counters.fields().map(to_field).collect())));
    Some(Segment {
        local_port: ports.0,
        remote_port: ports.1,
        ecn: packet.ecn,
        flags: header.flags.0,
        seq: header.seq.0,
        ack: if header.flags.has(Flags::ACK) { header.ack.0 } else { 0 },
        window: header.window,
        len: packet.len,
        options,
    })
}
