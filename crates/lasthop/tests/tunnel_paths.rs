//! Tests of a tunnel over two lines, on real packets between network namespaces: the first end has an interface for each.
#![cfg(target_os = "linux")]

use std::process::Command;

use crate::network::{Network, Pace, lasthop};
use crate::tunnel_end::{End, keys};
use crate::tunnel_live::{Relay, echoes, head, inner, is_skipped, network, server};
use rustix::process::Signal;
use serde_json::Value;

/// Addresses of the relays' ends towards the first end, one on each line.
const NEAR: [&str; 2] = ["10.2.0.1:51900", "10.3.0.1:51900"];
/// Addresses at which the second end sees the first.
const FAR: [&str; 2] = ["10.1.0.1:40001", "10.1.0.1:40002"];

/// Connects the client to the gateway by a second interface, to which no route leads by default.
fn add_line(network: &Network) {
    network.must(
        "g",
        &format!("ip link add wl1 type veth peer name eth1 netns {} && ip addr add 10.3.0.1/24 dev wl1 && ip link set wl1 up", network.namespace("c")),
    );
    network.must("c", "ip addr add 10.3.0.2/24 dev eth1 && ip link set eth1 up");
    network.must("c", "ip route add default via 10.3.0.1 dev eth1 metric 500");
}

fn relay(network: &Network, line: usize) -> Relay {
    Relay::between(network, [NEAR[line], FAR[line]], "10.1.0.2:51900", 50)
}

fn peer(end: usize) -> String {
    format!(
        "[[peer]]\nname = 'end{end}'\npublic_key = '{}'\nallowed = ['{}', 'fd09::{}']\nkeepalive = '1 s'\n",
        keys().1[end],
        inner(end),
        end + 1
    )
}

/// Returns the file of an end: the first one calls on both lines.
fn file(end: usize) -> String {
    let path = |line: usize| {
        let call = format!("endpoint = '{}'\ninterface = 'eth{line}'\n", NEAR[line]);
        let call = if end == 0 { call } else { String::new() };
        format!("[[peer.path]]\nname = '{}'\nrate = '20 Mbps'\n{call}", ["dish", "lte"][line])
    };
    // IPv4 over a socket of both protocols, and over one of IPv4.
    let listen = ["[::]:51900", "0.0.0.0:51900"][end];
    format!("{}{}{}{}", head(end, listen), peer(1 - end), path(0), path(1))
}

fn is_up(status: &Value, line: usize) -> bool {
    let path = &status["peers"][0]["paths"][line];
    path["address"].is_string() && !["down", "unused"].contains(&path["state"].as_str().unwrap_or("unused"))
}

/// Sends now and then, so that paths are probed, until `is_so` is true of the first end's status.
fn await_paths(network: &Network, first: &End, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..100 {
        echoes(network, ("c", "s"), &inner(1), 1);
        let status = first.await_status(|_| true);
        if is_so(&status) {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{:#}\n{}", first.await_status(|_| true), first.log());
}

#[test]
#[ignore = "needs root: make root"]
fn two_lines_carry_a_transfer_and_one_that_disappears_is_replaced() {
    if is_skipped("tunnel over two lines") {
        return;
    }
    let network = network();
    add_line(&network);
    let _first_line = relay(&network, 0);
    let second_line = relay(&network, 1);
    let mut second = End::recorded(&network, "s", &format!("metrics = '127.0.0.1:9470'\n{}", file(1)));
    let mut first = End::recorded(&network, "c", &file(0));
    await_paths(&network, &first, |status| is_up(status, 0) && is_up(status, 1));

    // Both lines carry a good part of 10 MB.
    network.transfer_chunks(&server(5101), 400, Pace::Full).end();
    let status = second.await_status(|_| true);
    let bytes = |status: &Value, line: usize| status["peers"][0]["paths"][line]["frames"]["bytes"].as_u64().unwrap();
    assert!((0..2).all(|line| bytes(&status, line) > 2_500_000), "{status:#}");
    let text = network.get("s", "127.0.0.1:9470", "/metrics");
    assert!(text.contains("lasthop_tunnel_path_up{peer=\"end0\",path=\"lte\"} 1"), "{text}");
    let mut said = Command::new(lasthop());
    said.args(["tunnel", "status", "--control"]).arg(first.folder.path().join("control.sock"));
    let said = String::from_utf8(said.output().unwrap().stdout).unwrap();
    assert!(
        said.contains("  path dish: at 10.2.0.1:51900") && said.contains("  path lte: at 10.3.0.1:51900"),
        "{said}"
    );

    // A line disappears in the middle of a transfer, with its interface.
    let transfer = network.transfer_chunks(&server(5102), 400, Pace::Full);
    std::thread::sleep(std::time::Duration::from_millis(500));
    drop(second_line);
    network.must("g", "ip link del wl1");
    transfer.end();
    assert_eq!(echoes(&network, ("c", "s"), &inner(1), 40), 40, "{}\n{}", first.log(), second.log());
    await_paths(&network, &first, |status| is_up(status, 0) && !is_up(status, 1));

    // It returns, with another index.
    add_line(&network);
    let _second_line = relay(&network, 1);
    await_paths(&network, &first, |status| is_up(status, 0) && is_up(status, 1));
    let before = first.await_status(|_| true);
    network.transfer_chunks(&server(5103), 400, Pace::Full).end();
    let status = second.await_status(|_| true);
    assert!(is_up(&status, 1) && bytes(&first.await_status(|_| true), 1) > bytes(&before, 1), "{status:#}");

    for end in [&mut first, &mut second] {
        assert!(end.kill(Signal::TERM), "{}", end.log());
        // Identical decisions, on all paths.
        let replay = end.replayed();
        assert!(replay["frames"].as_u64() > Some(500) && replay["sent"].as_u64() > Some(500), "{replay:#}");
    }
}
