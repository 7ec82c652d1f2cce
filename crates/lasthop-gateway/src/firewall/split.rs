//! Chains that direct connections to the relay. Text only.
//!
//! The two halves of a split connection have the same addresses and ports. Connection tracking would take them for one
//! connection, consider most packets invalid, and not translate their addresses. The chain in `raw` therefore marks the
//! near half and excludes it from tracking.
//!
//! The chains do not decide which connections are split. Each SYN goes to the queue. It comes back with a mark if its
//! connection is to be split, and is forwarded otherwise, or if the queue has no reader. A SYN addressed to this
//! machine is recorded there, and goes to the queue again where it is forwarded if a port forward (DNAT) applies.

use super::chains::{CHAIN, Chain, IN_CHAIN, OUT_CHAIN, Place, SPLIT_CHAIN, Stage, Table};
use super::matching::{self, came_from, first_packets, openers};
use super::pulse::Pulse;
use crate::family::Family;
use crate::split::{Marks, Side, SplitConfig, SplitRule};

/// Preference of the routing rule: before the main table (32766), after manually numbered rules.
pub const PREFERENCE: u32 = 32_000;

/// Source port of trial packets that no socket accepts (discard, RFC 863); no client uses it.
pub const TRIAL_PORT: u16 = 9;

/// Returns the loopback address and the ICMP protocol of an IP version.
const fn words(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::V4 => ("127.0.0.1", "icmp"),
        Family::V6 => ("::1", "icmpv6"),
    }
}

/// Returns the chains of one IP version.
pub fn chains(config: &SplitConfig, family: Family, pulse: Pulse) -> Vec<Chain> {
    let Marks { deliver, accepted, opened, listener } = config.marks;
    let bit = |mark: u32| format!("{mark:#x}/{mark:#x}");
    let undecided = format!("-m mark --mark 0x0/{:#x}", accepted | opened);
    let (deliver, accepted, opened) = (bit(deliver), bit(accepted), bit(opened));
    let (loopback, icmp) = words(family);
    // Established connections first: the socket's mark identifies the half. A request socket has no mark, and belongs
    // to a near half. Then new connections; then all packets of the near half.
    let mut raw = vec![format!(
        "-p tcp ! --syn -m socket --transparent --restore-skmark -m mark ! --mark {opened} -j MARK --set-xmark {accepted}"
    )];
    // A SYN that is to pass loses its mark here.
    let unmark = format!("-p tcp --syn -m mark --mark {opened} -j MARK --set-xmark 0x0/{:#x}", config.marks.opened);
    let (mut called, mut mangle) = (Vec::new(), vec![unmark]);
    for (index, rule) in config.rules.iter().enumerate() {
        for &opener in openers(rule.opened_by) {
            let number = config.listener(index, opener);
            let target = match config.queue {
                // The repeated SYN passes this chain again with a mark, so that other rules apply to it, such as those
                // that set a zone.
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
    // ICMP errors for the far half would otherwise be forwarded to the opener, which does not know its sequence
    // numbers, and path MTU discovery would fail.
    for what in ["tcp ! --syn", icmp] {
        mangle.push(format!("-p {what} -m socket --transparent -j MARK --set-xmark {deliver}"));
    }
    // Accept, so that no later rule of another program changes the mark.
    mangle.push(format!("-m mark --mark {deliver} -j ACCEPT"));
    let chain = |table, hook, stage, rules| Chain { table, name: SPLIT_CHAIN, hook, place: Place::First, stage, rules };
    vec![
        // Split connections are delivered locally, where the firewall's `INPUT` rules would drop them.
        chain(Table::Filter, "INPUT", Stage::Quiet, vec![format!("-m mark --mark {deliver} -j ACCEPT")]),
        chain(Table::Raw, "PREROUTING", Stage::Leading, raw),
        chain(Table::Mangle, "PREROUTING", Stage::Quiet, mangle),
    ]
}

/// Adds rules to the gateway's chains for locally sent packets: for the firewall's operator both halves are forwarded
/// connections, and the near half is not tracked.
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

/// Returns chains that send the relay's own packets over these hops to the queue for repair, and let packets pass that
/// the gateway sends in addition. Only the socket's mark and the hop distinguish the two halves.
pub fn beneath(config: &SplitConfig, hops: &[&str], queue: &str, own: u32) -> Vec<Chain> {
    let bit = |mark: u32| format!("-m mark --mark {mark:#x}/{mark:#x}");
    let Marks { deliver, accepted, opened, .. } = config.marks;
    // The system call that sends a trial packet returns its fate only if the packet does not wait in the queue.
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

/// Returns matches for SYNs from `opener` where they arrive.
fn selections(rule: &SplitRule, family: Family, opener: Side) -> Vec<String> {
    let from = came_from(opener, &rule.interface);
    first_packets(&rule.addresses, &rule.ports, family, (opener, &from))
}

/// Returns matches for SYNs from other hosts to this machine, to which a port forward may apply: the final host and
/// port are unknown before the destination is translated.
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
