//! Configurations of both ends of the two-ended link.

use crate::advise::HopRates;

/// UDP port of both ends.
const PORT: u16 = 51_900;
/// Addresses of the ends in the inner network.
const INNER: [&str; 2] = ["10.98.76.1", "10.98.76.2"];
/// Share of the hop's rate at which an end sends, so that packets queue there instead of in the modem; less than half
/// if the ends take turns.
const SHARE: f64 = 0.95;
const SHARE_IN_TURNS: f64 = 0.45;
/// Rate in bits per second if the hop's rate is unknown.
const USUAL: u64 = 10_000_000;
/// Minimum rate in bits per second.
const SLOWEST: u64 = 8_000;
/// Reserved host name (RFC 6761, section 6.4), which `check` reports.
pub const NOBODY: &str = "far-end.invalid";

/// Properties of one end.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct End {
    /// Host at which the other end reaches this end, with a port if it is not 51900; `None` if only this end initiates.
    pub host: Option<String>,
    /// File of this end's private key.
    pub key_file: String,
    /// Public key in base64.
    pub public_key: String,
    /// Networks behind this end, whose packets use the tunnel.
    pub behind: Vec<String>,
}

/// Returns the configurations of the end in front of the hop, and of the other one. `rates` are the hop's.
pub fn configurations(near: &End, far: &End, rates: Option<HopRates>) -> [String; 2] {
    let takes_turns = rates.is_some_and(|rates| rates.takes_turns);
    let share = if takes_turns { SHARE_IN_TURNS } else { SHARE };
    let [down, up] = match rates {
        Some(HopRates { down, up, .. }) => [down, up].map(|rate| ((rate as f64 * share) as u64).max(SLOWEST)),
        None => [USUAL; 2],
    };
    let endpoint = |end: &End| end.host.as_deref().map(with_port);
    // Only one of the two ends needs an endpoint.
    let far_endpoint = endpoint(far).or_else(|| near.host.is_none().then(|| with_port(NOBODY)));
    let near_endpoint = endpoint(near);
    let is_v6 = [&near_endpoint, &far_endpoint].into_iter().flatten().any(|endpoint| endpoint.starts_with('['));
    let listen = if is_v6 { "[::]" } else { "0.0.0.0" };
    let near_peer = Peer { name: "near", end: near, endpoint: near_endpoint, inner: INNER[0] };
    let far_peer = Peer { name: "far", end: far, endpoint: far_endpoint, inner: INNER[1] };
    [
        configuration(Own { peer: &near_peer, listen, rate: down, takes_turns }, &far_peer),
        configuration(Own { peer: &far_peer, listen, rate: up, takes_turns }, &near_peer),
    ]
}

/// An end as a peer of the other one.
struct Peer<'a> {
    name: &'a str,
    end: &'a End,
    endpoint: Option<String>,
    inner: &'a str,
}

/// The local end of a configuration.
struct Own<'a> {
    peer: &'a Peer<'a>,
    /// Address for listening.
    listen: &'a str,
    /// Sending rate, in bits per second.
    rate: u64,
    /// Indicates whether the ends of the hop take turns.
    takes_turns: bool,
}

fn configuration(own: Own<'_>, peer: &Peer<'_>) -> String {
    let endpoint = match &peer.endpoint {
        Some(endpoint) if endpoint.starts_with(NOBODY) => {
            format!("# TO BE SET: host and UDP port of the other end.\nendpoint = \"{endpoint}\"\n")
        }
        Some(endpoint) => format!("endpoint = \"{}\"\n", endpoint.escape_default()),
        None => "# No endpoint: that end initiates, and its address is learned.\n".to_owned(),
    };
    let allowed: Vec<String> = std::iter::once(peer.inner)
        .chain(peer.end.behind.iter().map(String::as_str))
        .map(|it| format!("\"{}\"", it.escape_default()))
        .collect();
    let medium = if own.takes_turns { "# Only one end can send at a time.\nmedium = \"shared\"\n" } else { "" };
    format!(
        "# The {} end of the tunnel, as advised by `lasthop advise`; docs/tunnel.md lists all keys.\n\
         listen = \"{}:{PORT}\"\n\
         private_key_file = \"{}\"\n\
         address = [\"{}/30\"]\n\
         \n\
         [[peer]]\n\
         name = \"{}\"\n\
         public_key = \"{}\"\n\
         {endpoint}\
         # Inner addresses behind that end, routed through the tunnel.\n\
         allowed = [{}]\n\
         # Slightly below the capacity of the hop, so that the queue builds up here.\n\
         rate = \"{} kbps\"\n\
         {medium}\
         keepalive = \"10 s\"\n",
        own.peer.name,
        own.listen,
        own.peer.end.key_file.escape_default(),
        own.peer.inner,
        peer.name,
        peer.end.public_key.escape_default(),
        allowed.join(", "),
        (own.rate / 1000).max(8),
    )
}

/// Appends the port to a host without one.
fn with_port(host: &str) -> String {
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    match host.rsplit_once(':') {
        _ if is_v6 => format!("[{host}]:{PORT}"),
        Some((_, port)) if !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) => host.to_owned(),
        _ => format!("{host}:{PORT}"),
    }
}

#[cfg(test)]
mod tests {
    use lasthop_scenario::tunnel::{Medium, Tunnel};

    use super::*;

    /// Both configurations state a shared medium, and each end then sends at less than half of the rate. On a medium of
    /// its own, each end sends at almost the full rate.
    #[test]
    fn a_hop_whose_ends_take_turns() {
        let end = || End {
            key_file: "/etc/lasthop/key".to_owned(),
            public_key: "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=".to_owned(),
            ..End::default()
        };
        for (takes_turns, medium, rate) in [(true, Medium::Shared, "4500 kbps"), (false, Medium::Own, "9500 kbps")] {
            let rates = HopRates { down: 10_000_000, up: 10_000_000, takes_turns };
            for text in configurations(&end(), &end(), Some(rates)) {
                assert!(text.contains(&format!("rate = \"{rate}\"")), "{text}");
                let tunnel = Tunnel::parse("tunnel.toml", &text).unwrap();
                assert_eq!(tunnel.peers[0].medium, medium);
            }
        }
    }
}
