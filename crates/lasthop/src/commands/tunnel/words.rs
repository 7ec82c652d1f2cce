//! Answers of a tunnel, in sentences with units; programs read the JSON.

use lasthop_daemon::ab::{Difference, Gain};
use lasthop_scenario::units::DataVolume;
use lasthop_study::promise::{Beside, Promise};
use lasthop_tunneld::daemon::control::{PeerReport, Report, Status, TunnelStatus};
use lasthop_tunneld::daemon::snapshot::{ArmSnapshot, ComparisonSnapshot, Count, PathSnapshot, PeerSnapshot, Snapshot};
use serde_json::json;

use crate::commands::answers::{self, Compared, Trouble, bytes, digits, gain, rate, rate_since, span, troubles};
use crate::output::count;

/// Counters that are shown if they are not zero.
const TROUBLES: [Trouble<Snapshot>; 7] = [
    (|all| all.strangers, "handshakes from unknown peers"),
    (|all| all.overload, "handshakes refused under load"),
    (|all| all.replayed, "replayed datagrams"),
    (|all| all.unauthentic, "datagrams that failed authentication or belong to no session"),
    (|all| all.unroutable, "packets to addresses that no peer has"),
    (|all| all.looped, "own datagrams routed into the tunnel: `allowed` of a peer contains their destination"),
    (|all| all.unsent, "packets and datagrams that the kernel did not accept"),
];

/// Counters of a peer that are shown if they are not zero.
const TROUBLES_OF_PEER: [Trouble<PeerSnapshot>; 2] = [
    (|peer| peer.refused, "packets from it rejected: source not in its `allowed`, or implausible"),
    (|peer| peer.oversize, "packets to it exceeded the path MTU"),
];

/// Describes state and counters. `before` is an earlier answer, for the rates since then.
pub fn status(answer: &Status, before: Option<&Status>) -> String {
    let (more, mut lines) = (&answer.more, head(answer));
    for (index, peer) in more.snapshot.peers.iter().enumerate() {
        lines.push(state(peer));
        lines.extend(paths(&peer.paths).into_iter().map(|line| format!("  {line}")));
        if peer.traffic.frames.packets + peer.traffic.received.packets > 0 {
            lines.extend(traffic(answer, before, index, peer).into_iter().map(|line| format!("  {line}")));
        }
        lines.extend(troubles(peer, &TROUBLES_OF_PEER).map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}

/// Describes the state in a few lines.
pub fn summary(answer: &Status) -> String {
    let mut lines = head(answer);
    for peer in &answer.more.snapshot.peers {
        lines.push(state(peer));
        lines.extend(paths(&peer.paths).into_iter().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}

/// Describes what is wrong, one sentence each.
pub fn remarks(answer: &Status) -> Vec<String> {
    let snapshot = &answer.more.snapshot;
    let of_peer = |peer| troubles(peer, &TROUBLES_OF_PEER).map(|line| format!("{}: {line}", peer.name));
    let worker = answer.worker.pid.is_none().then(|| worker(answer));
    worker.into_iter().chain(troubles(snapshot, &TROUBLES)).chain(snapshot.peers.iter().flat_map(of_peer)).collect()
}

/// Describes the daemon without its peers.
fn head(answer: &Status) -> Vec<String> {
    let Status { version, uptime_seconds, more, .. } = answer;
    let place = if is_bridge(more) { &more.interface } else { &more.listen };
    let mut lines = vec![
        format!("lasthop {version}, up for {}; {}", span(*uptime_seconds), worker(answer)),
        format!(
            "{} on {}; {}",
            more.device,
            place.as_deref().unwrap_or("?"),
            count(more.snapshot.handshakes as usize, "handshake")
        ),
    ];
    lines.extend(troubles(&more.snapshot, &TROUBLES));
    lines
}

fn worker(answer: &Status) -> String {
    let without = if is_bridge(&answer.more) { "frames pass unrepaired" } else { "no packets pass" };
    answers::worker(answer.worker, without)
}

fn is_bridge(status: &TunnelStatus) -> bool {
    status.mode == "bridge"
}

fn state(peer: &PeerSnapshot) -> String {
    let PeerSnapshot { name, mtu, .. } = peer;
    let Some(seconds) = peer.up_seconds else { return format!("{name}: no session") };
    let trip = peer.rtt_seconds.map_or(String::new(), |trip| format!(", {:.1} ms", trip * 1e3));
    let address = peer.address.as_deref().unwrap_or("?");
    let sends = rate(peer.rate as f64);
    let goes = if peer.unanswered {
        format!("nothing received for {}", span(peer.heard_seconds.unwrap_or_default()))
    } else if peer.state == "idle" {
        let heard = peer.heard_seconds.map_or("never".to_owned(), |heard| format!("{} ago", span(heard)));
        format!("idle, last received {heard}, reachability unknown")
    } else {
        format!("{:.1} % lost, {}{}", peer.loss * 100.0, peer.state, heard(peer.heard_seconds))
    };
    let found = if peer.finds_rate { " found" } else { "" };
    format!("{name}: at {address} for {}{trip}, {sends}{found}, {goes}, MTU {mtu}", span(seconds))
}

/// Describes the last contact, if it is known.
fn heard(seconds: Option<f64>) -> String {
    seconds.map_or(String::new(), |seconds| format!(", last received {} ago", span(seconds)))
}

/// Describes each of several paths.
fn paths(paths: &[PathSnapshot]) -> Vec<String> {
    if paths.len() < 2 {
        return Vec::new();
    }
    let total: u64 = paths.iter().map(|path| path.frames.bytes).sum();
    let path = |path: &PathSnapshot| {
        let PathSnapshot { name, state, loss, .. } = path;
        let address = path.address.as_deref().unwrap_or("?");
        if state == "unused" {
            return format!("path {name}: unused, the other end has no path with this number");
        }
        let trip = path.rtt_seconds.map_or(String::new(), |trip| format!(", {:.1} ms", trip * 1e3));
        let (sends, found) = (rate(path.rate as f64), if path.finds_rate { " found" } else { "" });
        let share = 100.0 * path.frames.bytes as f64 / (total as f64).max(1.0);
        let tier =
            if path.tier.is_empty() || path.tier == "primary" { String::new() } else { format!(" ({})", path.tier) };
        let month = path.month_bytes.zip(path.cap_bytes).map_or(String::new(), |(used, cap)| {
            format!(", {} of {} in this month", DataVolume(used), DataVolume(cap))
        });
        format!(
            "path {name}: at {address}{trip}, {sends}{found}, {:.1} % lost, {state}{tier}{}, {share:.0} % of all bytes \
             sent{month}",
            loss * 100.0,
            heard(path.heard_seconds)
        )
    };
    paths.iter().map(path).collect()
}

fn traffic(answer: &Status, before: Option<&Status>, index: usize, peer: &PeerSnapshot) -> Vec<String> {
    let way = |read: fn(&PeerSnapshot) -> Count| {
        let carried = |status: &TunnelStatus| status.snapshot.peers.get(index).map_or(0, |peer| read(peer).bytes);
        let now = rate_since(answer, before, carried).map_or(String::new(), |bits| format!(", {} now", rate(bits)));
        let Count { packets, bytes: carried } = read(peer);
        format!("{}, {}{now}", count(packets as usize, "packet"), bytes(carried as f64))
    };
    let share = 100.0 * peer.traffic.repair.bytes as f64 / (peer.traffic.frames.bytes as f64).max(1.0);
    let mut lines = vec![
        format!(
            "to it: {}; {} dropped by the queue, {} avoided by a smaller window, {} queued",
            way(|peer| peer.traffic.sent),
            peer.hop.dropped,
            peer.hop.windows_cut,
            peer.waiting
        ),
        format!(
            "from it: {}; {} recovered by coding, {} out of order",
            way(|peer| peer.traffic.received),
            peer.hop.restored,
            peer.hop.released
        ),
        format!(
            "repair: {} retransmitted, {} sent ahead of losses, {} abandoned; {share:.1} % of all bytes sent",
            peer.hop.resent, peer.hop.redundant, peer.hop.given_up
        ),
    ];
    if is_bridge(&answer.more) {
        let (plain, silences) = (peer.plain, count(peer.silences as usize, "time"));
        lines.push(format!("unrepaired: {plain} frames forwarded as they are; the peer was silent {silences}"));
    }
    lines
}

/// Describes the gain of repair, one paragraph per peer, and compares it with the promise.
pub fn report(answer: &Report, promise: Option<&Promise>) -> String {
    let mut lines = Vec::new();
    for peer in &answer.peers {
        let PeerReport { name, ab, comparison, .. } = peer;
        let lines_of_paths = paths(&peer.paths).into_iter().map(|line| format!("  {line}"));
        if *ab == 0.0 {
            lines.push(format!("{name}: no unrepaired flows to compare with (`ab` is 0)"));
            lines.extend(lines_of_paths);
            continue;
        }
        let comparison = comparison.unwrap_or_default();
        let arms = [comparison.treated, comparison.untreated];
        let compared = Compared {
            observes: false,
            ab: *ab,
            flows: arms.map(|arm| arm.flows),
            goodputs: arms.map(|arm| arm.goodput_bps),
            gain: comparison.gain,
        };
        lines.push(format!("{name}: {}", gain(&compared)));
        lines.extend(promise.map(|promise| format!("  {}", Beside::of_peer(&json!(peer), promise).words())));
        let details = [delay(&comparison), loss(&comparison)];
        lines.extend(details.into_iter().flatten().map(|line| format!("  {line}")));
        lines.extend(lines_of_paths);
    }
    lines.join("\n") + "\n"
}

fn delay(ComparisonSnapshot { treated, untreated, delay, .. }: &ComparisonSnapshot) -> Option<String> {
    let [treated, untreated] = [treated.rtt_seconds?, untreated.rtt_seconds?];
    let Gain { ratio, low, high } = (*delay)?;
    let doubt = if low < 1.0 && high > 1.0 { "; may be chance" } else { "" };
    Some(format!(
        "round trip: {} ms treated, {} untreated: {} times as long ({}-{}, 95 %{doubt})",
        digits(1e3 * treated),
        digits(1e3 * untreated),
        digits(ratio),
        digits(low),
        digits(high)
    ))
}

fn loss(ComparisonSnapshot { treated, untreated, loss, .. }: &ComparisonSnapshot) -> Option<String> {
    let share = |arm: &ArmSnapshot| 100.0 * arm.lost as f64 / (arm.packets as f64).max(1.0);
    let Difference { difference, low, high } = (*loss)?;
    let [fewer, low, high] = [difference, low, high].map(|share| 100.0 * share);
    let doubt = if low < 0.0 && high > 0.0 { "; may be chance" } else { "" };
    Some(format!(
        "packets lost: {:.2} % treated (of {}), {:.2} % untreated (of {}): {fewer:.2} points fewer ({low:.2} to {high:.2}, 95 %{doubt})",
        share(treated),
        treated.packets,
        share(untreated),
        untreated.packets
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn status(answer: &Value, before: Option<&Value>) -> String {
        let [answer, before] = [Some(answer), before].map(|value| value.map(|value| answers::read(value).unwrap()));
        super::status(&answer.unwrap(), before.as_ref())
    }

    fn report(answer: &Value, promise: Option<&Promise>) -> String {
        super::report(&answers::read(answer).unwrap(), promise)
    }

    #[test]
    fn a_comparison_is_told_in_sentences() {
        let answer = json!({ "peers": [
            {
                "name": "shore", "ab": 0.5, "gain": { "ratio": 5.0, "low": 4.0, "high": 6.25 },
                "delay": { "ratio": 1.1, "low": 0.9, "high": 1.3 },
                "loss": { "difference": 0.05, "low": 0.04, "high": 0.06 },
                "treated": { "flows": 5, "goodput_bps": 9e6, "rtt_seconds": 0.022, "packets": 1000, "lost": 0 },
                "untreated": { "flows": 4, "goodput_bps": 1.8e6, "rtt_seconds": 0.02, "packets": 400, "lost": 20 },
            },
            { "name": "van", "ab": 0.0 },
            { "name": "new", "ab": 0.1, "treated": { "flows": 1 }, "untreated": { "flows": 0 } },
        ] });
        assert_eq!(
            report(&answer, None),
            "shore: 9.0 Mbit/s treated (5 connections), 1.8 untreated (4): 5.0 times as fast (4.0-6.2, 95 %)\n  \
             round trip: 22.0 ms treated, 20.0 untreated: 1.1 times as long (0.90-1.3, 95 %; may be chance)\n  \
             packets lost: 0.00 % treated (of 1000), 5.00 % untreated (of 400): 5.00 points fewer (4.00 to 6.00, 95 %)\n\
             van: no unrepaired flows to compare with (`ab` is 0)\n\
             new: 1 connection treated, none untreated; needs 1 more treated and 2 more untreated, of at least 100 kB each\n"
        );
    }

    #[test]
    fn a_promise_stands_beside_the_gain() {
        let promise = Promise::read(
            r#"{ "lasthop_promise": 1, "link": "x", "seed": 1, "runs": 3, "advised": "LINK-HYBRID", "cures": [
            { "cure": "LINK-HYBRID", "needs": "a device at each end", "uses": [ { "use": "bulk", "unit": "Mbps",
              "value": 8, "interval": null, "factor": { "mean": 5.5, "interval": [5.0, 6.0] } } ] } ] }"#,
        );
        let answer = json!({ "peers": [
            { "name": "shore", "ab": 0.5, "gain": { "ratio": 5.0, "low": 4.0, "high": 6.25 } },
        ] });
        let line = "  promise: 5.5 times as fast for downloads (5.0-6.0), measured 5.0 (4.0-6.2): kept\n";
        assert!(report(&answer, Some(&promise.unwrap())).contains(line));
    }

    #[test]
    fn each_of_several_paths_has_a_line() {
        let path = |name: &str, state: &str, bytes: u64| {
            json!({
                "name": name, "address": "192.0.2.7:51900", "rate": 50_000_000, "finds_rate": true, "state": state,
                "rtt_seconds": 0.0412, "loss": 0.004, "heard_seconds": 3.2, "frames": { "packets": 9, "bytes": bytes },
            })
        };
        let answer = |paths: Vec<Value>| {
            json!({
                "version": "0.1.0", "uptime_seconds": 1.0, "device": "lasthop0",
                "peers": [{ "name": "hub", "up_seconds": 60.0, "paths": paths }],
            })
        };
        let mut lte = path("lte", "down", 390);
        let metered = json!({ "tier": "backup", "month_bytes": 18_400_000_000_u64, "cap_bytes": 20_000_000_000_u64 });
        lte.as_object_mut().unwrap().extend(metered.as_object().unwrap().clone());
        let both = answer(vec![path("dish", "repairing", 610), lte, path("dsl", "unused", 0)]);
        let text = status(&both, None);
        let lines: Vec<_> = text.lines().filter(|line| line.contains("path ")).collect();
        assert_eq!(
            lines,
            [
                "  path dish: at 192.0.2.7:51900, 41.2 ms, 50.0 Mbit/s found, 0.4 % lost, repairing, \
                 last received 3 s ago, 61 % of all bytes sent",
                "  path lte: at 192.0.2.7:51900, 41.2 ms, 50.0 Mbit/s found, 0.4 % lost, down (backup), \
                 last received 3 s ago, 39 % of all bytes sent, 18.4 GB of 20 GB in this month",
                "  path dsl: unused, the other end has no path with this number",
            ]
        );
        assert!(!status(&answer(vec![path("", "repairing", 610)]), None).contains("path :"));
        let reported = json!({ "peers": [{ "name": "hub", "ab": 0.0, "paths": both["peers"][0]["paths"] }] });
        let text = report(&reported, None);
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), lines);
    }

    #[test]
    fn peers_are_told_in_sentences() {
        let answer = |sent: u64, uptime: f64| {
            json!({
                "version": "0.1.0", "uptime_seconds": uptime, "worker": { "pid": 7, "restarts": 0 }, "device": "lasthop0",
                "listen": "0.0.0.0:51900", "handshakes": 1, "replayed": 2,
                "peers": [
                    {
                        "name": "shore", "up_seconds": 60.0, "address": "192.0.2.7:51900", "rtt_seconds": 0.0601, "loss": 0.023,
                        "rate": 9_500_000, "finds_rate": true, "state": "repairing", "heard_seconds": 0.25,
                        "mtu": 1442, "sent": { "packets": 1, "bytes": sent }, "received": { "packets": 2, "bytes": 120 },
                        "frames": { "packets": 9, "bytes": 1000 }, "repair": { "packets": 1, "bytes": 25 },
                        "resent": 4, "redundant": 5, "given_up": 0, "restored": 3, "released": 0, "dropped": 0, "windows_cut": 8,
                        "waiting": 6,
                    },
                    { "name": "van", "up_seconds": null },
                ],
            })
        };
        assert_eq!(
            status(&answer(126_000, 62.0), Some(&answer(1_000, 61.0))),
            "lasthop 0.1.0, up for 1 min 2 s; worker 7, never replaced\nlasthop0 on 0.0.0.0:51900; 1 handshake\n\
             2 replayed datagrams\nshore: at 192.0.2.7:51900 for 1 min, 60.1 ms, 9.5 Mbit/s found, 2.3 % lost, repairing, last received 0 s ago, MTU 1442\n  \
             to it: 1 packet, 123 KiB, 1.0 Mbit/s now; 0 dropped by the queue, 8 avoided by a smaller window, 6 queued\n  \
             from it: 2 packets, 120 B, 0.00 kbit/s now; 3 recovered by coding, 0 out of order\n  \
             repair: 4 retransmitted, 5 sent ahead of losses, 0 abandoned; 2.5 % of all bytes sent\nvan: no session\n"
        );
    }

    #[test]
    fn what_was_refused_or_too_big_is_said() {
        let of = |refused: u64, oversize: u64| {
            let peer = json!({ "name": "shore", "up_seconds": null, "refused": refused, "oversize": oversize });
            status(&json!({ "peers": [peer] }), None).lines().skip(3).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(0, 0), [""; 0]);
        assert_eq!(
            of(7, 2),
            [
                "  7 packets from it rejected: source not in its `allowed`, or implausible",
                "  2 packets to it exceeded the path MTU",
            ]
        );
    }

    #[test]
    fn a_peer_that_does_not_answer_is_said_to_be_silent() {
        let answer = json!({ "peers": [{
            "name": "shore", "up_seconds": 60.0, "address": "192.0.2.7:51900", "rtt_seconds": 0.0305, "loss": 0.0,
            "rate": 9_500_000, "state": "silent", "mtu": 1442, "heard_seconds": 12.3, "unanswered": true,
        }] });
        let line = "shore: at 192.0.2.7:51900 for 1 min, 30.5 ms, 9.5 Mbit/s, nothing received for 12 s, MTU 1442\n";
        assert!(status(&answer, None).ends_with(line), "{}", status(&answer, None));
    }

    #[test]
    fn of_an_idle_peer_the_last_contact_is_said_and_no_rate_of_loss() {
        let answer = json!({ "peers": [{
            "name": "shore", "up_seconds": 60.0, "address": "192.0.2.7:51900", "rtt_seconds": 0.0305, "loss": 0.0,
            "rate": 9_500_000, "state": "idle", "mtu": 1442, "heard_seconds": 42.0, "unanswered": false,
        }] });
        let line = "9.5 Mbit/s, idle, last received 42 s ago, reachability unknown, MTU 1442\n";
        assert!(status(&answer, None).ends_with(line), "{}", status(&answer, None));
    }
}
