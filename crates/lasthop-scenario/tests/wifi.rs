//! Tests of `medium = "wifi"`: its keys, and downloads over it.

use lasthop_proto::link::wifi::{
    Band, Control, FrameLoss, Guard, Phy, RateIndex, Standard, TransmitterSpec, Turns, WifiSpec,
};
use lasthop_proto::pep::snoop::{Begin, SnoopConfig};
use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_scenario::elements::Snoop;
use lasthop_sim::network::{Medium, Network, WifiLink};
use lasthop_sim::{Outcome, Recording, run};

/// Returns a scenario in which each station downloads 16 MiB over an access point; `keys` are those of each link.
fn text(stations: usize, keys: impl Fn(usize) -> String) -> String {
    let mut text = "limit = \"100 s\"\ntcp = { preset = \"linux-6.18\" }\n[hosts.server]\n[routers.ap]\n[links.wire]\n\
                    between = [\"server\", \"ap\"]\nrate = \"10 Gbps\"\ndelay = \"1 ms\"\nqueue = \"1000 packets\"\n"
        .to_owned();
    for station in 0..stations {
        text += &format!(
            "[hosts.s{station}]\n[links.l{station}]\nbetween = [\"ap\", \"s{station}\"]\nmedium = \"wifi\"\n\
             delay = \"1 us\"\n{}\n[flows.f{station}]\nfrom = \"server\"\nto = \"s{station}\"\nsize = \"16 MiB\"\n",
            keys(station)
        );
    }
    text
}

fn network(text: &str) -> Network {
    let scenario = Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let again = Scenario::parse("explained.toml", &scenario.explain()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again, scenario);
    scenario.network(&SCHEMES[0]).unwrap()
}

/// Returns the throughput of all downloads in Mbps, until the last is complete, and the outcome.
fn download(text: &str) -> (f64, Outcome) {
    let network = network(text);
    let outcome = run(&network, 1, Recording::Off);
    assert!(outcome.report.flows.iter().all(|flow| flow.complete));
    let done = outcome.report.flows.iter().map(|flow| flow.end.as_secs_f64());
    let bytes = network.flows.len() as f64 * 16.0 * 1_048_576.0;
    (bytes * 8e-6 / done.fold(0.0, f64::max), outcome)
}

#[test]
fn every_key_is_read_and_explained() {
    let keys = "channel = \"home\"\nwifi = { standard = \"n\", band = \"2.4 GHz\", width = \"40 MHz\", streams = 3, guard = \"0.4 us\", \
                snr = 30, snr_up = 20.5, mcs = 5, rts = \"500 B\", retries = 3, frames = 32, aifsn = 2, \
                turns = \"transmissions\", eifs = \"off\", ack_timeout = \"off\", beacon = \"off\" }";
    let phy = Phy { standard: Standard::Ht, band: Band::Ghz2, width: 40, streams: 3, guard: Guard::Short };
    let transmitter = |snr| TransmitterSpec {
        phy,
        loss: FrameLoss::Snr(snr),
        control: Control::Fixed(RateIndex(5)),
        rts: Some(500),
        retries: 3,
        frames: 32,
        aifsn: 2,
    };
    let channel = WifiSpec { turns: Turns::Transmissions, eifs: Switch::Off, ack_timeout: Switch::Off, beacon: None };
    let expected = WifiLink { channel, transmitters: [transmitter(30.0), transmitter(20.5)] };
    let link = &network(&text(1, |_| keys.to_owned())).links[1];
    assert_eq!(link.medium, Medium::Wifi { channel: 0, wifi: expected });
    // 108 subcarriers of 6 bits at a code rate of 2/3, three streams, every 3.6 us.
    assert_eq!(link.directions[0].rate.0, 1_296 * 1_000_000 / 3_600 * 1_000);

    let standards = network(&text(1, |_| "wifi = { frame_loss = 0 }".to_owned()));
    let Medium::Wifi { wifi: WifiLink { channel, transmitters: [down, up] }, .. } = standards.links[1].medium else {
        panic!("not Wi-Fi");
    };
    assert_eq!(down, up);
    let phy = Phy { standard: Standard::He, band: Band::Ghz5, width: 80, streams: 2, guard: Guard::Normal };
    assert_eq!((down.phy, down.control, down.frames, down.rts), (phy, Control::Minstrel, 256, None));
    let beacon = Some(Duration::from_micros(102_400));
    assert_eq!(channel, WifiSpec { turns: Turns::Airtime, eifs: Switch::On, ack_timeout: Switch::On, beacon });
}

#[test]
fn bad_keys_are_refused_with_their_remedy() {
    for (keys, parts) in [
        ("wifi = {}", &["snr", "frame_loss"][..]),
        ("wifi = { snr = 20 }\nrate = \"10 Mbps\"", &["rate", "remove it"]),
        ("wifi = { snr = 20 }\nframe_overhead = \"1 ms\"", &["frame_overhead", "half-duplex"]),
        ("wifi = { snr = 20 }\nrate_variation = { model = \"none\" }", &["rate_variation", "wifi.snr"]),
        ("wifi = { snr = 20 }\naggregation = {}", &["aggregation", "wifi.frames"]),
        ("wifi = { snr = 20 }\nshaper = { rate = \"1 Mbps\", burst = \"10 kB\" }", &["shaper"]),
        ("wifi = { snr = 20, frame_loss = 0.1 }", &["frame_loss", "snr"]),
        ("wifi = { frame_loss = 0.1, snr_up = 1 }", &["snr_up", "frame_loss_up"]),
        ("wifi = { snr = 20, mcs = 3, control = \"minstrel\" }", &["mcs", "fixed"]),
        ("wifi = { snr = 20, control = \"fixed\" }", &["mcs"]),
        ("wifi = { snr = 20, standard = \"n\", mcs = 8 }", &["mcs", "0 to 7"]),
        ("wifi = { snr = 20, standard = \"a\", width = \"40 MHz\" }", &["width", "20 MHz"]),
        ("wifi = { snr = 20, standard = \"a\", frames = 2 }", &["frames"]),
        ("wifi = { snr = 20, standard = \"ac\", band = \"2.4 GHz\" }", &["band", "5 GHz"]),
        ("wifi = { snr = 20, standard = \"n\", streams = 5 }", &["streams", "4"]),
        ("wifi = { snr = 20, guard = \"0.4 us\" }", &["guard", "3.2 us"]),
        ("wifi = { snr = 200 }", &["snr", "-100 to 100"]),
        ("wifi = { snr = 20, beacon = \"1 ms\" }", &["beacon", "10 ms"]),
        ("wifi = { snr = 20, retry = 3 }", &["retry", "retries"]),
    ] {
        let error = Scenario::parse("test.toml", &text(1, |_| keys.to_owned())).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("accepted: {keys}"));
        assert!(error.starts_with("test.toml:"), "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{keys}: {error}");
    }
    let differ = text(2, |station| format!("wifi = {{ snr = 20, eifs = \"{}\" }}", ["on", "off"][station]));
    let error = Scenario::parse("test.toml", &differ).unwrap_err().to_string();
    assert!(error.contains("eifs") && error.contains("another channel"), "{error}");
    let wire = "medium = \"duplex\"\nwifi = { snr = 20 }\nrate = \"1 Mbps\"";
    let wire = text(1, |_| wire.to_owned()).replace("medium = \"wifi\"\n", "");
    let error = Scenario::parse("test.toml", &wire).unwrap_err().to_string();
    assert!(error.contains("medium = \"wifi\""), "{error}");
}

/// A download at 65 Mbps: below the saturation throughput of datagrams, 59.55 Mbps of 1472 bytes in 1500; its
/// acknowledgments contend for the channel.
#[test]
fn a_download_takes_most_of_the_channel() {
    let (mbps, outcome) =
        download(&text(1, |_| "wifi = { standard = \"n\", streams = 1, mcs = 7, frame_loss = 0 }".to_owned()));
    assert!((46.0..59.6).contains(&mbps), "{mbps}");
    assert!(outcome.report.links[1].iter().all(|way| way.channel_drops == 0));
}

/// Stations of one channel share it; on two channels each has its own.
#[test]
fn stations_share_their_channel() {
    let keys = "wifi = { standard = \"n\", streams = 1, mcs = 7, frame_loss = 0 }";
    let alone = download(&text(1, |_| keys.to_owned())).0;
    let together = download(&text(2, |_| keys.to_owned())).0;
    let apart = download(&text(2, |station| format!("channel = \"{station}\"\n{keys}"))).0;
    assert!(together < 1.03 * alone && together > 0.9 * alone, "{alone} {together}");
    assert!(apart > 1.9 * alone, "{alone} {apart}");
}

/// Of frames lost on the air, nearly all are retransmitted: TCP sees delay instead of loss.
#[test]
fn losses_on_the_air_become_delay() {
    let (mbps, outcome) =
        download(&text(1, |_| "wifi = { standard = \"n\", streams = 1, mcs = 7, frame_loss = 0.2 }".to_owned()));
    let clean =
        download(&text(1, |_| "wifi = { standard = \"n\", streams = 1, mcs = 7, frame_loss = 0 }".to_owned())).0;
    let lost: u64 = outcome.report.links[1].iter().map(|way| way.channel_drops).sum();
    assert!(lost <= 2, "{lost}");
    assert!((0.65..0.85).contains(&(mbps / clean)), "{mbps} of {clean}");
}

/// Wi-Fi repairs its losses and manages its queues, so that snoop waits for silences, unless a key says otherwise.
#[test]
fn snoop_leaves_losses_of_wifi_to_the_sender() {
    let base = "[base_station]\nrouter = \"ap\"\nlink = \"l0\"\n";
    let placed = |keys: &str| {
        let text = text(1, |_| "wifi = { standard = \"n\", streams = 1, snr = 25 }".to_owned()) + base + keys;
        let scenario = Scenario::parse("test.toml", &text)?;
        let network = scenario.network(Scheme::by_name("SNOOP").expect("a scheme"))?;
        Ok::<_, lasthop_scenario::Error>(network.elements[0].element.get::<Snoop>().cloned().expect("snoop").0)
    };
    let wifi = SnoopConfig { begin: Begin::AfterSilence, hop: None, ..SnoopConfig::gateway() };
    assert_eq!(placed("").unwrap(), wifi);
    assert_eq!(placed("snoop = { repairs = \"losses\" }").unwrap(), SnoopConfig { begin: Begin::AtOnce, ..wifi });
    let fast = "snoop = { repairs = \"losses\", flow_control = \"fast\" }";
    assert_eq!(placed(fast).unwrap(), SnoopConfig::gateway());
    let refused = placed("snoop = { flow_control = \"fast\" }").unwrap_err().to_string();
    assert!(refused.contains("flow_control = \"fast\" requires repairs = \"losses\""), "{refused}");
}
