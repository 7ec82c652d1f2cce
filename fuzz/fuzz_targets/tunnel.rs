//! Tests the tunnel's sessions, before and after decryption: two ends with keys, or without keys on a trusted network,
//! where every received byte reaches the code after decryption. Each end has a socket for each of its paths. For any
//! input, deadlines are in the future, memory is bounded, off-path attackers receive no more bytes than they send, and
//! with keys all packets that arrive were sent, and arrive once. Unless the attacker passes on what is sent to its
//! addresses, no endpoint moves to one of them.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{pause, steps};
use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::wire::{HEADER, OVERHEAD};
use lasthop_tunnel::{
    Arrival, Capabilities, Carrier, Credentials, Entropy, Origin, PathConfig, PeerConfig, PeerId, PresharedKey, PrivateKey, PublicKey,
    SocketId, Tunnel, TunnelConfig,
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
    socket: SocketId,
    from: SocketAddr,
    bytes: Vec<u8>,
}

/// Returns an address: the first ones are those of the ends' sockets.
fn address(number: u8) -> SocketAddr {
    ([192, 0, 2, number], 9).into()
}

/// Returns the address of an end's socket.
fn socket_address(end: usize, SocketId(socket): SocketId) -> SocketAddr {
    address((end * PATHS) as u8 + socket)
}

/// Returns the end and the socket with that address.
fn at(to: SocketAddr) -> Option<(usize, SocketId)> {
    let sockets = (0..2).flat_map(|end| (0..PATHS as u8).map(move |socket| (end, SocketId(socket))));
    let mut sockets = sockets.filter(|(end, socket)| socket_address(*end, *socket) == to);
    sockets.next()
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
            let other = socket_address(1 - at, SocketId(u.int_in_range(0..=PATHS as u8 - 1)?));
            let endpoint = if u.ratio(3, 4)? { Some(other) } else { None };
            paths.push(PathConfig { endpoint, socket: SocketId(u.int_in_range(0..=PATHS as u8 - 1)?) });
        }
        let peer = PeerConfig { key, preshared: PresharedKey::default(), paths, allowed: vec![], keepalive };
        let peer = tunnel.add_peer(Instant::ZERO, peer).expect("it is the only peer");
        ends.push(End { tunnel, peer, next: [0; PATHS], sent: BTreeSet::new(), taken: BTreeSet::new() });
    }
    ends.try_into().map_err(|_| arbitrary::Error::IncorrectFormat)
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let (keys, relays) = (u.arbitrary()?, u.arbitrary::<bool>()?);
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
                if let Ok(to) = end.tunnel.seal(now, end.peer, path, *next, &mut bytes) {
                    end.sent.insert((path, *next, text));
                    let from = socket_address(at, SocketId(path.0));
                    underway.extend(self::at(to).map(|(to, socket)| Datagram { to, socket, from, bytes }));
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
            5 => Some(Datagram { to: at, socket: SocketId(0), from: address(u.arbitrary()?), bytes: u.arbitrary()? }),
            // One of the datagrams in flight, mostly the oldest: unchanged, modified, truncated, from another address,
            // or lost. It may arrive several times.
            _ if underway.is_empty() => None,
            _ => {
                let which = if u.ratio(1, 4)? { u.choose_index(underway.len())? } else { 0 };
                let Datagram { to, socket, from, bytes } = &underway[which];
                let mut changed = Datagram { to: *to, socket: *socket, from: *from, bytes: bytes.clone() };
                match u.int_in_range(0..=17_u8)? {
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
                    // On another path, or at another socket.
                    9 if !bytes.is_empty() => changed.bytes[0] = changed.bytes[0] & 0x8f | u.int_in_range(0..=7_u8)? << 4,
                    10 => changed.socket = SocketId(u.int_in_range(0..=PATHS as u8 - 1)?),
                    _ => {
                        underway.remove(which);
                    }
                }
                Some(changed)
            }
        };
        if let Some(Datagram { to, socket, from, mut bytes }) = arrival {
            let end = &mut ends[to];
            *given[to].entry(from).or_default() += bytes.len() as i64;
            let origin = Origin { address: from, socket };
            if let Arrival::Link { path, number, frames, .. } = end.tunnel.handle_datagram(now, origin, &mut bytes) {
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
                let place = self::at(transmit.to);
                if !is_known && place.is_none_or(|(to, _)| to == at) {
                    let given = given[at].entry(transmit.to).or_default();
                    *given -= transmit.bytes.len() as i64;
                    assert!(*given >= 0 || !keys, "{} received more bytes than it sent", transmit.to);
                }
                let from = socket_address(at, transmit.socket);
                let place = place.or_else(|| relays.then_some((1 - at, SocketId(0)))).filter(|_| underway.len() < 100);
                underway.extend(place.map(|(to, socket)| Datagram { to, socket, from, bytes: transmit.bytes }));
            }
            for path in (0..PATHS as u8).map(PathId).filter(|_| keys && !relays) {
                let is_true = |address| self::at(address).is_some_and(|(end, _)| end != at);
                let place = end.tunnel.address(end.peer, path);
                assert!(place.is_none_or(is_true), "{path:?} moved to {place:?}");
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
