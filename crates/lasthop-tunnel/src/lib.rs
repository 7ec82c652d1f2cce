//! The two-ended link's session: handshake, keys, replay window, paths.
//!
//! A state machine without I/O: the driver passes it datagrams, the time, and 32 random bytes once; it returns
//! datagrams, events and its next deadline. The link mechanism above it repairs losses and is independent of the
//! session's keys and addresses. `docs/tunnel.md` describes its behavior, deviations from WireGuard, and limits.
//!
//! ```
//! use lasthop_proto::link::hybrid::PathId;
//! use lasthop_proto::time::Instant;
//! use lasthop_tunnel::wire::{HEADER, OVERHEAD};
//! use lasthop_tunnel::{
//!     Arrival, Capabilities, Carrier, Credentials, Entropy, PathConfig, PeerConfig, PresharedKey, PrivateKey, PublicKey, Tunnel, TunnelConfig,
//! };
//!
//! let keys = [1, 2].map(|seed| PrivateKey::generate(&mut Entropy::new([seed; 32])));
//! let addresses = ["192.0.2.1:51820", "192.0.2.2:51820"].map(|address| address.parse().unwrap());
//! let now = Instant::ZERO;
//! let mut ends = [0, 1].map(|end| {
//!     let credentials = Credentials::Key(keys[end].clone());
//!     let config = TunnelConfig { credentials, capabilities: Capabilities(0), carrier: Carrier::Udp, link_mtu: 1500 };
//!     let mut tunnel = Tunnel::new(config, [7 + end as u8; 32], now);
//!     let peer = PeerConfig {
//!         key: keys[1 - end].public(),
//!         preshared: PresharedKey::default(),
//!         paths: vec![PathConfig::to(Some(addresses[1 - end]))],
//!         allowed: vec!["10.0.0.0/8".parse().unwrap()],
//!         keepalive: None,
//!     };
//!     let peer = tunnel.add_peer(now, peer).unwrap();
//!     (tunnel, peer)
//! });
//!
//! // There is no session yet: the attempt to send begins one.
//! let mut datagram = vec![0; OVERHEAD + 5];
//! datagram[HEADER..HEADER + 5].copy_from_slice(b"hello");
//! let peer = ends[0].1;
//! assert!(ends[0].0.seal(now, peer, PathId::FIRST, 0, &mut datagram).is_err());
//! ends[0].0.handle_timeout(now, 0);
//! for from in [0, 1, 0] {
//!     while let Some(transmit) = ends[from].0.poll_transmit() {
//!         ends[1 - from].0.handle_datagram(now, addresses[from], &mut transmit.bytes.clone());
//!     }
//! }
//! let to = ends[0].0.seal(now, peer, PathId::FIRST, 0, &mut datagram)?;
//! assert_eq!(to, addresses[1]);
//! match ends[1].0.handle_datagram(now, addresses[0], &mut datagram) {
//!     Arrival::Link { frames, number: 0, .. } => assert_eq!(&datagram[frames], b"hello"),
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), lasthop_tunnel::Unsealed>(())
//! ```
#![forbid(unsafe_code)]

mod allowed;
mod carrier;
mod control;
mod entropy;
mod hello;
mod keys;
mod load;
mod mac;
mod noise;
mod peer;
pub mod pmtu;
mod replay;
mod seal;
mod session;
mod tunnel;
pub mod wire;

pub use carrier::{Carrier, Mac};
pub use entropy::Entropy;
pub use hello::{Capabilities, VERSION};
pub use keys::{KEY_BYTES, KEY_CHARACTERS, KeyError, PresharedKey, PrivateKey, PublicKey};
pub use noise::{Credentials, PROLOGUE, PROTOCOL};
pub use peer::{FIRST_RETRIES, GIVE_UP, JITTER, KEEPALIVE, RETRY};
pub use replay::WINDOW;
pub use session::{REJECT_AFTER, REKEY_AFTER, REKEY_AFTER_PACKETS};
pub use tunnel::{
    Arrival, Counters, Drop, Event, MOST_PEERS, Origin, PathConfig, PeerConfig, PeerError, PeerId, Purpose, Refusal,
    SocketId, Start, Transmit, Tunnel, TunnelConfig, Unsealed,
};
