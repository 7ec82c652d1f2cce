//! Tests of `lasthop lab` with several links between two routers. They need root, and are reported as skipped without
//! it.

use crate::common::Bench;
use crate::network::without_root;
use serde_json::Value;

/// A download and a call over two lines of 12 and 8 Mbps.
const LINES: &str = r#"
scheme = "LINK-MULTI"
runs = 1
limit = "40 s"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.desk]
[routers.vps]
[routers.office]
[links.internet]
between = ["server", "vps"]
rate = "1 Gbps"
delay = "2 ms"
[links.vdsl]
between = ["vps", "office"]
rate = "12 Mbps"
delay = "8 ms"
queue = "256 KiB"
errors = { model = "uniform", frame_loss = "0.5 %" }
[links.adsl]
between = ["vps", "office"]
rate = "8 Mbps"
delay = "15 ms"
queue = "256 KiB"
[links.lan]
between = ["office", "desk"]
rate = "1 Gbps"
delay = "0.2 ms"
[bundles.lines]
links = ["vdsl", "adsl"]
[flows.download]
from = "server"
to = "desk"
size = "12 MB"
[flows.call]
from = "server"
to = "desk"
app = "call"
[base_station]
router = "vps"
link = "vdsl"
[lab]
# Other tests and builds may run beside this.
lateness = "200 ms"
"#;

/// Returns a folder with the scenario; `None`, with a message, without root.
fn bench() -> Option<Bench> {
    if without_root("`lasthop lab` with bundles") {
        return None;
    }
    let bench = Bench::new();
    bench.put("lines.toml", LINES);
    Some(bench)
}

fn mean(of: &Value, measure: &str) -> f64 {
    of[measure]["mean"].as_f64().unwrap_or_else(|| panic!("{measure}: {of}"))
}

/// The ends of the two-ended link use both lines, as in the simulator; other schemes use the first one. The call crosses
/// the lines as datagrams.
#[test]
#[ignore = "needs root: make root"]
fn two_lines_carry_a_download_and_a_call() {
    let Some(bench) = bench() else { return };
    let value = bench.json("lab lines.toml --schemes LINK-MULTI,LINK-HYBRID --against-sim --json");
    let [multi, hybrid] = [0, 1].map(|row| &value["schemes"][row]);
    for row in [multi, hybrid] {
        let measures = &row["measures"];
        assert_eq!(mean(measures, "incomplete"), 0.0, "{row}");
        // 50 packets per second while the download runs, of which the ends repair nearly all.
        let sent = mean(measures, "call_sent");
        assert!(sent > 100.0 && mean(measures, "call_lost") <= 0.02 * sent, "{row}");
        assert!(mean(measures, "call_delay_p50") > 10.0, "shorter than the path: {row}");
    }
    let [both, one] = [multi, hybrid].map(|row| mean(&row["measures"], "throughput"));
    // A single line has 12 Mbps.
    assert!(both > 12.5 && both < 20.0, "{value}");
    assert!(one < 12.0, "{value}");
    let simulated = mean(&multi["simulated"], "throughput");
    assert!((0.75..=1.1).contains(&(both / simulated)), "{both} instead of {simulated}");
}

/// The kernel opens a subflow on the second line, and the download is faster than the first line is.
#[test]
#[ignore = "needs root: make root"]
fn multipath_tcp_of_the_kernel_uses_both_lines() {
    let Some(bench) = bench() else { return };
    let lab = "lab lines.toml --schemes E2E-CUBIC --set links.vdsl.errors={model=\"none\"} --set lab.mptcp=on";
    let value = bench.json(&format!("{lab} --json"));
    let row = &value["schemes"][0];
    assert_eq!(row["endpoints"], serde_json::json!({ "server": "mptcp", "desk": "mptcp" }), "{row}");
    assert_eq!(mean(&row["measures"], "incomplete"), 0.0, "{row}");
    let joined = &row["kernels"][0];
    assert_eq!((&joined["server"]["MPJoinSynAckRx"], &joined["desk"]["MPJoinAckRx"]), (&1.into(), &1.into()), "{row}");
    assert!(mean(&row["measures"], "throughput") > 12.5, "{row}");
}

/// A lab with datagrams only runs to its limit, and reports what arrived.
#[test]
#[ignore = "needs root: make root"]
fn datagrams_alone_run_to_the_limit() {
    let Some(bench) = bench() else { return };
    let steady = LINES.replace(
        "size = \"12 MB\"",
        "app = \"on-off\"\non = \"100 s\"\noff = \"1 ms\"\nrate = \"2 Mbps\"\npacket = \"1000 B\"",
    );
    bench.put("steady.toml", &steady);
    let value = bench.json("lab steady.toml --schemes LINK-MULTI --set limit='4 s' --against-sim --json");
    let row = &value["schemes"][0];
    for measures in [&row["measures"], &row["simulated"]] {
        // 3.85 s at 50 per second, until the deadlines of the last ones.
        assert!((185.0..=200.0).contains(&mean(measures, "call_sent")), "{row}");
        assert!(mean(measures, "call_lost") <= 2.0, "{row}");
    }
}
