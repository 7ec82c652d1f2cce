//! A base station where it has nothing to repair.

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_study::replicate::{Silent, Task, run_all};

/// Mbps of a download over a long hop that loses nothing, and copies that the base station sent.
fn download(scheme: &str, mbps: u32, delay: u32, limit: u32) -> (f64, u64) {
    let text = format!(
        r#"
limit = "{limit} s"
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
queue = "100 packets"
[flows.download]
from = "server"
to = "client"
size = "1 GB"
[base_station]
router = "base"
link = "hop"
"#
    );
    let scenario = Scenario::parse("hop.toml", &text).unwrap();
    let task = Task::new(&scenario, Scheme::by_name(scheme).unwrap(), 1, 1).unwrap();
    let reports = run_all(std::slice::from_ref(&task), 1, &Silent).remove(0);
    let flow = &reports[0].flows[0];
    (flow.throughput() / 1e6, flow.sender.local_retransmissions)
}

/// No slower than without it, from the start on: no copies for want of patience, nor for want of room in the queue.
#[test]
fn a_long_hop_without_losses_is_no_slower_with_snoop() {
    let mut wrong = Vec::new();
    for (mbps, delay) in [(10, 100), (20, 60), (50, 30)] {
        for limit in [5, 20] {
            let (plain, _) = download("E2E-CUBIC", mbps, delay, limit);
            let (snoop, copies) = download("SNOOP", mbps, delay, limit);
            println!("{mbps} Mbps, {delay} ms, {limit} s: {plain:.2} without, {snoop:.2} with, {copies} copies");
            if snoop < 0.95 * plain || copies > 50 {
                wrong.push((mbps, delay, limit, plain, snoop, copies));
            }
        }
    }
    assert!(wrong.is_empty(), "Mbps, ms, s, Mbps without and with, copies: {wrong:?}");
}
