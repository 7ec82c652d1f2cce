//! Transparent split connections: the gateway terminates each TCP connection that crosses the lossy hop, and opens
//! another one to its destination with the first one's addresses. Each side then recovers its own losses, with a
//! congestion control that suits it.
//!
//! | module | contents |
//! |---|---|
//! | [`admission`] | admission of new connections |
//! | [`decide`] | selection of a new connection's rule |
//! | [`counters`] | statistics, readable from other threads |
//! | `socket` | socket options of one side, and the kernel's reports |
//! | `conduit` | one direction of a connection |
//! | `resets` | repetition of resets |
//! | `relay` | all connections of one gateway, in one thread |
//!
//! [`SplitProxy`] needs `CAP_NET_ADMIN`, `CAP_NET_BIND_SERVICE` for clients with a port below 1024, and `SIGPIPE`
//! ignored (the default of Rust programs).

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

/// Starts connecting to the server as the relay would for a connection between these ends, to find out whether it
/// answers.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn try_far(config: &SplitConfig, ends: Ends) -> io::Result<socket2::Socket> {
    socket::try_connect(config, ends)
}

/// One of the two sides of the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Side {
    /// Towards the fixed hosts.
    Wired,
    /// Over the lossy hop.
    Wireless,
}

impl Side {
    /// Returns the other side.
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

/// TCP parameters of the gateway on one side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpSide {
    /// Kernel's name of the congestion control; `None` for the system's default.
    pub congestion: Option<String>,
    /// Size of the receive buffer and of the send buffer of each connection, in bytes. It also bounds the window, and
    /// should be at least rate times round-trip time. `None`: the kernel adapts both, up to `tcp_rmem` and `tcp_wmem`.
    pub buffer: Option<usize>,
    /// Minimum retransmission timeout beyond the round-trip time. If `None`, or before Linux 6.15, the kernel's 200 ms.
    pub rto_min: Option<Duration>,
    /// Maximum retransmission timeout. If `None`, or before Linux 6.15, the kernel's 120 s. It does not change the time
    /// after which the connection is aborted.
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

/// IP versions whose connections are split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Families {
    /// Both.
    #[default]
    V4AndV6,
    /// IPv4 only, for gateways without IPv6.
    V4Only,
}

/// Method of moving bytes from one socket to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transfer {
    /// Through a pipe, without copying (`splice`); through a buffer if the kernel refuses.
    #[default]
    Splice,
    /// Through a buffer in user space.
    Copy,
}

/// Rule for connections to split.
#[derive(Clone, PartialEq, Debug)]
pub struct SplitRule {
    /// Interface of the lossy hop.
    pub interface: String,
    /// Networks of the hosts behind the hop; empty for all.
    pub addresses: Vec<Network>,
    /// Ports of the called side; empty for all.
    pub ports: Vec<PortRange>,
    /// Side that opens the connections.
    pub opened_by: OpenedBy,
    /// Share of the connections left unsplit for comparison.
    pub bypass: Share,
    /// TCP parameters of the wired side.
    pub wired: TcpSide,
    /// TCP parameters of the wireless side.
    pub wireless: TcpSide,
    /// Local repair of losses by an engine below the wireless side's TCP; needs a queue.
    pub repair: Switch,
}

impl SplitRule {
    /// Returns a rule for all connections over `interface`, opened by either side, with the defaults of both sides.
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

    /// Returns the TCP parameters of `side`.
    pub const fn side(&self, side: Side) -> &TcpSide {
        match side {
            Side::Wired => &self.wired,
            Side::Wireless => &self.wireless,
        }
    }
}

/// Bits of the firewall mark in use. Each may have several bits; no two share a bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Marks packets to be delivered to the gateway itself.
    pub deliver: u32,
    /// Marks packets between the opener and the gateway.
    pub accepted: u32,
    /// Marks packets between the gateway and the called end.
    pub opened: u32,
    /// Marks SYNs with the number of their listener.
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

    /// Returns the bits that identify a listener.
    pub const fn of_listener(self, number: u32) -> u32 {
        (number << self.listener.trailing_zeros()) & self.listener
    }
}

/// Configuration of the relay.
#[derive(Clone, PartialEq, Debug)]
pub struct SplitConfig {
    /// Rules; the first match applies.
    pub rules: Vec<SplitRule>,
    /// IP versions.
    pub families: Families,
    /// First of the ports on the loopback addresses to which the rules redirect connections: two for each rule, the
    /// first for connections that the wired side opens. It should lie below the range of ephemeral ports.
    pub listen: u16,
    /// Firewall marks in use.
    pub marks: Marks,
    /// Netfilter queue for decisions on new connections. SYNs that its reader repeats with the marks of a listener are
    /// split, others are forwarded, as are all SYNs without a reader. `None`: all are split.
    pub queue: Option<u16>,
    /// Routing table that delivers packets to the relay.
    pub table: u32,
    /// Maximum number of connections. Without a queue, further ones wait to be accepted, up to `backlog`.
    pub max_connections: u32,
    /// Maximum number of connections of one client: an IPv4 address, or a /64 of IPv6.
    pub max_of_client: u32,
    /// Maximum number of connections that wait to be accepted, and of those whose opener has not answered yet.
    pub backlog: u16,
    /// Maximum number of bytes of one direction of a connection that were read and not yet written; a power of two, at
    /// least 4096.
    pub transfer_buffer: u32,
    /// Method of moving bytes.
    pub transfer: Transfer,
    /// Maximum time for the far side to answer.
    pub connect_timeout: Duration,
    /// Maximum idle time before the kernel probes the peer, 1 s to 32767 s. The first probe is sent after 1 s; each
    /// further idle time is four times the previous one.
    pub keepalive: Duration,
    /// Maximum time for a connection that both ends have closed to deliver its last bytes, before it is left to the
    /// kernel.
    pub close_timeout: Duration,
}

impl SplitConfig {
    /// Returns the defaults, with these rules.
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

    /// Returns whether connections of this IP version are split.
    pub fn speaks(&self, family: Family) -> bool {
        family == Family::V4 || self.families == Families::V4AndV6
    }

    /// Returns the number of the listener for connections of a rule that this side opens.
    pub fn listener(&self, rule: usize, opener: Side) -> u32 {
        let opener = match opener {
            Side::Wired => 0,
            Side::Wireless => 1,
        };
        2 * rule as u32 + opener
    }

    /// Returns the port of a listener.
    pub fn port(&self, listener: u32) -> u16 {
        self.listen.saturating_add(listener as u16)
    }

    /// Checks the values.
    ///
    /// # Errors
    ///
    /// Returns [`SplitError::Config`], which names the invalid key and the valid values.
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
                return wrong("interface", "iptables would interpret it as an option or a pattern");
            }
            let buffers = [&rule.wired, &rule.wireless].map(|side| side.buffer);
            if buffers.into_iter().flatten().any(|bytes| !(4096..=1 << 30).contains(&bytes)) {
                return wrong("buffer", "4096 bytes to 1 GiB");
            }
        }
        if !self.marks.are_disjoint() {
            return wrong("marks", "each needs at least one bit, and no two may share one");
        }
        let listeners = 2 * self.rules.len() as u32;
        if listeners == 0 || listeners > 1 + (self.marks.listener >> self.marks.listener.trailing_zeros()) {
            return wrong("rules", "1 to 64");
        }
        if self.listen == 0 || u32::from(self.listen) + listeners > 65_536 {
            return wrong("listen", "needs a port above 0, followed by two ports per rule");
        }
        if matches!(self.table, 0 | 253..=255) {
            return wrong("table", "needs a dedicated routing table, not 0 or 253 to 255");
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

/// Share of new connections, selected by the lower half of the initial sequence number, which is random (RFC 6528).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share(u32);

impl Share {
    /// Empty share.
    pub const NONE: Self = Self(0);

    /// Returns a share from 0 to 1, in steps of 1/65536; `None` for other values.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then(|| Self((share * 65536.0).round() as u32))
    }

    /// Returns whether the share contains the connection with this initial sequence number. All SYNs of a connection
    /// agree.
    pub const fn contains(self, initial_sequence_number: u32) -> bool {
        initial_sequence_number & 0xFFFF < self.0
    }
}

/// Reason why connections cannot be split.
#[derive(Debug, Error)]
pub enum SplitError {
    /// The configuration is invalid.
    #[error("split: `{key}`: {problem}")]
    Config {
        /// The key.
        key: &'static str,
        /// Valid values.
        problem: String,
    },
    /// The kernel lacks the congestion control or does not permit it.
    #[error("split: congestion control `{name}` of the {side} side: {source}; the kernel has: {available}")]
    Congestion {
        /// Side that was to use the congestion control.
        side: Side,
        /// Requested congestion control.
        name: String,
        /// Available congestion controls.
        available: String,
        /// Error returned by the kernel.
        source: io::Error,
    },
    /// The limit on open files is too low for the connections.
    #[error(
        "split: {connections} connections need {need} file descriptors, but the limit is {limit}; raise LimitNOFILE or lower `max_connections`"
    )]
    Descriptors {
        /// `max_connections`.
        connections: u32,
        /// Required number of descriptors.
        need: u64,
        /// Hard limit (`RLIMIT_NOFILE`).
        limit: u64,
    },
    /// The kernel refused an operation.
    #[error("split: {what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// Error returned by the kernel.
        source: io::Error,
    },
}

impl SplitError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
