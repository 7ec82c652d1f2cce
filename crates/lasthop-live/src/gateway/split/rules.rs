//! The firewall and routing commands that bring connections to the relay, and those that undo them. Text only: whoever
//! calls runs them.
//!
//! The two halves of a split connection have the same addresses and ports, so connection tracking would take them for one,
//! find most packets invalid, and not translate their addresses. The near half is therefore kept out of it: `raw` marks its
//! packets. Whether a new connection is split depends on nothing but its first packet: no state, so that a repeated SYN
//! meets the same decision.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Families, SplitConfig};

/// The chain, in the tables `raw` and `mangle`.
pub const CHAIN: &str = "LASTHOP_SPLIT";

/// A command and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command(pub Vec<String>);

impl Command {
    fn new(words: &str) -> Self {
        Self(words.split_whitespace().map(Into::into).collect())
    }

    fn arg(mut self, argument: impl Into<String>) -> Self {
        self.0.push(argument.into());
        self
    }

    fn args(mut self, words: &str) -> Self {
        self.0.extend(words.split_whitespace().map(Into::into));
        self
    }

    /// What to run, and with which arguments.
    pub fn parts(&self) -> (&str, &[String]) {
        self.0.split_first().map_or(("", &[]), |(program, arguments)| (program.as_str(), arguments))
    }
}

/// As a shell takes it.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { " " };
            let plain =
                !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:,@%+=".contains(&b));
            match (plain, word.as_str()) {
                (true, _) | (false, "!") => write!(f, "{separator}{word}")?,
                _ => write!(f, "{separator}'{}'", word.replace('\'', r"'\''"))?,
            }
        }
        Ok(())
    }
}

/// Addresses that begin alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not a network, as in 10.1.0.0/16, 2001:db8::/32 or 10.1.0.2");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), str::parse).map_err(|_| wrong())?;
        if prefix > longest {
            return Err(wrong());
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
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

    /// Whether the connection that began with this sequence number is in it.
    pub const fn contains(self, initial_sequence_number: u32) -> bool {
        initial_sequence_number & 0xFFFF < self.0
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
}

impl Default for Marks {
    fn default() -> Self {
        Self { deliver: 0x1000_0000, accepted: 0x2000_0000, opened: 0x4000_0000 }
    }
}

impl Marks {
    pub(super) const fn are_disjoint(self) -> bool {
        let all = self.deliver | self.accepted | self.opened;
        self.deliver != 0
            && self.accepted != 0
            && self.opened != 0
            && all.count_ones() == self.deliver.count_ones() + self.accepted.count_ones() + self.opened.count_ones()
    }
}

/// The commands for one configuration. All are for one network namespace.
#[derive(Clone, Copy, Debug)]
pub struct SplitRules<'a> {
    config: &'a SplitConfig,
}

/// What differs between the two protocols.
#[derive(Clone, Copy)]
struct Family {
    iptables: &'static str,
    ip: &'static str,
    loopback: &'static str,
    icmp: &'static str,
    /// Where `u32` finds the initial sequence number: behind the IPv4 header, whatever its length; no IPv6 SYN in use has
    /// extension headers, and one that has is taken for what its bytes say.
    sequence: &'static str,
    is_v4: bool,
}

const FAMILIES: [Family; 2] = [
    Family {
        iptables: "iptables",
        ip: "ip",
        loopback: "127.0.0.1",
        icmp: "icmp",
        sequence: "0>>22&0x3C@4",
        is_v4: true,
    },
    Family { iptables: "ip6tables", ip: "ip -6", loopback: "::1", icmp: "icmpv6", sequence: "44", is_v4: false },
];

/// The place of the routing rule: before the main table (32766), behind what operators number by hand.
const PREFERENCE: u32 = 32_000;

impl<'a> SplitRules<'a> {
    /// For this configuration, which must be valid.
    pub const fn new(config: &'a SplitConfig) -> Self {
        Self { config }
    }

    /// In this order, after the relay listens. When one fails, undo all with [`SplitRules::remove`].
    pub fn install(&self) -> Vec<Command> {
        self.families().flat_map(|family| self.install_family(family)).collect()
    }

    /// In this order, before the relay stops. Each may fail where it finds nothing to remove; run all of them.
    pub fn remove(&self) -> Vec<Command> {
        self.families().flat_map(|family| self.remove_family(family)).collect()
    }

    /// New connections bypass the relay from now on, those that are open stay: before a stop that hurts nobody, and when
    /// the relay is full.
    pub fn pause(&self) -> Vec<Command> {
        self.families().map(|family| chain_rule(family, "raw", "-I").args("-p tcp --syn -j RETURN")).collect()
    }

    /// Undoes [`SplitRules::pause`].
    pub fn resume(&self) -> Vec<Command> {
        self.families().map(|family| chain_rule(family, "raw", "-D").args("-p tcp --syn -j RETURN")).collect()
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        let count = match self.config.families {
            Families::V4AndV6 => 2,
            Families::V4Only => 1,
        };
        FAMILIES.into_iter().take(count)
    }

    fn install_family(&self, family: Family) -> Vec<Command> {
        let Marks { deliver, accepted, opened } = self.config.marks;
        let [deliver, accepted, opened] = [deliver, accepted, opened].map(|mark| format!("{mark:#x}/{mark:#x}"));
        let mut commands = self.routing(family, "add");
        for table in ["raw", "mangle"] {
            commands.push(chain_rule(family, table, "-N"));
        }

        // Established: the mark of the socket says which half it is. A half that is only half open has no socket to take it
        // from, and is a near one. Then new connections; then the near half of both.
        let established =
            chain_rule(family, "raw", "-A").args("-p tcp ! --syn -m socket --transparent --restore-skmark");
        commands.push(established.args("-m mark ! --mark").arg(&opened).args("-j MARK --set-xmark").arg(&accepted));
        for selection in self.selections(family) {
            let mut command = chain_rule(family, "raw", "-A").args("-p tcp --syn");
            command.0.extend(selection);
            command = command.args("-m addrtype --dst-type UNICAST");
            if !self.config.destination_ports.is_empty() {
                let ports: Vec<String> = self.config.destination_ports.iter().map(u16::to_string).collect();
                command = command.args("-m multiport --dports").arg(ports.join(","));
            }
            if self.config.bypass != Share::NONE {
                let first = self.config.bypass.0;
                // A range can't begin beyond 65535: with a share of 1 nothing is split.
                let split = if first > 0xFFFF { "0x10000".into() } else { format!("{first:#x}:0xffff") };
                command = command.args("-m u32 --u32").arg(format!("{}&0xFFFF={split}", family.sequence));
            }
            commands.push(match self.config.queue {
                None => command.args("-j MARK --set-xmark").arg(&accepted),
                // It comes by here again with the mark, or goes on without: with nobody at the queue at once.
                Some(queue) => {
                    let command = command.args("-m mark ! --mark").arg(&accepted);
                    command.args("-j NFQUEUE --queue-num").arg(queue.to_string()).arg("--queue-bypass")
                }
            });
        }
        commands.push(chain_rule(family, "raw", "-A").args("-m mark --mark").arg(&accepted).args("-j CT --notrack"));

        for (matches, port) in
            [(Some(&self.config.wireless_interface), self.config.listen.wireless), (None, self.config.listen.wired)]
        {
            let mut command = chain_rule(family, "mangle", "-A").args("-p tcp --syn");
            if let Some(interface) = matches {
                command = command.arg("-i").arg(interface);
            }
            command = command.args("-m mark --mark").arg(&accepted).args("-j TPROXY --on-ip").arg(family.loopback);
            commands.push(command.arg("--on-port").arg(port.to_string()).arg("--tproxy-mark").arg(&deliver));
        }
        // Errors about the far half would go on to the opener, who knows nothing of its sequence numbers: no path MTU then.
        for what in ["tcp ! --syn", family.icmp] {
            let command = chain_rule(family, "mangle", "-A").args("-p").args(what);
            commands.push(command.args("-m socket --transparent -j MARK --set-xmark").arg(&deliver));
        }

        commands.extend(self.jumps(family, "-I"));
        commands
    }

    fn remove_family(&self, family: Family) -> Vec<Command> {
        let mut commands: Vec<Command> = self.jumps(family, "-D").into_iter().rev().collect();
        for table in ["mangle", "raw"] {
            commands.push(chain_rule(family, table, "-F"));
            commands.push(chain_rule(family, table, "-X"));
        }
        commands.extend(self.routing(family, "del").into_iter().rev());
        commands
    }

    /// What packets meet first; the rest is in the chains.
    fn jumps(&self, family: Family, action: &str) -> Vec<Command> {
        let Marks { deliver, accepted, .. } = self.config.marks;
        let rule =
            |table: &str, chain: &str| Command::new(&format!("{} -w -t {table} {action} {chain}", family.iptables));
        vec![
            // Split connections end here, so the firewall's rules for what ends here apply, and would drop them.
            rule("filter", "INPUT").args("-m mark --mark").arg(format!("{deliver:#x}/{deliver:#x}")).args("-j ACCEPT"),
            rule("raw", "OUTPUT")
                .args("-m mark --mark")
                .arg(format!("{accepted:#x}/{accepted:#x}"))
                .args("-j CT --notrack"),
            rule("mangle", "PREROUTING").args("-j").arg(CHAIN),
            rule("raw", "PREROUTING").args("-p tcp -j").arg(CHAIN),
        ]
    }

    fn routing(&self, family: Family, action: &str) -> Vec<Command> {
        let (table, deliver) = (self.config.table, self.config.marks.deliver);
        vec![
            Command::new(&format!("{} route {action} local default dev lo table {table}", family.ip)),
            Command::new(&format!(
                "{} rule {action} preference {PREFERENCE} fwmark {deliver:#x}/{deliver:#x} lookup {table}",
                family.ip
            )),
        ]
    }

    /// Which connections: arguments of `iptables`.
    fn selections(&self, family: Family) -> Vec<Vec<String>> {
        let interface = &self.config.wireless_interface;
        let mut selections = vec![vec!["-i".into(), interface.clone()]];
        for network in self.config.wireless_networks.iter().filter(|network| network.address.is_ipv4() == family.is_v4)
        {
            selections.push(vec!["!".into(), "-i".into(), interface.clone(), "-d".into(), network.to_string()]);
        }
        selections
    }
}

fn chain_rule(family: Family, table: &str, action: &str) -> Command {
    Command::new(&format!("{} -w -t {table} {action} {CHAIN}", family.iptables))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
