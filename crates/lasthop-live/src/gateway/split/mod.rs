//! Transparent split connections: the gateway ends each TCP connection that crosses the lossy hop and opens another to the
//! place where the first one was meant for, under the first one's addresses. Each side then recovers its own losses, with
//! the congestion control that suits it.
//!
//! | module | holds |
//! |---|---|
//! | [`rules`] | the firewall and routing commands that bring connections here |
//! | [`counters`] | what was done, readable from other threads |
//! | `socket` | one side's options, and what the kernel says of a connection |
//! | `conduit` | one direction of a connection: bytes from one socket to the other |
//! | `relay` | all connections of one gateway, in one thread |
//!
//! [`SplitProxy`] needs `CAP_NET_ADMIN`, `CAP_NET_BIND_SERVICE` for clients with a port below 1024, and `SIGPIPE` ignored (as
//! Rust programs start).

mod conduit;
pub mod counters;
mod relay;
pub mod rules;
mod socket;

use std::io;
use std::time::Duration;

use thiserror::Error;

pub use counters::{SideCounters, SplitCounters, SplitSnapshot};
pub use relay::SplitProxy;
pub use rules::{Command, Marks, Network, Share, SplitRules};

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
}

/// The ports on the loopback addresses to which the rules lead connections; the port tells on which side the opener is.
///
/// Best below the range of ephemeral ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenPorts {
    /// For connections that a host on the wired side opens.
    pub wired: u16,
    /// For connections that a host on the wireless side opens.
    pub wireless: u16,
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

/// What to split, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitConfig {
    /// The interface of the lossy hop.
    pub wireless_interface: String,
    /// Which protocols.
    pub families: Families,
    /// The destinations behind it: connections that come from elsewhere to one of these are split. Connections that come
    /// from `wireless_interface` are split whatever their destination.
    pub wireless_networks: Vec<Network>,
    /// Split only connections to these ports, at most 15; empty: all.
    pub destination_ports: Vec<u16>,
    /// The share of new connections that is left alone, for comparison.
    pub bypass: Share,
    /// Where the relay listens.
    pub listen: ListenPorts,
    /// The firewall marks in use.
    pub marks: Marks,
    /// The netfilter queue whose reader decides on new connections: those that it repeats with the mark `accepted` are split,
    /// others pass, and all pass while nobody reads it. Without one all are split.
    pub queue: Option<u16>,
    /// The routing table that leads to the relay.
    pub table: u32,
    /// The TCP of the wired side.
    pub wired: TcpSide,
    /// The TCP of the wireless side.
    pub wireless: TcpSide,
    /// Connections at once; what comes beyond waits in the kernel's listen queue, of `backlog` connections at most.
    pub max_connections: u32,
    /// Connections that wait to be accepted.
    pub backlog: u16,
    /// Bytes of one direction of one connection that have been read and not yet written, at most; a power of two, at least
    /// 4096.
    pub transfer_buffer: u32,
    /// How bytes are moved.
    pub transfer: Transfer,
    /// How long the far side may take to answer.
    pub connect_timeout: Duration,
    /// How long a connection may be silent before the kernel asks whether the peer is still there; seconds.
    pub keepalive: Duration,
    /// How long a connection that both ends have closed may take to deliver its last bytes, before the kernel is left
    /// alone with them.
    pub close_timeout: Duration,
}

impl SplitConfig {
    /// Splits all connections over `wireless_interface` that hosts behind it open: CUBIC towards the wired side, BBR towards
    /// the wireless.
    pub fn new(wireless_interface: impl Into<String>) -> Self {
        Self {
            wireless_interface: wireless_interface.into(),
            families: Families::default(),
            wireless_networks: Vec::new(),
            destination_ports: Vec::new(),
            bypass: Share::NONE,
            listen: ListenPorts { wired: 7411, wireless: 7412 },
            marks: Marks::default(),
            queue: None,
            table: 7411,
            wired: TcpSide { congestion: Some("cubic".into()), buffer: None },
            wireless: TcpSide { congestion: Some("bbr".into()), buffer: None },
            max_connections: 8192,
            backlog: 1024,
            transfer_buffer: 64 << 10,
            transfer: Transfer::default(),
            connect_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(300),
            close_timeout: Duration::from_secs(60),
        }
    }

    /// The TCP of `side`.
    pub const fn side(&self, side: Side) -> &TcpSide {
        match side {
            Side::Wired => &self.wired,
            Side::Wireless => &self.wireless,
        }
    }

    /// The commands that bring connections to the relay, and those that undo them.
    pub const fn rules(&self) -> SplitRules<'_> {
        SplitRules::new(self)
    }

    /// # Errors
    ///
    /// [`SplitError::Config`] names the key that is wrong and says what would be right.
    pub fn validate(&self) -> Result<(), SplitError> {
        let wrong = |key, problem: &str| Err(SplitError::Config { key, problem: problem.into() });
        let interface = &self.wireless_interface;
        if interface.is_empty() || interface.len() > 15 || interface.contains(|c: char| c == '/' || c.is_whitespace()) {
            return wrong(
                "wireless_interface",
                "the name of a network interface has 1 to 15 characters, no slash, no space",
            );
        }
        if interface.starts_with(['-', '!']) || interface.ends_with('+') {
            return wrong("wireless_interface", "iptables would take this for an option or a pattern");
        }
        if self.destination_ports.len() > 15 {
            return wrong("destination_ports", "at most 15 ports");
        }
        if self.listen.wired == self.listen.wireless || self.listen.wired == 0 || self.listen.wireless == 0 {
            return wrong("listen", "needs two different ports above 0");
        }
        if !self.marks.are_disjoint() {
            return wrong("marks", "`deliver`, `accepted` and `opened` need at least one bit each, none in common");
        }
        if matches!(self.table, 0 | 253..=255) {
            return wrong("table", "needs a routing table of its own, not 0 or 253 to 255");
        }
        if self.max_connections == 0 || self.max_connections > 1 << 20 {
            return wrong("max_connections", "1 to 1048576");
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
        for side in [Side::Wired, Side::Wireless] {
            if self.side(side).buffer.is_some_and(|bytes| !(4096..=1 << 30).contains(&bytes)) {
                return wrong("buffer", "4096 bytes to 1 GiB");
            }
        }
        Ok(())
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
