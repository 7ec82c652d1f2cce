//! Tests both ends of a probe with packets of arbitrary contents, with a valid tag or without. There is no panic and no
//! answer to callers without the key, deadlines are in the future, and the session ends.
#![no_main]

use std::net::SocketAddr;

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::steps;
use lasthop_probe::{Client, ClientConfig, Datagram, Key, Server, ServerConfig};
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let addresses: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()];
    let key = || Key::from_bytes([7; 32]);
    let mut client = Client::new(ClientConfig {
        key: key(),
        server: addresses[1],
        lasts: Duration::from_secs(10),
        max_rate: 1_000_000,
        moving: u.arbitrary()?,
        nonce: [1; 16],
    });
    let mut server = Server::new(key(), [3; 32], ServerConfig { max_rate: 1_000_000, sessions: 1 });
    let mut now = Instant::ZERO + Duration::from_secs(100);
    steps(u, 300, |u| {
        now += Duration::from_micros(u.int_in_range(0..=200_000)?);
        for _ in 0..64 {
            let Some(mut sent) = client.poll_transmit(now) else { break };
            let fate: u8 = u.arbitrary()?;
            if fate == 1 && !sent.bytes.is_empty() {
                let at = u.choose_index(sent.bytes.len())?;
                sent.bytes[at] ^= u.arbitrary::<u8>()?;
            }
            if fate > 0 {
                server.handle_datagram(now, &Datagram { at: now, from: addresses[0], dscp: fate >> 2, bytes: &sent.bytes });
            }
        }
        for _ in 0..64 {
            let Some(mut sent) = server.poll_transmit(now) else { break };
            assert_eq!(sent.to, addresses[0]);
            let fate: u8 = u.arbitrary()?;
            if fate == 1 && !sent.bytes.is_empty() {
                let at = u.choose_index(sent.bytes.len())?;
                sent.bytes[at] ^= u.arbitrary::<u8>()?;
            }
            if fate > 0 {
                client.handle_datagram(now, &Datagram { at: now, from: addresses[1], dscp: fate >> 2, bytes: &sent.bytes });
            }
        }
        // Packets from off-path attackers.
        let len = u.int_in_range(0..=200)?;
        let bytes = u.bytes(len.min(u.len()))?;
        let stranger: SocketAddr = ([203, 0, 113, 9], 9).into();
        server.handle_datagram(now, &Datagram { at: now, from: stranger, dscp: 0, bytes });
        client.handle_datagram(now, &Datagram { at: now, from: addresses[1], dscp: 0, bytes });
        Ok(())
    })?;
    if client.outcome().is_none() {
        client.stop(now);
        while client.poll_transmit(now).is_some() {}
        assert!(client.outcome().is_some());
    }
    let measured = client.measured(now);
    let _ = lasthop_probe::report::moving::analyse(measured.clone(), "fuzz");
    let _ = lasthop_probe::report::analyse(measured, "fuzz");
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
