//! Tests of snoop on hops without losses, where it has nothing to repair.

use crate::common;

use lasthop_proto::time::Instant;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::FlowReport;

/// Downloads over a hop without losses.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Download {
    mbps: u32,
    /// One-way delay, in milliseconds.
    delay: u32,
    /// Queue limit, in packets.
    queue: u32,
    /// Number of downloads that start at once.
    count: u32,
    size: &'static str,
    limit: &'static str,
}

/// Runs the downloads and returns their reports.
fn run(scheme: &str, Download { mbps, delay, queue, count, size, limit }: Download) -> Vec<FlowReport> {
    let text = format!(
        r#"
limit = "{limit}"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.client]
[routers.base]
[links.wired]
between = ["server", "base"]
rate = "1 Gbps"
delay = "20 ms"
queue = "1000 packets"
[links.hop]
between = ["base", "client"]
rate = "{mbps} Mbps"
delay = "{delay} ms"
queue = "{queue} packets"
[flows.download]
from = "server"
to = "client"
size = "{size}"
count = {count}
[base_station]
router = "base"
link = "hop"
"#
    );
    let scenario = Scenario::parse("hop.toml", &text).unwrap();
    common::run_metered(&scenario, scheme, 1).remove(0).flows
}

/// Returns their mean throughput in Mbps, and the number of retransmissions by the base station.
fn rate(flows: &[FlowReport]) -> (f64, u64) {
    let mbps = flows.iter().map(|flow| flow.throughput() / 1e6).sum::<f64>() / flows.len() as f64;
    (mbps, flows.iter().map(|flow| flow.sender.local_retransmissions).sum())
}

/// Returns the seconds until `percent` of a hundred have finished.
fn over(flows: &[FlowReport], percent: usize) -> f64 {
    let mut ends: Vec<_> = flows.iter().map(|flow| flow.end).collect();
    ends.sort();
    ends[ends.len() * percent / 100].since(Instant::ZERO).as_secs_f64()
}

/// Returns the downloads with less than 95 % of their throughput without snoop, or with more than `most_copies`
/// retransmissions.
fn slower(downloads: &[Download], most_copies: u64) -> Vec<(Download, f64, f64, u64)> {
    let beside = downloads.iter().map(|&download| {
        let [(plain, _), (snoop, copies)] = ["E2E-CUBIC", "SNOOP"].map(|scheme| rate(&run(scheme, download)));
        println!("{download:?}: {plain:.2} Mbps without, {snoop:.2} with, {copies} copies");
        (download, plain, snoop, copies)
    });
    beside.filter(|&(_, plain, snoop, copies)| snoop < 0.95 * plain || copies > most_copies).collect()
}

/// Tests that transfers have no retransmissions from the start, neither by premature timeouts nor for lack of space in
/// the queue.
#[test]
fn a_long_hop_without_losses_is_no_slower_with_snoop() {
    let downloads = [(10, 100), (20, 60), (50, 30)].map(|(mbps, delay)| {
        ["5 s", "20 s"].map(|limit| Download { mbps, delay, queue: 100, count: 1, size: "1 GB", limit })
    });
    assert_eq!(slower(downloads.as_flattened(), 50), []);
}

/// A queue shorter than the backlog overflows, which may cause retransmissions, but has no other cost.
#[test]
fn a_short_queue_is_no_slower_with_snoop() {
    let downloads = [(10, 100, 5), (10, 30, 10), (50, 30, 20), (100, 10, 20)].map(|(mbps, delay, queue)| Download {
        mbps,
        delay,
        queue,
        count: 1,
        size: "1 GB",
        limit: "20 s",
    });
    assert_eq!(slower(&downloads, u64::MAX), []);
}

/// The window on the hop doubles no later than the sender's.
#[test]
fn a_short_transfer_is_no_slower_with_snoop() {
    let downloads = [(10, 30), (10, 100), (50, 10), (100, 5)].map(|(mbps, delay)| {
        ["30 kB", "100 kB", "1 MB"].map(|size| Download { mbps, delay, queue: 100, count: 1, size, limit: "60 s" })
    });
    assert_eq!(slower(downloads.as_flattened(), 100), []);
}

/// Many transfers that start at once fill the queue faster than any of them can measure: measurements of one are shared
/// by the others. The time until nine of ten have finished shows whether the hop was used efficiently; the mean of
/// their rates would also depend on their order.
#[test]
fn many_transfers_at_once_are_over_as_soon_with_snoop() {
    for (count, size) in [(30, "40 kB"), (60, "40 kB"), (100, "40 kB"), (30, "160 kB"), (60, "160 kB"), (30, "1 MB")] {
        let downloads = Download { mbps: 20, delay: 5, queue: 200, count, size, limit: "60 s" };
        let [plain, snoop] = ["E2E-CUBIC", "SNOOP"].map(|scheme| over(&run(scheme, downloads), 90));
        println!("{downloads:?}: {plain:.2} s without, {snoop:.2} with");
        assert!(snoop <= 1.05 * plain, "{downloads:?}: {plain:.2} s without, {snoop:.2} with");
    }
}

/// Returns the median round-trip time of the downloads, in milliseconds.
fn round_trip(flows: &[FlowReport]) -> f64 {
    let medians = flows.iter().map(|flow| flow.delays.as_ref().unwrap().rtt.as_ref().unwrap().p50.as_secs_f64());
    1e3 * medians.sum::<f64>() / flows.len() as f64
}

/// Flow control keeps a short queue in front of the hop and holds little more at the base station, for one download and
/// for several together (RFC 8289 §3.2: a standing queue is delay without use).
#[test]
fn the_round_trip_is_short_however_many_downloads_share_the_hop() {
    for (mbps, delay, count) in [(20, 10, 1), (50, 30, 1), (20, 10, 4), (50, 5, 8)] {
        let download = Download { mbps, delay, queue: 200, count, size: "1 GB", limit: "20 s" };
        let flows = run("SNOOP", download);
        let (base, took) = (2 * (20 + delay), round_trip(&flows));
        println!("{download:?}: {took:.0} ms, {base} without a queue");
        assert!(took <= 2.0 * f64::from(base), "{download:?}: {took:.0} ms, {base} without a queue");
    }
}
