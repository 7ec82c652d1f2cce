//! Tests of a link's trace: its keys, and its effects in runs.

use std::path::{Path, PathBuf};

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::{DelaySpec, Order};
use lasthop_proto::random::Root;
use lasthop_proto::rate::{Rate, RateSpec};
use lasthop_proto::scheme::SCHEMES;
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;
use lasthop_sim::trace::What;
use lasthop_sim::{Recording, run};

/// A temporary folder of a test, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("lasthop-link-trace-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Returns the scenario with a link that has `keys` beside its ends.
    fn scenario(&self, keys: &str) -> Result<Scenario, String> {
        let path = self.0.join("scenario.toml");
        let text = format!(
            "limit = \"60 s\"\ntcp = {{ preset = \"linux-6.18\" }}\nhosts = {{ a = {{}}, b = {{}} }}\n[flows.f]\nfrom = \"a\"\n\
             to = \"b\"\nsize = \"1 MiB\"\n[links.l]\nbetween = [\"a\", \"b\"]\nqueue = \"100 packets\"\n{keys}\n"
        );
        std::fs::write(&path, text).unwrap();
        Scenario::load(Path::new(&path)).map_err(|error| error.to_string())
    }

    fn network(&self, keys: &str) -> Network {
        self.scenario(keys).unwrap().network(&SCHEMES[0]).unwrap()
    }

    fn write(&self, text: &str) {
        std::fs::write(self.0.join("x.csv"), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const TRACE: &str = "trace = { file = \"x.csv\" }";

#[test]
fn columns_replace_the_keys_of_their_direction() {
    let folder = Folder::new("columns");
    folder.write("t_s,rate_down_mbps,delay_up_ms,loss_up\n0,9,30,0\n1,3,12,0.5\n3,0,99,1\n");
    let network = folder.network(&format!("rate_up = \"2 Mbps\"\ndelay = \"20 ms\"\n{TRACE}"));
    let [down, up] = &network.links[0].directions;
    // 9 Mbit in the first second, 3 in each of the next two.
    assert_eq!((down.rate, up.rate), (Rate(5_000_000), Rate(2_000_000)));
    let RateSpec::Trace(rates) = &down.impairments.rate else { panic!("the column") };
    assert_eq!(rates.length(), ms(3000));
    assert_eq!(up.impairments.rate, RateSpec::Constant);
    // The last row only ends the trace: the minimum of both directions is 12 ms.
    assert_eq!((network.links[0].delay, down.variation.more, up.variation.more), (ms(12), ms(8), ms(0)));
    let DelaySpec::Trace(delays) = &up.variation.model else { panic!("the column") };
    assert_eq!(delays.steps(), [(ms(0), ms(18)), (ms(1000), ms(0))]);
    let ErrorSpec::Trace(losses) = &up.errors else { panic!("the column") };
    assert_eq!((losses.steps(), &down.errors), (&[(ms(0), 0.0), (ms(1000), 0.5)][..], &ErrorSpec::None));

    // The last row holds, and a key for both directions is the default of the other one.
    let held = folder
        .network("rate = \"4 Mbps\"\ndelay = \"1 s\"\ntrace = { file = \"x.csv\", wrap = \"hold\", order = \"free\" }");
    let [down, up] = &held.links[0].directions;
    assert_eq!((held.links[0].delay, up.rate, up.variation.order), (ms(12), Rate(4_000_000), Order::Free));
    let DelaySpec::Trace(delays) = &up.variation.model else { panic!("the column") };
    assert_eq!((delays.steps().last(), down.variation.more), (Some(&(ms(3000), ms(87))), ms(988)));
    // At the end, the uplink stops too, although it has no column.
    let stopped = folder.network("rate = \"4 Mbps\"\ndelay = \"1 s\"\ntrace = { file = \"x.csv\", wrap = \"stop\" }");
    let RateSpec::Trace(rates) = &stopped.links[0].directions[1].impairments.rate else { panic!("a series") };
    assert_eq!((rates.steps().len(), rates.length()), (1, ms(3000)));
}

#[test]
fn what_explain_prints_is_the_same_link() {
    let folder = Folder::new("explain");
    folder.write("t_s,rate_down_mbps,rate_up_mbps,delay_down_ms,loss_down\n0,9,1,30,0\n1,3,2,12,0.5\n");
    let keys = "rate = \"7 Mbps\"\ndelay = \"20 ms\"\ntrace = { file = \"x.csv\", offset = \"random\" }";
    let first = folder.scenario(keys).unwrap();
    let explained = first.explain();
    assert!(explained.contains("rate_down_mbps of the trace replaces it"), "{explained}");
    let path = folder.0.join("explained.toml");
    std::fs::write(&path, &explained).unwrap();
    let again = Scenario::load(&path).unwrap();
    assert_eq!(first.network(&SCHEMES[0]).unwrap().links, again.network(&SCHEMES[0]).unwrap().links);
}

#[test]
fn errors_name_key_and_remedy() {
    let folder = Folder::new("errors");
    let all = "t_s,rate_down_mbps,rate_up_mbps,delay_down_ms,delay_up_ms,loss_down,loss_up\n0,9,1,30,12,0,0\n1,3,2,12,9,0.5,0\n";
    for (file, keys, expected) in [
        (all, "trace = { file = \"y.csv\" }", &["links.l.trace.file", "y.csv"][..]),
        (all, "trace = { file = \"x.csv\", offset = \"random\", wrap = \"hold\" }", &["links.l.trace.offset", "wrap"]),
        (all, "trace = { file = \"x.csv\", model = \"replay\" }", &["links.l.trace.model"]),
        (
            all,
            "trace = { file = \"x.csv\" }\nrate_variation_up = { model = \"none\" }",
            &["links.l.rate_variation_up", "rate_up_mbps", "uplink"],
        ),
        (
            all,
            "trace = { file = \"x.csv\" }\ndelay_variation = { model = \"none\" }",
            &["links.l.delay_variation", "delay_down_ms"],
        ),
        (
            all,
            "trace = { file = \"x.csv\" }\nerrors_down = { model = \"none\" }",
            &["links.l.errors_down", "loss_down", "remove"],
        ),
        (all, "medium = \"wifi\"\nwifi = { snr = 20 }\ntrace = { file = \"x.csv\" }", &["links.l.trace", "Wi-Fi"]),
        ("t_s,loss_up\n0,0\n1,1\n", TRACE, &["links.l.rate: missing"]),
        ("t_s,rate_down_mbps\n0,1\n1,1\n", TRACE, &["links.l.rate_up: missing"]),
        ("t_s,rate_down_mbps,rate_up_mbps\n0,1,1\n1,1,1\n", TRACE, &["links.l.delay: missing"]),
        ("t_s,loss_up\n0,0\n", TRACE, &["links.l.trace.file", "one row", "hold"]),
        ("t_s,loss_up\n0,0\n1,7\n", TRACE, &["links.l.trace.file", "x.csv has no valid loss_up in line 3"]),
        (
            "t_s,rate_up_mbps\n0,0\n1,1\n",
            "rate = \"1 Mbps\"\ntrace = { file = \"x.csv\" }",
            &["rate_up_mbps has no rate above zero"],
        ),
        (
            "t_s,loss_up\n0,0\n1,1\n",
            "trace = { file = \"x.csv\", order = \"free\" }",
            &["links.l.trace.order", "delay_down_ms"],
        ),
        (
            "t_s,loss_up\n0,0\n1,1\n",
            "trace = { file = \"x.csv\", wrap = \"stop\" }\nrate_variation = { model = \"none\" }",
            &["links.l.rate_variation", "stop"],
        ),
    ] {
        folder.write(file);
        let error = folder.scenario(keys).map(|_| ()).expect_err(keys);
        for part in expected {
            assert!(error.contains(part), "{keys}: {error}");
        }
        assert!(!error.contains('\n'), "{error}");
    }
}

/// A trace whose columns do not change is the link with constant keys: every count, time and random draw.
#[test]
fn a_constant_trace_is_the_link_with_constant_keys() {
    let folder = Folder::new("constant");
    let report = |keys: &str, seed| format!("{:?}", run(&folder.network(keys), seed, Recording::Off).report);
    let keys = "rate = \"8 Mbps\"\nrate_up = \"1 Mbps\"\ndelay = \"20 ms\"\nerrors = { model = \"uniform\", frame_loss = 0.02 }";
    let header = "t_s,loss_down,rate_down_mbps,delay_up_ms,rate_up_mbps,delay_down_ms,loss_up\n";
    for seed in 1..4 {
        let constant = report(keys, seed);
        folder.write(&format!("{header}0,0.02,8,20,1,20,0.02\n"));
        assert_eq!(report("trace = { file = \"x.csv\", wrap = \"hold\" }", seed), constant);
        // Rows with the same values change nothing either, wherever the run begins.
        folder.write(&format!("{header}0,0.02,8,20,1,20,0.02\n0.1,0.02,8,20,1,20,0.02\n0.35,0,0,0,0,0,0\n"));
        assert_eq!(report(TRACE, seed), constant);
        assert_eq!(report("trace = { file = \"x.csv\", offset = \"random\" }", seed), constant);
        // A trace that changes only after the run takes the other paths to the same result; whether timeouts were
        // spurious is counted where the delay may vary.
        folder.write(&format!("{header}0,0.02,8,20,1,20,0.02\n50,0.5,1,40,2,30,0\n100,0,0,0,0,0,0\n"));
        let late = report(TRACE, seed).replace("spurious_timeouts: Some(0)", "spurious_timeouts: None");
        assert_eq!(late, constant);
    }
}

/// Under `offset = "random"` there is one draw: the run is that from this offset for every column of both directions.
#[test]
fn all_columns_move_together() {
    let folder = Folder::new("together");
    folder.write(
        "t_s,rate_down_mbps,rate_up_mbps,delay_down_ms,delay_up_ms,loss_down,loss_up\n\
         0,8,1,10,40,0,0.1\n0.3,2,0.5,70,20,0.1,0\n0.5,5,2,30,5,0.02,0.02\n0.9,0,0,0,0,0,0\n",
    );
    let report = |network: &Network, seed| format!("{:?}", run(network, seed, Recording::Off).report);
    let random = folder.network("trace = { file = \"x.csv\", offset = \"random\" }");
    let zero = folder.network(TRACE);
    for seed in 1..5 {
        let drawn = Root(seed).stream("links/l/trace").below(900_000_000);
        let fixed = folder.network(&format!("trace = {{ file = \"x.csv\", offset = \"{drawn} ns\" }}"));
        assert_eq!(report(&random, seed), report(&fixed, seed), "seed {seed}");
        assert_ne!(report(&random, seed), report(&zero, seed), "seed {seed}");
    }
}

/// 8 Mbps with 10 ms for half a second; 2 Mbps with 60 ms, whose last 100 ms lose every frame. Each frame meets the row
/// in which its transmission ends; no frame arrives before an earlier one.
#[test]
fn frames_meet_the_row_of_their_time() {
    let folder = Folder::new("row");
    folder.write("t_s,rate_down_mbps,delay_down_ms,loss_down\n0,8,10,0\n0.5,2,60,0\n0.9,2,60,1\n1,8,10,0\n");
    let network = folder.network("rate_up = \"8 Mbps\"\ndelay = \"10 ms\"\ntrace = { file = \"x.csv\" }");
    let outcome = run(&network, 1, Recording::On);
    let (mut fast, mut slow, mut behind, mut last) = (0, 0, 0, Instant::ZERO);
    for record in outcome.trace.records.iter().filter(|record| record.point == 1) {
        let What::Received(_) = record.what else { continue };
        let sent = |delay: u64| (record.time.as_nanos() - delay * 1_000_000) % 1_000_000_000;
        if sent(10) < 500_000_000 {
            fast += 1;
        } else if (500_000_000..900_000_000).contains(&sent(60)) {
            slow += 1;
        } else {
            assert_eq!(record.time, last, "neither delay, nor behind an earlier frame");
            behind += 1;
        }
        last = record.time;
    }
    assert!(fast > 100 && slow > 20 && behind < 100, "{fast} {slow} {behind}");
    let down = outcome.report.links[0][0];
    assert!(down.channel_drops > 0, "{down:?}");
}
