//! Tests of `medium = "cell"`: its keys, and transfers over it.

use lasthop_proto::link::cell::{
    CarrierSpec, CellSpec, DrxSpec, Duplexing, HandoverSpec, HarqSpec, LTE, NR, Quality, RlcSpec, SlotPattern,
};
use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_sim::network::{CellLink, Medium, Network, QueueLimit, QueueSpec};
use lasthop_sim::{Recording, Simulation, run};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a scenario in which each user downloads 16 MiB over a base station; `keys` are those of each link, `more`
/// are further tables.
fn text(users: usize, keys: impl Fn(usize) -> String, more: &str) -> String {
    let mut text =
        "limit = \"100 s\"\ntcp = { preset = \"linux-6.18\" }\n[hosts.server]\n[routers.tower]\n[links.wire]\n\
                    between = [\"server\", \"tower\"]\nrate = \"10 Gbps\"\ndelay = \"5 ms\"\nqueue = \"4 MiB\"\n"
            .to_owned();
    for user in 0..users {
        text += &format!(
            "[hosts.u{user}]\n[links.l{user}]\nbetween = [\"tower\", \"u{user}\"]\nmedium = \"cell\"\ndelay = \"2 ms\"\n{}\n\
             [flows.f{user}]\nfrom = \"server\"\nto = \"u{user}\"\nsize = \"16 MiB\"\n",
            keys(user)
        );
    }
    text + more
}

fn network_under(text: &str, scheme: &Scheme) -> Network {
    let scenario = Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    for again in [scenario.explain(), scenario.to_toml()] {
        let again = Scenario::parse("explained.toml", &again).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again, scenario);
    }
    scenario.network(scheme).unwrap()
}

fn network(text: &str) -> Network {
    network_under(text, &SCHEMES[0])
}

fn cell_of(network: &Network, link: usize) -> CellLink {
    match &network.links[link].medium {
        Medium::Cell { cell, .. } => **cell,
        _ => panic!("not a cell"),
    }
}

/// Returns the throughput of all downloads in Mbps, until the last is complete.
fn download(text: &str) -> f64 {
    let network = network(text);
    let report = run(&network, 1, Recording::Off).report;
    assert!(report.flows.iter().all(|flow| flow.complete));
    let done = report.flows.iter().map(|flow| flow.end.as_secs_f64());
    network.flows.len() as f64 * 16.0 * 1_048_576.0 * 8e-6 / done.fold(0.0, f64::max)
}

#[test]
fn every_key_is_read_and_explained() {
    let keys = "channel = \"north\"\ncell = { snr = 10.5, snr_up = 3, sigma = 4, coherence = \"50 ms\", handover = { interval = \"20 s\", \
                least = \"2 s\", gap = [\"10 ms\", \"20 ms\"], failure = 0.25, outage = [\"1 s\", \"2 s\"] } }";
    let more = "[cells.north]\npreset = \"nr\"\ntti = \"250 us\"\ntdd = \"DSU\"\nblocks = 51\nblocks_up = 25\nlayers = 2\nlayers_up = 3\n\
                overhead = \"12.5 %\"\ngap = 2.5\nothers = 3\nothers_up = 1\nothers_snr = 7\nothers_snr_up = 8\nothers_sigma = 2\n\
                others_coherence = \"1 s\"\nfairness = 40\nblock_loss = 0.2\nharq_delay = \"3 ms\"\nharq_transmissions = 2\n\
                rlc_delay = \"15 ms\"\nrlc_rounds = 7\nrlc_window = 64\ngrant = [\"1 ms\", \"3 ms\"]\ndrx_idle = \"20 ms\"\n\
                drx_cycle = \"40 ms\"\ndrx_on = \"4 ms\"\n";
    let others = |mean| Quality { mean, sigma: 2.0, coherence: Duration::from_secs(1) };
    let spec = CellSpec {
        tti: Duration::from_micros(250),
        duplexing: Duplexing::Time(SlotPattern::parse("DSU").unwrap()),
        down: CarrierSpec { blocks: 51, layers: 2, others: 3, quality: others(7.0) },
        up: CarrierSpec { blocks: 25, layers: 3, others: 1, quality: others(8.0) },
        overhead: 125,
        gap: 2.5,
        fairness: 40,
        harq: HarqSpec { loss: 0.2, delay: ms(3), transmissions: 2 },
        rlc: RlcSpec { delay: ms(15), rounds: 7, window: 64 },
        grant: Some([ms(1), ms(3)]),
        drx: Some(DrxSpec { idle: ms(20), cycle: ms(40), on: ms(4) }),
    };
    let own = |mean| Quality { mean, sigma: 4.0, coherence: ms(50) };
    let handover = HandoverSpec {
        interval: Duration::from_secs(20),
        least: Duration::from_secs(2),
        gap: [ms(10), ms(20)],
        failure: 0.25,
        outage: [ms(1000), ms(2000)],
    };
    let network = network(&text(1, |_| keys.to_owned(), more));
    let cell = CellLink { spec, down: own(10.5), up: own(3.0), handover: Some(handover) };
    assert_eq!(network.links[1].medium, Medium::Cell { channel: 0, cell: cell.into() });
}

#[test]
fn the_presets_are_those_of_the_model() {
    let channel = |mean| Quality { mean, sigma: 0.0, coherence: ms(200) };
    for (more, preset, queue) in
        [("", LTE, 2 << 20), ("[cells.cell]\n", LTE, 2 << 20), ("[cells.cell]\npreset = \"nr\"\n", NR, 10 << 20)]
    {
        let network = network(&text(1, |_| "cell = { snr = 15 }".to_owned(), more));
        let mean = preset.down.quality.mean;
        let with_channel = |carrier| CarrierSpec { quality: channel(mean), ..carrier };
        let expected = CellSpec { down: with_channel(preset.down), up: with_channel(preset.up), ..preset };
        let cell = cell_of(&network, 1);
        assert_eq!(cell, CellLink { spec: expected, down: channel(15.0), up: channel(15.0), handover: None });
        let [down, up] = &network.links[1].directions;
        assert_eq!(down.queue, QueueSpec::Fifo(QueueLimit::Bytes(queue)));
        assert_eq!(up.queue, QueueSpec::Fifo(QueueLimit::Packets(1000)), "a modern host");
    }
    let handover = cell_of(&network(&text(1, |_| "cell = { snr = 15, handover = {} }".to_owned(), "")), 1).handover;
    assert_eq!(handover.unwrap().interval, Duration::from_secs(15));
    let off = "[cells.cell]\npreset = \"nr\"\ntdd = \"off\"\ngrant = \"off\"\ndrx = \"off\"\n";
    let spec = cell_of(&network(&text(1, |_| "cell = { snr = 15 }".to_owned(), off)), 1).spec;
    assert_eq!((spec.duplexing, spec.grant, spec.drx), (Duplexing::Frequency, None, None));

    // An old host has no queue of its own in front of the modem's.
    let old = text(1, |_| "cell = { snr = 15 }".to_owned(), "").replace("linux-6.18", "rfc");
    assert_eq!(network(&old).links[1].directions[1].queue, QueueSpec::Fifo(QueueLimit::Bytes(2 << 20)));
    // 12 subcarriers of 14 symbols, 100 blocks, CQI 10, three quarters of the elements; each ms.
    let lte = text(1, |_| "cell = { snr = 15, snr_up = 0 }".to_owned(), "");
    assert_eq!(network(&lte).links[1].directions.each_ref().map(|way| way.rate.0), [34_398_000, 2_898_000]);
}

#[test]
fn bad_keys_are_refused_with_their_remedy() {
    let snr = "cell = { snr = 15 }";
    for (keys, more, parts) in [
        ("", "", &["test.toml:11", "cell.snr", "15"][..]),
        ("cell = {}", "", &["snr", "dB"]),
        ("cell = { snr = \"high\" }", "", &["snr", "number"]),
        ("cell = { snr = 200 }", "", &["snr", "-100 to 100"]),
        ("cell = { snr = -3 }", "", &["snr", "at least -2.1 dB", "out of range"]),
        ("cell = { snr = 15, snr_up = -20 }", "", &["snr_up", "at least -2.1 dB"]),
        ("cell = { snr = 15, sigma = -1 }", "", &["sigma", "0 to 30"]),
        ("cell = { snr = 15, coherence = \"0 s\" }", "", &["coherence", "above zero"]),
        ("cell = { snr = 15, sgima = 3 }", "", &["sgima", "sigma"]),
        ("cell = { snr = 15, blocks = 50 }", "", &["cell.blocks", "[cells.cell]"]),
        ("cell = { snr = 15, handover = { gap = \"50 ms\" } }", "", &["handover.gap", "minimum and the maximum"]),
        ("cell = { snr = 15, handover = { outage = [\"2 s\", \"1 s\"] } }", "", &["outage", "minimum"]),
        ("cell = { snr = 15, handover = { interval = \"1 s\", least = \"2 s\" } }", "", &["least", "interval"]),
        ("cell = { snr = 15, handover = { failure = 2 } }", "", &["failure", "from 0 to 1"]),
        ("cell = { snr = 15 }\nrate = \"10 Mbps\"", "", &["l0.rate", "remove it"]),
        ("cell = { snr = 15 }\nrate_up = \"10 Mbps\"", "", &["l0.rate_up", "remove it"]),
        ("cell = { snr = 15 }\nrate_variation = { model = \"none\" }", "", &["rate_variation", "cell.snr"]),
        ("cell = { snr = 15 }\nframe_overhead = \"1 ms\"", "", &["frame_overhead", "half-duplex"]),
        ("cell = { snr = 15 }\nturnaround = \"1 ms\"", "", &["turnaround", "half-duplex"]),
        ("cell = { snr = 15 }\naggregation = { frames = 2, access = \"1 ms\" }", "", &["aggregation", "blocks"]),
        ("cell = { snr = 15 }\nshaper = { rate = \"1 Mbps\", burst = \"10 kB\" }", "", &["shaper", "policer"]),
        ("cell = { snr = 15 }\nwifi = { snr = 15 }", "", &["wifi", "medium = \"wifi\""]),
        ("cell = { snr = 15 }\nchannel = \"no 1\"", "", &["channel", "letters"]),
        (snr, "[cells.tower]\n", &["cells.tower", "channel = \"tower\""]),
        (snr, "[cells.cell]\nsnr = 3\n", &["cells.cell.snr", "others_snr"]),
        (snr, "[cells.cell]\npreset = \"5g\"\n", &["preset", "\"lte\" or \"nr\""]),
        (snr, "[cells.cell]\ntti = \"1 us\"\n", &["tti", "10 us to 1 s"]),
        (snr, "[cells.cell]\ntdd = \"DDSD\"\n", &["tdd", "DDDSU"]),
        (snr, "[cells.cell]\nblocks = 0\n", &["blocks", "10000"]),
        (snr, "[cells.cell]\nblocks = 1\noverhead = \"99 %\"\n", &["overhead", "raise blocks"]),
        (snr, "[cells.cell]\noverhead = 1\n", &["overhead", "below 100 %"]),
        (snr, "[cells.cell]\noverhead = 0.1234\n", &["overhead", "0.1 %"]),
        (snr, "[cells.cell]\ngap = 0\n", &["gap", "0.001"]),
        (snr, "[cells.cell]\nfairness = 0\n", &["fairness", "100000"]),
        (snr, "[cells.cell]\nblock_loss = 1.5\n", &["block_loss", "0"]),
        (snr, "[cells.cell]\nharq_delay = \"2 h\"\n", &["harq_delay", "1 h"]),
        (snr, "[cells.cell]\nharq_transmissions = 0\n", &["harq_transmissions", "1 to 255"]),
        (snr, "[cells.cell]\ngrant = [\"3 ms\", \"2 ms\"]\n", &["grant", "\"off\""]),
        (snr, "[cells.cell]\ndrx = \"off\"\ndrx_on = \"1 ms\"\n", &["drx_on", "drx = \"on\""]),
        (snr, "[cells.cell]\ndrx_on = \"1 s\"\n", &["drx_on", "drx_cycle"]),
        (snr, "[cells.cell]\nother = 3\n", &["other", "others"]),
    ] {
        let text = text(1, |_| keys.to_owned(), more);
        let error = Scenario::parse("test.toml", &text).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("accepted: {keys} {more}"));
        assert!(error.starts_with("test.toml:") && !error.contains('\n'), "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{keys} {more}: {error}");
    }
    let fails = |text: &str, parts: &[&str]| {
        let error = Scenario::parse("test.toml", text).expect_err("a bad scenario").to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    let good = text(1, |_| snr.to_owned(), "");
    fails(&good.replace("[\"tower\", \"u0\"]", "[\"u0\", \"tower\"]"), &["l0.between", "write [\"tower\", \"u0\"]"]);
    fails(&good.replace("\"cell\"\ndelay", "\"duplex\"\nrate = \"1 Mbps\"\ndelay"), &["l0.cell", "medium = \"cell\""]);
    let other = "[routers.hill]\n[hosts.h]\n[links.a]\nbetween = [\"tower\", \"hill\"]\nrate = \"1 Gbps\"\ndelay = \"0 s\"\n\
                 [links.b]\nbetween = [\"hill\", \"h\"]\nmedium = \"cell\"\ndelay = \"0 s\"\ncell = { snr = 3 }\n";
    fails(&text(1, |_| snr.to_owned(), other), &["b.between", "\"tower\"", "another cell"]);
    let moves = "[routers.hill]\n[links.a]\nbetween = [\"tower\", \"hill\"]\nrate = \"1 Gbps\"\ndelay = \"0 s\"\n[links.b]\n\
                 between = [\"hill\", \"u0\"]\nrate = \"1 Mbps\"\ndelay = \"0 s\"\n\
                 [mobility]\nhost = \"u0\"\nstations = [\"l0\", \"b\"]\nmoves = { every = \"1 s\" }\n";
    fails(&text(1, |_| snr.to_owned(), moves), &["stations", "\"l0\" shares a channel", "duplex"]);
}

/// At 15 dB, log2(1 + 10^1.5 / 5.529) is 2.748, so the CQI is that with 2.73 bit/s/Hz. HARQ takes 1.111 transmissions
/// for a block.
#[test]
fn a_download_takes_most_of_the_capacity() {
    let capacity = 12.0 * 14.0 * 100.0 * 2.73 * 0.75 / 1000.0 / (1.0 + 0.1 + 0.01 + 0.001);
    let goodput = capacity * 1448.0 / 1500.0;
    let mbps = download(&text(1, |_| "cell = { snr = 15 }".to_owned(), ""));
    assert!((0.93 * goodput..goodput).contains(&mbps), "{mbps} of {goodput}");
}

/// Users of one cell share it; in two cells each has its own. Competing users take their share.
#[test]
fn users_share_their_cell() {
    let keys = "cell = { snr = 15 }";
    let alone = download(&text(1, |_| keys.to_owned(), ""));
    let together = download(&text(2, |_| keys.to_owned(), ""));
    let apart = download(&text(2, |user| format!("channel = \"c{user}\"\n{keys}"), ""));
    assert!((0.95..1.05).contains(&(together / alone)), "{alone} {together}");
    assert!(apart > 1.9 * alone, "{alone} {apart}");
    let competing = download(&text(1, |_| keys.to_owned(), "[cells.cell]\nothers = 3\n"));
    assert!((0.22..0.28).contains(&(competing / alone)), "{alone} {competing}");
}

/// Runs with delays, for 30 s.
fn metered(text: &str, scheme: &str) -> Report {
    let network = network_under(text, Scheme::by_name(scheme).unwrap());
    let mut simulation = Simulation::metered(&network, 1, Recording::Off);
    while simulation.advance(u32::MAX) {}
    simulation.finish(&network).report
}

/// At 3 dB the cell carries 4.8 Mbps, so the queue of 2 MiB holds some 3.5 s of data.
#[test]
fn cubic_fills_the_queue_and_bbr_does_not() {
    let text = text(1, |_| "cell = { snr = 3 }".to_owned(), "").replace("\"16 MiB\"", "\"14 MiB\"");
    let [cubic, bbr] = ["E2E-CUBIC", "E2E-BBR"].map(|scheme| {
        let report = metered(&text, scheme);
        assert!(report.flows[0].complete);
        report.delays.unwrap().queueing.unwrap()
    });
    assert!((1.0..5.0).contains(&cubic.p50.as_secs_f64()), "{cubic:?}");
    assert!((0.005..0.1).contains(&bbr.p50.as_secs_f64()), "{bbr:?}");
}

#[test]
fn a_run_repeats_under_its_seed() {
    let keys = "cell = { snr = 12, sigma = 4, handover = { interval = \"3 s\", least = \"1 s\", failure = 0.5 } }";
    let network = network(&text(2, |_| keys.to_owned(), "[cells.cell]\nothers = 2\nothers_sigma = 4\n"));
    let report = |seed| format!("{:?}", run(&network, seed, Recording::Off).report);
    assert_eq!(report(1), report(1));
    assert_ne!(report(1), report(2));
}

/// Frames of a failed handover count as given up by the channel, those of the queue as well.
#[test]
fn failed_handovers_lose_the_queue() {
    let keys = |failure: f64| {
        format!(
            "cell = {{ snr = 15, handover = {{ interval = \"2 s\", least = \"2 s\", failure = {failure}, outage = [\"50 ms\", \"99 ms\"] }} }}"
        )
    };
    let drops = |failure| {
        let network = network(&text(1, |_| keys(failure), ""));
        let report = run(&network, 1, Recording::Off).report;
        assert!(report.flows[0].complete);
        report.links[1][0].channel_drops
    };
    assert_eq!(drops(0.0), 0);
    // A queue of up to 2 MiB, at each of some handovers.
    assert!((100..20_000).contains(&drops(1.0)), "{}", drops(1.0));
}
