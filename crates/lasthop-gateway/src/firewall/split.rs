//! The chains that bring connections to the relay, and the routes that go with them. Text only.
//!
//! The two halves of a split connection have the same addresses and ports, so connection tracking would take them for one,
//! find most packets invalid, and not translate their addresses. The near half is therefore kept out of it: `raw` marks its
//! packets.
//!
//! Nothing here decides that a connection is split: each first packet goes to the queue, comes back with a mark if it is to
//! be split, and is forwarded if it does not, or if nobody reads the queue. One to this machine itself is told there, and comes to the queue
//! again where it is forwarded if a port forward (DNAT) leads it on.

use super::chains::{CHAIN, Chain, IN_CHAIN, OUT_CHAIN, Place, SPLIT_CHAIN, Stage, Table};
use super::matching::{self, came_from, first_packets, openers};
use super::pulse::Pulse;
use crate::family::Family;
use crate::split::{Marks, Side, SplitConfig, SplitRule};

/// The place of the routing rule: before the main table (32766), behind what operators number by hand.
pub const PREFERENCE: u32 = 32_000;

/// Port from which trials come that no socket takes (discard, RFC 863); no client uses it.
pub const TRIAL_PORT: u16 = 9;

/// What differs between the two protocols.
const fn words(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::V4 => ("127.0.0.1", "icmp"),
        Family::V6 => ("::1", "icmpv6"),
    }
}

/// The chains of one version of IP.
pub fn chains(config: &SplitConfig, family: Family, pulse: Pulse) -> Vec<Chain> {
    let Marks { deliver, accepted, opened, listener } = config.marks;
    let bit = |mark: u32| format!("{mark:#x}/{mark:#x}");
    let undecided = format!("-m mark --mark 0x0/{:#x}", accepted | opened);
    let (deliver, accepted, opened) = (bit(deliver), bit(accepted), bit(opened));
    let (loopback, icmp) = words(family);
    // Established: the mark of the socket says which half it is. A half that is only half open has no socket to take it
    // from, and is a near one. Then new connections; then the near half of both.
    let mut raw = vec![format!(
        "-p tcp ! --syn -m socket --transparent --restore-skmark -m mark ! --mark {opened} -j MARK --set-xmark {accepted}"
    )];
    // What is to pass is as it was from there on.
    let unmark = format!("-p tcp --syn -m mark --mark {opened} -j MARK --set-xmark 0x0/{:#x}", config.marks.opened);
    let (mut called, mut mangle) = (Vec::new(), vec![unmark]);
    for (index, rule) in config.rules.iter().enumerate() {
        for &opener in openers(rule.opened_by) {
            let number = config.listener(index, opener);
            let target = match config.queue {
                // It comes by here again with a mark, so that it meets what other rules there are, as those that set a zone.
                Some(queue) => format!("{undecided} {}", matching::queue(queue, family, pulse)),
                None => format!(
                    "-j MARK --set-xmark {:#x}/{:#x}",
                    config.marks.accepted | config.marks.of_listener(number),
                    config.marks.accepted | listener
                ),
            };
            for selection in selections(rule, family, opener) {
                raw.push(format!("{selection} -m addrtype --dst-type UNICAST {target}"));
            }
            if config.queue.is_some() {
                called.extend(calls(rule, family, opener).iter().map(|selection| format!("{selection} {target}")));
            }
            mangle.push(format!(
                "-p tcp --syn -m mark --mark {:#x}/{:#x} -j TPROXY --on-ip {loopback} --on-port {} --tproxy-mark {deliver}",
                config.marks.accepted | config.marks.of_listener(number),
                config.marks.accepted | listener,
                config.port(number),
            ));
        }
    }
    called.sort();
    called.dedup();
    raw.extend(called);
    raw.push(format!("-m mark --mark {accepted} -j CT --notrack"));
    // Errors about the far half would go on to the opener, who knows nothing of its sequence numbers: no path MTU then.
    for what in ["tcp ! --syn", icmp] {
        mangle.push(format!("-p {what} -m socket --transparent -j MARK --set-xmark {deliver}"));
    }
    // Nobody else's rules change the mark any more.
    mangle.push(format!("-m mark --mark {deliver} -j ACCEPT"));
    let chain = |table, hook, stage, rules| Chain { table, name: SPLIT_CHAIN, hook, place: Place::First, stage, rules };
    vec![
        // Split connections end here, so the firewall's rules for what ends here apply, and would drop them.
        chain(Table::Filter, "INPUT", Stage::Quiet, vec![format!("-m mark --mark {deliver} -j ACCEPT")]),
        chain(Table::Raw, "PREROUTING", Stage::Leading, raw),
        chain(Table::Mangle, "PREROUTING", Stage::Quiet, mangle),
    ]
}

/// What else belongs in the gateway's chains for what is sent from here: both halves are forwarded connections to the firewall's
/// owner, and nobody tracks the near one.
pub fn extend_output(config: &SplitConfig, chains: &mut Vec<Chain>) {
    let bit = |mark: u32| format!("-m mark --mark {mark:#x}/{mark:#x}");
    let (near, far) = (bit(config.marks.accepted), bit(config.marks.opened));
    let accepted = vec![format!("{near} -j ACCEPT"), format!("{far} -j ACCEPT")];
    for (table, rules) in [(Table::Filter, accepted), (Table::Raw, vec![format!("{near} -j CT --notrack")])] {
        match chains.iter_mut().find(|chain| chain.table == table && chain.name == CHAIN) {
            Some(chain) => chain.rules.extend(rules),
            None => chains.push(Chain {
                table,
                name: CHAIN,
                hook: "OUTPUT",
                place: Place::First,
                stage: Stage::Quiet,
                rules,
            }),
        }
    }
}

/// What leads the relay's own packets over these hops to the queue, where they are repaired, and lets those pass that the gateway sends besides. Nothing else tells the two halves
/// apart but the mark of their sockets, and the hop.
pub fn beneath(config: &SplitConfig, hops: &[&str], queue: &str, own: u32) -> Vec<Chain> {
    let bit = |mark: u32| format!("-m mark --mark {mark:#x}/{mark:#x}");
    let Marks { deliver, accepted, opened, .. } = config.marks;
    // The call that sends a trial tells what became of it, unless it waits in the queue.
    let trial = format!("-p tcp --sport {TRIAL_PORT} -j RETURN");
    let mut out = vec![format!("{} -j RETURN", bit(own)), trial.clone()];
    for hop in hops {
        out.extend([accepted, opened].map(|half| format!("-o {hop} -p tcp {} {queue}", bit(half))));
    }
    let inwards = hops.iter().map(|hop| format!("-i {hop} -p tcp {} {queue}", bit(deliver)));
    let inwards = std::iter::once(trial).chain(inwards).collect();
    let chain =
        |name, hook, rules| Chain { table: Table::Mangle, name, hook, place: Place::Last, stage: Stage::Quiet, rules };
    vec![chain(OUT_CHAIN, "OUTPUT", out), chain(IN_CHAIN, "INPUT", inwards)]
}

/// What matches first packets of connections that `opener` opens, where they come in.
fn selections(rule: &SplitRule, family: Family, opener: Side) -> Vec<String> {
    let from = came_from(opener, &rule.interface);
    first_packets(&rule.addresses, &rule.ports, family, (opener, &from))
}

/// What matches first packets to this machine from elsewhere, which may be led on by a port forward: to which host and port is not known before
/// their destination is translated.
fn calls(rule: &SplitRule, family: Family, opener: Side) -> Vec<String> {
    let hosts = match opener {
        Side::Wireless => &rule.addresses[..],
        Side::Wired => &[],
    };
    let mut all = first_packets(hosts, &[], family, (opener, &came_from(opener, &rule.interface)));
    all.iter_mut().for_each(|first| first.push_str(" -m addrtype ! --src-type LOCAL --dst-type LOCAL"));
    all
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
