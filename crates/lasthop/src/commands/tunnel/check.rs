//! What this machine lacks for a tunnel's configuration.

use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::Path;

use lasthop_scenario::tunnel::{Peer, Security, Tunnel};
use lasthop_tunnel::{PresharedKey, PrivateKey, PublicKey};

use super::secrets;

/// How one check went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Ok,
    /// It works, but should be known.
    Hint,
    Missing,
}

impl Outcome {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Hint => "hint",
            Self::Missing => "MISSING",
        }
    }

    /// As programs read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Hint => "hint",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
pub struct Finding {
    pub subject: String,
    pub outcome: Outcome,
    pub detail: String,
}

impl Finding {
    fn new(subject: impl Into<String>, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), outcome, detail: detail.into() }
    }

    fn of(subject: impl Into<String>, result: Result<String, String>) -> Self {
        match result {
            Ok(detail) => Self::new(subject, Outcome::Ok, detail),
            Err(detail) => Self::new(subject, Outcome::Missing, detail),
        }
    }
}

/// Looks at everything that a configuration names.
pub fn check(tunnel: &Tunnel) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut own = None;
    match &tunnel.security {
        Security::Noise { private_key_file } => {
            let key = secrets::read(private_key_file).and_then(|text| {
                PrivateKey::from_base64(&text).map_err(|error| format!("{}: {error}", private_key_file.display()))
            });
            own = key.as_ref().ok().map(PrivateKey::public);
            let shown = key.map(|key| format!("this end's public key is {}", key.public()));
            findings.push(Finding::of("private key", shown));
        }
        Security::None { trusted_interface, .. } => findings.push(trusted(trusted_interface)),
    }
    findings.push(listen(tunnel));
    let device = Path::new("/dev/net/tun");
    let there = if device.exists() { Ok("/dev/net/tun is there".to_owned()) } else { Err("modprobe tun".to_owned()) };
    findings.push(Finding::of("TUN device", there));
    for peer in &tunnel.peers {
        findings.extend(check_peer(peer, own, tunnel));
    }
    findings
}

fn trusted(interface: &str) -> Finding {
    let subject = "trusted interface";
    let folder = Path::new("/sys/class/net").join(interface);
    let Ok(event) = std::fs::read_to_string(folder.join("uevent")) else {
        return Finding::new(subject, Outcome::Missing, format!("there is no {interface}"));
    };
    if event.lines().any(|line| line == "DEVTYPE=wireguard") {
        return Finding::new(subject, Outcome::Ok, format!("{interface} is WireGuard"));
    }
    let detail = format!("{interface} is not WireGuard: whoever can send on it can read and forge what is tunnelled");
    Finding::new(subject, Outcome::Hint, detail)
}

fn listen(tunnel: &Tunnel) -> Finding {
    let subject = format!("listen {}", tunnel.listen);
    match UdpSocket::bind(tunnel.listen) {
        Ok(_) => Finding::new(subject, Outcome::Ok, "the address is free"),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Finding::new(subject, Outcome::Hint, "the address is in use, perhaps by a tunnel that runs")
        }
        Err(error) => Finding::new(subject, Outcome::Missing, error.to_string()),
    }
}

fn check_peer(peer: &Peer, own: Option<PublicKey>, tunnel: &Tunnel) -> Vec<Finding> {
    let subject = |what: &str| format!("peer {} {what}", peer.name);
    let mut findings = Vec::new();
    if let Some(key) = peer.public_key.map(PublicKey) {
        let detail = if Some(key) == own { Err("it is this end's own".to_owned()) } else { Ok(key.to_string()) };
        findings.push(Finding::of(subject("public key"), detail));
    }
    if let Some(file) = &peer.preshared_key_file {
        let key = secrets::read(file)
            .and_then(|text| PresharedKey::from_base64(&text).map_err(|error| format!("{}: {error}", file.display())));
        findings.push(Finding::of(subject("preshared key"), key.map(|_| "it is there".to_owned())));
    }
    match &peer.endpoint {
        Some(endpoint) => findings.push(Finding::of(subject("endpoint"), resolve(&endpoint.to_string(), tunnel))),
        None => {
            let detail = "none: this end waits until the peer calls";
            findings.push(Finding::new(subject("endpoint"), Outcome::Hint, detail));
        }
    }
    findings
}

/// The first address of the host that the socket can send to.
fn resolve(endpoint: &str, tunnel: &Tunnel) -> Result<String, String> {
    let addresses = endpoint.to_socket_addrs().map_err(|error| format!("{endpoint}: {error}"))?;
    // A socket of IPv6 for any address takes IPv4 too.
    let both = tunnel.listen.is_ipv6() && tunnel.listen.ip().is_unspecified();
    let fits = |ipv4: bool| both || ipv4 == tunnel.listen.is_ipv4();
    let mut addresses = addresses.filter(|address| fits(address.is_ipv4()));
    let kind = if tunnel.listen.is_ipv4() { "IPv4" } else { "IPv6" };
    addresses.next().map(|address| address.to_string()).ok_or_else(|| format!("{endpoint} has no address of {kind}"))
}
