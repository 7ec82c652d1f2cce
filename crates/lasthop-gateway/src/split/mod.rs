//! Transparent split connections: the gateway ends each TCP connection that crosses the lossy hop and opens another to the
//! place where the first one was meant for, under the first one's addresses. Each side then recovers its own losses, with
//! the congestion control that suits it.
//!
//! | module | holds |
//! |---|---|
//! | [`admission`] | which new connections there is room for |
//! | [`decide`] | to which rule a new connection belongs |
//! | [`counters`] | what was done, readable from other threads |
//! | `socket` | one side's options, and what the kernel says of a connection |
//! | `conduit` | one direction of a connection: bytes from one socket to the other |
//! | `resets` | resets, repeated |
//! | `relay` | all connections of one gateway, in one thread |
//!
//! [`SplitProxy`] needs `CAP_NET_ADMIN`, `CAP_NET_BIND_SERVICE` for clients with a port below 1024, and `SIGPIPE` ignored (as
//! Rust programs start).

pub mod admission;
pub mod calls;
mod conduit;
pub mod counters;
pub mod decide;
pub mod opening;
mod quiet;
mod relay;
mod resets;
mod socket;

use std::io;
use std::time::Duration;

use lasthop_proto::tcp::config::Switch;
use thiserror::Error;

use crate::configuration::{Network, OpenedBy, PortRange, SideSettings};
use crate::family::Family;

use self::opening::Ends;

pub use admission::Admission;
pub use counters::{SideCounters, SplitCounters, SplitSnapshot};
pub use relay::SplitProxy;

/// Begins to connect to the one called, as the relay would for a connection between these ends, to find out whether an answer comes.
///
/// # Errors
///
/// As the kernel says.
pub fn try_far(config: &SplitConfig, ends: Ends) -> io::Result<socket2::Socket> {
    socket::try_connect(config, ends)
}

/// One of the two hops that meet at the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Side {
    /// Towards the fixed hosts.
    Wired,
    /// Over the lossy hop.
    Wireless,
}

impl Side {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Wired => Self::Wireless,
            Self::Wireless => Self::Wired,
        }
    }
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wired => "wired",
            Self::Wireless => "wireless",
        })
    }
}

/// The TCP that the gateway speaks on one side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpSide {
    /// The kernel's name of the congestion control; without one, the system's default.
    pub congestion: Option<String>,
    /// Bytes of receive and of send buffer, each, of each connection; without it the kernel sizes them as it goes, up to
    /// `tcp_rmem` and `tcp_wmem`. Given, it also bounds the window: at least rate times round trip.
    pub buffer: Option<usize>,
    /// The least retransmission timeout beyond the round trip; without it, and before Linux 6.15, the kernel's 200 ms.
    pub rto_min: Option<Duration>,
    /// The longest retransmission timeout; without it, and before Linux 6.15, the kernel's 120 s. The connection is given up after as
    /// long as it would be with that.
    pub rto_max: Option<Duration>,
}

impl From<&SideSettings> for TcpSide {
    fn from(settings: &SideSettings) -> Self {
        Self {
            congestion: Some(settings.congestion.clone()),
            buffer: settings.buffer.map(|bytes| bytes as usize),
            rto_min: settings.rto_min.map(|span| Duration::from_nanos(span.as_nanos())),
            rto_max: settings.rto_max.map(|span| Duration::from_nanos(span.as_nanos())),
        }
    }
}

/// Which protocols' connections are split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Families {
    /// Both.
    #[default]
    V4AndV6,
    /// Where the gateway has no IPv6.
    V4Only,
}

/// How bytes get from one socket to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transfer {
    /// Through a pipe, without copying (`splice`); through a buffer where the kernel refuses.
    #[default]
    Splice,
    /// Through a buffer in user space.
    Copy,
}

/// Connections that are split alike.
#[derive(Clone, PartialEq, Debug)]
pub struct SplitRule {
    /// The interface of the lossy hop.
    pub interface: String,
    /// The hosts behind it; all when empty.
    pub addresses: Vec<Network>,
    /// Ports of the side that is called; all when empty.
    pub ports: Vec<PortRange>,
    /// Who opens the connections.
    pub opened_by: OpenedBy,
    /// The share of them that is left alone, for comparison.
    pub bypass: Share,
    /// The TCP of the wired side.
    pub wired: TcpSide,
    /// The TCP of the wireless side.
    pub wireless: TcpSide,
    /// Whether an engine repairs losses beneath the wireless side's TCP; takes a queue.
    pub repair: Switch,
}

impl SplitRule {
    /// All connections over `interface`, whoever opens them, with the defaults of both sides.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            addresses: Vec::new(),
            ports: Vec::new(),
            opened_by: OpenedBy::Either,
            bypass: Share::NONE,
            wired: TcpSide::from(&SideSettings::wired()),
            wireless: TcpSide::from(&SideSettings::wireless()),
            repair: Switch::Off,
        }
    }

    /// The TCP of `side`.
    pub const fn side(&self, side: Side) -> &TcpSide {
        match side {
            Side::Wired => &self.wired,
            Side::Wireless => &self.wireless,
        }
    }
}

/// The bits of the firewall mark in use; each may have several, none in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// On packets that the gateway is to take in itself.
    pub deliver: u32,
    /// On packets of the half between opener and gateway.
    pub accepted: u32,
    /// On packets of the other half.
    pub opened: u32,
    /// On first packets: which listener they are for.
    pub listener: u32,
}

impl Default for Marks {
    fn default() -> Self {
        Self { deliver: 0x1000_0000, accepted: 0x2000_0000, opened: 0x4000_0000, listener: 0x07f0_0000 }
    }
}

impl Marks {
    const fn are_disjoint(self) -> bool {
        let all = self.deliver | self.accepted | self.opened | self.listener;
        let bits = self.deliver.count_ones() + self.accepted.count_ones() + self.opened.count_ones();
        self.deliver != 0
            && self.accepted != 0
            && self.opened != 0
            && self.listener != 0
            && all.count_ones() == bits + self.listener.count_ones()
    }

    /// The bits that name a listener.
    pub const fn of_listener(self, number: u32) -> u32 {
        (number << self.listener.trailing_zeros()) & self.listener
    }
}

/// What to split, and how.
#[derive(Clone, PartialEq, Debug)]
pub struct SplitConfig {
    /// Which connections; the first that is for a connection counts.
    pub rules: Vec<SplitRule>,
    /// Which protocols.
    pub families: Families,
    /// The first of the ports on the loopback addresses to which the rules lead connections: two for each rule, that of
    /// connections that the wired side opens first. Best below the range of ephemeral ports.
    pub listen: u16,
    /// The firewall marks in use.
    pub marks: Marks,
    /// The netfilter queue whose reader decides on new connections: those that it repeats with the marks of a listener are
    /// split, others pass, and all pass while nobody reads it. Without one all are split.
    pub queue: Option<u16>,
    /// The routing table that leads to the relay.
    pub table: u32,
    /// Connections at once; where there is no queue, what comes beyond waits to be accepted, at most `backlog` of them.
    pub max_connections: u32,
    /// Of those, connections of one client: an IPv4 address, or a /64 of IPv6.
    pub max_of_client: u32,
    /// Connections that wait to be accepted, or whose opener has not answered yet, each.
    pub backlog: u16,
    /// Bytes of one direction of one connection that have been read and not yet written, at most; a power of two, at least
    /// 4096.
    pub transfer_buffer: u32,
    /// How bytes are moved.
    pub transfer: Transfer,
    /// How long the far side may take to answer.
    pub connect_timeout: Duration,
    /// After how long a silence, at most, the kernel asks whether the peer is still there; seconds. It asks after 1 s first, then after
    /// four times as long, and so on.
    pub keepalive: Duration,
    /// How long a connection that both ends have closed may take to deliver its last bytes, before the kernel is left
    /// alone with them.
    pub close_timeout: Duration,
}

impl SplitConfig {
    /// Splits the connections that these rules name.
    pub fn new(rules: Vec<SplitRule>) -> Self {
        Self {
            rules,
            families: Families::default(),
            listen: 7411,
            marks: Marks::default(),
            queue: None,
            table: 7411,
            max_connections: 8192,
            max_of_client: 2048,
            backlog: 1024,
            transfer_buffer: 64 << 10,
            transfer: Transfer::default(),
            connect_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(300),
            close_timeout: Duration::from_secs(60),
        }
    }

    /// Whether connections of this version of IP are split.
    pub fn speaks(&self, family: Family) -> bool {
        family == Family::V4 || self.families == Families::V4AndV6
    }

    /// The number of the listener for connections of a rule that this side opens.
    pub fn listener(&self, rule: usize, opener: Side) -> u32 {
        let opener = match opener {
            Side::Wired => 0,
            Side::Wireless => 1,
        };
        2 * rule as u32 + opener
    }

    /// The port of a listener.
    pub fn port(&self, listener: u32) -> u16 {
        self.listen.saturating_add(listener as u16)
    }

    /// # Errors
    ///
    /// [`SplitError::Config`] names the key that is wrong and says what would be right.
    pub fn validate(&self) -> Result<(), SplitError> {
        let wrong = |key, problem: &str| Err(SplitError::Config { key, problem: problem.into() });
        for rule in &self.rules {
            let name = &rule.interface;
            if name.is_empty() || name.len() > 15 || name.contains(|c: char| c == '/' || c.is_whitespace()) {
                return wrong(
                    "interface",
                    "the name of a network interface has 1 to 15 characters, no slash, no space",
                );
            }
            if name.starts_with(['-', '!']) || name.ends_with('+') {
                return wrong("interface", "iptables would take this for an option or a pattern");
            }
            let buffers = [&rule.wired, &rule.wireless].map(|side| side.buffer);
            if buffers.into_iter().flatten().any(|bytes| !(4096..=1 << 30).contains(&bytes)) {
                return wrong("buffer", "4096 bytes to 1 GiB");
            }
        }
        if !self.marks.are_disjoint() {
            return wrong("marks", "each needs at least one bit, none in common");
        }
        let listeners = 2 * self.rules.len() as u32;
        if listeners == 0 || listeners > 1 + (self.marks.listener >> self.marks.listener.trailing_zeros()) {
            return wrong("rules", "1 to 64");
        }
        if self.listen == 0 || u32::from(self.listen) + listeners > 65_536 {
            return wrong("listen", "needs a port above 0, with room for two ports a rule behind it");
        }
        if matches!(self.table, 0 | 253..=255) {
            return wrong("table", "needs a routing table of its own, not 0 or 253 to 255");
        }
        if self.max_connections == 0 || self.max_connections > 1 << 20 || self.max_of_client == 0 {
            return wrong("max_connections, max_of_client", "1 to 1048576");
        }
        if self.backlog == 0 {
            return wrong("backlog", "at least 1");
        }
        if !self.transfer_buffer.is_power_of_two() || !(4096..=1 << 20).contains(&self.transfer_buffer) {
            return wrong("transfer_buffer", "a power of two from 4096 to 1048576");
        }
        if self.connect_timeout.is_zero() || self.close_timeout.is_zero() {
            return wrong("connect_timeout, close_timeout", "more than 0");
        }
        if !(1..=32767).contains(&self.keepalive.as_secs()) {
            return wrong("keepalive", "1 s to 32767 s");
        }
        Ok(())
    }
}

/// A share of the new connections, chosen by the lower half of the initial sequence number, which is random (RFC 6528).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share(u32);

impl Share {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// From 0 to 1, in steps of 1/65536; `None` for anything else.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then(|| Self((share * 65536.0).round() as u32))
    }

    /// Whether the connection that began with this sequence number is in it: each SYN of a connection meets the same answer.
    pub const fn contains(self, initial_sequence_number: u32) -> bool {
        initial_sequence_number & 0xFFFF < self.0
    }
}

/// Why connections can't be split.
#[derive(Debug, Error)]
pub enum SplitError {
    /// The configuration asks for what is impossible.
    #[error("split: `{key}`: {problem}")]
    Config {
        /// The key.
        key: &'static str,
        /// What would be right.
        problem: String,
    },
    /// A congestion control that the kernel doesn't have, or doesn't grant.
    #[error("split: congestion control `{name}` of the {side} side: {source}; the kernel has: {available}")]
    Congestion {
        /// Where it was to be used.
        side: Side,
        /// What was asked for.
        name: String,
        /// What could be asked for.
        available: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The process may not open as many files as the connections need.
    #[error(
        "split: {connections} connections need {need} file descriptors, the limit is {limit}: raise LimitNOFILE or lower `max_connections`"
    )]
    Descriptors {
        /// `max_connections`.
        connections: u32,
        /// What they need.
        need: u64,
        /// `RLIMIT_NOFILE`, hard.
        limit: u64,
    },
    /// The kernel refused something.
    #[error("split: {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel says.
        source: io::Error,
    },
}

impl SplitError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
