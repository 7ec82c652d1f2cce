//! Route lookup in the kernel; and changes of addresses and routes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::netlink::{Request, Socket, attribute, attributes};

/// Lifetime of a cached result.
const LIFETIME: Duration = Duration::from_secs(1);
/// Timeout for the kernel's answers, which are immediate.
const PATIENCE: Duration = Duration::from_millis(20);
/// Maximum number of cached results.
const MOST: usize = 1 << 12;

/// Length of `rtmsg`, in bytes, and attributes of a route (`RTA_DST`, `RTA_SRC`, `RTA_IIF`, `RTA_OIF`, `RTA_MARK`).
const HEADER: usize = 12;
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const FROM: u16 = 3;
const TO: u16 = 4;
const MARK: u16 = 16;

/// Packet: index of the incoming interface, source and destination.
type Packet = (u32, IpAddr, IpAddr);

/// Route of an incoming packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The packet is forwarded by this interface.
    Out(Interface),
    /// The packet is delivered to this machine.
    Here,
    /// No route is known.
    Nowhere,
}

impl Way {
    /// Returns the index of the interface by which the packet leaves; `None` if it is not forwarded.
    pub const fn out(self) -> Option<u32> {
        match self {
            Self::Out(Interface(number)) => Some(number),
            Self::Here | Self::Nowhere => None,
        }
    }
}

/// Route lookup with a cache.
#[derive(Debug, Default)]
pub struct Routes {
    socket: Option<Socket>,
    known: HashMap<Packet, (Instant, Way)>,
}

impl Routes {
    /// Opens the socket in advance: a process may later give up the permission to open one.
    pub fn open() -> Self {
        let mut routes = Self::default();
        routes.connect();
        routes
    }

    fn connect(&mut self) {
        if self.socket.is_none() {
            self.socket = Socket::open(None)
                .inspect_err(|error| tracing::warn!(%error, "cannot open a netlink socket; routes are unknown"))
                .ok();
        }
    }

    /// Returns the route of a packet.
    pub fn way(&mut self, now: Instant, packet: Packet) -> Way {
        if let Some((until, way)) = self.known.get(&packet)
            && now < *until
        {
            return *way;
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let way = self.ask(packet, 0).unwrap_or(Way::Nowhere);
        self.known.insert(packet, (now + LIFETIME, way));
        way
    }

    /// Returns the index of the interface by which a packet of this machine with `mark` and these addresses, its own or
    /// foreign ones, would leave. `None` if the packet would not leave.
    pub fn leaves_by(&mut self, (source, destination): (IpAddr, IpAddr), mark: u32) -> Option<u32> {
        self.ask((0, source, destination), mark).and_then(Way::out)
    }

    fn ask(&mut self, (from, source, destination): Packet, mark: u32) -> Option<Way> {
        self.connect();
        let (family, source, destination) = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                (libc::AF_INET, source.octets().to_vec(), destination.octets().to_vec())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                (libc::AF_INET6, source.octets().to_vec(), destination.octets().to_vec())
            }
            _ => return None,
        };
        let bits = (destination.len() * 8) as u8;
        let mut request = Request::one(libc::RTM_GETROUTE, &[&[family as u8, bits, bits][..], &[0; 9]].concat())
            .with(DESTINATION, &destination);
        // Without an incoming interface the kernel requires a local source. It is omitted; only source rules would use
        // it.
        if from != 0 {
            request = request.with(SOURCE, &source).with(FROM, &from.to_ne_bytes());
        }
        if mark != 0 {
            request = request.with(MARK, &mark.to_ne_bytes());
        }
        let mut way = None;
        let asked = self.socket.as_mut()?.ask(request, PATIENCE, |_, body| {
            let mut all = attributes(body.get(HEADER..).unwrap_or_default());
            let to = all.find(|(kind, _)| *kind == TO).and_then(|(_, value)| value.try_into().ok());
            way = match body.get(7) {
                Some(&libc::RTN_UNICAST) => to.map(|to| Way::Out(Interface(u32::from_ne_bytes(to)))),
                Some(&libc::RTN_LOCAL) => Some(Way::Here),
                _ => None,
            };
        });
        // Without a route, or a route back to the source, the packet is not forwarded.
        asked.ok().and(way)
    }
}

/// Change of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Add the route; fails with `EEXIST` if there is a route to that network.
    Add,
    /// Remove the route.
    Remove,
}

/// Constants `RT_TABLE_MAIN`, `RTPROT_STATIC`, `RT_SCOPE_LINK` (`RT_SCOPE_UNIVERSE` with IPv6), `RTN_UNICAST`.
const MAIN: u8 = 254;
const STATIC: u8 = 4;
const LINK: u8 = 253;
const UNIVERSE: u8 = 0;
const UNICAST: u8 = 1;

/// Route to a network in the main table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First address of the network, with its prefix length.
    pub network: (IpAddr, u8),
    /// Outgoing interface, if it is a single one.
    pub interface: Option<Interface>,
    /// True if [`change`] cannot add a route to the same network.
    pub excludes: bool,
}

/// Lists the routes of the main table for the address family of `like`, all or those by one interface.
///
/// # Errors
///
/// Returns the kernel's error.
pub fn list(socket: &mut Socket, like: IpAddr, by: Option<Interface>) -> std::io::Result<Vec<Entry>> {
    let (family, unspecified) = match like {
        IpAddr::V4(_) => (libc::AF_INET as u8, IpAddr::from([0; 4])),
        IpAddr::V6(_) => (libc::AF_INET6 as u8, IpAddr::from([0; 16])),
    };
    let mut request = Request::list(libc::RTM_GETROUTE, &[family, 0, 0, 0, MAIN, 0, 0, 0, 0, 0, 0, 0]);
    if let Some(Interface(number)) = by {
        request = request.with(TO, &number.to_ne_bytes());
    }
    let mut found = Vec::new();
    socket.ask(request, PATIENCE * 50, |kind, body| {
        let entry = entry(body, family, unspecified).filter(|_| kind == libc::RTM_NEWROUTE);
        found.extend(entry.filter(|entry| by.is_none() || entry.interface == by));
    })?;
    Ok(found)
}

fn entry(body: &[u8], family: u8, unspecified: IpAddr) -> Option<Entry> {
    /// Attribute `RTA_PRIORITY`, and the kernel's default for IPv6.
    const PRIORITY: u16 = 6;
    const USUAL_PRIORITY: u32 = 1024;
    let &[of, length, _, tos, table, ..] = body.get(..HEADER)? else { return None };
    if of != family || table != MAIN {
        return None;
    }
    let (mut address, mut interface, mut priority) = (unspecified, None, 0);
    for (kind, value) in attributes(&body[HEADER..]) {
        let number = || value.try_into().ok().map(u32::from_ne_bytes);
        match kind {
            DESTINATION if value.len() == 4 => address = IpAddr::from(<[u8; 4]>::try_from(value).ok()?),
            DESTINATION => address = IpAddr::from(<[u8; 16]>::try_from(value).ok()?),
            TO => interface = number().map(Interface),
            PRIORITY => priority = number()?,
            _ => {}
        }
    }
    let usual = if unspecified.is_ipv4() { 0 } else { USUAL_PRIORITY };
    Some(Entry { network: (address, length), interface, excludes: tos == 0 && priority == usual })
}

/// Adds or removes the route to a network, given as first address and prefix length, by the given interface.
///
/// # Errors
///
/// Returns the kernel's error.
pub fn change(
    socket: &mut Socket,
    what: Route,
    (network, length): (IpAddr, u8),
    Interface(interface): Interface,
) -> std::io::Result<()> {
    let (family, destination, scope) = match network {
        IpAddr::V4(network) => (libc::AF_INET, network.octets().to_vec(), LINK),
        IpAddr::V6(network) => (libc::AF_INET6, network.octets().to_vec(), UNIVERSE),
    };
    let header = [family as u8, length, 0, 0, MAIN, STATIC, scope, UNICAST, 0, 0, 0, 0];
    let request = match what {
        Route::Add => Request::create(libc::RTM_NEWROUTE, &header),
        Route::Remove => Request::one(libc::RTM_DELROUTE, &header),
    };
    let request = request.with(DESTINATION, &destination).with(TO, &interface.to_ne_bytes());
    socket.ask(request, PATIENCE * 50, |_, _| {})
}

/// Route of packets to one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRoute {
    /// The address.
    pub to: Ipv4Addr,
    /// Next hop, which need not be on a network of the interface; `None` for direct delivery.
    pub via: Option<Ipv4Addr>,
    /// Outgoing interface.
    pub interface: Interface,
    /// Source address of packets from this machine.
    pub source: Option<Ipv4Addr>,
    /// Parameters for this machine's TCP.
    pub tcp: Option<RouteTcp>,
}

/// Parameters of a route for TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteTcp {
    /// Minimum retransmission timeout.
    pub rto_min: Duration,
    /// Initial window, in segments.
    pub initial_window: u32,
}

/// Routes packets to one address in this way, replacing an existing route.
///
/// # Errors
///
/// Returns the kernel's error.
pub fn direct(socket: &mut Socket, route: &HostRoute) -> std::io::Result<()> {
    /// Attributes `RTA_GATEWAY`, `RTA_PREFSRC`, `RTA_METRICS`; flag `RTNH_F_ONLINK`.
    const GATEWAY: u16 = 5;
    const PREFERRED_SOURCE: u16 = 7;
    const METRICS: u16 = 8;
    const ON_LINK: u8 = 4;
    /// Metrics `RTAX_LOCK`, `RTAX_INITCWND`, and `RTAX_RTO_MIN`, which is in milliseconds and only applies if locked.
    const LOCK: u16 = 1;
    const INITIAL_WINDOW: u16 = 11;
    const RTO_MIN: u16 = 13;
    let HostRoute { to, via, interface: Interface(interface), source, tcp } = *route;
    let (scope, flags) = if via.is_some() { (UNIVERSE, ON_LINK) } else { (LINK, 0) };
    let header = [libc::AF_INET as u8, 32, 0, 0, MAIN, STATIC, scope, UNICAST, flags, 0, 0, 0];
    let mut request =
        Request::put(libc::RTM_NEWROUTE, &header).with(DESTINATION, &to.octets()).with(TO, &interface.to_ne_bytes());
    if let Some(via) = via {
        request = request.with(GATEWAY, &via.octets());
    }
    if let Some(source) = source {
        request = request.with(PREFERRED_SOURCE, &source.octets());
    }
    if let Some(RouteTcp { rto_min, initial_window }) = tcp {
        let rto_min = u32::try_from(rto_min.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1);
        let number = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        let metrics = [number(LOCK, 1 << RTO_MIN), number(RTO_MIN, rto_min), number(INITIAL_WINDOW, initial_window)];
        request = request.with_nested(METRICS, &metrics);
    }
    socket.ask(request, PATIENCE * 50, |_, _| {})
}

/// Index of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface(pub u32);

/// Adds an address with a prefix length to an interface.
///
/// # Errors
///
/// Returns the kernel's error.
pub fn add_address(
    socket: &mut Socket,
    (address, length): (IpAddr, u8),
    Interface(interface): Interface,
) -> std::io::Result<()> {
    /// Attributes `IFA_ADDRESS`, `IFA_LOCAL`; flag `IFA_F_NODAD`, because no other host can have the address.
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const NO_DETECTION: u8 = 2;
    let (family, bytes) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let header = [&[family as u8, length, NO_DETECTION, 0][..], &interface.to_ne_bytes()].concat();
    let request = Request::create(libc::RTM_NEWADDR, &header).with(LOCAL, &bytes).with(ADDRESS, &bytes);
    socket.ask(request, PATIENCE * 50, |_, _| {})
}
