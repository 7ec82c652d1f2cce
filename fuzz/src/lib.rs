//! Packets, configurations and steps made from arbitrary bytes, for all fuzz targets.
//!
//! Numbers are drawn so that they interact: sequence numbers near each other and near the wrap, few flows, small sizes,
//! and occasionally arbitrary values.

pub mod hostile;

use std::num::NonZeroU8;

use arbitrary::{Result, Unstructured};
use lasthop_proto::node::{Node, Output, Port, pump};
use lasthop_proto::packet::{
    AckCongestionOption, Body, Cause, Ecn, EcnCounters, Flags, FlowId, Integrity, LinkHeaders, Options, Packet,
    Priority, SackBlock, Segment, Side, Timestamps,
};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::TickPhase;
use lasthop_proto::tcp::config::{
    AckCongestion, ClassicConfig, DelayedAck, EcnMode, EcnOption, Nagle, Preset, Recovery, SackAlgorithm, Switch,
    TcpConfig,
};
use lasthop_proto::time::{Duration, Instant};

/// Returns a sequence number: in half of all cases near `base`, in steps of a segment; otherwise arbitrary.
fn near(u: &mut Unstructured<'_>, base: u32) -> Result<Seq> {
    Ok(match u.int_in_range(0..=7u8)? {
        0 => Seq(u.arbitrary()?),
        1 => Seq(base.wrapping_add_signed(i32::from(u.arbitrary::<i16>()?))),
        2 | 3 => Seq(base.wrapping_add_signed(i32::from(u.arbitrary::<i8>()?))),
        _ => Seq(base.wrapping_add_signed(100 * i32::from(u.arbitrary::<i8>()?))),
    })
}

/// Numbers that the other end is likely to send: the sequence number that we expect, and our own.
#[derive(Clone, Copy, Debug)]
pub struct Bases {
    /// The peer's next sequence number.
    pub seq: u32,
    /// Our next sequence number.
    pub ack: u32,
}

/// Returns a TCP header.
fn segment(u: &mut Unstructured<'_>, bases: Bases) -> Result<Segment> {
    let mut options = Options {
        mss: rarely(u)?.then(|| u.arbitrary()).transpose()?,
        window_scale: rarely(u)?.then(|| u.arbitrary()).transpose()?,
        sack_permitted: u.ratio(1, 4)?,
        eln: u.ratio(1, 4)?,
        smart: u.ratio(1, 4)?.then(|| near(u, bases.ack)).transpose()?,
        ..Options::default()
    };
    if u.ratio(1, 4)? {
        options.timestamps = Some(Timestamps { val: near(u, 1000)?.0, ecr: near(u, 1000)?.0 });
    }
    for _ in 0..u.int_in_range(0..=4u8)?.saturating_sub(1) {
        options.sack.push(SackBlock { left: near(u, bases.ack)?, right: near(u, bases.ack)? });
    }
    let flags = match u.int_in_range(0..=9u8)? {
        0 => Flags(u.arbitrary()?),
        1 => Flags::SYN,
        2 => Flags::SYN.with(Flags::ACK),
        3 => Flags::FIN.with(Flags::ACK),
        _ => Flags::ACK,
    };
    let window = if u.ratio(1, 4)? { u.arbitrary()? } else { 8_000 };
    Ok(Segment { seq: near(u, bases.seq)?, ack: near(u, bases.ack)?, window, flags, options })
}

fn rarely(u: &mut Unstructured<'_>) -> Result<bool> {
    u.ratio(1, 8)
}

/// Returns a packet of `flow` from `from`.
pub fn packet(u: &mut Unstructured<'_>, flow: FlowId, from: Side, bases: Bases) -> Result<Packet> {
    let body = match u.ratio(1, 30)? {
        true => Body::Datagram { number: u.arbitrary()? },
        false => Body::Tcp(segment(u, bases)?),
    };
    let len = match u.int_in_range(0..=7u8)? {
        0 => u.arbitrary()?,
        1 => u32::from(u.arbitrary::<u8>()?),
        2..=4 => 100,
        _ => 0,
    };
    let mut packet = Packet {
        flow,
        from,
        priority: Priority::Normal,
        integrity: if rarely(u)? { Integrity::PayloadDamaged } else { Integrity::Intact },
        cause: Cause::New,
        super_segment: 0,
        header_len: if rarely(u)? { u.arbitrary()? } else { 40 },
        len,
        ecn: Ecn::NotEct,
        body,
        link: LinkHeaders::NONE,
        payload: (),
    };
    let bits: u8 = u.arbitrary()?;
    packet.ecn = Ecn::from_bits(bits);
    if let Body::Tcp(segment) = &mut packet.body
        && bits & 4 > 0
    {
        let ratio = NonZeroU8::new(bits >> 3).map_or(AckCongestionOption::Permitted, AckCongestionOption::Ratio);
        segment.options.ack_congestion = Some(ratio);
    }
    if let Body::Tcp(segment) = &mut packet.body
        && bits & 12 == 8
    {
        let values: [u32; 3] = u.arbitrary()?;
        let kind = if bits & 16 > 0 { 172 } else { 174 };
        segment.options.ecn_counters = EcnCounters::new(kind, &values[..usize::from(bits >> 6)]);
    }
    Ok(packet)
}

/// Returns a packet that passes through a base station, of one of a few flows.
pub fn passing(u: &mut Unstructured<'_>) -> Result<(Port, Packet)> {
    let flow = FlowId(if rarely(u)? { u.arbitrary()? } else { u32::from(u.arbitrary::<u8>()? & 3) });
    let port = match u.int_in_range(0..=40u8)? {
        0 => Port(u.arbitrary()?),
        odd if odd % 2 == 1 => Port::WIRED,
        _ => Port::WIRELESS,
    };
    let from = if (port == Port::WIRED) != rarely(u)? { Side::Initiator } else { Side::Acceptor };
    let bases = Bases { seq: u32::MAX - 2_000, ack: u32::MAX - 2_000 };
    Ok((port, packet(u, flow, from, bases)?))
}

/// Returns the time between two steps: nanoseconds to minutes, in part exactly at ticks.
pub fn pause(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(match u.int_in_range(0..=5u8)? {
        0 => Duration::from_nanos(0),
        1 => Duration::from_nanos(u64::from(u.arbitrary::<u32>()?)),
        2 => Duration::from_millis(u64::from(u.arbitrary::<u8>()?)),
        3 => Duration::from_millis(100 * u64::from(u.arbitrary::<u8>()?)),
        _ => Duration::from_secs(u64::from(u.arbitrary::<u8>()?)),
    })
}

/// Returns one of the presets with some keys changed.
pub fn tcp_config(u: &mut Unstructured<'_>) -> Result<TcpConfig> {
    let preset = *u.choose(&[
        Preset::BsdLite,
        Preset::Ns2,
        Preset::Rfc,
        Preset::Linux618,
        Preset::Linux618Bbr,
        Preset::Rfc2026,
    ])?;
    let switch = |on| if on { Switch::On } else { Switch::Off };
    let mut config = TcpConfig::new(preset, u.choose(&Recovery::ALL)?.0);
    if u.arbitrary()? {
        let (common, receiver) = (&mut config.common, &mut config.receiver);
        common.mss = u32::from(u.arbitrary::<u8>()?) + 1;
        common.send_buffer = u32::from(u.arbitrary::<u16>()?) + 1;
        receiver.receive_buffer = u32::from(u.arbitrary::<u16>()?) + 1;
        let sack_algorithm = *u.choose(&[SackAlgorithm::Sack1, SackAlgorithm::Rfc6675])?;
        receiver.sack_blocks = u.int_in_range(1..=4)?;
        receiver.window_scale = u.arbitrary::<bool>()?.then(|| u.int_in_range(0..=14)).transpose()?;
        common.timestamps = switch(u.arbitrary()?);
        let limited_transmit = switch(u.arbitrary()?);
        common.nagle = if u.arbitrary()? { common.nagle } else { Nagle::Off };
        receiver.smart_acks = switch(u.arbitrary()?);
        common.sack_eln = switch(u.arbitrary()?);
        common.initial_window = u.int_in_range(1..=20)?;
        common.dupack_threshold = u.int_in_range(1..=5)?;
        let recovery_burst = u.int_in_range(1..=5)?;
        if u.arbitrary()? {
            receiver.delayed_ack = DelayedAck::EverySecond { timeout: Duration::from_millis(200) };
            (common.ack_congestion, common.ecn) = (AckCongestion::Rfc5690, EcnMode::On);
        }
        if u.ratio(1, 4)? {
            common.ecn = EcnMode::Accurate;
            common.ecn_option = *u.choose(&[EcnOption::Minimum, EcnOption::Full, EcnOption::Persistent])?;
        }
        if let Some(classic) = config.sender.classic_mut() {
            *classic = ClassicConfig { sack_algorithm, limited_transmit, recovery_burst, ..*classic };
        }
    }
    Ok(config)
}

/// Returns the phase of a host's ticks.
pub fn phase(u: &mut Unstructured<'_>) -> Result<TickPhase> {
    let tick = |u: &mut Unstructured<'_>| Ok(Duration::from_millis(u.int_in_range(0..=199)?));
    Ok(TickPhase { slow: tick(u)?, fast: tick(u)? })
}

/// Maximum number of outputs of a node in response to one packet or timer.
const MOST_OUTPUTS: usize = 200_000;

/// Drains a node as drivers do, which checks the rules of the contract, and passes each output to `sink`.
pub fn drain(node: &mut impl Node<()>, now: Instant, mut sink: impl FnMut(Output<()>)) {
    let mut outputs = 0;
    pump(node, now, |output| {
        outputs += 1;
        assert!(outputs < MOST_OUTPUTS, "the node produces output without end");
        sink(output);
    });
    assert!(node.poll_deadline().is_none_or(|deadline| deadline > now), "the deadline of a drained node has passed");
}

/// Advances time to `until`, and wakes the node at each of its deadlines and at `until`.
pub fn wait(node: &mut impl Node<()>, until: Instant, mut sink: impl FnMut(Output<()>)) {
    for _ in 0..MOST_OUTPUTS {
        match node.poll_deadline() {
            Some(deadline) if deadline <= until => {
                node.handle_timeout(deadline);
                drain(node, deadline, &mut sink);
            }
            _ => {
                // The call is early, and has no effect.
                node.handle_timeout(until);
                drain(node, until, &mut sink);
                return;
            }
        }
    }
    panic!("the node sets deadlines without end");
}

/// Runs `step` with the rest of the input until it is used up, at most `most` times.
pub fn steps(
    u: &mut Unstructured<'_>,
    most: usize,
    mut step: impl FnMut(&mut Unstructured<'_>) -> Result<()>,
) -> Result<()> {
    for _ in 0..most {
        if u.is_empty() {
            break;
        }
        step(u)?;
    }
    Ok(())
}
