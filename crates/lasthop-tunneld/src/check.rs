//! Checks whether this machine can run a tunnel's configuration.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;

use ipnet::IpNet;
use lasthop_daemon::control::{ControlError, Place};
use lasthop_daemon::finding::{Finding, Outcome, effective, held};
use lasthop_daemon::{groups, interfaces};
use lasthop_settings::tunnel::{Mode, Peer, Routes, Security, Tunnel};
use lasthop_sys::netlink::Socket;
use lasthop_sys::routes::{Entry, Interface};
use lasthop_tunnel::{PresharedKey, PrivateKey, PublicKey};
use rustix::thread::CapabilitySet;

use crate::plan::{HopInterface, Plan, PlanError, resolve};
use crate::socket::Udp;
use crate::{WHO, bridge, device, secrets};

fn of(subject: impl Into<String>, result: Result<String, String>) -> Finding {
    match result {
        Ok(detail) => Finding::new(subject, Outcome::Ok, detail),
        Err(detail) => Finding::new(subject, Outcome::Missing, detail),
    }
}

/// Presence of a tunnel that answers on the configuration's control socket: resources in use may belong to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Runs {
    Perhaps,
    No,
}

/// Checks everything that a configuration names.
pub fn check(tunnel: &Tunnel) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut own = None;
    if let Security::Noise { private_key_file } = &tunnel.security {
        let key = secrets::read(private_key_file).and_then(|text| {
            PrivateKey::from_base64(&text).map_err(|error| format!("{}: {error}", private_key_file.display()))
        });
        own = key.as_ref().ok().map(PrivateKey::public);
        let shown = key.map(|key| format!("this end's public key is {}", key.public()));
        findings.push(of("private key", shown));
    }
    findings.extend(taken_at_start(tunnel));
    let net_admin = effective().contains(CapabilitySet::NET_ADMIN);
    findings.push(held("CAP_NET_ADMIN", net_admin, Outcome::Missing));
    findings.push(of("TUN device", device::check()));
    if let Mode::Bridge { interface } = &tunnel.mode {
        findings.extend(bridge::check::check(interface, tunnel.peers.iter().any(|peer| peer.paths.len() > 1)));
    }
    for peer in &tunnel.peers {
        findings.extend(check_peer(peer, own, tunnel));
    }
    // Other missing parts were reported above.
    if let Err(error @ PlanError::Loop { .. }) = Plan::new(tunnel) {
        findings.push(Finding::new("routes", Outcome::Missing, error.to_string()));
    }
    findings
}

/// Returns the first finding with which a start must fail, regardless of the user that starts it.
pub(crate) fn refusal(tunnel: &Tunnel) -> Option<Finding> {
    taken_at_start(tunnel).into_iter().find(|finding| finding.outcome == Outcome::Missing)
}

/// Checks the availability of the resources that a start uses, for any user.
fn taken_at_start(tunnel: &Tunnel) -> Vec<Finding> {
    let (control, runs) = control(tunnel);
    let mut findings = vec![control];
    findings.extend(tunnel.control_group.as_ref().map(groups::check));
    findings.extend(metrics(tunnel, runs));
    if let Security::None { trusted_interface, .. } = &tunnel.security {
        findings.push(trusted(trusted_interface));
    }
    match &tunnel.mode {
        Mode::Tun { listen: address, .. } => findings.push(listen(*address, &tunnel.security, runs)),
        Mode::Bridge { interface } => {
            let others = tunnel.peers.iter().flat_map(|peer| &peer.paths).filter_map(|path| path.interface.as_ref());
            findings.extend(std::iter::once(interface).chain(others).filter_map(|interface| claimed(interface, runs)));
        }
    }
    findings.push(interface(&tunnel.device, runs));
    findings.extend(routes(tunnel));
    findings
}

fn control(tunnel: &Tunnel) -> (Finding, Runs) {
    let subject = format!("control {}", tunnel.control.display());
    match lasthop_daemon::control::place(&tunnel.control, WHO) {
        Ok(Place::Free) => (Finding::new(subject, Outcome::Ok, "the path is free"), Runs::No),
        Ok(Place::Stale) => (
            Finding::new(subject, Outcome::Ok, "stale socket of an earlier tunnel; the next start removes it"),
            Runs::No,
        ),
        Ok(Place::Taken) => (Finding::new(subject, Outcome::Hint, "a tunnel is already running"), Runs::Perhaps),
        Err(ControlError::NoSocket { .. }) => {
            (Finding::new(subject, Outcome::Missing, "not a socket; set `control` to another path"), Runs::No)
        }
        Err(ControlError::Look { error, .. }) if error.kind() == io::ErrorKind::PermissionDenied => (
            Finding::new(
                subject,
                Outcome::Hint,
                "no access to the socket: cannot determine whether a tunnel is running",
            ),
            Runs::Perhaps,
        ),
        Err(error) => (Finding::new(subject, Outcome::Missing, error.to_string()), Runs::No),
    }
}

/// Returns the finding for a resource in use.
fn taken(subject: String, what: &str, runs: Runs) -> Finding {
    match runs {
        Runs::Perhaps => Finding::new(subject, Outcome::Hint, format!("{what}, possibly by the running tunnel")),
        Runs::No => Finding::new(subject, Outcome::Missing, what),
    }
}

/// Returns the finding for an attempt to bind an address.
fn address<T>(subject: String, tried: io::Result<T>, runs: Runs) -> Finding {
    match tried {
        Ok(_) => Finding::new(subject, Outcome::Ok, "the address is free"),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken(subject, "the address is in use", runs),
        // The user that starts the tunnel may have the permission.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Finding::new(subject, Outcome::Hint, error.to_string())
        }
        Err(error) => Finding::new(subject, Outcome::Missing, error.to_string()),
    }
}

/// Returns a finding if a tunnel uses the interface towards the hop.
fn claimed(interface: &str, runs: Runs) -> Option<Finding> {
    let hop = HopInterface::find(interface).ok()?;
    let error = bridge::claim(&hop).err().filter(|error| error.kind() == io::ErrorKind::AddrInUse);
    error.map(|_| taken(format!("interface {interface}"), "another tunnel intercepts its frames", runs))
}

fn metrics(tunnel: &Tunnel, runs: Runs) -> Option<Finding> {
    let at = tunnel.metrics?;
    Some(address(format!("metrics {at}"), TcpListener::bind(at), runs))
}

/// Returns a finding for each network to which there is another route.
fn routes(tunnel: &Tunnel) -> Vec<Finding> {
    let Mode::Tun { address, routes: Routes::Allowed, .. } = &tunnel.mode else { return Vec::new() };
    let wanted: Vec<_> = tunnel.peers.iter().flat_map(|peer| &peer.allowed).collect();
    let unknown =
        |error: io::Error| vec![Finding::new("routes", Outcome::Hint, format!("cannot list existing routes: {error}"))];
    let there = Socket::open(None).and_then(|mut socket| {
        let families = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        let used = families.into_iter().filter(|like| wanted.iter().any(|net| net.addr().is_ipv4() == like.is_ipv4()));
        used.map(|like| lasthop_sys::routes::list(&mut socket, like, None)).collect::<io::Result<Vec<_>>>()
    });
    let there = match there {
        Ok(there) => there.concat(),
        Err(error) => return unknown(error),
    };
    // Routes of a running tunnel do not conflict.
    let device = interfaces::index(&tunnel.device).map(Interface);
    let is_there = |network: &IpNet| {
        let by_others = |entry: &&Entry| entry.excludes && (entry.interface.is_none() || entry.interface != device);
        let same = |entry: &Entry| entry.network == (network.addr(), network.prefix_len());
        there.iter().filter(by_others).any(same)
    };
    let own: Vec<_> = address.iter().map(IpNet::trunc).collect();
    let refused = wanted.into_iter().filter(|network| !own.contains(network) && is_there(network));
    let detail = "already exists through another interface";
    refused.map(|network| Finding::new(format!("route to {network}"), Outcome::Missing, detail)).collect()
}

fn trusted(interface: &str) -> Finding {
    let subject = "trusted interface";
    let folder = Path::new("/sys/class/net").join(interface);
    let Ok(event) = std::fs::read_to_string(folder.join("uevent")) else {
        return Finding::new(subject, Outcome::Missing, format!("interface {interface} does not exist"));
    };
    if event.lines().any(|line| line == "DEVTYPE=wireguard") {
        return Finding::new(subject, Outcome::Ok, format!("{interface} is WireGuard"));
    }
    let detail = format!("{interface} is not WireGuard: hosts with access to it may read and forge tunnelled traffic");
    Finding::new(subject, Outcome::Hint, detail)
}

fn listen(at: SocketAddr, security: &Security, runs: Runs) -> Finding {
    let interface = match security {
        Security::Noise { .. } => None,
        Security::None { trusted_interface, .. } => Some(trusted_interface.as_str()),
    };
    address(format!("listen {at}"), Udp::bind(at, interface), runs)
}

fn check_peer(peer: &Peer, own: Option<PublicKey>, tunnel: &Tunnel) -> Vec<Finding> {
    let subject = |what: &str| format!("peer {} {what}", peer.name);
    let mut findings = Vec::new();
    if let Some(key) = peer.public_key.map(PublicKey) {
        let detail = match key {
            key if Some(key) == own => Err("it is this end's own key".to_owned()),
            key if key.is_nobodys() => Err("invalid: no private key corresponds to it".to_owned()),
            key => Ok(key.to_string()),
        };
        findings.push(of(subject("public key"), detail));
    }
    if let Some(file) = &peer.preshared_key_file {
        let key = secrets::read(file)
            .and_then(|text| PresharedKey::from_base64(&text).map_err(|error| format!("{}: {error}", file.display())));
        findings.push(of(subject("preshared key"), key.map(|_| "readable".to_owned())));
    }
    let (listen, address) = match &tunnel.mode {
        Mode::Tun { listen, address, .. } => (listen, address),
        Mode::Bridge { interface: hop } => {
            let lines = peer.paths.iter().filter_map(|path| {
                let (name, interface) = (path.name.as_deref().unwrap_or_default(), path.interface.as_ref()?);
                let subject = subject(&format!("path {name} interface"));
                Some(bridge::check::line(subject, interface, path.interface_line, hop))
            });
            findings.extend(lines);
            return findings;
        }
    };
    // A network wider than the own one may contain this end's address, namely if the peer is the route to all other
    // hosts.
    let both = address.iter().flat_map(|own| peer.allowed.iter().map(move |allowed| (own, allowed)));
    let both = both.filter(|(own, allowed)| allowed.contains(&own.addr()) && allowed.prefix_len() > own.prefix_len());
    for (own, allowed) in both {
        let own = own.addr();
        let detail = format!("{allowed} contains {own}, this end's own address; is this the other end's file?");
        findings.push(Finding::new(subject("allowed"), Outcome::Hint, detail));
    }
    for path in &peer.paths {
        let subject =
            |what: &str| subject(&path.name.as_ref().map_or(what.to_owned(), |name| format!("path {name} {what}")));
        if let Some(interface) = &path.interface {
            findings.push(match interfaces::index(interface) {
                Some(_) => Finding::new(subject("interface"), Outcome::Ok, format!("{interface} exists")),
                None => {
                    let detail = format!("{interface} does not exist: the path waits for it");
                    Finding::new(subject("interface"), Outcome::Hint, detail)
                }
            });
        }
        findings.push(match &path.endpoint {
            // A reserved name (RFC 6761) indicates an unfinished file.
            Some(endpoint) if endpoint.host().ends_with(".invalid") => {
                let detail = format!("{endpoint} is a placeholder; set it to the host and UDP port of {}", peer.name);
                Finding::new(subject("endpoint"), Outcome::Missing, detail)
            }
            Some(endpoint) => {
                let resolved = resolve(&endpoint.to_string(), *listen);
                of(subject("endpoint"), resolved.map(|address| address.to_string()))
            }
            None => {
                let detail = "none: this end waits for the peer's handshake";
                Finding::new(subject("endpoint"), Outcome::Hint, detail)
            }
        });
    }
    findings
}

fn interface(name: &str, runs: Runs) -> Finding {
    let subject = format!("device {name}");
    match interfaces::folder(name).exists() {
        false => Finding::new(subject, Outcome::Ok, "the name is available"),
        true => taken(subject, "the name is in use", runs),
    }
}
