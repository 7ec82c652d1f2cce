//! Configuration of the gateway: parses TOML into checked types, with error messages like those of scenarios.
//!
//! ```
//! use lasthop_gateway::configuration::{Gateway, Mode};
//!
//! let gateway = Gateway::parse("gateway.toml", "[[rule]]\nname = 'roof'\nmode = 'snoop'\ninterface = 'wlan0'\n")?;
//! assert!(matches!(gateway.rules[0].mode, Mode::Snoop(_)));
//! # Ok::<(), lasthop_settings::Error>(())
//! ```
//!
//! `docs/gateway.md` describes every key.

mod values;
mod written;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::time::Duration;
use lasthop_settings::key;
use lasthop_settings::reading::{
    self, AbsolutePath, Address, ByteSize, Choice, List, LogLevel, Off, Or, Positive, Reader, Text, Whole,
};
use lasthop_settings::sides::SideKeys;
use lasthop_settings::snoop::{KindKeys, RepairKeys};
use lasthop_settings::units::Fraction;
use lasthop_settings::{Error, Problem};

use self::values::InterfaceName;

pub use self::values::{Network, PortRange};
pub use lasthop_settings::reading::Group;
pub use lasthop_settings::{PATIENCE, SideSettings, SplitSettings};

/// Maximum size of a configuration, in bytes: it is sent as one message to the process that handles the packets.
const LARGEST_FILE: u64 = 128 << 10;
/// Maximum number of rules, and of addresses or ports in one rule.
const MOST_RULES: usize = 64;
const MOST_ENTRIES: usize = 256;
/// Maximum length of a rule's name, in characters.
const LONGEST_NAME: usize = 32;

/// Port of HTTP over QUIC (RFC 9114 §3.1).
const QUIC_PORT: PortRange = PortRange { first: 443, last: 443 };

/// Bits of the packet mark used by split connections.
pub const SPLIT_MARKS: u32 = 0x77f0_0000;

/// Default control socket.
pub const DEFAULT_CONTROL: &str = "/run/lasthop/gateway.sock";

/// Configuration of a gateway.
#[derive(Clone, PartialEq, Debug)]
pub struct Gateway {
    /// Unix socket on which the daemon answers.
    pub control: PathBuf,
    /// Group whose users may use the socket; `None` for the group that the daemon runs with.
    pub control_group: Option<Group>,
    /// Address of the metrics, a loopback address.
    pub metrics: Option<SocketAddr>,
    /// Minimum severity of logged messages: "error", "warn", "info", "debug" or "trace".
    pub log: String,
    /// Number of the netfilter queue.
    pub queue: u16,
    /// Packet mark of the gateway's own packets, a single bit.
    pub mark: u32,
    /// Maximum time for which the first split connection after a start, or after a change of netfilter's rules, waits
    /// for the server's answer to a trial connection; without an answer it passes untreated. `None`: no trial.
    pub trial: Option<Duration>,
    /// Ports of the bridge, if the gateway is on a bridge rather than on a router.
    pub bridge: Option<Bridge>,
    /// Limits on memory.
    pub limits: Limits,
    /// Rules in the order of the file: the first rule that matches a packet applies.
    pub rules: Vec<Rule>,
}

/// Two ports of a bridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bridge {
    /// Port towards the wired side.
    pub wired: String,
    /// Port towards the lossy hop; all rules refer to this port.
    pub wireless: String,
}

/// Range of `trial`: less than the first retransmission timeout of a SYN, 1 s (RFC 6298 §2.1).
const TRIAL_RANGE: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(900)];

/// Limits on the gateway's memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Maximum number of payload bytes in the caches of all rules together, at least 1 MiB.
    pub cache: u64,
    /// Maximum number of connections with state, all rules together.
    pub flows: u32,
    /// Idle time after which a connection is removed.
    pub idle: Duration,
    /// Maximum share of the split connections that one client may hold: an IPv4 address, or a /64 of IPv6.
    pub share: Fraction,
    /// Size of the record of packet headers for `report --link`, in bytes; `None` for no record.
    pub link: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        let (ByteSize(cache), Whole(flows)) = (LimitKeys::cache.default(), LimitKeys::flows.default());
        let (Positive(idle), share) = (LimitKeys::idle.default(), LimitKeys::share.default());
        Self { cache, flows, idle, share, link: None }
    }
}

/// Selection and treatment of connections.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Name: a word, unique in the file.
    pub name: String,
    /// Treatment of the rule's connections.
    pub mode: Mode,
    /// Interface towards the lossy hop.
    pub interface: String,
    /// Networks of the hosts behind the hop; empty for all.
    pub addresses: Vec<Network>,
    /// Ports of the called side; empty for all.
    pub ports: Vec<PortRange>,
    /// Side that opens the connections.
    pub opened_by: OpenedBy,
    /// Share of the rule's connections left untreated for comparison.
    pub ab: Fraction,
}

/// Treatment of connections.
#[derive(Clone, PartialEq, Debug)]
pub enum Mode {
    /// Local repair of losses; acknowledgments remain end to end. The limits on cache and connections are the gateway's
    /// [`Limits`], not those of this configuration.
    Snoop(SnoopConfig),
    /// Two connections in place of one, each with its own congestion control.
    Split(SplitSettings),
    /// Local repair of QUIC: the rule selects UDP instead of TCP.
    Quic,
    /// None; losses and delays are reported.
    Observe,
}

impl Mode {
    /// Returns the mode's name in the file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Snoop(_) => "snoop",
            Self::Split(_) => "split",
            Self::Quic => "quic",
            Self::Observe => "observe",
        }
    }
}

/// Side that opens a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenedBy {
    /// A host behind the lossy hop, as for most downloads.
    Wireless,
    /// A host on the wired side, which calls a server behind the lossy hop.
    Wired,
    /// Either side.
    Either,
}

impl Choice for OpenedBy {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("wireless", Self::Wireless), ("wired", Self::Wired), ("either", Self::Either)];
}

#[derive(Clone, Copy, PartialEq)]
enum ModeName {
    Snoop,
    Split,
    Quic,
    Observe,
}

impl Choice for ModeName {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("snoop", Self::Snoop), ("split", Self::Split), ("quic", Self::Quic), ("observe", Self::Observe)];
}

impl Gateway {
    /// Returns the defaults on a router, with these rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self {
            control: PathBuf::from(DEFAULT_CONTROL),
            control_group: None,
            metrics: None,
            log: "info".to_owned(),
            queue: Keys::queue.default().0 as u16,
            mark: Keys::mark.default().0,
            trial: Keys::trial.default().0,
            bridge: None,
            limits: Limits::default(),
            rules,
        }
    }

    /// Loads the configuration file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::load_with_text(path).map(|(gateway, _)| gateway)
    }

    /// Loads the configuration file at `path`. Also returns its text, which [`Gateway::parse`] accepts.
    pub fn load_with_text(path: impl AsRef<Path>) -> Result<(Self, String), Error> {
        reading::load(path.as_ref(), LARGEST_FILE, read)
    }

    /// Parses a configuration from its text; `name` identifies it in messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        reading::parse(name, text, read)
    }
}

keys! {
    /// Keys of a gateway.
    Keys {
        /// {} | control socket, mode 0660
        control: AbsolutePath = AbsolutePath(PathBuf::from(DEFAULT_CONTROL));
        /// the gateway's | group, by name or number, that may use it besides root
        control_group;
        /// {} | loopback address of Prometheus' `/metrics`
        metrics: Or<Off, Address> = None.into();
        /// {} | `error`, `warn`, `info`, `debug`, `trace`; `RUST_LOG` takes precedence
        log: LogLevel = LogLevel("info".to_owned());
        /// {} | netfilter queue
        queue: Whole<0, 65_535> = Whole(27_000);
        /// 0x08000000 | packet mark, one bit, of the gateway's own packets; with split none of 0x77f00000
        mark: Whole<1, 0x8000_0000> = Whole(0x0800_0000);
        /// {} | maximum time, 50 to 900 ms, for a trial connection to the server of the first split connection after a
        /// start or a change of netfilter's rules; without an answer that connection passes untreated. Increase it if the
        /// round trip exceeds 250 ms; `"off"`: no trial
        trial: Or<Off, Duration> = Some(Duration::from_millis(250)).into();
        bridge, limits, rule;
    }

    /// Keys of a gateway on a bridge.
    BridgeKeys {
        /// – | on a [bridge](bridge.md): its port towards the wired side
        wired;
    }

    /// Keys of the limits on memory.
    LimitKeys {
        /// {} | payload in all caches, shared equally by rules (not those that split without `repair`)
        cache: ByteSize = ByteSize(64 << 20);
        /// {} | connections
        flows: Whole<1, 16_777_216> = Whole(65_536);
        /// {} | after which a connection is forgotten
        idle: Positive<Duration> = Positive(Duration::from_secs(600));
        /// {} | of the split connections per client (an IPv4 address or an IPv6 /64)
        share: Fraction = Fraction::new(0.25).unwrap_or(Fraction::ZERO);
        /// {} | memory for packet headers, 1 MiB to 1 GiB, for `report --link`; requires a restart
        link: Or<Off, ByteSize> = None.into();
    }

    /// Keys of a rule.
    RuleKeys {
        /// – | unique, for reports and metrics
        name;
        /// – | `snoop`, `split` or `observe` for TCP; `quic` for [QUIC](models/quic-snoop.md#gateway) over UDP
        mode;
        /// – | interface towards the lossy hop
        interface;
        /// all | hosts behind the hop: `"192.0.2.7"` or `["192.0.2.7", "2001:db8::/32"]`
        addresses: List<Network> = List(Vec::new());
        /// all; with `quic` 443 | ports of the called side: `443` or `[80, 443, "8000-8100"]`
        ports: List<PortRange> = List(Vec::new());
        /// `either`; with ports `wireless` | side that opens connections: `wireless`, `wired`, `either` (with `ports` only
        /// to `split`)
        opened_by;
        /// {} | share left untreated for comparison, as `"10 %"`
        ab: Fraction = Fraction::ZERO;
        snoop, split;
    }
}

/// Returns a table of keys of the configuration in Markdown.
pub fn key_table(name: &str) -> Option<String> {
    let of = |parts: &[(&str, &[key::Row])]| Some(key::table(&["key", "default", "meaning"], parts));
    match name {
        "gateway" => of(&[("", Keys::ROWS), ("bridge.", BridgeKeys::ROWS), ("limits.", LimitKeys::ROWS)]),
        "gateway-rule" => of(&[("", RuleKeys::ROWS)]),
        "gateway-snoop" => of(&[("", KindKeys::ROWS), ("", RepairKeys::ROWS)]),
        "gateway-side" => Some(key::table(&["key", "`wireless`", "`wired`", "meaning"], &[("", SideKeys::ROWS)])),
        _ => None,
    }
}

fn read(root: &Reader<'_>) -> Result<Gateway, Error> {
    root.allow(Keys::NAMES)?;
    let AbsolutePath(control) = root.value(Keys::control)?;
    let control_group = root.get(Keys::control_group)?;
    let Or(metrics, _) = root.value(Keys::metrics)?;
    let LogLevel(log) = root.value(Keys::log)?;
    let Whole(queue) = root.value(Keys::queue)?;
    let Whole(mark) = root.value(Keys::mark)?;
    if !mark.is_power_of_two() {
        return Err(root.refuse(Keys::mark, "a power of two, such as 0x08000000", "several bits are set"));
    }
    let Or(trial, _) = root.value(Keys::trial)?;
    if trial.is_some_and(|trial| trial < TRIAL_RANGE[0] || trial > TRIAL_RANGE[1]) {
        return Err(root.refuse(Keys::trial, "50 ms to 900 ms, or \"off\"", ""));
    }
    let limits = root.section(Keys::limits)?;
    limits.allow(LimitKeys::NAMES)?;
    let cache = limits.value(LimitKeys::cache)?.0;
    if !((1 << 20)..=(64 << 30)).contains(&cache) {
        return Err(limits.refuse(LimitKeys::cache, "1 MiB to 64 GiB, such as \"64 MiB\"", ""));
    }
    let Whole(flows) = limits.value(LimitKeys::flows)?;
    let Positive(idle) = limits.value(LimitKeys::idle)?;
    let share = limits.value(LimitKeys::share)?;
    if share == Fraction::ZERO {
        return Err(limits.refuse(
            LimitKeys::share,
            "more than 0, up to 1, such as \"25 %\"",
            "no connection would be split",
        ));
    }
    let Or(link, _) = limits.value(LimitKeys::link)?;
    let link = link.map(|ByteSize(bytes)| bytes);
    if link.is_some_and(|bytes| !(1 << 20..=1 << 30).contains(&bytes)) {
        return Err(limits.refuse(LimitKeys::link, "1 MiB to 1 GiB, such as \"16 MiB\", or \"off\"", ""));
    }
    let rules = rules(root)?;
    if rules.iter().any(|rule| matches!(rule.mode, Mode::Split(_))) && mark & SPLIT_MARKS != 0 {
        let expected =
            format!("a power of two up to 0x00080000, or 0x08000000 (split connections use the bits {SPLIT_MARKS:#x})");
        return Err(root.refuse(Keys::mark, expected, ""));
    }
    let bridge = bridge(root, &rules)?;
    let limits = Limits { cache, flows, idle, share, link };
    Ok(Gateway {
        control,
        control_group,
        metrics: metrics.map(|Address(address)| address),
        log,
        queue: queue as u16,
        mark,
        trial,
        bridge,
        limits,
        rules,
    })
}

/// Reads the ports of the bridge, if the file names them, and checks that the rules are possible there.
fn bridge(root: &Reader<'_>, rules: &[Rule]) -> Result<Option<Bridge>, Error> {
    if !root.has(Keys::bridge) {
        return Ok(None);
    }
    let reader = root.section(Keys::bridge)?;
    reader.allow(BridgeKeys::NAMES)?;
    let InterfaceName(wired) = reader.required(BridgeKeys::wired)?;
    for key in [Keys::queue.plain(), Keys::mark.plain(), Keys::trial.plain()] {
        if root.has(key) {
            let message = "has no effect on a bridge: its packets do not pass through netfilter".to_owned();
            return Err(root.fail(key, Problem::Conflict(message)));
        }
    }
    let mut wireless: Option<String> = None;
    for (rule, reader) in rules.iter().zip(root.array(Keys::rule, "tables")?) {
        if matches!(rule.mode, Mode::Split(_)) {
            let reason = "connections cannot be split on a bridge";
            return Err(reader.refuse(RuleKeys::mode, "\"snoop\", \"quic\" or \"observe\"", reason));
        }
        if rule.ports.is_empty() && rule.opened_by != OpenedBy::Either {
            let reason = "on a bridge it is derived from the ports";
            return Err(reader.refuse(RuleKeys::opened_by, "\"either\", or give ports too", reason));
        }
        if rule.interface == wired {
            return Err(reader.refuse(RuleKeys::interface, "the port towards the lossy hop", "it is bridge.wired"));
        }
        let wireless = wireless.get_or_insert_with(|| rule.interface.clone());
        if rule.interface != *wireless {
            let expected = format!("{wireless:?}, as in the first rule");
            return Err(reader.refuse(
                RuleKeys::interface,
                expected,
                "on a bridge all rules must have the same interface",
            ));
        }
    }
    Ok(wireless.map(|wireless| Bridge { wired, wireless }))
}

fn rules(root: &Reader<'_>) -> Result<Vec<Rule>, Error> {
    let readers = root.array(Keys::rule, "tables: [[rule]] with name, mode and interface")?;
    if readers.is_empty() {
        let expected = "at least one rule: [[rule]] with name, mode and interface".to_owned();
        return Err(root.fail(Keys::rule, Problem::Missing { expected }));
    }
    if let Some(beyond) = readers.get(MOST_RULES) {
        return Err(beyond.fail_here(Problem::Conflict(format!("more than {MOST_RULES} rules"))));
    }
    let mut rules: Vec<Rule> = Vec::new();
    for reader in &readers {
        let rule = rule(reader)?;
        if rules.iter().any(|other| other.name == rule.name) {
            return Err(reader.refuse(RuleKeys::name, "a unique name", "another rule has it"));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn rule(reader: &Reader<'_>) -> Result<Rule, Error> {
    reader.allow(RuleKeys::NAMES)?;
    let Text(name) = reader.required(RuleKeys::name)?;
    let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if name.is_empty() || name.len() > LONGEST_NAME || !bare {
        return Err(reader.refuse(RuleKeys::name, format!("1 to {LONGEST_NAME} letters, digits, `-` and `_`"), ""));
    }
    let mode = reader.required::<ModeName>(RuleKeys::mode)?;
    let InterfaceName(interface) = reader.required(RuleKeys::interface)?;
    let List(addresses) = reader.value(RuleKeys::addresses)?;
    let List(mut ports) = reader.value(RuleKeys::ports)?;
    if mode == ModeName::Quic && ports.is_empty() {
        ports.push(QUIC_PORT);
    }
    for (key, count) in [(RuleKeys::addresses.plain(), addresses.len()), (RuleKeys::ports.plain(), ports.len())] {
        if count > MOST_ENTRIES {
            return Err(reader.refuse(key, format!("at most {MOST_ENTRIES}"), ""));
        }
    }
    let opened_by = match ports.is_empty() {
        true => reader.or(RuleKeys::opened_by, OpenedBy::Either, "default")?,
        false => reader.or(RuleKeys::opened_by, OpenedBy::Wireless, "default: most connections are")?,
    };
    // A splitting rule sees the SYN, and thus the called side.
    if !ports.is_empty() && opened_by == OpenedBy::Either && mode != ModeName::Split {
        let expected = "\"wireless\" or \"wired\", or write two rules";
        return Err(reader.refuse(
            RuleKeys::opened_by,
            expected,
            "ports are those of the side that accepts the connection",
        ));
    }
    let ab = reader.value(RuleKeys::ab)?;
    for (table, of) in [(RuleKeys::snoop, ModeName::Snoop), (RuleKeys::split, ModeName::Split)] {
        if reader.has(table) && mode != of {
            let message = format!("has an effect only with mode = \"{table}\"");
            return Err(reader.fail(table, Problem::Conflict(message)));
        }
    }
    let mode = match mode {
        ModeName::Snoop => Mode::Snoop(reading::snoop(&reader.section(RuleKeys::snoop)?, SnoopConfig::gateway())?),
        ModeName::Split => Mode::Split(reading::split(&reader.section(RuleKeys::split)?)?),
        ModeName::Observe if ab != Fraction::ZERO => {
            return Err(reader.refuse(
                RuleKeys::ab,
                "0, or mode = \"snoop\", \"split\" or \"quic\"",
                "mode = \"observe\" has no treatment to compare",
            ));
        }
        ModeName::Quic => Mode::Quic,
        ModeName::Observe => Mode::Observe,
    };
    Ok(Rule { name, mode, interface, addresses, ports, opened_by, ab })
}
