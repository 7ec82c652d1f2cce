//! Tests two ends of a link over a channel that loses, duplicates and reorders frames. Every packet arrives at most
//! once and in order. With invalid frames in between, memory stays bounded.
#![no_main]

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, steps, wait};
use lasthop_proto::link::arq::{Arq, ArqConfig, Delivery, Header, Protocol, Timer};
use lasthop_proto::node::{Node, Output, Port};
use lasthop_proto::packet::{Body, LinkHeaders, Packet};
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

/// Maximum number of frames in the channel; the oldest are lost.
const ON_THE_WAY: usize = 1_000;

/// Returns the span of a timer: at least 10 ms, since a minute may pass in one step.
fn span(u: &mut Unstructured<'_>) -> Result<Duration> {
    let span = if u.ratio(1, 8)? { Duration::from_nanos(u.arbitrary()?) } else { pause(u)? };
    Ok(span.max(Duration::from_millis(10)))
}

fn config(u: &mut Unstructured<'_>) -> Result<ArqConfig> {
    Ok(ArqConfig {
        protocol: *u.choose(&[Protocol::StopAndWait, Protocol::GoBackN, Protocol::SelectiveRepeat])?,
        window: if u.ratio(1, 8)? { u.arbitrary()? } else { u.int_in_range(1..=16)? },
        header: u16::from(u.arbitrary::<u8>()?),
        timer: if u.arbitrary()? { Timer::Fixed(span(u)?) } else { Timer::Estimated { min: span(u)? } },
        nack_again: if u.arbitrary()? { Some(span(u)?) } else { None },
        max_retransmissions: if u.arbitrary()? { Some(u.int_in_range(0..=4)?) } else { None },
        delivery: *u.choose(&[Delivery::InOrder, Delivery::Immediate])?,
        queue: u.int_in_range(0..=40)?,
    })
}

/// An end, and the packets that it has sent and delivered.
struct End {
    arq: Arq<()>,
    sent: Vec<Packet>,
    taken: Vec<u32>,
}

fn take(sent: &mut Vec<Packet>, taken: &mut Vec<u32>, output: Output<()>) {
    match output {
        Output::Transmit(Port::WIRED, _, packet) => {
            if let Body::Datagram { number } = packet.body {
                taken.push(number);
            }
        }
        Output::Transmit(_, _, packet) => {
            sent.push(packet);
            if sent.len() > ON_THE_WAY {
                sent.remove(0);
            }
        }
        Output::Event(..) => panic!("{output:?}"),
    }
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let config = config(u)?;
    let mut ends = [0, 1].map(|_| End { arq: Arq::new(config.clone()), sent: Vec::new(), taken: Vec::new() });
    let (mut now, mut next, mut honest) = (Instant::ZERO, 0, true);
    steps(u, 400, |u| {
        let at = usize::from(u.arbitrary::<bool>()?);
        let arrival = match u.int_in_range(0..=15u8)? {
            0 => {
                let pause = if u.ratio(1, 8)? { pause(u)? } else { Duration::from_millis(u.int_in_range(0..=50)?) };
                now += pause.min(Duration::from_secs(60));
                for End { arq, sent, taken } in &mut ends {
                    wait(arq, now, |output| take(sent, taken, output));
                }
                return Ok(());
            }
            1 => {
                honest = false;
                let (_, mut packet) = passing(u)?;
                let number = if u.arbitrary()? { u.arbitrary()? } else { u.int_in_range(0..=40)? };
                packet.link = match u.int_in_range(0..=4u8)? {
                    0 => LinkHeaders::NONE,
                    1 => Header::Data(number).into(),
                    2 => Header::Ack(number).into(),
                    3 => Header::Nack(number).into(),
                    _ => Header::Skip(number).into(),
                };
                Some((Port::WIRELESS, packet))
            }
            2..=6 => {
                next += 1;
                Some((Port::WIRED, Packet { body: Body::Datagram { number: next }, len: 100, ..Packet::default() }))
            }
            // One of the frames in flight, mostly the oldest: it is lost, or arrives, or arrives and stays in flight.
            kind => {
                let sent = &mut ends[1 - at].sent;
                let index = if u.ratio(1, 4)? { usize::from(u.arbitrary::<u8>()?) } else { 0 };
                match (sent.get(index).copied(), kind) {
                    (Some(packet), 7) => Some((Port::WIRELESS, packet)),
                    (Some(_), 8) => {
                        sent.remove(index);
                        None
                    }
                    (Some(_), _) => Some((Port::WIRELESS, sent.remove(index))),
                    (None, _) => None,
                }
            }
        };
        if let Some((port, packet)) = arrival {
            let End { arq, sent, taken } = &mut ends[at];
            arq.handle_packet(now, port, packet);
            drain(arq, now, |output| take(sent, taken, output));
        }
        for End { arq, taken, .. } in &mut ends {
            let window = usize::from(config.window.clamp(1, 1 << 15));
            assert!(arq.unacknowledged() <= window && arq.held() < window && arq.waiting() <= config.queue as usize);
            if honest && config.delivery == Delivery::InOrder {
                assert!(taken.is_sorted_by(|one, next| one < next), "{taken:?}");
            } else if honest {
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
