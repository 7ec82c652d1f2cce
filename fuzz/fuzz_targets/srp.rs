//! Tests an end of SRP between a TCP and a hop that send arbitrary packets: memory is bounded, there is no panic, and
//! no output to a port that the end does not have.
#![no_main]

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, phase, steps, tcp_config, wait};
use lasthop_proto::link::arq::{Header, Timer};
use lasthop_proto::node::{Node, Output, Port};
use lasthop_proto::packet::headers::{LinkHeader, LinkHeaders};
use lasthop_proto::pep::srp::{Message, SessionHeader, SrpConfig, SrpEnd};
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fn number(u: &mut Unstructured<'_>) -> Result<u16> {
    if u.ratio(1, 4)? { u.arbitrary() } else { u.int_in_range(0..=12) }
}

/// Returns headers that the other end of the hop may prepend: mostly well-formed.
fn headers(u: &mut Unstructured<'_>) -> Result<LinkHeaders> {
    let mut link = LinkHeaders::NONE;
    if u.ratio(7, 8)? {
        let taken = u.arbitrary()?;
        let all = [Message::Open, Message::Data { taken }, Message::Taken { taken }, Message::Close, Message::Abort];
        u.choose(&all)?.put(&mut link);
    }
    if u.ratio(7, 8)? {
        let number = number(u)?;
        let all = [Header::Data(number), Header::Ack(number), Header::Nack(number), Header::Skip(number)];
        u.choose(&all)?.put(&mut link);
    }
    if u.ratio(7, 8)? {
        SessionHeader(number(u)?).put(&mut link);
    }
    Ok(link)
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let min = pause(u)?.max(Duration::from_millis(10));
    let config = SrpConfig {
        window: u.int_in_range(0..=40)?,
        header: u.int_in_range(0..=64)?,
        timer: if u.arbitrary()? { Timer::Fixed(min) } else { Timer::Estimated { min } },
        nack_again: if u.arbitrary()? { Some(min) } else { None },
        buffer: u32::from(u.arbitrary::<u16>()?),
    };
    let (buffer, window) = (u64::from(config.buffer.max(1)), usize::from(config.window.max(1)));
    let mut end = SrpEnd::new(config, Arc::new(tcp_config(u)?), phase(u)?);
    let mut now = Instant::ZERO;
    let see = |output| {
        if let Output::Transmit(port, _, packet) = output {
            assert!(port == Port::WIRED || port == Port::WIRELESS, "{packet:?}");
        }
    };
    steps(u, 300, |u| {
        if u.ratio(1, 4)? {
            now = now + pause(u)?.min(Duration::from_secs(60));
            wait(&mut end, now, see);
        } else {
            let (port, mut packet) = passing(u)?;
            if port == Port::WIRELESS {
                packet.link = headers(u)?;
            }
            end.handle_packet(now, port, packet);
            drain(&mut end, now, see);
        }
        assert!(end.most_waiting() <= buffer && end.most_unacknowledged() <= window + 4);
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
