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
use lasthop_settings::reading::{
    self, AbsolutePath, Address, ByteSize, Choice, List, LogLevel, Off, Or, Positive, Reader, Text, Whole,
};
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
    /// Port towards the lossy hop, which is that of all rules.
    pub wireless: String,
}

/// Default number of the netfilter queue, and default mark.
const QUEUE: u16 = 27_000;
const MARK: u32 = 0x0800_0000;
/// Default of `trial`, and its range: less than the first retransmission timeout of a SYN, 1 s (RFC 6298 §2.1).
const TRIAL: Duration = Duration::from_millis(250);
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
        let share = Fraction::new(0.25).unwrap_or(Fraction::ZERO);
        Self { cache: 64 << 20, flows: 65_536, idle: Duration::from_secs(600), share, link: None }
    }
}

/// Selection and treatment of connections.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Name: a word, unique in the file.
    pub name: String,
    /// Treatment of its connections.
    pub mode: Mode,
    /// Interface towards the lossy hop.
    pub interface: String,
    /// Networks of the hosts behind it; empty for all.
    pub addresses: Vec<Network>,
    /// Ports of the called side; empty for all.
    pub ports: Vec<PortRange>,
    /// Side that opens the connections.
    pub opened_by: OpenedBy,
    /// Share of its connections left untreated for comparison.
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
    /// None; losses and delays are reported.
    Observe,
}

impl Mode {
    /// Returns its name in the file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Snoop(_) => "snoop",
            Self::Split(_) => "split",
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
    Observe,
}

impl Choice for ModeName {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("snoop", Self::Snoop), ("split", Self::Split), ("observe", Self::Observe)];
}

impl Gateway {
    /// Returns the defaults on a router, with these rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self {
            control: PathBuf::from(DEFAULT_CONTROL),
            control_group: None,
            metrics: None,
            log: "info".to_owned(),
            queue: QUEUE,
            mark: MARK,
            trial: Some(TRIAL),
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

    /// Parses a configuration from its text; messages call it `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        reading::parse(name, text, read)
    }
}

fn read(root: &Reader<'_>) -> Result<Gateway, Error> {
    root.allow(&["control", "control_group", "metrics", "log", "queue", "mark", "trial", "bridge", "limits", "rule"])?;
    let default = Gateway::new(Vec::new());
    let AbsolutePath(control) = root.or("control", AbsolutePath(default.control), "default")?;
    let control_group = root.get("control_group")?;
    let Or(metrics, _) = root.or::<Or<Off, Address>>("metrics", None.into(), "default")?;
    let LogLevel(log) = root.or("log", LogLevel(default.log), "default")?;
    let Whole(queue) = root.or::<Whole<0, 65_535>>("queue", Whole(QUEUE.into()), "default")?;
    let Whole(mark) = root.or::<Whole<1, 0x8000_0000>>("mark", Whole(MARK), "default")?;
    if !mark.is_power_of_two() {
        return Err(root.refuse("mark", "a power of two, such as 0x08000000", "several bits are set"));
    }
    let Or(trial, _) = root.or::<Or<Off, Duration>>("trial", default.trial.into(), "default")?;
    if trial.is_some_and(|trial| trial < TRIAL_RANGE[0] || trial > TRIAL_RANGE[1]) {
        return Err(root.refuse("trial", "50 ms to 900 ms, or \"off\"", ""));
    }
    let limits = root.section("limits")?;
    limits.allow(&["cache", "flows", "idle", "share", "link"])?;
    let cache = limits.or("cache", ByteSize(default.limits.cache), "default")?.0;
    if !((1 << 20)..=(64 << 30)).contains(&cache) {
        return Err(limits.refuse("cache", "1 MiB to 64 GiB, such as \"64 MiB\"", ""));
    }
    let Whole(flows) = limits.or::<Whole<1, 16_777_216>>("flows", Whole(default.limits.flows), "default")?;
    let Positive(idle) = limits.or("idle", Positive(default.limits.idle), "default")?;
    let share = limits.or("share", default.limits.share, "default")?;
    if share == Fraction::ZERO {
        return Err(limits.refuse("share", "more than 0, up to 1, such as \"25 %\"", "no connection would be split"));
    }
    let Or(link, _) = limits.or::<Or<Off, ByteSize>>("link", None.into(), "default")?;
    let link = link.map(|ByteSize(bytes)| bytes);
    if link.is_some_and(|bytes| !(1 << 20..=1 << 30).contains(&bytes)) {
        return Err(limits.refuse("link", "1 MiB to 1 GiB, such as \"16 MiB\", or \"off\"", ""));
    }
    let rules = rules(root)?;
    if rules.iter().any(|rule| matches!(rule.mode, Mode::Split(_))) && mark & SPLIT_MARKS != 0 {
        let expected =
            format!("a power of two up to 0x00080000, or 0x08000000 (split connections use the bits {SPLIT_MARKS:#x})");
        return Err(root.refuse("mark", expected, ""));
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
    if !root.has("bridge") {
        return Ok(None);
    }
    let reader = root.section("bridge")?;
    reader.allow(&["wired"])?;
    let InterfaceName(wired) = reader.required("wired")?;
    for key in ["queue", "mark", "trial"] {
        if root.has(key) {
            let message = "has no effect on a bridge: its packets do not pass through netfilter".to_owned();
            return Err(root.fail(key, Problem::Conflict(message)));
        }
    }
    let mut wireless: Option<String> = None;
    for (rule, reader) in rules.iter().zip(root.array("rule", "tables")?) {
        if matches!(rule.mode, Mode::Split(_)) {
            let reason = "connections cannot be split on a bridge";
            return Err(reader.refuse("mode", "\"snoop\" or \"observe\"", reason));
        }
        if rule.ports.is_empty() && rule.opened_by != OpenedBy::Either {
            let reason = "on a bridge it is derived from the ports";
            return Err(reader.refuse("opened_by", "\"either\", or give ports too", reason));
        }
        if rule.interface == wired {
            return Err(reader.refuse("interface", "the port towards the lossy hop", "it is bridge.wired"));
        }
        let wireless = wireless.get_or_insert_with(|| rule.interface.clone());
        if rule.interface != *wireless {
            let expected = format!("{wireless:?}, as in the first rule");
            return Err(reader.refuse("interface", expected, "on a bridge all rules must have the same interface"));
        }
    }
    Ok(wireless.map(|wireless| Bridge { wired, wireless }))
}

fn rules(root: &Reader<'_>) -> Result<Vec<Rule>, Error> {
    let readers = root.array("rule", "tables: [[rule]] with name, mode and interface")?;
    if readers.is_empty() {
        let expected = "at least one rule: [[rule]] with name, mode and interface".to_owned();
        return Err(root.fail("rule", Problem::Missing { expected }));
    }
    if let Some(beyond) = readers.get(MOST_RULES) {
        return Err(beyond.fail_here(Problem::Conflict(format!("more than {MOST_RULES} rules"))));
    }
    let mut rules: Vec<Rule> = Vec::new();
    for reader in &readers {
        let rule = rule(reader)?;
        if rules.iter().any(|other| other.name == rule.name) {
            return Err(reader.refuse("name", "a unique name", "another rule has it"));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn rule(reader: &Reader<'_>) -> Result<Rule, Error> {
    reader.allow(&["name", "mode", "interface", "addresses", "ports", "opened_by", "ab", "snoop", "split"])?;
    let Text(name) = reader.required("name")?;
    let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if name.is_empty() || name.len() > LONGEST_NAME || !bare {
        return Err(reader.refuse("name", format!("1 to {LONGEST_NAME} letters, digits, `-` and `_`"), ""));
    }
    let mode = reader.required::<ModeName>("mode")?;
    let InterfaceName(interface) = reader.required("interface")?;
    let List(addresses) = reader.or("addresses", List(Vec::<Network>::new()), "default")?;
    let List(ports) = reader.or("ports", List(Vec::<PortRange>::new()), "default")?;
    for (key, count) in [("addresses", addresses.len()), ("ports", ports.len())] {
        if count > MOST_ENTRIES {
            return Err(reader.refuse(key, format!("at most {MOST_ENTRIES}"), ""));
        }
    }
    let opened_by = match ports.is_empty() {
        true => reader.or("opened_by", OpenedBy::Either, "default")?,
        false => reader.or("opened_by", OpenedBy::Wireless, "default: most connections are")?,
    };
    // A splitting rule sees the SYN, and thus the called side.
    if !ports.is_empty() && opened_by == OpenedBy::Either && mode != ModeName::Split {
        let expected = "\"wireless\" or \"wired\", or write two rules";
        return Err(reader.refuse("opened_by", expected, "ports are those of the side that accepts the connection"));
    }
    let ab = reader.or("ab", Fraction::ZERO, "default")?;
    for (table, of) in [("snoop", ModeName::Snoop), ("split", ModeName::Split)] {
        if reader.has(table) && mode != of {
            let message = format!("has an effect only with mode = \"{table}\"");
            return Err(reader.fail(table, Problem::Conflict(message)));
        }
    }
    let mode = match mode {
        ModeName::Snoop => Mode::Snoop(reading::snoop(&reader.section("snoop")?)?),
        ModeName::Split => Mode::Split(reading::split(&reader.section("split")?)?),
        ModeName::Observe if ab != Fraction::ZERO => {
            return Err(reader.refuse(
                "ab",
                "0, or mode = \"snoop\" or \"split\"",
                "mode = \"observe\" has no treatment to compare",
            ));
        }
        ModeName::Observe => Mode::Observe,
    };
    Ok(Rule { name, mode, interface, addresses, ports, opened_by, ab })
}
