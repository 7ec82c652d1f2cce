//! A configuration with its keys read and its names resolved: all that the process which handles packets has to know.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use ipnet::IpNet;
use lasthop_proto::time::Duration;
use lasthop_scenario::tunnel::{Peer, Repair, Routes, Security, Tunnel};
use lasthop_tunnel::{Credentials, PresharedKey, PrivateKey, PublicKey};
use serde::{Deserialize, Serialize};

use crate::comparison::WHOLE;
use crate::secrets;

/// Bytes of an IP packet that the path to a peer takes at most.
pub const LINK_MTU: u16 = 1500;
/// Bytes that the tunnel adds to a packet behind the UDP header.
pub const ADDED: u16 = lasthop_tunnel::wire::OVERHEAD as u16 + crate::frames::DATA as u16;

/// What stands in the way of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A key cannot be had.
    #[error("{0}")]
    Key(String),
    /// A peer cannot be called.
    #[error("peer \"{peer}\": endpoint {detail}")]
    Endpoint {
        /// Its name.
        peer: String,
        /// Why.
        detail: String,
    },
    /// Its datagrams would go into the tunnel that they come from.
    #[error(
        "peer \"{peer}\": endpoint {address} lies in {prefix}, which is allowed to \"{owner}\": its datagrams would be led \
         into the tunnel; allow smaller networks, or set routes = \"off\" and route by yourself"
    )]
    Loop {
        /// Who is called there.
        peer: String,
        /// Where.
        address: IpAddr,
        /// What is led into the tunnel.
        prefix: IpNet,
        /// To whom.
        owner: String,
    },
}

/// Who this end is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Own {
    /// By its private key, in base64.
    Key(String),
    /// By its name, on a trusted interface.
    Name {
        /// The name.
        name: String,
        /// The interface.
        interface: String,
    },
}

/// All of one end.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The UDP address.
    pub listen: SocketAddr,
    /// Who this end is.
    pub own: Own,
    /// The TUN device.
    pub device: String,
    /// Its MTU: what fits where the path takes [`LINK_MTU`].
    pub mtu: u16,
    /// Its addresses, each with the length of its network's prefix.
    pub address: Vec<(IpAddr, u8)>,
    /// Networks that are led into it.
    pub routes: Vec<(IpAddr, u8)>,
    /// The other ends.
    pub peers: Vec<PeerPlan>,
}

/// What is known of a peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPlan {
    /// Its name.
    pub name: String,
    /// Its public key, or what stands for its name.
    pub key: [u8; 32],
    /// What both share besides, in base64.
    pub preshared: Option<String>,
    /// Where it is called.
    pub endpoint: Option<SocketAddr>,
    /// Where it was, as a worker before this one knew: it is called there if it has no endpoint.
    pub last: Option<SocketAddr>,
    /// Inner addresses that are its own, each with the length of its prefix.
    pub allowed: Vec<(IpAddr, u8)>,
    /// Nanoseconds without traffic after which there is a sign of life.
    pub keepalive: Option<u64>,
    /// Bits per second that this end sends to it.
    pub rate: Option<u64>,
    /// Whether a code helps repeats.
    pub codes: bool,
    /// Most packets that wait.
    pub queue: u32,
    /// The share of the flows that goes unrepaired, in 10⁻⁶.
    pub ab: u32,
    /// What chooses them: the same at both ends.
    pub ab_keys: [u64; 2],
}

impl PeerPlan {
    /// Whether the configuration says the same of both.
    pub fn is_same(&self, other: &Self) -> bool {
        let plain = |peer: &Self| Self { last: None, ..peer.clone() };
        plain(self) == plain(other)
    }

    /// For [`lasthop_tunnel::Tunnel::add_peer`].
    ///
    /// # Errors
    ///
    /// If a key is none.
    pub fn config(&self) -> Result<lasthop_tunnel::PeerConfig, String> {
        let preshared = self.preshared.as_deref().map(PresharedKey::from_base64).transpose();
        Ok(lasthop_tunnel::PeerConfig {
            key: PublicKey(self.key),
            preshared: preshared.map_err(|error| error.to_string())?.unwrap_or_default(),
            endpoint: self.endpoint.or(self.last),
            allowed: self.allowed.iter().filter_map(|&(address, length)| IpNet::new(address, length).ok()).collect(),
            keepalive: self.keepalive.map(Duration::from_nanos),
        })
    }
}

fn plain(prefix: &IpNet) -> (IpAddr, u8) {
    (prefix.addr(), prefix.prefix_len())
}

impl Plan {
    /// Reads the keys that a configuration names, and resolves the names of hosts.
    ///
    /// # Errors
    ///
    /// What is missing or cannot work.
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
        let peers = tunnel.peers.iter().map(|peer| peer_plan(peer, tunnel, &own)).collect::<Result<Vec<_>, _>>()?;
        if tunnel.routes == Routes::Allowed {
            refuse_loops(tunnel, &peers)?;
        }
        let routes = match tunnel.routes {
            Routes::Allowed => tunnel.peers.iter().flat_map(|peer| &peer.allowed).map(plain).collect(),
            Routes::Off => Vec::new(),
        };
        let headers = if tunnel.listen.is_ipv4() { 28 } else { 48 };
        Ok(Self {
            listen: tunnel.listen,
            own,
            device: tunnel.device.clone(),
            mtu: LINK_MTU - headers - ADDED,
            address: tunnel.address.iter().map(plain).collect(),
            routes,
            peers,
        })
    }

    /// This end's identity.
    ///
    /// # Errors
    ///
    /// If the key is none.
    pub fn credentials(&self) -> Result<Credentials, String> {
        match &self.own {
            Own::Key(text) => PrivateKey::from_base64(text).map(Credentials::Key).map_err(|error| error.to_string()),
            Own::Name { name, .. } => Ok(Credentials::Name(name.clone())),
        }
    }

    /// What a start makes, one thing a line.
    pub fn describe(&self) -> String {
        let mut text = format!("ip tuntap add dev {} mode tun\nip link set {0} mtu {} up\n", self.device, self.mtu);
        // Writing to a string cannot fail.
        for (address, length) in &self.address {
            let _ = writeln!(text, "ip address add {address}/{length} dev {}", self.device);
        }
        for (address, length) in &self.routes {
            let _ = writeln!(text, "ip route add {address}/{length} dev {}", self.device);
        }
        let on = match &self.own {
            Own::Key(_) => String::new(),
            Own::Name { interface, .. } => format!(" on {interface} only"),
        };
        let _ = writeln!(text, "# UDP socket {}{on}", self.listen);
        for peer in &self.peers {
            let to = peer.endpoint.map_or("waits for its call".to_owned(), |to| format!("called at {to}"));
            let _ = writeln!(text, "# peer {}: {to}", peer.name);
        }
        text
    }
}

fn key_error(path: &Path, error: lasthop_tunnel::KeyError) -> PlanError {
    PlanError::Key(format!("{}: {error}", path.display()))
}

/// What chooses the flows that go unrepaired. Both ends come to the same, and with keys nobody else does.
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

fn peer_plan(peer: &Peer, tunnel: &Tunnel, own: &Own) -> Result<PeerPlan, PlanError> {
    let preshared = match &peer.preshared_key_file {
        Some(path) => {
            let text = secrets::read(path).map_err(PlanError::Key)?;
            let key = PresharedKey::from_base64(&text).map_err(|error| key_error(path, error))?;
            Some(key.to_base64())
        }
        None => None,
    };
    let endpoint = peer
        .endpoint
        .as_ref()
        .map(|endpoint| resolve(&endpoint.to_string(), tunnel))
        .transpose()
        .map_err(|detail| PlanError::Endpoint { peer: peer.name.clone(), detail })?;
    let key = peer.public_key.unwrap_or_else(|| PublicKey::of_name(&peer.name).0);
    let ab_keys = ab_keys(own, PublicKey(key)).map_err(|error| PlanError::Key(error.to_string()))?;
    Ok(PeerPlan {
        name: peer.name.clone(),
        key,
        preshared,
        endpoint,
        last: None,
        allowed: peer.allowed.iter().map(plain).collect(),
        keepalive: peer.keepalive.map(|interval| interval.as_nanos()),
        rate: peer.rate,
        codes: peer.repair == Repair::Hybrid,
        queue: peer.queue,
        ab: (peer.ab.get() * f64::from(WHOLE)).round() as u32,
        ab_keys,
    })
}

/// The first address of the host that the socket can send to.
///
/// # Errors
///
/// When there is none, as far as can be found out.
pub fn resolve(endpoint: &str, tunnel: &Tunnel) -> Result<SocketAddr, String> {
    let addresses = endpoint.to_socket_addrs().map_err(|error| format!("{endpoint}: {error}"))?;
    // A socket of IPv6 for any address takes IPv4 too.
    let both = tunnel.listen.is_ipv6() && tunnel.listen.ip().is_unspecified();
    let fits = |ipv4: bool| both || ipv4 == tunnel.listen.is_ipv4();
    let mut addresses = addresses.filter(|address| fits(address.is_ipv4()));
    let kind = if tunnel.listen.is_ipv4() { "IPv4" } else { "IPv6" };
    addresses.next().ok_or_else(|| format!("{endpoint} has no address of {kind}"))
}

/// The longest prefix decides, as among routes.
fn refuse_loops(tunnel: &Tunnel, peers: &[PeerPlan]) -> Result<(), PlanError> {
    for peer in peers {
        let Some(address) = peer.endpoint.map(|endpoint| endpoint.ip()) else { continue };
        let all = tunnel.peers.iter().flat_map(|owner| owner.allowed.iter().map(move |prefix| (prefix, owner)));
        if let Some((prefix, owner)) =
            all.filter(|(prefix, _)| prefix.contains(&address)).max_by_key(|(p, _)| p.prefix_len())
        {
            let (peer, owner, prefix) = (peer.name.clone(), owner.name.clone(), *prefix);
            return Err(PlanError::Loop { peer, address, prefix, owner });
        }
    }
    Ok(())
}
