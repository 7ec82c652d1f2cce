//! Tests the tunnel's sessions, before and after decryption: two ends with keys, or without keys on a trusted network,
//! where every received byte reaches the code after decryption. For any input, deadlines are in the future, memory is
//! bounded, off-path attackers receive no more bytes than they send, and with keys all packets that arrive were sent,
//! and arrive once.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{pause, steps};
use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::wire::{HEADER, OVERHEAD};
use lasthop_tunnel::{
    Arrival, Capabilities, Carrier, Credentials, Entropy, PathConfig, PeerConfig, PeerId, PresharedKey, PrivateKey, PublicKey, Tunnel,
    TunnelConfig,
};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 2] = ["ship", "shore"];
/// Maximum number of paths of an end.
const PATHS: usize = 3;

struct End {
    tunnel: Tunnel,
    peer: PeerId,
    /// Next number on each path.
    next: [u64; PATHS],
    /// Paths, numbers and texts of the packets sent, and paths and numbers of those that arrived.
    sent: BTreeSet<(PathId, u64, Vec<u8>)>,
    taken: BTreeSet<(PathId, u64)>,
}

struct Datagram {
    to: usize,
    from: SocketAddr,
    bytes: Vec<u8>,
}

fn address(number: u8) -> SocketAddr {
    ([192, 0, 2, number], 9).into()
}

fn ends(u: &mut Unstructured<'_>, keys: bool) -> Result<[End; 2]> {
    let private = [1, 2].map(|seed| PrivateKey::generate(&mut Entropy::new([seed; 32])));
    let mut ends = Vec::new();
    for at in 0..2 {
        let (credentials, key) = if keys {
            (Credentials::Key(private[at].clone()), private[1 - at].public())
        } else {
            (Credentials::Name(NAMES[at].to_owned()), PublicKey::of_name(NAMES[1 - at]))
        };
        let config = TunnelConfig { credentials, capabilities: Capabilities(u.arbitrary()?), carrier: Carrier::Udp, link_mtu: u.arbitrary()? };
        let mut tunnel = Tunnel::new(config, [u.arbitrary()?; 32], Instant::ZERO);
        let keepalive = if u.arbitrary()? { Some(Duration::from_secs(u.int_in_range(1..=60)?)) } else { None };
        let mut paths = Vec::new();
        for _ in 0..u.int_in_range(1..=PATHS)? {
            paths.push(PathConfig::to(if u.ratio(3, 4)? { Some(address(1 - at as u8)) } else { None }));
        }
        let peer = PeerConfig { key, preshared: PresharedKey::default(), paths, allowed: vec![], keepalive };
        let peer = tunnel.add_peer(Instant::ZERO, peer).expect("it is the only peer");
        ends.push(End { tunnel, peer, next: [0; PATHS], sent: BTreeSet::new(), taken: BTreeSet::new() });
    }
    ends.try_into().map_err(|_| arbitrary::Error::IncorrectFormat)
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let keys = u.arbitrary()?;
    let mut ends = ends(u, keys)?;
    let mut underway: Vec<Datagram> = Vec::new();
    let mut now = Instant::ZERO;
    // Bytes received from each address, minus those sent to it.
    let mut given: [BTreeMap<SocketAddr, i64>; 2] = Default::default();
    steps(u, 300, |u| {
        let at = usize::from(u.arbitrary::<bool>()?);
        let kind = u.int_in_range(0..=11_u8)?;
        let arrival = match kind {
            0 | 1 => {
                now = now + pause(u)?.min(Duration::from_secs(60));
                None
            }
            2 | 3 => {
                let text: Vec<u8> = u.arbitrary()?;
                let mut bytes = vec![0; OVERHEAD + text.len()];
                bytes[HEADER..HEADER + text.len()].copy_from_slice(&text);
                let end = &mut ends[at];
                let path = PathId(u.int_in_range(0..=PATHS as u8 - 1)?);
                let next = &mut end.next[usize::from(path.0)];
                *next += if u.ratio(1, 16)? { u64::from(u.arbitrary::<u32>()?) } else { 0 };
                if end.tunnel.seal(now, end.peer, path, *next, &mut bytes).is_ok() {
                    end.sent.insert((path, *next, text));
                    underway.push(Datagram { to: 1 - at, from: address(at as u8), bytes });
                }
                *next += 1;
                None
            }
            4 => {
                let size = u.arbitrary()?;
                let path = PathId(u.arbitrary()?);
                let end = &mut ends[at];
                match u.int_in_range(0..=2_u8)? {
                    0 => end.tunnel.lost(now, end.peer, path, size),
                    1 => end.tunnel.acknowledged(end.peer, path, size),
                    _ => end.tunnel.too_big(now, end.peer, path, size),
                }
                None
            }
            5 => Some(Datagram { to: at, from: address(u.arbitrary()?), bytes: u.arbitrary()? }),
            // One of the datagrams in flight, mostly the oldest: unchanged, modified, truncated, from another address,
            // or lost. It may arrive several times.
            _ if underway.is_empty() => None,
            _ => {
                let which = if u.ratio(1, 4)? { u.choose_index(underway.len())? } else { 0 };
                let Datagram { to, from, bytes } = &underway[which];
                let mut changed = Datagram { to: *to, from: *from, bytes: bytes.clone() };
                match u.int_in_range(0..=15_u8)? {
                    0 => changed.to = 1 - changed.to,
                    1 => changed.from = address(u.arbitrary()?),
                    2 => changed.bytes.truncate(u.choose_index(bytes.len() + 1)?),
                    3 | 4 if !bytes.is_empty() => {
                        let place = u.choose_index(bytes.len())?;
                        changed.bytes[place] = u.arbitrary()?;
                    }
                    // Arbitrary bytes follow the header: without keys they are parsed as frames.
                    5 | 6 if bytes.len() >= OVERHEAD => {
                        changed.bytes.truncate(HEADER);
                        changed.bytes[0] = *u.choose(&[5, 0x15, 0x85, 0x95])?;
                        changed.bytes[4..8].copy_from_slice(&u.arbitrary::<[u8; 4]>()?);
                        let frame: [u8; 9] = u.arbitrary()?;
                        changed.bytes.push(frame[0] % 8);
                        changed.bytes.extend_from_slice(&frame[1..]);
                        changed.bytes.extend_from_slice(&[0; 16]);
                    }
                    7 => {
                        underway.remove(which);
                        return Ok(());
                    }
                    8 => {}
                    _ => {
                        underway.remove(which);
                    }
                }
                Some(changed)
            }
        };
        if let Some(Datagram { to, from, mut bytes }) = arrival {
            let end = &mut ends[to];
            *given[to].entry(from).or_default() += bytes.len() as i64;
            if let Arrival::Link { path, number, frames, .. } = end.tunnel.handle_datagram(now, from, &mut bytes) {
                let text = bytes[frames].to_vec();
                if keys {
                    assert!(ends[to].taken.insert((path, number)), "packet {number} of {path:?} arrived twice");
                    let sent = &ends[1 - to].sent;
                    assert!(sent.contains(&(path, number, text)), "packet {number} of {path:?} was never sent");
                }
            }
        }
        for (at, end) in ends.iter_mut().enumerate() {
            if end.tunnel.poll_deadline().is_some_and(|deadline| deadline <= now) {
                end.tunnel.handle_timeout(now, now.as_nanos());
                assert!(end.tunnel.poll_deadline().is_none_or(|deadline| deadline > now), "the deadline has passed");
            }
            while let Some(transmit) = end.tunnel.poll_transmit() {
                // An address that is not known to be the peer's receives no more bytes than it has sent.
                let is_known = (0..PATHS as u8).any(|path| end.tunnel.address(end.peer, PathId(path)) == Some(transmit.to));
                if !is_known && transmit.to != address(1 - at as u8) {
                    let given = given[at].entry(transmit.to).or_default();
                    *given -= transmit.bytes.len() as i64;
                    assert!(*given >= 0 || !keys, "{} received more bytes than it sent", transmit.to);
                }
                if underway.len() < 100 {
                    underway.push(Datagram { to: 1 - at, from: address(at as u8), bytes: transmit.bytes });
                }
            }
            while end.tunnel.poll_event().is_some() {}
            assert!(end.tunnel.sessions() <= 5);
        }
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
