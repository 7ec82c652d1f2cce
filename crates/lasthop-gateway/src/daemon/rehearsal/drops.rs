//! Detection of dropping chains in a rehearsal, from nftables' trace and counters of the legacy tables.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::replica::{Replica, output};
use crate::daemon::suspects::{BaseChain, base_chains};
use crate::family::Family;

/// Name of the table that enables the trace.
const TABLE: &str = "lasthop_trace";
/// Time to wait for a line of the trace, and maximum number of waits for the remaining lines.
const DRAIN: Duration = Duration::from_millis(150);
const DRAINS: u32 = 20;
/// Names of iptables' tables.
const IPTABLES: [&str; 5] = ["raw", "mangle", "nat", "filter", "security"];

/// Rule or policy that dropped packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Drop {
    /// Family: `ip`, `ip6` or `inet`; `legacy` for the legacy tables.
    pub family: String,
    pub table: String,
    /// Chain with the rule.
    pub chain: String,
    /// Base chain that leads to the rule.
    pub base: String,
    /// Hook, such as `output`.
    pub hook: String,
    /// Text of the rule, or policy.
    pub rule: String,
    /// Mark of a dropped packet, if known.
    pub mark: Option<u32>,
}

impl Drop {
    /// Returns a description such as `table inet filter, chain input, policy drop`.
    pub fn words(&self) -> String {
        format!("table {} {}, chain {}, {}", self.family, self.table, self.chain, self.rule)
    }

    /// Returns the command that makes the chain accept packets with these bits of the mark.
    pub fn remedy(&self, family: Family, bits: u32) -> Option<String> {
        if self.base.is_empty() {
            return None;
        }
        let by_iptables = self.family == "legacy"
            || (matches!(self.family.as_str(), "ip" | "ip6")
                && IPTABLES.contains(&self.table.as_str())
                && self.base == self.hook.to_uppercase());
        if by_iptables {
            let program = match (family, self.family.as_str()) {
                (Family::V4, "legacy") => "iptables-legacy",
                (Family::V6, "legacy") => "ip6tables-legacy",
                (Family::V4, _) => "iptables",
                (Family::V6, _) => "ip6tables",
            };
            return Some(format!(
                "{program} -t {} -I {} -m mark --mark {bits:#x}/{bits:#x} -j ACCEPT",
                self.table, self.base
            ));
        }
        Some(format!(
            "nft insert rule {} {} {} meta mark and {bits:#x} == {bits:#x} accept",
            self.family, self.table, self.base
        ))
    }
}

/// Trace in progress.
pub(super) struct Trace {
    monitor: Option<Child>,
    file: std::path::PathBuf,
    before: Vec<(String, u64)>,
}

impl Trace {
    /// Starts tracing all TCP packets. Without `nft`, only the counters of the legacy tables are read.
    pub fn start(replica: &Replica) -> Self {
        let file = replica.folder().join("trace");
        let table = format!(
            "table inet {TABLE} {{\n chain traced_in {{ type filter hook prerouting priority -450; meta l4proto tcp meta nftrace set 1; }}\n \
             chain traced_out {{ type filter hook output priority -450; meta l4proto tcp meta nftrace set 1; }}\n}}\n"
        );
        let traced = output("nft", &["-f", "-"], &table).is_ok();
        let monitor = traced.then(|| {
            let out = File::create(&file).ok()?;
            let mut command = Command::new("nft");
            command.args(["monitor", "trace"]).stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
            command.spawn().ok()
        });
        // The monitor does not signal that it is listening.
        std::thread::sleep(DRAIN);
        Self { monitor: monitor.flatten(), file, before: legacy() }
    }

    /// Ends the trace and returns the drops.
    pub fn end(mut self, _: &Replica) -> Vec<Drop> {
        let size = || std::fs::metadata(&self.file).map_or(0, |data| data.len());
        let mut before = None;
        for _ in 0..DRAINS {
            if before.replace(size()) == Some(size()) {
                break;
            }
            std::thread::sleep(DRAIN);
        }
        if let Some(monitor) = &mut self.monitor {
            let _ = monitor.kill();
            let _ = monitor.wait();
        }
        let chains = base_chains();
        let _ = output("nft", &["delete", "table", "inet", TABLE], "");
        let text = std::fs::read(&self.file).unwrap_or_default();
        let mut drops = read(&String::from_utf8_lossy(&text), &chains);
        for (line, count) in legacy() {
            let before = self.before.iter().find(|(other, _)| *other == line).map_or(0, |(_, count)| *count);
            if count > before {
                drops.extend(legacy_drop(&line));
            }
        }
        drops
    }
}

/// Traced packet: its mark, and the chains that it traversed, each as family, table and name.
type Traced<'a> = (Option<u32>, Vec<(&'a str, &'a str, &'a str)>);

/// Returns the distinct drops in a trace.
fn read(trace: &str, chains: &[BaseChain]) -> Vec<Drop> {
    let mut drops: Vec<Drop> = Vec::new();
    // Latest mark and traversed chains of each packet, by trace id.
    let mut packets: std::collections::HashMap<&str, Traced<'_>> = Default::default();
    for line in trace.lines() {
        let Some(rest) = line.strip_prefix("trace id ") else { continue };
        let mut words = rest.splitn(5, ' ');
        let [Some(id), Some(family), Some(table), Some(chain), Some(what)] = std::array::from_fn(|_| words.next())
        else {
            continue;
        };
        let (mark, seen) = packets.entry(id).or_default();
        seen.push((family, table, chain));
        if let Some(number) = what.split("meta mark ").nth(1).and_then(|text| text.split(' ').next()).and_then(number) {
            *mark = Some(number);
        } else if let Some(number) =
            what.split(" mark ").nth(1).and_then(|text| text.split(' ').next()).and_then(number)
        {
            *mark = Some(number);
        }
        let policy = what.starts_with("policy drop");
        if !policy && !what.contains("(verdict drop)") || table == TABLE {
            continue;
        }
        let is_base = |(of, its, name): &&(&str, &str, &str)| {
            *of == family
                && *its == table
                && chains.iter().any(|base| base.family == family && base.table == table && base.name == *name)
        };
        let base = seen.iter().rev().find(is_base).map_or("", |(_, _, name)| *name);
        let hook = chains
            .iter()
            .find(|one| one.family == family && one.table == table && one.name == base)
            .map_or("", |one| one.hook.as_str());
        let rule = if policy {
            "policy drop".to_owned()
        } else {
            format!("rule `{}`", what.trim_start_matches("rule ").replace(" (verdict drop)", ""))
        };
        let found = Drop {
            family: family.to_owned(),
            table: table.to_owned(),
            chain: chain.to_owned(),
            base: base.to_owned(),
            hook: hook.to_owned(),
            rule,
            mark: *mark,
        };
        if !drops.contains(&found) {
            drops.push(found);
        }
    }
    drops
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the dropping rules and policies of the legacy tables, each with its table and number of packets.
fn legacy() -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for program in ["iptables-legacy-save", "ip6tables-legacy-save"] {
        let text = output(program, &["-c"], "").unwrap_or_default();
        let mut table = "";
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name;
            } else if let Some(chain) = line.strip_prefix(':') {
                // `:OUTPUT DROP [3:180]`
                if let Some((name, count)) = chain.split_once(" DROP [") {
                    all.push((format!("{table} {name} policy drop"), packets(count)));
                }
            } else if let Some((count, rule)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] -A "))
                && (rule.contains("-j DROP") || rule.contains("-j REJECT"))
            {
                all.push((format!("{table} {rule}"), packets(count)));
            }
        }
    }
    all
}

fn packets(counts: &str) -> u64 {
    counts.split(':').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Parses a line of [`legacy`].
fn legacy_drop(line: &str) -> Option<Drop> {
    let mut words = line.splitn(3, ' ');
    let (table, chain, rest) = (words.next()?, words.next()?, words.next()?);
    let base = matches!(chain, "PREROUTING" | "INPUT" | "FORWARD" | "OUTPUT" | "POSTROUTING");
    let rule = if rest == "policy drop" { rest.to_owned() } else { format!("rule `{rest}`") };
    Some(Drop {
        family: "legacy".to_owned(),
        table: table.to_owned(),
        chain: chain.to_owned(),
        base: if base { chain.to_owned() } else { String::new() },
        hook: if base { chain.to_lowercase() } else { String::new() },
        rule,
        mark: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(family: &str, table: &str, name: &str, hook: &str) -> BaseChain {
        let text = str::to_owned;
        BaseChain { family: text(family), table: text(table), name: text(name), hook: text(hook), drops: true }
    }

    #[test]
    fn a_trace_names_the_chain_that_drops_and_the_one_at_its_hook() {
        let trace = "trace id 5c4b inet filter output packet: oif \"wl0\" ip saddr 10.1.0.2 tcp flags == ack meta mark 0x08000000\n\
                     trace id 5c4b inet filter output rule jump mine (verdict jump mine)\n\
                     trace id 5c4b inet filter mine rule tcp flags syn drop (verdict drop)\n\
                     trace id 77 inet filter output policy drop\n\
                     trace id 78 inet filter output policy accept\n\
                     trace id 79 ip filter OUTPUT policy drop\n";
        let chains = [base("inet", "filter", "output", "output"), base("ip", "filter", "OUTPUT", "output")];
        let drops = read(trace, &chains);
        let words: Vec<_> = drops.iter().map(Drop::words).collect();
        assert_eq!(
            words,
            [
                "table inet filter, chain mine, rule `tcp flags syn drop`",
                "table inet filter, chain output, policy drop",
                "table ip filter, chain OUTPUT, policy drop"
            ]
        );
        assert_eq!(drops[0].mark, Some(0x0800_0000));
        let remedies: Vec<_> = drops.iter().filter_map(|drop| drop.remedy(Family::V4, 0x0800_0000)).collect();
        assert_eq!(
            remedies,
            [
                "nft insert rule inet filter output meta mark and 0x8000000 == 0x8000000 accept",
                "nft insert rule inet filter output meta mark and 0x8000000 == 0x8000000 accept",
                "iptables -t filter -I OUTPUT -m mark --mark 0x8000000/0x8000000 -j ACCEPT"
            ]
        );
    }

    #[test]
    fn older_tables_tell_by_their_counters() {
        let drop = legacy_drop("filter OUTPUT policy drop").unwrap();
        assert_eq!(drop.words(), "table legacy filter, chain OUTPUT, policy drop");
        assert_eq!(
            drop.remedy(Family::V6, 0x10).as_deref(),
            Some("ip6tables-legacy -t filter -I OUTPUT -m mark --mark 0x10/0x10 -j ACCEPT")
        );
        assert_eq!(packets("3:180] "), 3);
    }
}
