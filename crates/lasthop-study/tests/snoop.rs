//! A base station where it has nothing to repair.

mod common;

use lasthop_scenario::Scenario;

/// Downloads over a hop that loses nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Download {
    mbps: u32,
    /// One way, in milliseconds.
    delay: u32,
    /// In packets.
    queue: u32,
    /// So many begin at once.
    count: u32,
    size: &'static str,
    limit: &'static str,
}

/// Their Mbps on average, and the copies that the base station sent.
fn run(scheme: &str, Download { mbps, delay, queue, count, size, limit }: Download) -> (f64, u64) {
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
    let flows = common::run(&scenario, scheme, 1).remove(0).flows;
    let mbps = flows.iter().map(|flow| flow.throughput() / 1e6).sum::<f64>() / f64::from(count);
    (mbps, flows.iter().map(|flow| flow.sender.local_retransmissions).sum())
}

/// Their Mbps without snoop and with it, and the copies that it sent.
fn beside(downloads: Download) -> (f64, f64, u64) {
    let [(plain, _), (snoop, copies)] = ["E2E-CUBIC", "SNOOP"].map(|scheme| run(scheme, downloads));
    println!("{downloads:?}: {plain:.2} Mbps without, {snoop:.2} with, {copies} copies");
    (plain, snoop, copies)
}

/// Those that have less than 95 % of what they have without snoop, or more than so many copies.
fn slower(downloads: &[Download], most_copies: u64) -> Vec<(Download, f64, f64, u64)> {
    let all = downloads.iter().map(|&download| {
        let (plain, snoop, copies) = beside(download);
        (download, plain, snoop, copies)
    });
    all.filter(|&(_, plain, snoop, copies)| snoop < 0.95 * plain || copies > most_copies).collect()
}

/// From the start on: no copies for want of patience, nor for want of room in the queue.
#[test]
fn a_long_hop_without_losses_is_no_slower_with_snoop() {
    let downloads = [(10, 100), (20, 60), (50, 30)].map(|(mbps, delay)| {
        ["5 s", "20 s"].map(|limit| Download { mbps, delay, queue: 100, count: 1, size: "1 GB", limit })
    });
    assert_eq!(slower(downloads.as_flattened(), 50), []);
}

/// A queue shorter than the backlog overflows; that may cost copies, but nothing else.
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

/// Many that begin at once fill the queue faster than any of them measures: what one hears of the hop, the others know. More of them, or longer ones, each
/// of which is to have its own backlog in the queue, still lose some (docs/models/snoop.md).
#[test]
fn many_short_transfers_at_once_are_hardly_slower_with_snoop() {
    for (count, size, least) in [(30, "40 kB", 0.95), (30, "160 kB", 0.78), (60, "40 kB", 0.78)] {
        let downloads = Download { mbps: 20, delay: 5, queue: 200, count, size, limit: "60 s" };
        let (plain, snoop, _) = beside(downloads);
        assert!(snoop >= least * plain, "{downloads:?}: {plain:.2} Mbps without, {snoop:.2} with");
    }
}
