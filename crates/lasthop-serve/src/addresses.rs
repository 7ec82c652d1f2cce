//! Addresses at which browsers find a page that is served on all addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the addresses to open for a page that listens at `listening`, those for other machines first: only
/// `listening` itself, unless it is unspecified (`0.0.0.0`, `::`).
pub fn openable(listening: SocketAddr) -> Vec<SocketAddr> {
    match listening.ip().is_unspecified() {
        true => of_machine(listening, &of_interfaces()),
        false => vec![listening],
    }
}

fn of_machine(listening: SocketAddr, interfaces: &[IpAddr]) -> Vec<SocketAddr> {
    // A socket on `::` serves IPv4 as well.
    let served = |ip: &&IpAddr| listening.is_ipv6() || ip.is_ipv4();
    let mut open: Vec<IpAddr> = interfaces.iter().filter(served).copied().filter(can_be_typed).collect();
    let loopback = if listening.is_ipv6() { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { Ipv4Addr::LOCALHOST.into() };
    open.push(loopback);
    // People type IPv4 addresses.
    open.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6()));
    open.dedup();
    open.into_iter().map(|ip| SocketAddr::new(ip, listening.port())).collect()
}

/// Returns whether browsers accept the address: link-local addresses need a zone, which they do not.
fn can_be_typed(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unspecified() && !ip.is_unicast_link_local(),
    }
}

/// Returns the addresses of the interfaces that are up; none if they cannot be determined.
#[cfg(unix)]
fn of_interfaces() -> Vec<IpAddr> {
    use nix::net::if_::InterfaceFlags;
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let up = interfaces.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    let ip = |address: nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    up.filter_map(|interface| interface.address.and_then(ip)).collect()
}

#[cfg(not(unix))]
fn of_interfaces() -> Vec<IpAddr> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(listening: &str, interfaces: &[&str]) -> Vec<String> {
        let interfaces: Vec<IpAddr> = interfaces.iter().map(|ip| ip.parse().unwrap()).collect();
        of_machine(listening.parse().unwrap(), &interfaces).iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn pupils_find_an_address_that_they_can_open() {
        let interfaces = ["127.0.0.1", "::1", "fe80::1", "2001:db8::7", "192.0.2.7", "10.0.0.2"];
        assert_eq!(told("0.0.0.0:8097", &interfaces), ["192.0.2.7:8097", "10.0.0.2:8097", "127.0.0.1:8097"]);
        let all = ["192.0.2.7:8097", "10.0.0.2:8097", "[2001:db8::7]:8097", "[::1]:8097"];
        assert_eq!(told("[::]:8097", &interfaces), all);
        assert_eq!(told("0.0.0.0:80", &[]), ["127.0.0.1:80"]);
    }

    #[test]
    fn an_address_of_ones_own_choice_is_the_only_one() {
        for address in ["192.0.2.7:8097", "127.0.0.1:1", "[2001:db8::7]:80"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(openable(address), [address]);
        }
        let every = openable("0.0.0.0:8097".parse().unwrap());
        assert!(every.iter().all(|address| !address.ip().is_unspecified()), "{every:?}");
        assert_eq!(every.last().unwrap().to_string(), "127.0.0.1:8097");
    }
}
