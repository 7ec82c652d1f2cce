//! Cost of sealing, opening and rejecting on one core:
//!
//!     cargo run --release -p lasthop-tunnel --example speed
//!
//! Measures CPU time, which depends little on other load; each line is the best of five rounds.

use std::hint::black_box;
use std::net::SocketAddr;

use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::wire::{HEADER, OVERHEAD};
use lasthop_tunnel::{
    Arrival, Capabilities, Carrier, Credentials, Entropy, PathConfig, PeerConfig, PeerId, PresharedKey, PrivateKey,
    Tunnel, TunnelConfig,
};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 5;

/// Returns the CPU time of this thread, in nanoseconds.
fn spent() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn key(seed: u8) -> PrivateKey {
    PrivateKey::generate(&mut Entropy::new([seed; 32]))
}

fn end(own: u8, peer: u8, address: SocketAddr) -> (Tunnel, PeerId) {
    let credentials = Credentials::Key(key(own));
    let config = TunnelConfig { credentials, capabilities: Capabilities(0), carrier: Carrier::Udp, link_mtu: 1500 };
    let mut tunnel = Tunnel::new(config, [own; 32], Instant::ZERO);
    let peer = PeerConfig {
        key: key(peer).public(),
        preshared: PresharedKey::default(),
        paths: vec![PathConfig::to(Some(address))],
        allowed: vec![],
        keepalive: Some(Duration::from_secs(10)),
    };
    let peer = tunnel.add_peer(Instant::ZERO, peer).expect("the only peer");
    (tunnel, peer)
}

/// Returns the nanoseconds of each of `count` calls.
fn best(count: u64, mut round: impl FnMut(u64)) -> f64 {
    let times = (0..ROUNDS).map(|number| {
        let start = spent();
        round(number as u64);
        (spent() - start) / count as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let addresses: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 1).into()];
    let [(mut one, peer), (mut other, _)] = [end(1, 2, addresses[1]), end(2, 1, addresses[0])];
    let now = Instant::ZERO + Duration::from_millis(1);
    one.handle_timeout(now, 1 << 60);
    let begun = one.poll_transmit().expect("an initiation").bytes;
    other.handle_datagram(now, addresses[0], &mut begun.clone());
    let answer = other.poll_transmit().expect("a response").bytes;
    one.handle_datagram(now, addresses[1], &mut answer.clone());
    while let Some(sent) = one.poll_transmit() {
        other.handle_datagram(now, addresses[0], &mut sent.bytes.clone());
    }

    let mut number = 0;
    for length in [64, 1_400] {
        let count = 50_000;
        let plain: Vec<Vec<u8>> = (0..count).map(|_| vec![7; OVERHEAD + length]).collect();
        let mut sealed = plain.clone();
        let [mut sealing, mut opening] = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (datagram, plain) in sealed.iter_mut().zip(&plain) {
                datagram.copy_from_slice(plain);
            }
            let start = spent();
            for datagram in &mut sealed {
                one.seal(now, peer, PathId::FIRST, number, datagram).expect("a session");
                number += 1;
            }
            sealing = sealing.min((spent() - start) / f64::from(count));
            let start = spent();
            for datagram in &mut sealed {
                let arrival = other.handle_datagram(now, addresses[0], datagram);
                assert!(matches!(arrival, Arrival::Link { .. }), "{arrival:?}");
            }
            opening = opening.min((spent() - start) / f64::from(count));
            assert_eq!(sealed[0][HEADER], 7);
        }
        for (what, nanos) in [("seal", sealing), ("open", opening)] {
            let gigabits = length as f64 * 8.0 / nanos;
            println!(
                "{what} {length:>5} bytes: {nanos:>7.0} ns, {gigabits:>6.2} Gbit/s, {:>9.0} packets/s",
                1e9 / nanos
            );
        }
    }

    // Forged handshakes: with a wrong mac1; with a valid one, under load; and with a valid one that is processed.
    let count = 100_000;
    let mut false_mac = begun.clone();
    false_mac[100] ^= 1;
    let nanos = best(count, |_| {
        for _ in 0..count {
            black_box(other.handle_datagram(now, addresses[0], black_box(&mut false_mac)));
        }
    });
    println!("refuse a false mac1:            {nanos:>7.0} ns, 100,000/s take {:.1} % of a core", nanos / 100.0);

    let mut stranger = end(9, 2, addresses[1]).0;
    stranger.handle_timeout(now, 1 << 60);
    let right = stranger.poll_transmit().expect("an initiation").bytes;
    let (mut replies, mut worked) = (0_u64, 0_u64);
    let nanos = best(count, |round| {
        // One second of a flood: 100,000 messages, from as many addresses.
        let second = now + Duration::from_secs(1 + round);
        for at in 0..count {
            let from = SocketAddr::from((std::net::Ipv4Addr::from_bits(at as u32), 9));
            let at = second + Duration::from_nanos(at * 10_000);
            worked += u64::from(
                other.handle_datagram(at, from, &mut right.clone()) != Arrival::Dropped(lasthop_tunnel::Drop::Load),
            );
            while let Some(transmit) = other.poll_transmit() {
                replies += 1;
                black_box(transmit);
            }
        }
    });
    println!("refuse a right mac1 under load: {nanos:>7.0} ns, 100,000/s take {:.1} % of a core", nanos / 100.0);
    println!("    in {ROUNDS} s: {replies} cookies, {worked} worked on");

    let quiet = now + Duration::from_secs(100);
    let count = 400;
    let nanos = best(count, |round| {
        for at in 0..count {
            let at = quiet + Duration::from_secs(10 * round) + Duration::from_millis(20 * at);
            black_box(other.handle_datagram(at, addresses[0], &mut right.clone()));
        }
    });
    println!(
        "refuse after the curve:         {nanos:>7.0} ns, at most 500/s take {:.1} % of a core",
        nanos * 500.0 / 1e7
    );

    let count = 200;
    let nanos = best(count, |round| {
        for at in 0..count {
            let (mut fresh, _) = end(1, 2, addresses[1]);
            let wall = (1 << 60) + ((round * count + at + 1) << 26);
            let now = quiet + Duration::from_secs(1_000 * (round + 1)) + Duration::from_millis(30 * at);
            fresh.handle_timeout(now, wall);
            let mut bytes = fresh.poll_transmit().expect("an initiation").bytes;
            other.handle_datagram(now, addresses[0], &mut bytes);
            while let Some(mut transmit) = other.poll_transmit() {
                fresh.handle_datagram(now, addresses[1], &mut transmit.bytes);
            }
        }
    });
    println!("a whole handshake, both ends:   {nanos:>7.0} ns");
}
