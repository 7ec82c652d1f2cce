//! Tests of policers, shapers, varying rates, slots, aggregation and duplicates: their keys in scenarios, and their
//! effects in runs.

use std::path::{Path, PathBuf};

use lasthop_proto::bucket::BucketSpec;
use lasthop_proto::delay::SlotsSpec;
use lasthop_proto::link::aggregation::AggregationSpec;
use lasthop_proto::rate::{RateSeries, RateSpec, RateStep, Wrap};
use lasthop_proto::scheme::SCHEMES;
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_sim::network::{Impairments, Network};
use lasthop_sim::trace::{DropReason, What};
use lasthop_sim::{Recording, run};

/// Returns a scenario of two modern hosts and one link of 8 Mbps, a byte per microsecond.
fn text(size: &str, keys: &str) -> String {
    format!(
        "limit = \"100 s\"\ntcp = {{ preset = \"linux-6.18\" }}\nhosts = {{ a = {{}}, b = {{}} }}\n[flows.f]\nfrom = \"a\"\n\
         to = \"b\"\nsize = \"{size}\"\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"8 Mbps\"\ndelay = \"10 ms\"\n\
         queue = \"1000 packets\"\n{keys}\n"
    )
}

fn scenario(keys: &str) -> Result<Scenario, lasthop_scenario::Error> {
    Scenario::parse("test.toml", &text("1 MiB", keys))
}

fn network(keys: &str) -> Network {
    scenario(keys).unwrap().network(&SCHEMES[0]).unwrap()
}

fn impairments(keys: &str) -> [Impairments; 2] {
    network(keys).links[0].directions.clone().map(|direction| direction.impairments)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn series(spec: &RateSpec) -> &RateSeries {
    let RateSpec::Series(series) = spec else { panic!("a series") };
    series
}

const AGGREGATION: AggregationSpec = AggregationSpec {
    frames: 32,
    time: Duration::from_micros(5484),
    access: Duration::from_micros(150),
    backoff: Duration::ZERO,
    frame_loss: 0.0,
    retries: 7,
};

#[test]
fn every_key_is_read_and_explained() {
    let bucket = BucketSpec { rate: 10_000_000, burst: 65_536 };
    let none = Impairments::NONE;
    for (key, value, expected) in [
        (
            "policer",
            "{ rate = \"10 Mbps\", burst = \"64 KiB\" }",
            Impairments { policer: Some(bucket), ..none.clone() },
        ),
        ("shaper", "{ rate = \"10 Mbps\", burst = 65536 }", Impairments { shaper: Some(bucket), ..none.clone() }),
        ("duplicates", "\"1 %\"", Impairments { duplicates: 0.01, ..none.clone() }),
        (
            "aggregation",
            "{ frames = 32, access = \"150 us\" }",
            Impairments { aggregation: Some(AGGREGATION), ..none.clone() },
        ),
        (
            "aggregation",
            "{ frames = 2, access = \"0 s\", time = \"4 ms\", backoff = \"135 us\", frame_loss = \"10 %\", retries = 0 }",
            Impairments {
                aggregation: Some(AggregationSpec {
                    frames: 2,
                    time: ms(4),
                    access: Duration::ZERO,
                    backoff: Duration::from_micros(135),
                    frame_loss: 0.1,
                    retries: 0,
                }),
                ..none.clone()
            },
        ),
    ] {
        assert_eq!(impairments(&format!("{key} = {value}")), [expected.clone(), expected.clone()], "{key}");
        assert_eq!(impairments(&format!("{key}_down = {value}")), [expected.clone(), none.clone()], "{key}");
        assert_eq!(impairments(&format!("{key}_up = {value}")), [none.clone(), expected.clone()], "{key}");
        let explained = scenario(&format!("{key} = {value}")).unwrap();
        assert_eq!(Scenario::parse("explained.toml", &explained.explain()).unwrap(), explained, "{key}");
    }
    let slots = |keys: &str| network(keys).links[0].directions.clone().map(|direction| direction.variation.slots);
    let every = |interval, first| Some(SlotsSpec { interval: ms(interval), first: ms(first) });
    assert_eq!(slots("slots = \"10 ms\""), [every(10, 0), every(10, 0)]);
    assert_eq!(slots("slots_up = { interval = \"10 ms\", first = \"3 ms\" }"), [None, every(10, 3)]);
    assert!(
        network("slots = \"10 ms\"").varies() && network("aggregation = { frames = 1, access = \"0 s\" }").varies()
    );
    assert_eq!(impairments(""), [none.clone(), none]);
}

#[test]
fn rates_vary_by_steps_and_ramps() {
    let steps = "steps = [{ at = \"0 s\", rate = \"8 Mbps\" }, { at = \"2 s\", rate = \"0 bps\" }]";
    let step = |from, rate| RateStep { from: ms(from), rate };
    let [down, up] = impairments(&format!(
        "rate_up = \"2 Mbps\"\nrate_variation = {{ model = \"steps\", {steps}, length = \"3 s\", wrap = \"repeat\" }}"
    ));
    let (down, up) = (series(&down.rate), series(&up.rate));
    assert_eq!(
        (down.steps(), up.steps()),
        (&[step(0, 8_000_000), step(2000, 0)][..], &[step(0, 2_000_000), step(2000, 0)][..])
    );
    assert_eq!((down.length(), down.wrap()), (ms(3000), Wrap::Repeat));
    // For a single direction, rates are used as given.
    let [none, up] =
        impairments(&format!("rate_up = \"2 Mbps\"\nrate_variation_up = {{ model = \"steps\", {steps} }}"));
    assert_eq!((none.rate, series(&up.rate).steps()[0].rate), (RateSpec::Constant, 8_000_000));
    let points = "points = [{ at = \"1 s\", rate = \"8 Mbps\" }, { at = \"2 s\", rate = \"4 Mbps\" }]";
    let [down, _] = impairments(&format!("rate_variation = {{ model = \"ramp\", {points}, grid = \"500 ms\" }}"));
    let ramp = series(&down.rate);
    let expected = [step(0, 8_000_000), step(1000, 7_000_000), step(1500, 5_000_000), step(2000, 4_000_000)];
    assert_eq!((ramp.steps(), ramp.wrap()), (&expected[..], Wrap::Hold));
    assert_eq!(impairments("rate_variation = { model = \"none\" }")[0], Impairments::NONE);
    let explained = scenario(&format!("rate_variation = {{ model = \"ramp\", {points} }}")).unwrap();
    let text = explained.explain();
    assert!(text.contains("# mean = \"7.000 Mbps\"") && text.contains("grid = \"10 ms\""), "{text}");
    assert_eq!(Scenario::parse("explained.toml", &text).unwrap(), explained);
}

/// A temporary folder of a test, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("lasthop-impairments-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.0.join(name), text).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_rate_comes_from_a_file() {
    let folder = Folder::new("file");
    let path =
        folder.write("scenario.toml", &text("1 MiB", "rate_variation = { model = \"replay\", file = \"rate.csv\" }"));
    let load = |path: &Path| Scenario::load(path).map_err(|error| error.to_string());
    let missing = load(&path).unwrap_err();
    assert!(missing.contains("links.l.rate_variation.file") && missing.contains("rate.csv"), "{missing}");
    folder.write("rate.csv", "t_s,rate_mbps,lost\n0,20,3\n2.5,0.5,0\n4,0,0\n");
    let network = load(&path).unwrap().network(&SCHEMES[0]).unwrap();
    let read = series(&network.links[0].directions[1].impairments.rate);
    let expected = [(0, 20_000_000), (2500, 500_000), (4000, 0)].map(|(from, rate)| RateStep { from: ms(from), rate });
    assert_eq!((read.steps(), read.length(), read.wrap()), (&expected[..], ms(4000), Wrap::Repeat));
    folder.write("rate.csv", "0 20\n1 x\n");
    let bad = load(&path).unwrap_err();
    assert!(bad.contains("in line 2") && bad.contains("e.g. 12.5 30") && !bad.contains('\n'), "{bad}");
}

/// Traces of mahimahi are the same in both directions, whatever the rates of the link.
#[test]
fn opportunities_come_from_a_file() {
    let folder = Folder::new("mahimahi");
    let keys =
        "rate_up = \"2 Mbps\"\nrate_variation = { model = \"replay\", format = \"mahimahi\", file = \"lte.down\" }";
    let path = folder.write("scenario.toml", &text("1 MiB", keys));
    folder.write("lte.down", "1\n2\n2\n6\n");
    let load = |path: &Path| Scenario::load(path).map_err(|error| error.to_string());
    let scenario = load(&path).unwrap();
    let network = scenario.network(&SCHEMES[0]).unwrap();
    let [down, up] = &network.links[0].directions;
    assert_eq!(down.impairments.rate, up.impairments.rate);
    // Four opportunities in 6 ms.
    assert!((down.impairments.rate.mean().unwrap() - 4.0 * 1504.0 * 8.0 / 0.006).abs() < 1e-3);
    assert!(scenario.explain().contains("# mean = \"8.021 Mbps\""), "{}", scenario.explain());
    let outcome = run(&network, 1, Recording::Off);
    // A packet of 1500 bytes fills an opportunity.
    let share = outcome.report.flows[0].throughput() / (4.0 * 1448.0 * 8.0 / 0.006);
    assert!(outcome.report.flows[0].complete && (0.8..1.0).contains(&share), "{share}");
    for (keys, told) in [
        ("format = \"mahimahi\", file = \"lte.down\", wrap = \"hold\" }", "\"repeat\" or \"stop\""),
        ("format = \"mahimahi\", file = \"other\" }", "links.l.rate_variation.file"),
        ("format = \"mahimahi\", file = \"lte.down\" }\nmedium = \"half-duplex\"", "use a duplex link"),
        ("format = \"mahimahi\", file = \"lte.down\" }\naggregation = { frames = 4, access = \"1 ms\" }", "remove one"),
    ] {
        let path = folder.write("bad.toml", &text("1 MiB", &format!("rate_variation = {{ model = \"replay\", {keys}")));
        let error = load(&path).unwrap_err();
        assert!(error.contains(told) && !error.contains('\n'), "{keys}: {error}");
    }
    folder.write("lte.down", "1\n\n2\n");
    let bad = load(&path).unwrap_err();
    assert!(bad.contains("in line 2") && bad.contains("whole milliseconds per line"), "{bad}");
}

/// Heavy and light traces of CellReplay; the base delay is part of the transmission.
#[test]
fn light_and_heavy_traces_come_from_files() {
    let folder = Folder::new("cellreplay");
    let keys = |more: &str| {
        format!("rate_variation = {{ model = \"replay\", format = \"cellreplay\", file = \"heavy\"{more} }}")
    };
    let path = folder.write("scenario.toml", &text("64 KiB", &keys(", light = \"light\", gap = \"2 ms\"")));
    folder.write("heavy", "1\n2\n2\n6\n");
    folder.write("light", "0 20 0 1 2\n500 30 0 1 4\n1000 25 0 2\n");
    let load = |path: &Path| Scenario::load(path).map_err(|error| error.to_string());
    let network = load(&path).unwrap().network(&SCHEMES[0]).unwrap();
    let rate = &network.links[0].directions[0].impairments.rate;
    assert!((rate.mean().unwrap() - 4.0 * 1400.0 * 8.0 / 0.006).abs() < 1e-3);
    assert!(run(&network, 1, Recording::Off).report.flows[0].complete);
    for (more, told) in [
        ("", "rate_variation.light"),
        (", light = \"other\"", "rate_variation.light"),
        (", light = \"light\", offset = \"1 s\"", "begin with the first packet"),
        (", light = \"light\", wrap = \"hold\"", "\"repeat\" or \"stop\""),
    ] {
        let error = load(&folder.write("bad.toml", &text("1 MiB", &keys(more)))).unwrap_err();
        assert!(error.contains(told) && !error.contains('\n'), "{more}: {error}");
    }
    let mahimahi = keys(", light = \"light\"").replace("cellreplay", "mahimahi");
    let error = load(&folder.write("bad.toml", &text("1 MiB", &mahimahi))).unwrap_err();
    assert!(error.contains("needs format = \"cellreplay\""), "{error}");
    folder.write("light", "0 20\n5 x\n");
    let bad = load(&path).unwrap_err();
    assert!(bad.contains("line 2") && bad.contains("a light trace of CellReplay"), "{bad}");
}

/// Generated rates are explained, and the explanation is the same scenario.
#[test]
fn generated_rates_are_explained() {
    let states = "states = [{ rate = \"20 Mbps\", mean = \"2 s\" }, { rate = \"0 bps\", mean = \"500 ms\" }]";
    for keys in [
        format!("{{ model = \"markov\", {states} }}"),
        format!("{{ model = \"markov\", {states}, hold = \"lognormal\", sigma = 0.5 }}"),
        "{ model = \"slots\" }".to_owned(),
        "{ model = \"slots\", period = \"5 s\", first = \"1 s\", spread = 0, outage = [\"1 s\", \"1 s\"] }".to_owned(),
        "{ model = \"acm\", symbol_rate = 25000000, clear_sky = 14 }".to_owned(),
        "{ model = \"acm\", symbol_rate = 25000000, clear_sky = 14, fades = [{ at = \"3 s\", depth = 0 }, { at = \"33 s\", depth = 6.5 }] }".to_owned(),
    ] {
        let keys = format!("rate_up = \"2 Mbps\"\nrate_variation = {keys}");
        let given = scenario(&keys).unwrap();
        let text = given.explain();
        let again = Scenario::parse("explained.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again, given);
        // A fourth of the rates upwards.
        let [down, up] = impairments(&keys).map(|impairments| impairments.rate.mean().unwrap());
        assert!((up / down - 0.25).abs() < 1e-6, "{keys}: {down} {up}");
        assert!(text.contains("# mean = \""), "{text}");
    }
}

/// Both directions and all schemes have the same rates under one seed.
#[test]
fn a_generated_rate_is_one_for_both_directions() {
    let keys = "rate_variation = { model = \"markov\", states = [{ rate = \"8 Mbps\", mean = \"300 ms\" }, { rate = \"1 Mbps\", mean = \"300 ms\" }] }";
    let (came, report) = arrivals("4 MiB", keys);
    let seconds = came.last().unwrap().0.as_secs_f64();
    let mean = came.iter().map(|(_, bytes)| *bytes as f64 * 8.0).sum::<f64>() / seconds;
    // 4.5 Mbps on average, some 26 visits of each state.
    assert!((3e6..6e6).contains(&mean), "{mean}");
    let again = arrivals("4 MiB", keys).1;
    assert_eq!(report, again);
}

#[test]
fn mistakes_are_told() {
    for (given, told) in [
        ("policer = { rate = \"1 Mbps\" }", "links.l.policer.burst: missing"),
        ("policer = { burst = \"64 KiB\" }", "links.l.policer.rate: missing"),
        ("policer = { rate = \"1 Mbps\", burst = \"1000 B\" }", "is smaller than a full packet"),
        ("policer = { rate = \"0 bps\", burst = \"64 KiB\" }", "nothing would ever arrive"),
        ("policer = { rate = \"1 Mbps\", burst = \"2 GiB\" }", "at most 1 GiB"),
        ("policer = { rate = \"1 Mbps\", brust = \"64 KiB\" }", "did you mean \"burst\"?"),
        ("polizer = 3", "did you mean \"policer\"?"),
        ("policer = 3", "a table"),
        (
            "medium = \"half-duplex\"\nshaper = { rate = \"1 Mbps\", burst = \"64 KiB\" }",
            "links.l.shaper: not supported on a half-duplex",
        ),
        ("slots = \"0 s\"", "it must be above zero"),
        ("slots = \"10 ns\"", "a time from 1 us to 1 h"),
        ("slots = 10", "the unit is missing"),
        ("duplicates = \"101 %\"", "links.l.duplicates"),
        ("aggregation = { frames = 0, access = \"1 ms\" }", "links.l.aggregation.frames"),
        ("aggregation = { frames = 4 }", "links.l.aggregation.access: missing"),
        (
            "medium = \"half-duplex\"\nframe_overhead = \"1 ms\"\naggregation = { frames = 4, access = \"1 ms\" }",
            "links.l.frame_overhead: not allowed with aggregation",
        ),
        ("medium = \"shared\"\naggregation = { frames = 4, access = \"1 ms\" }", "not supported on a shared channel"),
        ("rate_variation = { model = \"step\" }", "did you mean \"steps\"?"),
        ("rate_variation = { steps = [] }", "links.l.rate_variation.model: missing"),
        ("rate_variation = { model = \"steps\" }", "links.l.rate_variation.steps: missing"),
        ("rate_variation = { model = \"steps\", steps = 3 }", "an array of tables"),
        ("rate_variation = { model = \"steps\", steps = [{ at = \"1 s\", rate = \"1 Mbps\" }] }", "is not at \"0 s\""),
        (
            "rate_variation = { model = \"steps\", steps = [{ at = \"0 s\", rate = \"1 Mbps\" }, { at = \"0 s\", rate = \"1 Mbps\" }] }",
            "a time after that of the entry before",
        ),
        (
            "rate_variation = { model = \"steps\", steps = [{ at = \"0 s\", rate = \"0 bps\" }] }",
            "nothing would ever arrive",
        ),
        ("rate_variation = { model = \"steps\", steps = [{ at = \"0 s\", rate = 5 }] }", "the unit is missing"),
        (
            "rate_variation = { model = \"steps\", steps = [{ at = \"0 s\", rate = \"1 Mbps\" }], wrap = \"repeat\" }",
            "links.l.rate_variation.length: missing",
        ),
        (
            "rate_variation = { model = \"steps\", steps = [{ at = \"0 s\", rate = \"1 Mbps\" }], offset = \"random\" }",
            "needs wrap = \"repeat\"",
        ),
        ("rate_variation = { model = \"none\", wrap = \"hold\" }", "it takes nothing"),
        (
            "rate_variation = { model = \"replay\", file = \"x\", grid = \"1 s\" }",
            "it takes file, format, light, gap, wrap, offset",
        ),
        ("rate_variation = { model = \"markov\" }", "2 to 64 states"),
        ("rate_variation = { model = \"markov\", states = [{ rate = \"1 Mbps\", mean = \"1 s\" }] }", "2 to 64 states"),
        (
            "rate_variation = { model = \"markov\", states = [{ rate = \"1 Mbps\", mean = \"0 s\" }, { rate = \"2 Mbps\", mean = \"1 s\" }] }",
            "it must be above zero",
        ),
        (
            "rate_variation = { model = \"markov\", states = [{ rate = \"0 bps\", mean = \"1 s\" }, { rate = \"0 bps\", mean = \"1 s\" }] }",
            "a rate must be above zero",
        ),
        (
            "rate_variation = { model = \"markov\", states = [{ rate = \"1 Mbps\", mean = \"1 s\", next = [0, 1] }, { rate = \"2 Mbps\", mean = \"1 s\" }] }",
            "for some states only",
        ),
        (
            "rate_variation = { model = \"markov\", states = [{ rate = \"1 Mbps\", mean = \"1 s\", next = [1] }, { rate = \"2 Mbps\", mean = \"1 s\", next = [1, 0] }] }",
            "2 probabilities, one for each state",
        ),
        (
            "rate_variation = { model = \"markov\", sigma = 1, states = [{ rate = \"1 Mbps\", mean = \"1 s\" }, { rate = \"2 Mbps\", mean = \"1 s\" }] }",
            "needs hold = \"lognormal\"",
        ),
        ("rate_variation = { model = \"slots\", period = \"10 ms\" }", "at least 100 ms"),
        ("rate_variation = { model = \"slots\", outage = [\"2 s\", \"1 s\"] }", "the minimum and the maximum time"),
        ("rate_variation = { model = \"slots\", outage = [\"1 s\", \"15 s\"] }", "take the whole period"),
        ("rate_variation = { model = \"slots\", spread = 5 }", "a number from 0 to 3"),
        ("rate_variation = { model = \"acm\", clear_sky = 10 }", "links.l.rate_variation.symbol_rate: missing"),
        ("rate_variation = { model = \"acm\", symbol_rate = 1000000, clear_sky = -9 }", "supports no coding"),
        (
            "rate_variation = { model = \"acm\", symbol_rate = 1000000, clear_sky = 14, fades = [{ at = \"0 s\", depth = 0 }, { at = \"1 s\", depth = 9 }] }",
            "a larger margin, or a slower fade",
        ),
    ] {
        let error = scenario(given).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(told) && error.starts_with("test.toml:") && !error.contains('\n'), "{given}: {error}");
    }
    let each = "duplicates_down = 0.1\nduplicates_up = 0.1";
    let three = scenario(&format!("duplicates = 0.2\n{each}")).unwrap_err().to_string();
    assert!(three.contains("remove one of the three"), "{three}");
}

/// Returns the times and bytes of data that arrived at the second host, and the report.
fn arrivals(size: &str, keys: &str) -> (Vec<(Instant, u64)>, Report) {
    arrivals_of(&Scenario::parse("test.toml", &text(size, keys)).unwrap(), keys)
}

fn arrivals_of(scenario: &Scenario, keys: &str) -> (Vec<(Instant, u64)>, Report) {
    let network = scenario.network(scenario.scheme()).unwrap();
    let outcome = run(&network, 1, Recording::On);
    assert!(outcome.report.flows[0].complete, "{keys}");
    // Recording changes nothing.
    assert_eq!(run(&network, 1, Recording::Off).report, outcome.report);
    let came = |what: &What| match what {
        What::Received(packet) if packet.len > 0 => Some(u64::from(packet.wire_len())),
        _ => None,
    };
    let records = outcome.trace.records.iter().filter(|record| record.point == 1);
    (records.filter_map(|record| Some((record.time, came(&record.what)?))).collect(), outcome.report)
}

/// A policer of 2 Mbps and 30,000 bytes bounds the traffic in any interval by the rate and the burst, apart from
/// queueing on the link behind it. Its drops are counted as such only.
#[test]
fn a_policer_bounds_what_arrives() {
    let (came, report) = arrivals("4 MiB", "policer_down = { rate = \"2 Mbps\", burst = \"30000 B\" }");
    for first in (0..came.len()).step_by(7) {
        let mut sent = 0.0;
        for (time, bytes) in &came[first..] {
            sent += *bytes as f64;
            // Frames pass the policer up to a queueing time before they arrive, but no queue is longer than its burst.
            let span = time.since(came[first].0).as_secs_f64() + 0.0301;
            assert!(sent <= 250_000.0 * span + 30_000.0 + 1500.0, "{sent} in {span}");
        }
    }
    let down = report.links[0][0];
    assert!(down.policer_drops > 0 && (down.queue_drops, down.channel_drops) == (0, 0), "{down:?}");
    assert!(report.flows[0].throughput() < 2e6);
}

/// A shaper of 2 Mbps drops nothing, and the download gets its whole rate: 1448 of 1500 bytes.
#[test]
fn a_shaper_gives_its_rate() {
    let (_, report) = arrivals("4 MiB", "shaper_down = { rate = \"2 Mbps\", burst = \"3000 B\" }");
    let (down, throughput) = (report.links[0][0], report.flows[0].throughput());
    assert_eq!((down.policer_drops, down.queue_drops), (0, 0));
    assert!((0.97..1.0).contains(&(throughput / (2e6 * 1448.0 / 1500.0))), "{throughput}");
}

/// 8 and 2 Mbps, 1 s each, without losses: 4 MiB take their transmission time at 5 Mbps on average. In each fully used
/// second, the arrivals match the rate.
#[test]
fn a_download_follows_the_rate() {
    let keys = "rate_variation = { model = \"steps\", steps = [{ at = \"0 s\", rate = \"8 Mbps\" }, { at = \"1 s\", rate = \"2 Mbps\" }], \
                length = \"2 s\", wrap = \"repeat\" }";
    let (came, _) = arrivals("4 MiB", keys);
    let bytes_in = |from: f64, to: f64| {
        let within = came.iter().filter(|(time, _)| (from..to).contains(&(time.as_secs_f64() - 0.01)));
        within.map(|(_, bytes)| *bytes as f64).sum::<f64>()
    };
    for (second, rate) in [(1, 250_000.0), (2, 1e6), (3, 250_000.0), (4, 1e6)] {
        let bytes = bytes_in(f64::from(second), f64::from(second) + 1.0);
        assert!((bytes - rate).abs() <= 1501.0, "second {second}: {bytes}");
    }
}

/// All frames arrive 10 ms of propagation after a multiple of 20 ms.
#[test]
fn slots_are_kept() {
    let (came, _) = arrivals("200 KB", "slots_down = \"20 ms\"");
    let times: std::collections::BTreeSet<u64> = came.iter().map(|(time, _)| time.as_nanos()).collect();
    assert!(times.len() > 5 && times.len() < came.len() / 2);
    // Slots hold frames until after their arrival time over the link alone.
    assert!(times.iter().all(|time| (time - 10_000_000) % 20_000_000 == 0), "{times:?}");
}

/// Every tenth frame is duplicated, in place; the sender learns it from DSACK and loses nothing.
#[test]
fn duplicates_arrive_twice() {
    let (came, report) = arrivals("2 MiB", "duplicates_down = \"10 %\"");
    let segments = (2u64 << 20).div_ceil(1448);
    let share = (came.len() as u64 - segments) as f64 / segments as f64;
    assert!((share - 0.1).abs() < 0.03, "{share}");
    assert_eq!(report.flows[0].sender.source_retransmissions, 0);
    assert_eq!(report.links[0][0].duplicates, came.len() as u64 - segments);
}

/// Alone, a frame of 1500 bytes takes 1.5 ms and the access of 1 ms; in aggregates of eight, an eighth of that. Small
/// queues would keep the host from queueing eight frames.
#[test]
fn aggregates_share_an_access() {
    let rate = |keys: &str| {
        let scenario = Scenario::parse("test.toml", &text("2 MiB", keys)).unwrap();
        let scenario = scenario.with_overrides(&[("tcp.small_queues", "off")]).unwrap();
        arrivals_of(&scenario, keys).1.flows[0].throughput() / 8e6 * 1500.0 / 1448.0
    };
    let alone = rate("aggregation_down = { frames = 1, access = \"1 ms\", time = \"100 ms\" }");
    let eight = rate("aggregation_down = { frames = 8, access = \"1 ms\", time = \"100 ms\" }");
    assert!((alone - 1.5 / 2.5).abs() < 0.02, "{alone}");
    assert!((eight - 12.0 / 13.0).abs() < 0.03, "{eight}");
}

/// Three of ten attempts fail, and retries follow: the transport sees no loss and no reordering, on a medium that both
/// ends share. Without retries three of ten are lost.
#[test]
fn a_link_layer_hides_what_it_repairs() {
    let keys = |retries: u32| {
        format!(
            "medium = \"half-duplex\"\naggregation = {{ frames = 16, access = \"200 us\", backoff = \"100 us\", \
             frame_loss = \"30 %\", retries = {retries} }}"
        )
    };
    let (_, report) = arrivals("1 MiB", &keys(12));
    let lost = |report: &Report| report.links[0][0].channel_drops + report.links[0][1].channel_drops;
    assert_eq!((lost(&report), report.flows[0].sender.source_retransmissions), (0, 0));
    let (_, bare) = arrivals("100 KB", &keys(0));
    let down = bare.links[0][0];
    let share = down.channel_drops as f64 / down.frames as f64;
    assert!((0.2..0.4).contains(&share), "{share}");
}

/// A rate that stops lets the run continue to its limit, without failures.
#[test]
fn a_rate_may_stop_for_good() {
    let keys = "rate_variation = { model = \"steps\", steps = [{ at = \"0 s\", rate = \"8 Mbps\" }], length = \"100 ms\", wrap = \"stop\" }";
    let network = network(keys);
    let report = run(&network, 1, Recording::Off).report;
    assert!(!report.flows[0].complete && report.flows[0].received < 100_000);
}

/// All impairments together, with all kinds of queues: every frame is accounted for, and the same seed gives the same
/// run.
#[test]
fn all_together_every_frame_is_accounted_for() {
    for queue in ["queue = \"20 packets\"", "queue = { kind = \"codel\" }", "queue = { kind = \"fq-codel\" }"] {
        for medium in ["duplex", "half-duplex"] {
            let keys = format!(
                "medium = \"{medium}\"\npolicer = {{ rate = \"6 Mbps\", burst = \"30 kB\" }}\nslots = \"5 ms\"\nduplicates = \"2 %\"\n\
                 aggregation = {{ frames = 8, access = \"300 us\", frame_loss = \"20 %\", retries = 1 }}\n\
                 rate_variation = {{ model = \"ramp\", points = [{{ at = \"0 s\", rate = \"9 Mbps\" }}, {{ at = \"1 s\", rate = \"1 Mbps\" }}], wrap = \"repeat\" }}\n\
                 delay_variation = {{ model = \"normal\", mean = \"5 ms\", deviation = \"5 ms\", order = \"free\" }}\n\
                 errors = {{ model = \"uniform\", frame_loss = \"1 %\" }}"
            );
            let text = text("300 KB", &keys).replace("queue = \"1000 packets\"", queue);
            let scenario = Scenario::parse("test.toml", &text).unwrap();
            let network = scenario.network(scenario.scheme()).unwrap();
            let outcome = run(&network, 7, Recording::On);
            assert!(outcome.report.flows[0].complete, "{keys}");
            assert_eq!(run(&network, 7, Recording::Off).report, outcome.report);
            for (index, path) in outcome.report.links[0].iter().enumerate() {
                let at = |point: usize, wanted: &dyn Fn(&What) -> bool| {
                    let records = outcome.trace.records.iter();
                    records.filter(|record| usize::from(record.point) == point && wanted(&record.what)).count() as u64
                };
                let sent = at(index, &|what| matches!(what, What::Sent(_)));
                let came = at(1 - index, &|what| matches!(what, What::Received(_)));
                let dropped = at(index, &|what| matches!(what, What::Dropped(..)));
                let policed = at(index, &|what| matches!(what, What::Dropped(_, DropReason::Policer)));
                assert_eq!((path.frames, path.policer_drops), (sent, policed));
                assert_eq!(path.queue_drops + path.policer_drops + path.channel_drops, dropped);
                // Few frames are in flight at the end of the run.
                let underway = sent + path.duplicates - came - dropped;
                assert!(underway < 40, "{sent} {came} {dropped}");
            }
        }
    }
}
