//! The gateway's chains as nftables rules: one table per IP version, replaced in one transaction.
//!
//! The rules are written once, in iptables syntax, and translated here; the translation covers all syntax that the
//! gateway uses. Chains of the table `filter` are omitted: an accept verdict in this table cannot override a drop in
//! another.

use std::fmt::Write as _;

use super::chains::{Chain, Place, Table};
use super::matching::{TCP, UDP};
use super::pulse::Pulse;
use crate::family::Family;

/// Name of the tables.
pub const NAME: &str = "lasthop";
/// Port of the heartbeat datagrams (discard, RFC 863), which the chain that counts them drops.
pub const BEAT_PORT: u16 = 9;

/// Returns `nft`'s name of a table's family.
pub const fn family(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// Returns the priority of a chain: just before or after the tables of netfilter and other programs that it corresponds
/// to. Forwarded packets go to the queue after all filters, so that packets dropped by these are not treated.
const fn priority(chain: &Chain) -> i32 {
    match (chain.table, chain.place, chain.hook.as_bytes()) {
        (_, _, b"FORWARD") => 10,
        (Table::Raw, Place::First, _) => -305,
        (Table::Raw, Place::Last, _) => -295,
        (Table::Mangle, Place::First, _) => -155,
        (Table::Mangle, Place::Last, _) => -145,
        (Table::Filter, ..) => 0,
    }
}

/// Returns a transaction that replaces the existing chains; `mark` is that of the gateway's own packets. `None` if a
/// rule has unknown syntax.
pub fn install(chains: &[Chain], version: Family, pulse: Pulse, mark: u32) -> Option<String> {
    let name = family(version);
    let mut text = format!("add table {name} {NAME}\ndelete table {name} {NAME}\ntable {name} {NAME} {{\n");
    if pulse == Pulse::Required {
        let _ = writeln!(text, "  set alive {{ typeof {name} version; size 16; flags dynamic,timeout; timeout 1s; }}");
        let _ = writeln!(
            text,
            "  chain beat {{\n    type filter hook output priority -400; policy accept;\n    \
             meta mark & {mark:#x} == {mark:#x} oifname \"lo\" udp dport {BEAT_PORT} update @alive {{ {name} version }} drop\n  }}"
        );
    }
    for (number, chain) in chains.iter().filter(|chain| chain.table != Table::Filter).enumerate() {
        let (hook, priority) = (chain.hook.to_lowercase(), priority(chain));
        let _ = writeln!(
            text,
            "  chain {hook}_{number} {{\n    type filter hook {hook} priority {priority}; policy accept;"
        );
        for rule in &chain.rules {
            for rule in translate(rule, version)? {
                let _ = writeln!(text, "    {rule}");
            }
        }
        let _ = writeln!(text, "  }}");
    }
    text.push_str("}\n");
    Some(text)
}

/// Returns a transaction that removes the table.
pub fn remove(version: Family) -> String {
    let name = family(version);
    format!("add table {name} {NAME}\ndelete table {name} {NAME}\n")
}

/// Translates an iptables rule to nft syntax: to one rule, or to two if one cannot express it.
fn translate(rule: &str, version: Family) -> Option<Vec<String>> {
    let mut words = rule.split_whitespace().peekable();
    let (mut out, mut first) = (Vec::new(), None);
    let (mut not, mut transport) = ("", TCP);
    while let Some(word) = words.next() {
        let ip = family(version);
        match word {
            "!" => {
                not = "!= ";
                continue;
            }
            "-s" => out.push(format!("{ip} saddr {not}{}", words.next()?)),
            "-d" => out.push(format!("{ip} daddr {not}{}", words.next()?)),
            "-i" => out.push(format!("iifname {not}\"{}\"", words.next()?)),
            "-o" => out.push(format!("oifname {not}\"{}\"", words.next()?)),
            "-p" => match words.next()? {
                "icmpv6" => out.push("meta l4proto ipv6-icmp".to_owned()),
                protocol => {
                    transport = protocol;
                    out.push(format!("meta l4proto {protocol}"));
                }
            },
            "--syn" => {
                let is = if not.is_empty() { "==" } else { "!=" };
                out.push(format!("tcp flags & (fin | syn | rst | ack) {is} syn"));
            }
            "-m" => match words.next()? {
                // The options that follow identify these matches.
                TCP | UDP | "multiport" | "mark" | "conntrack" | "addrtype" => {}
                "socket" => {
                    (words.next()? == "--transparent").then_some(())?;
                    out.push("socket transparent 1".to_owned());
                    if words.next_if_eq(&"--restore-skmark").is_some() {
                        // A request socket has no mark: this rule does not match it, but the next one does.
                        first = Some(format!("{} meta mark set socket mark", out.join(" ")));
                    }
                }
                "recent" => {
                    while words.next_if(|word| *word != "-j" && *word != "-m").is_some() {}
                    out.push(format!("{ip} version @alive"));
                }
                _ => return None,
            },
            "--dport" | "--dports" => out.push(format!("{transport} dport {}", ports(words.next()?))),
            "--sport" | "--sports" => out.push(format!("{transport} sport {}", ports(words.next()?))),
            "--mark" => {
                let (value, mask) = words.next()?.split_once('/')?;
                let is = if not.is_empty() { "==" } else { "!=" };
                out.push(format!("meta mark & {mask} {is} {value}"));
            }
            "--ctdir" => out.push(format!("ct direction {}", words.next()?.to_lowercase())),
            "--ctstate" => {
                (words.next()? == "DNAT").then_some(())?;
                out.push("ct status dnat".to_owned());
            }
            "--dst-type" => out.push(format!("fib daddr type {not}{}", words.next()?.to_lowercase())),
            "--src-type" => out.push(format!("fib saddr type {not}{}", words.next()?.to_lowercase())),
            "-j" => out.push(target(&mut words, version)?),
            _ => return None,
        }
        not = "";
    }
    Some(first.into_iter().chain([out.join(" ")]).collect())
}

/// Translates a target.
fn target<'a>(words: &mut impl Iterator<Item = &'a str>, version: Family) -> Option<String> {
    let target = words.next()?;
    let mut given = |name: &str| (words.next()? == name).then_some(()).and_then(|()| words.next());
    Some(match target {
        "ACCEPT" => "accept".to_owned(),
        "RETURN" => "return".to_owned(),
        "CT" => (words.next()? == "--notrack").then(|| "notrack".to_owned())?,
        "MARK" => set_mark(given("--set-xmark")?)?,
        "NFQUEUE" => {
            let number = given("--queue-num")?;
            (words.next()? == "--queue-bypass").then(|| format!("queue num {number} bypass"))?
        }
        "TPROXY" => {
            let (address, port) = (given("--on-ip")?, given("--on-port")?);
            let address = if version == Family::V6 { format!("[{address}]") } else { address.to_owned() };
            format!("tproxy to {address}:{port} {} accept", set_mark(given("--tproxy-mark")?)?)
        }
        _ => return None,
    })
}

fn set_mark(text: &str) -> Option<String> {
    let (value, mask) = text.split_once('/')?;
    let mask = u32::from_str_radix(mask.strip_prefix("0x")?, 16).ok()?;
    Some(format!("meta mark set meta mark & {:#x} | {value}", !mask))
}

fn ports(text: &str) -> String {
    let text = text.replace(':', "-");
    if text.contains(',') { format!("{{ {} }}", text.replace(',', ", ")) } else { text }
}
