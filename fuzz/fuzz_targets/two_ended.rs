//! Tests two ends of a two-ended link over up to three paths that lose, duplicate and reorder frames: no packet arrives
//! twice. With invalid frames in between, memory stays bounded and output ends.
#![no_main]

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, steps, wait};
use lasthop_proto::link::hybrid::node::TwoEnded;
use lasthop_proto::link::hybrid::{Bundle, Class, Copies, Header, HopConfig, Image, Label, Medium, Multipath, PathId, RateRule, Repair, Share, Terms, Tier};
use lasthop_proto::node::{Node, Output, Port};
use lasthop_proto::packet::headers::LinkHeaders;
use lasthop_proto::packet::{Body, FlowId, LinkReport, Packet, Segment};
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

/// Maximum number of frames in the channel; the oldest are lost.
const ON_THE_WAY: usize = 1_000;

fn config(u: &mut Unstructured<'_>) -> Result<HopConfig> {
    let share = Share { data: u.arbitrary()?, coded: u.arbitrary()?, wait: pause(u)?.max(Duration::from_millis(1)) };
    Ok(HopConfig {
        // A minute may pass in one step.
        rate: if u.arbitrary()? { RateRule::Auto } else { RateRule::Fixed(u.int_in_range(0..=20_000_000)?) },
        repair: *u.choose(&[Repair::Repeat, Repair::Adaptive, Repair::Share(share)])?,
        medium: *u.choose(&[Medium::Own, Medium::Shared])?,
        header: u16::from(u.arbitrary::<u8>()?),
        queue: u.arbitrary::<bool>()?.then(|| u.int_in_range(0..=40)).transpose()?,
        memory: 64 << 20,
        target: pause(u)?,
        interval: pause(u)?,
    })
}

/// An end, and the packets that it has sent and delivered.
struct End {
    node: TwoEnded,
    /// Frames in flight, each with its port.
    sent: Vec<(Port, Packet)>,
    taken: Vec<u32>,
}

fn take(sent: &mut Vec<(Port, Packet)>, taken: &mut Vec<u32>, output: Output<()>) {
    match output {
        Output::Transmit(Port::WIRED, _, packet) => {
            if let Body::Datagram { number } = packet.body {
                taken.push(number);
            }
        }
        Output::Transmit(port, _, packet) => {
            sent.push((port, packet));
            if sent.len() > ON_THE_WAY {
                sent.remove(0);
            }
        }
        Output::Event(..) => panic!("{output:?}"),
    }
}

fn number(u: &mut Unstructured<'_>) -> Result<u32> {
    if u.ratio(1, 4)? { u.arbitrary() } else { u.int_in_range(0..=300) }
}

fn hostile(u: &mut Unstructured<'_>) -> Result<Packet> {
    let (_, plain) = passing(u)?;
    let packet = number(u)?;
    Ok(match u.int_in_range(0..=5u8)? {
        0 => {
            let class = *u.choose(&[Class::Ordered, Class::RealTime, Class::AtOnce])?;
            let label = Label { class, chain: u.arbitrary()? };
            Packet { link: Header::Symbol { packet, symbol: number(u)?, label }.into(), ..plain }
        }
        1 => {
            let mut image = Image([0; 76]);
            u.fill_buffer(&mut image.0)?;
            let link = Header::Repair { packet, first: number(u)?, count: u.arbitrary()?, key: u.arbitrary()? };
            Packet { link: link.into(), body: Body::Coded(image), ..plain }
        }
        2 => {
            let report = LinkReport {
                largest: number(u)?,
                delay: u.arbitrary()?,
                received: u.arbitrary()?,
                floor: number(u)?,
                beyond: u.arbitrary()?,
                delivered: u.arbitrary()?,
                useful: u.arbitrary()?,
                marked: u.arbitrary()?,
                arrived: u.arbitrary()?,
                back: u.arbitrary()?,
                path: u.int_in_range(0..=3)?,
            };
            Packet { link: Header::Feedback { packet }.into(), body: Body::Report(report), ..plain }
        }
        3 => Packet { link: Header::Floor { packet, symbol: number(u)? }.into(), body: Body::Control, ..plain },
        4 => Packet { link: Header::Probe { packet }.into(), body: Body::Control, ..plain },
        _ => Packet { link: LinkHeaders::NONE, ..plain },
    })
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let config = config(u)?;
    let mut more = Vec::new();
    for _ in 0..u.int_in_range(0..=2_u8)? {
        let rate = if u.arbitrary()? { RateRule::Auto } else { RateRule::Fixed(u.int_in_range(0..=20_000_000)?) };
        more.push((rate, u16::from(u.arbitrary::<u8>()?)));
    }
    let mut terms = Vec::new();
    for _ in 0..u.int_in_range(0..=3_u8)? {
        terms.push(Terms {
            tier: *u.choose(&[Tier::Primary, Tier::Secondary, Tier::Backup, Tier::Off])?,
            copies: *u.choose(&[Copies::None, Copies::Light, Copies::All])?,
        });
    }
    let bundle = Bundle { multipath: *u.choose(&[Multipath::Bond, Multipath::Redundant, Multipath::Failover])?, more, terms };
    let node = || TwoEnded::new(config.clone()).over(&bundle);
    let mut ends = [0, 1].map(|_| End { node: node(), sent: Vec::new(), taken: Vec::new() });
    let (mut now, mut next, mut honest) = (Instant::ZERO, 0, true);
    steps(u, 400, |u| {
        let at = usize::from(u.arbitrary::<bool>()?);
        let arrival = match u.int_in_range(0..=15u8)? {
            0 => {
                let pause = if u.ratio(1, 8)? { pause(u)? } else { Duration::from_millis(u.int_in_range(0..=50)?) };
                now += pause.min(Duration::from_secs(60));
                for End { node, sent, taken } in &mut ends {
                    wait(node, now, |output| take(sent, taken, output));
                }
                return Ok(());
            }
            1 => {
                honest = false;
                Some((Port(Port::WIRELESS.0 + u.int_in_range(0..=3_u16)?), hostile(u)?))
            }
            2 => {
                let body = Body::Tcp(Segment::default());
                let flow = FlowId(u.int_in_range(1..=3)?);
                Some((Port::WIRED, Packet { flow, body, header_len: 52, len: 1390, ..Packet::default() }))
            }
            3..=6 => {
                next += 1;
                Some((Port::WIRED, Packet { body: Body::Datagram { number: next }, len: 100, ..Packet::default() }))
            }
            // One of the frames in flight, mostly the oldest: it is lost, or arrives, or arrives and stays in flight.
            kind => {
                let sent = &mut ends[1 - at].sent;
                let index = if u.ratio(1, 4)? { usize::from(u.arbitrary::<u8>()?) } else { 0 };
                match (sent.get(index).copied(), kind) {
                    (Some(frame), 7) => Some(frame),
                    (Some(_), 8) => {
                        sent.remove(index);
                        None
                    }
                    (Some(_), _) => Some(sent.remove(index)),
                    (None, _) => None,
                }
            }
        };
        if let Some((port, packet)) = arrival {
            let End { node, sent, taken } = &mut ends[at];
            node.handle_packet(now, port, packet);
            drain(node, now, |output| take(sent, taken, output));
        }
        for End { node, taken, .. } in &mut ends {
            let sizes = node.hop().sizes();
            assert!(
                sizes.symbols <= 14_913 && sizes.transmissions <= 3 << 17 && sizes.planned <= 6 * 14_913,
                "{sizes:?}"
            );
            assert!(sizes.held <= 14_914 && sizes.span <= 1 << 16 && sizes.waiting <= config.queue.unwrap_or(14_913) as usize, "{sizes:?}");
            let rate = node.hop().rate(PathId::FIRST);
            assert!(config.rate != RateRule::Auto || (8_000..=100_000_000_000).contains(&rate), "{rate}");
            assert!(sizes.decoder.0 <= 256 && sizes.decoder.1 <= 32 && sizes.flows <= 4096, "{sizes:?}");
            if honest {
                let mut taken = taken.clone();
                taken.sort_unstable();
                assert!(taken.is_sorted_by(|one, next| one < next), "{taken:?}");
            }
        }
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
