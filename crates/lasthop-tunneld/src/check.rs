//! What this machine lacks for a tunnel's configuration.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use lasthop_daemon::finding::{Finding, Outcome};
use lasthop_daemon::groups;
use lasthop_scenario::tunnel::{Mode, Peer, Security, Tunnel};
use lasthop_tunnel::{PresharedKey, PrivateKey, PublicKey};
use rustix::thread::CapabilitySet;

use crate::plan::{Plan, PlanError, resolve};
use crate::{bridge, device, secrets};

fn of(subject: impl Into<String>, result: Result<String, String>) -> Finding {
    match result {
        Ok(detail) => Finding::new(subject, Outcome::Ok, detail),
        Err(detail) => Finding::new(subject, Outcome::Missing, detail),
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
            findings.push(of("private key", shown));
        }
        Security::None { trusted_interface, .. } => findings.push(trusted(trusted_interface)),
    }
    if let Mode::Tun { listen: address, .. } = &tunnel.mode {
        findings.push(listen(*address));
    }
    findings.extend(tunnel.control_group.as_ref().map(groups::check));
    findings.push(capability());
    findings.push(of("TUN device", device::check()));
    findings.push(interface(&tunnel.device));
    if let Mode::Bridge { interface } = &tunnel.mode {
        findings.extend(bridge::check::check(interface));
    }
    for peer in &tunnel.peers {
        findings.extend(check_peer(peer, own, tunnel));
    }
    // What is missing by itself was said above.
    if let Err(error @ PlanError::Loop { .. }) = Plan::new(tunnel) {
        findings.push(Finding::new("routes", Outcome::Missing, error.to_string()));
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

fn listen(address: SocketAddr) -> Finding {
    let subject = format!("listen {address}");
    match UdpSocket::bind(address) {
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
        findings.push(of(subject("public key"), detail));
    }
    if let Some(file) = &peer.preshared_key_file {
        let key = secrets::read(file)
            .and_then(|text| PresharedKey::from_base64(&text).map_err(|error| format!("{}: {error}", file.display())));
        findings.push(of(subject("preshared key"), key.map(|_| "it is there".to_owned())));
    }
    let Mode::Tun { listen, .. } = tunnel.mode else { return findings };
    match &peer.endpoint {
        // What nobody has (RFC 6761) stands in a file that was not finished.
        Some(endpoint) if endpoint.host().ends_with(".invalid") => {
            let detail = format!(
                "{endpoint} is a placeholder: write the host and the UDP port at which {} is reached",
                peer.name
            );
            findings.push(Finding::new(subject("endpoint"), Outcome::Missing, detail));
        }
        Some(endpoint) => findings
            .push(of(subject("endpoint"), resolve(&endpoint.to_string(), listen).map(|address| address.to_string()))),
        None => {
            let detail = "none: this end waits until the peer calls";
            findings.push(Finding::new(subject("endpoint"), Outcome::Hint, detail));
        }
    }
    findings
}

fn capability() -> Finding {
    let held = rustix::thread::capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    match held.contains(CapabilitySet::NET_ADMIN) {
        true => Finding::new("CAP_NET_ADMIN", Outcome::Ok, "held"),
        false => Finding::new("CAP_NET_ADMIN", Outcome::Missing, "not held; run as root or from the systemd unit"),
    }
}

fn interface(name: &str) -> Finding {
    let subject = format!("device {name}");
    match Path::new("/sys/class/net").join(name).exists() {
        false => Finding::new(subject, Outcome::Ok, "the name is free"),
        true => Finding::new(subject, Outcome::Hint, "there is one already, perhaps of a tunnel that runs"),
    }
}
