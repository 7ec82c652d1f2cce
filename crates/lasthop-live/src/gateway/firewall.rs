//! The rules that lead packets to the gateway: chains of its own in netfilter's mangle table, put in with one transaction,
//! and taken out again without a trace.
//!
//! A chain `LASTHOP`, reached from the end of `FORWARD`, sends the packets of each rule to the queue; with
//! `--queue-bypass`, so that they pass when nobody listens. What leads connections to the relay of split connections is
//! [`split::rules`]'s.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

use lasthop_scenario::gateway::{Bridge, Gateway, Mode, Network, OpenedBy, PortRange, Rule};

use crate::gateway::settings;
use crate::gateway::split::{self, SplitConfig};

/// The gateway's chain.
pub const CHAIN: &str = "LASTHOP";
/// Most ports in one match, by the kernel's structure; a range counts twice.
const MOST_PORTS: usize = 15;
/// What the programs that change rules wait for each other, in seconds.
const LOCK_WAIT: &str = "5";

/// Why rules could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// A program does not run.
    #[error("{program}: {error}")]
    Run {
        /// Its name.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// A program says no.
    #[error("{program}: {message}")]
    Refused {
        /// Its name.
        program: String,
        /// What it says, in one line.
        message: String,
    },
    /// There is none.
    #[error("no program that sets {} rules: install iptables (tried {})", family.name(), family.programs().join(", "))]
    Missing {
        /// For which packets.
        family: Family,
    },
}

/// A version of IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// `IPv4` or `IPv6`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The programs that set rules, in the order in which they are tried: the system's choice first.
    pub const fn programs(self) -> [&'static str; 3] {
        match self {
            Self::V4 => ["iptables", "iptables-legacy", "iptables-nft"],
            Self::V6 => ["ip6tables", "ip6tables-legacy", "ip6tables-nft"],
        }
    }

    fn has(self, network: &Network) -> bool {
        network.address.is_ipv4() == (self == Self::V4)
    }

    /// Whether any rule is about such packets.
    pub fn concerns(self, gateway: &Gateway) -> bool {
        gateway.rules.iter().any(|rule| rule.addresses.is_empty() || rule.addresses.iter().any(|net| self.has(net)))
    }

    /// Whether a rule names such addresses, so that it is an error when there is no way to set rules for them.
    fn is_named(self, gateway: &Gateway) -> bool {
        gateway.rules.iter().flat_map(|rule| &rule.addresses).any(|net| self.has(net))
    }
}

/// One program that sets rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tables {
    family: Family,
    program: &'static str,
}

impl Tables {
    /// Runs the program, or the one beside it that takes whole tables.
    fn run(&self, suffix: &str, arguments: &[&str], input: &str) -> Result<Output, FirewallError> {
        // `iptables-legacy` goes with `iptables-legacy-restore`.
        let program = format!("{}{suffix}", self.program);
        let fail = |error| FirewallError::Run { program: program.clone(), error };
        let mut command = Command::new(&program);
        command.args(["-w", LOCK_WAIT]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(fail)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends before it has read all says why in its own words.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output().map_err(fail)
    }

    fn restore(&self, text: &str, more: &[&str]) -> Result<(), FirewallError> {
        let output = self.run("-restore", &[&["--noflush"], more].concat(), text)?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect::<Vec<_>>();
        Err(FirewallError::Refused { program: format!("{}-restore", self.program), message: message.join(" ") })
    }

    /// The rules of one chain, or none when it does not exist.
    fn list(&self, chain: &str) -> Result<Vec<String>, FirewallError> {
        let output = self.run("", &["-t", "mangle", "-S", chain], "")?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(if output.status.success() { text.lines().map(str::to_owned).collect() } else { Vec::new() })
    }

    /// How often `FORWARD` leads to the gateway's chain.
    fn jumps(&self) -> Result<usize, FirewallError> {
        let jump = format!("-A {}", jump());
        Ok(self.list("FORWARD")?.iter().filter(|line| **line == jump).count())
    }

    fn install(&self, gateway: &Gateway) -> Result<(), FirewallError> {
        let entry = if self.jumps()? == 0 { Entry::Missing } else { Entry::Present };
        self.restore(&text(gateway, self.family, entry), &[])
    }

    /// Whether there was anything.
    fn remove(&self) -> Result<bool, FirewallError> {
        let jumps = self.jumps()?;
        if jumps == 0 && self.list(CHAIN)?.is_empty() {
            return Ok(false);
        }
        let mut text = format!("*mangle\n:{CHAIN} - [0:0]\n");
        for _ in 0..jumps {
            let _ = writeln!(text, "-D {}", jump());
        }
        let _ = writeln!(text, "-X {CHAIN}\nCOMMIT");
        self.restore(&text, &[]).map(|()| true)
    }
}

/// Whether `FORWARD` leads to the gateway's chain already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Missing,
    Present,
}

fn jump() -> String {
    format!("FORWARD -j {CHAIN}")
}

/// The programs chosen for a configuration.
#[derive(Clone, Debug)]
pub struct Firewall {
    tables: Vec<Tables>,
    /// What leads connections to the relay, when a rule splits.
    split: Option<SplitConfig>,
}

/// Runs one command.
fn run(command: &split::Command) -> Result<(), FirewallError> {
    let (program, arguments) = command.parts();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| FirewallError::Run { program: program.to_owned(), error })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    Err(FirewallError::Refused { program: command.to_string(), message })
}

/// Undoes what leads connections to the relay, as much of it as is there.
fn remove_split(config: &SplitConfig) {
    for command in config.rules().remove() {
        if let Err(error) = run(&command) {
            tracing::debug!(%error, "nothing to remove");
        }
    }
}

impl Firewall {
    /// Finds, for each version of IP, the first program that takes the rules. On a bridge there are none.
    pub fn choose(gateway: &Gateway) -> Result<Self, FirewallError> {
        let mut tables = Vec::new();
        if gateway.bridge.is_some() {
            return Ok(Self { tables, split: None });
        }
        for family in Family::BOTH.into_iter().filter(|family| family.concerns(gateway)) {
            let text = text(gateway, family, Entry::Missing);
            let mut problem = FirewallError::Missing { family };
            let found = family.programs().into_iter().map(|program| Tables { family, program }).find(|tables| {
                match tables.restore(&text, &["--test"]).and_then(|()| tables.probe()) {
                    Ok(()) => true,
                    Err(error @ FirewallError::Refused { .. }) => {
                        problem = error;
                        false
                    }
                    Err(_) => false,
                }
            });
            match found {
                Some(found) => tables.push(found),
                // IPv6 comes along where there is any; it is missed only where it was asked for.
                None if family == Family::V6 && !family.is_named(gateway) => {
                    tracing::warn!(%problem, "IPv6 connections are not treated");
                }
                None => return Err(problem),
            }
        }
        Ok(Self { tables, split: settings::split(gateway) })
    }

    /// Puts the rules in place of whatever the gateway's chains hold; each version of IP in one transaction. On failure
    /// nothing of the gateway's is left.
    pub fn install(&self, gateway: &Gateway) -> Result<(), FirewallError> {
        if let Err(error) = self.replace(gateway) {
            self.remove()?;
            return Err(error);
        }
        let Some(split) = &self.split else { return Ok(()) };
        // What a dead gateway left would be there twice.
        remove_split(split);
        for command in split.rules().install() {
            if let Err(error) = run(&command) {
                self.remove()?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// [`Firewall::install`] for rules that lead to the queue only: connections that are split are not disturbed.
    pub fn replace(&self, gateway: &Gateway) -> Result<(), FirewallError> {
        self.tables.iter().try_for_each(|tables| tables.install(gateway))
    }

    /// Takes all rules out.
    pub fn remove(&self) -> Result<(), FirewallError> {
        if let Some(split) = &self.split {
            remove_split(split);
        }
        // All of them, even when one fails.
        let outcomes: Vec<_> = self.tables.iter().map(Tables::remove).collect();
        outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
    }

    /// Takes out the rules that `now` does not hold in its place.
    pub fn remove_where_not(&self, now: &Self) -> Result<(), FirewallError> {
        let gone = self.tables.iter().filter(|tables| !now.tables.contains(tables));
        gone.map(Tables::remove).collect::<Vec<_>>().into_iter().try_for_each(|outcome| outcome.map(drop))
    }

    /// The programs that were chosen.
    pub fn programs(&self) -> Vec<&'static str> {
        self.tables.iter().map(|tables| tables.program).collect()
    }

    /// Puts in rules as split connections need them, to see whether the kernel takes them: for namespaces that go away.
    pub(super) fn try_transparent_proxy(&self) -> Result<(), FirewallError> {
        let text = "*mangle\n-A PREROUTING -p tcp -m socket --transparent -j MARK --set-mark 1\n\
                    -A PREROUTING -p tcp -j TPROXY --on-port 1 --tproxy-mark 0x1/0x1\nCOMMIT\n";
        self.tables.iter().try_for_each(|tables| tables.restore(text, &[]))
    }

    /// What [`Firewall::install`] runs on a machine without such rules: commands as comments, their input below.
    pub fn describe(&self, gateway: &Gateway) -> String {
        let mut lines = String::new();
        if let Some(Bridge { wired, wireless }) = &gateway.bridge {
            let _ = writeln!(
                lines,
                "# no rules: BPF programs at the ports of the bridge take what is TCP between {wired} and {wireless}"
            );
        }
        for tables in &self.tables {
            let _ = writeln!(lines, "# {}-restore -w {LOCK_WAIT} --noflush", tables.program);
            lines.push_str(&text(gateway, tables.family, Entry::Missing));
        }
        for command in self.split.iter().flat_map(|split| split.rules().install()) {
            let _ = writeln!(lines, "{command}");
        }
        lines
    }
}

impl Tables {
    /// Whether the kernel takes such rules: `--test` does not ask it everywhere.
    fn probe(&self) -> Result<(), FirewallError> {
        let output = self.run("", &["-t", "mangle", "-S", "FORWARD"], "")?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
        Err(FirewallError::Refused { program: self.program.to_owned(), message })
    }
}

/// Takes out what any gateway left, whichever program put it in. Says which programs found something.
pub fn clean() -> Result<Vec<&'static str>, FirewallError> {
    let mut found = Vec::new();
    // Marks, tables and chains of split connections are the same under every configuration.
    remove_split(&SplitConfig::new("lo"));
    for family in Family::BOTH {
        for program in family.programs() {
            match (Tables { family, program }).remove() {
                Ok(true) => found.push(program),
                Ok(false) | Err(FirewallError::Run { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// The rules of one version of IP, as the programs that take whole tables read them; in the words in which they list them.
fn text(gateway: &Gateway, family: Family, entry: Entry) -> String {
    let mut lines = format!("*mangle\n:{CHAIN} - [0:0]\n");
    let mark = gateway.mark;
    let _ = writeln!(lines, "-A {CHAIN} -m mark --mark {mark:#x}/{mark:#x} -j RETURN");
    for rule in &gateway.rules {
        for matches in matches(rule, family) {
            let _ = match rule.mode {
                // Connections that are split end here, and are not forwarded; those that are left alone pass.
                Mode::Split(_) => writeln!(lines, "-A {CHAIN} {matches} -j RETURN"),
                Mode::Snoop(_) | Mode::Observe => {
                    writeln!(lines, "-A {CHAIN} {matches} -j NFQUEUE --queue-num {} --queue-bypass", gateway.queue)
                }
            };
        }
    }
    if entry == Entry::Missing {
        let _ = writeln!(lines, "-A {}", jump());
    }
    lines.push_str("COMMIT\n");
    lines
}

/// Which way a packet goes, seen from the side that is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    ToCalled,
    FromCalled,
}

/// What matches the packets of a rule's connections, towards the lossy hop and from it.
fn matches(rule: &Rule, family: Family) -> Vec<String> {
    let networks: Vec<_> = rule.addresses.iter().filter(|net| family.has(net)).map(Some).collect();
    let networks = match rule.addresses.is_empty() {
        true => vec![None],
        false => networks,
    };
    let interface = &rule.interface;
    let mut all = Vec::new();
    let (called, calling) = (Way::ToCalled, Way::FromCalled);
    let (towards, back) = if rule.opened_by == OpenedBy::Wired { (called, calling) } else { (calling, called) };
    for (host, device, way) in [("-d", "-o", towards), ("-s", "-i", back)] {
        for network in &networks {
            let host = network.map(|network| format!("{host} {network} ")).unwrap_or_default();
            for end in ends(rule, way) {
                all.push(format!("{host}{device} {interface} -p tcp{end}"));
            }
        }
    }
    all
}

/// What else tells a packet in one direction: the called side's ports, or who opened the connection.
fn ends(rule: &Rule, way: Way) -> Vec<String> {
    if rule.ports.is_empty() {
        return vec![match (rule.opened_by, way) {
            (OpenedBy::Either, _) => String::new(),
            (_, Way::ToCalled) => " -m conntrack --ctdir ORIGINAL".to_owned(),
            (_, Way::FromCalled) => " -m conntrack --ctdir REPLY".to_owned(),
        }];
    }
    let which = match way {
        Way::ToCalled => "dport",
        Way::FromCalled => "sport",
    };
    groups(&rule.ports)
        .map(|ports| match ports {
            [one] => format!(" -m tcp --{which} {one}"),
            several => {
                let several: Vec<_> = several.iter().map(PortRange::to_string).collect();
                format!(" -m multiport --{which}s {}", several.join(","))
            }
        })
        .collect()
}

/// `ports` in groups that fit one match each.
fn groups(mut ports: &[PortRange]) -> impl Iterator<Item = &[PortRange]> {
    std::iter::from_fn(move || {
        let mut room = MOST_PORTS;
        let fits = |range: &&PortRange| {
            let takes = if range.first == range.last { 1 } else { 2 };
            let left = room.checked_sub(takes);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let count = ports.iter().take_while(fits).count();
        let (group, rest) = ports.split_at(count);
        ports = rest;
        (!group.is_empty()).then_some(group)
    })
}
