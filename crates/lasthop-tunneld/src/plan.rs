//! Configuration with its keys read and its names resolved: everything that the worker needs.

mod interface;
mod paths;
pub mod terms;

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use ipnet::IpNet;
use lasthop_proto::link::hybrid::Multipath;
use lasthop_proto::time::Duration;
use lasthop_settings::tunnel::{Medium, Mode, Peer, Repair, Routes, Security, Tunnel};
use lasthop_tunnel::{Carrier, Credentials, PresharedKey, PrivateKey, PublicKey};
use serde::{Deserialize, Serialize};

use crate::comparison::WHOLE;
use crate::secrets;

pub use self::interface::HopInterface;
pub(crate) use self::interface::{bridge_of_port, is_port};
pub use self::paths::PathPlan;
use self::paths::{check_lines, interfaces_of, multipath_name, path_plan};

/// Maximum size of an IP packet on the path to a peer, in bytes.
pub const LINK_MTU: u16 = 1500;
/// Overhead of the tunnel after the UDP header, in bytes.
pub const ADDED: u16 = lasthop_tunnel::wire::OVERHEAD as u16 + crate::frames::DATA as u16;

/// Reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A key cannot be read.
    #[error("{0}")]
    Key(String),
    /// A peer has a key with which no session is possible.
    #[error("peer \"{peer}\": public_key is invalid; give the key that `lasthop tunnel keygen` printed at the peer")]
    NoKey {
        /// Name of the peer.
        peer: String,
    },
    /// A peer has this end's own key.
    #[error(
        "peer \"{peer}\": public_key is this end's own; give the key that `lasthop tunnel keygen` printed at the peer"
    )]
    OwnKey {
        /// Name of the peer.
        peer: String,
    },
    /// The endpoint of a peer cannot be used.
    #[error("peer \"{peer}\": endpoint {detail}")]
    Endpoint {
        /// Name of the peer.
        peer: String,
        /// The problem.
        detail: String,
    },
    /// The interface towards the hop cannot be used.
    #[error("{0}")]
    Interface(String),
    /// The interface of a path on a bridge cannot be used.
    #[error("peer \"{peer}\": path \"{path}\": {detail}")]
    Line {
        /// Name of the peer.
        peer: String,
        /// Name of the path.
        path: String,
        /// Line of the interface in the file.
        line: Option<usize>,
        /// The problem.
        detail: String,
    },
    /// Datagrams to the endpoint would be routed into the tunnel.
    #[error(
        "peer \"{peer}\": endpoint {address} is in {prefix}, an allowed network of \"{owner}\": its datagrams would be routed \
         into the tunnel; allow smaller networks, or set routes = \"off\" and add routes yourself"
    )]
    Loop {
        /// Name of the called peer.
        peer: String,
        /// Address of the peer's endpoint.
        address: IpAddr,
        /// Network that is routed into the tunnel.
        prefix: IpNet,
        /// Name of the peer to which that network is assigned.
        owner: String,
    },
}

impl PlanError {
    /// Returns the line of the problem in the configuration, if it is known.
    pub fn line(&self) -> Option<usize> {
        if let Self::Line { line, .. } = self { *line } else { None }
    }
}

/// Source of packets, and their transport over the hop.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Packets from a TUN device, in UDP datagrams.
    Routed(Routed),
    /// Frames that leave by an interface, in frames of the tunnel.
    Bridged(HopInterface),
}

/// Parameters of the TUN device and the UDP socket.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routed {
    /// Address of the UDP socket.
    pub listen: SocketAddr,
    /// MTU of the device: the largest packet that fits in [`LINK_MTU`].
    pub mtu: u16,
    /// Addresses of the device, with prefix lengths.
    pub address: Vec<(IpAddr, u8)>,
    /// Networks that are routed into the device.
    pub routes: Vec<(IpAddr, u8)>,
}

/// Identity of this end.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Own {
    /// Private key, in base64.
    Key(String),
    /// Name, on a trusted interface.
    Name {
        /// The name.
        name: String,
        /// The interface.
        interface: String,
    },
}

impl Own {
    /// Returns the end's private key in base64, if it has one.
    pub(crate) fn key(&self) -> Option<&str> {
        if let Self::Key(text) = self { Some(text) } else { None }
    }

    /// Returns the end's public key, if it has one.
    fn public(&self) -> Option<PublicKey> {
        PrivateKey::from_base64(self.key()?).ok().map(|key| key.public())
    }
}

/// Plan of one end.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Source of packets, and their transport over the hop.
    pub way: Way,
    /// Identity of this end.
    pub own: Own,
    /// The TUN or TAP device.
    pub device: String,
    /// The peers.
    pub peers: Vec<PeerPlan>,
    /// Interfaces to which a socket is bound, by socket number minus 1. Socket 0 listens, or on a bridge is that of the
    /// interface towards the hop.
    pub interfaces: Vec<String>,
}

/// Plan of a peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPlan {
    /// Name.
    pub name: String,
    /// Public key, or a digest of the name.
    pub key: [u8; 32],
    /// Preshared key, in base64.
    pub preshared: Option<String>,
    /// Paths to the peer, at least one.
    pub paths: Vec<PathPlan>,
    /// Use of several paths.
    #[serde(with = "multipath_name")]
    pub multipath: Multipath,
    /// Inner networks assigned to the peer, with prefix lengths.
    pub allowed: Vec<(IpAddr, u8)>,
    /// Time without traffic after which a keep-alive is sent, in nanoseconds.
    pub keepalive: Option<u64>,
    /// Time without a datagram after which the peer is considered disconnected, on a bridge, in nanoseconds.
    pub silence: u64,
    /// True if coding supplements retransmissions.
    pub codes: bool,
    /// True if both directions share the hop's medium.
    pub shared: bool,
    /// Maximum number of waiting packets.
    pub queue: Option<u32>,
    /// Memory for packets, in bytes.
    pub memory: u64,
    /// Share of unrepaired flows, in 10⁻⁶.
    pub ab: u32,
    /// Keys that select the unrepaired flows, equal at both ends.
    pub ab_keys: [u64; 2],
}

impl PeerPlan {
    /// Returns whether both peers have the same configuration.
    pub fn is_same(&self, other: &Self) -> bool {
        let path = |path: &PathPlan| PathPlan { last: None, ..path.clone() };
        let plain = |peer: &Self| Self { paths: peer.paths.iter().map(path).collect(), ..peer.clone() };
        plain(self) == plain(other)
    }

    /// Converts the plan for [`lasthop_tunnel::Tunnel::add_peer`].
    ///
    /// # Errors
    ///
    /// Returns an error if a key is invalid.
    pub fn config(&self) -> Result<lasthop_tunnel::PeerConfig, String> {
        let preshared = self.preshared.as_deref().map(PresharedKey::from_base64).transpose();
        Ok(lasthop_tunnel::PeerConfig {
            key: PublicKey(self.key),
            preshared: preshared.map_err(|error| error.to_string())?.unwrap_or_default(),
            paths: self.paths.iter().map(|path| path.config()).collect(),
            allowed: self.allowed.iter().filter_map(|&(address, length)| IpNet::new(address, length).ok()).collect(),
            keepalive: self.keepalive.map(Duration::from_nanos),
        })
    }
}

fn plain(prefix: &IpNet) -> (IpAddr, u8) {
    (prefix.addr(), prefix.prefix_len())
}

impl Plan {
    /// Reads the keys that a configuration names, and resolves host names.
    ///
    /// # Errors
    ///
    /// Returns an error if something is missing or cannot work.
    pub fn new(tunnel: &Tunnel) -> Result<Self, PlanError> {
        let own = match &tunnel.security {
            Security::Noise { private_key_file } => {
                let text = secrets::read(private_key_file).map_err(PlanError::Key)?;
                let key = PrivateKey::from_base64(&text).map_err(|error| key_error(private_key_file, error))?;
                Own::Key(key.to_base64())
            }
            Security::None { trusted_interface, name } => {
                Own::Name { name: name.clone(), interface: trusted_interface.clone() }
            }
        };
        let interfaces = interfaces_of(&tunnel.peers);
        let plan = |peer| peer_plan(peer, tunnel, &own, &interfaces);
        let peers = tunnel.peers.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let way = match &tunnel.mode {
            Mode::Tun { listen, address, routes } => {
                if *routes == Routes::Allowed {
                    refuse_loops(tunnel, &peers)?;
                }
                let routes = match routes {
                    Routes::Allowed => tunnel.peers.iter().flat_map(|peer| &peer.allowed).map(plain).collect(),
                    Routes::Off => Vec::new(),
                };
                let mtu = LINK_MTU - Carrier::Udp.headers(*listen) - ADDED;
                Way::Routed(Routed { listen: *listen, mtu, address: address.iter().map(plain).collect(), routes })
            }
            Mode::Bridge { interface } => {
                check_lines(&tunnel.peers, interface)?;
                Way::Bridged(HopInterface::find(interface).map_err(PlanError::Interface)?)
            }
        };
        Ok(Self { way, own, device: tunnel.device.clone(), peers, interfaces })
    }

    /// Returns the carrier of the tunnel's datagrams, and the MTU of the interface by which they leave.
    pub fn carrier(&self) -> (Carrier, u16) {
        match &self.way {
            Way::Routed(_) => (Carrier::Udp, LINK_MTU),
            Way::Bridged(hop) => (Carrier::Ethernet, hop.mtu),
        }
    }

    /// Returns this end's identity.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is invalid.
    pub fn credentials(&self) -> Result<Credentials, String> {
        match &self.own {
            Own::Key(text) => PrivateKey::from_base64(text).map(Credentials::Key).map_err(|error| error.to_string()),
            Own::Name { name, .. } => Ok(Credentials::Name(name.clone())),
        }
    }

    /// Describes what a start creates, one item per line.
    pub fn describe(&self) -> String {
        let (device, mut text) = (&self.device, String::new());
        // Writing to a string cannot fail.
        match &self.way {
            Way::Routed(Routed { listen, mtu, address, routes }) => {
                let _ = writeln!(text, "ip tuntap add dev {device} mode tun\nip link set {device} mtu {mtu} up");
                for (address, length) in address {
                    let _ = writeln!(text, "ip address add {address}/{length} dev {device}");
                }
                for (address, length) in routes {
                    let _ = writeln!(text, "ip route add {address}/{length} dev {device}");
                }
                let on = match &self.own {
                    Own::Key(_) => String::new(),
                    Own::Name { interface, .. } => format!(" on {interface} only"),
                };
                let _ = writeln!(text, "# UDP socket {listen}{on}");
            }
            Way::Bridged(HopInterface { name, mtu, .. }) => {
                let _ = writeln!(text, "ip tuntap add dev {device} mode tap\nip link set {device} up");
                let _ = writeln!(
                    text,
                    "# BPF programs (tcx) at {name} and {device}: frames that leave through {name} go to the peer"
                );
                let _ = writeln!(text, "# packet socket at {name} for frames of type 0x88b5, MTU {mtu}");
            }
        }
        for interface in &self.interfaces {
            let _ = match &self.way {
                Way::Routed(_) => writeln!(text, "# UDP socket on {interface}"),
                Way::Bridged(_) => writeln!(text, "# packet socket at {interface} for frames of type 0x88b5"),
            };
        }
        for peer in &self.peers {
            for path in &peer.paths {
                let interface = usize::from(path.socket).checked_sub(1).and_then(|at| self.interfaces.get(at));
                let to = match (&self.way, path.endpoint) {
                    (Way::Bridged(hop), _) => {
                        format!("discovered by broadcast on {}", interface.unwrap_or(&hop.name))
                    }
                    (Way::Routed(_), Some(to)) => format!("contacted at {to}"),
                    (Way::Routed(_), None) => "waits for its handshake".to_owned(),
                };
                let by = interface.filter(|_| matches!(self.way, Way::Routed(_)));
                let by = by.map_or(String::new(), |interface| format!(" by {interface}"));
                let name = if path.name.is_empty() { String::new() } else { format!(", path {}", path.name) };
                let _ = writeln!(text, "# peer {}{name}: {to}{by}", peer.name);
            }
        }
        text
    }
}

fn key_error(path: &Path, error: lasthop_tunnel::KeyError) -> PlanError {
    PlanError::Key(format!("{}: {error}", path.display()))
}

/// Returns the keys that select unrepaired flows. Both ends derive the same ones; with private keys, only they can.
fn ab_keys(own: &Own, peer: PublicKey) -> Result<[u64; 2], lasthop_tunnel::KeyError> {
    let agreed = match own {
        Own::Key(text) => PrivateKey::from_base64(text)?.agreed(&peer, "lasthop tunnel ab"),
        Own::Name { name, .. } => {
            let PublicKey(own) = PublicKey::of_name(name);
            std::array::from_fn(|index| own[index] ^ peer.0[index])
        }
    };
    Ok([0, 8].map(|at| agreed[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))))
}

fn peer_plan(peer: &Peer, tunnel: &Tunnel, own: &Own, interfaces: &[String]) -> Result<PeerPlan, PlanError> {
    let preshared = match &peer.preshared_key_file {
        Some(path) => {
            let text = secrets::read(path).map_err(PlanError::Key)?;
            let key = PresharedKey::from_base64(&text).map_err(|error| key_error(path, error))?;
            Some(key.to_base64())
        }
        None => None,
    };
    let paths =
        peer.paths.iter().map(|path| path_plan(peer, path, &tunnel.mode, interfaces)).collect::<Result<_, _>>()?;
    let key = peer.public_key.unwrap_or_else(|| PublicKey::of_name(&peer.name).0);
    if own.public() == Some(PublicKey(key)) {
        return Err(PlanError::OwnKey { peer: peer.name.clone() });
    }
    if peer.public_key.is_some() && PublicKey(key).is_nobodys() {
        return Err(PlanError::NoKey { peer: peer.name.clone() });
    }
    let ab_keys = ab_keys(own, PublicKey(key)).map_err(|error| PlanError::Key(error.to_string()))?;
    Ok(PeerPlan {
        name: peer.name.clone(),
        key,
        preshared,
        paths,
        multipath: peer.multipath,
        allowed: peer.allowed.iter().map(plain).collect(),
        keepalive: peer.keepalive.map(|interval| interval.as_nanos()),
        silence: peer.silence.as_nanos(),
        codes: peer.repair == Repair::Hybrid,
        shared: peer.medium == Medium::Shared,
        queue: peer.queue,
        memory: peer.memory,
        ab: (peer.ab.get() * f64::from(WHOLE)).round() as u32,
        ab_keys,
    })
}

/// Returns the first address of the host that the socket can send to.
///
/// # Errors
///
/// Returns an error if none is found.
pub fn resolve(endpoint: &str, listen: SocketAddr) -> Result<SocketAddr, String> {
    let addresses = endpoint.to_socket_addrs().map_err(|error| format!("{endpoint}: {error}"))?;
    // An IPv6 socket bound to the unspecified address supports IPv4 too.
    let both = listen.is_ipv6() && listen.ip().is_unspecified();
    let fits = |ipv4: bool| both || ipv4 == listen.is_ipv4();
    let mut addresses = addresses.filter(|address| fits(address.is_ipv4()));
    let kind = if listen.is_ipv4() { "IPv4" } else { "IPv6" };
    addresses.next().ok_or_else(|| format!("{endpoint} has no {kind} address"))
}

/// Fails if an endpoint would be routed into the tunnel. The longest prefix applies, as in routing.
fn refuse_loops(tunnel: &Tunnel, peers: &[PeerPlan]) -> Result<(), PlanError> {
    for peer in peers {
        // By the interface of a path, datagrams do not follow the routes into the device.
        let routed = peer.paths.iter().filter(|path| path.socket == 0);
        for address in routed.filter_map(|path| Some(path.endpoint?.ip())) {
            let all = tunnel.peers.iter().flat_map(|owner| owner.allowed.iter().map(move |prefix| (prefix, owner)));
            if let Some((prefix, owner)) =
                all.filter(|(prefix, _)| prefix.contains(&address)).max_by_key(|(p, _)| p.prefix_len())
            {
                let (peer, owner, prefix) = (peer.name.clone(), owner.name.clone(), *prefix);
                return Err(PlanError::Loop { peer, address, prefix, owner });
            }
        }
    }
    Ok(())
}
