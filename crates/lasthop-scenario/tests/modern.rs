//! Tests of modern schemes: their endpoints, the base station's part, and values that a scenario fixes.

use lasthop_proto::pep::snoop::{HopControl, SnoopConfig};
use lasthop_proto::scheme::{Family, SCHEMES, Scheme};
use lasthop_proto::tcp::config::{
    AckCongestion, Clock, ControlRule, DelayedAck, HystartRule, Nagle, ReceiveAutotune, TcpConfig,
};
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_scenario::elements::{Snoop, Split};
use lasthop_sim::network::Network;

const CUBIC: ControlRule = ControlRule::cubic(HystartRule::Linux);
const BBR3: ControlRule = ControlRule::BBR3;

fn scheme(name: &str) -> &'static Scheme {
    Scheme::by_name(name).expect("a scheme")
}

fn today() -> impl Iterator<Item = &'static Scheme> {
    SCHEMES.iter().filter(|scheme| scheme.family == Family::Modern)
}

/// Returns a download through a base station; `tcp` are the lines of `[tcp]`, `more` is appended.
fn text(tcp: &str, more: &str) -> String {
    format!(
        r#"
[tcp]
{tcp}
[hosts.server]
[hosts.phone]
[routers.tower]
[links.internet]
between = ["server", "tower"]
rate = "100 Mbps"
delay = "20 ms"
[links.radio]
between = ["tower", "phone"]
rate = "5 Mbps"
delay = "10 ms"
[flows.download]
from = "server"
to = "phone"
size = "1 MiB"
[base_station]
router = "tower"
link = "radio"
{more}
"#
    )
}

fn parse(tcp: &str, more: &str) -> Scenario {
    Scenario::parse("test.toml", &text(tcp, more)).unwrap_or_else(|error| panic!("{error}"))
}

fn network(scenario: &Scenario, name: &str) -> Network {
    scenario.network(scheme(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the sender's congestion control.
fn congestion(config: &TcpConfig) -> ControlRule {
    config.sender.modern().unwrap().congestion
}

fn with_congestion(config: TcpConfig, rule: ControlRule) -> TcpConfig {
    config.with(|c| c.sender.modern_mut().unwrap().congestion = rule)
}

/// Returns the sender's endpoint.
fn sender(scenario: &Scenario, name: &str) -> TcpConfig {
    TcpConfig::clone(&network(scenario, name).flows[0].tcp[0])
}

#[test]
fn a_modern_preset_stays_and_the_name_decides_the_congestion_control() {
    let rfc9438 = ControlRule::cubic_rfc9438(HystartRule::Rfc9406);
    let bbr = ControlRule::BBR;
    // Name of the scheme, then the congestion controls over linux-6.18, linux-6.18-bbr, rfc-2026, and the three older
    // presets.
    let expected = [
        ("E2E-CUBIC", [CUBIC, CUBIC, rfc9438, CUBIC]),
        ("E2E-BBR", [bbr, bbr, bbr, bbr]),
        ("E2E-BBR3", [BBR3, BBR3, BBR3, BBR3]),
        ("SNOOP", [CUBIC, bbr, rfc9438, CUBIC]),
        ("SPLIT-BBR", [CUBIC, bbr, rfc9438, CUBIC]),
    ];
    for (name, rules) in expected {
        for (preset, rule) in ["linux-6.18", "linux-6.18-bbr", "rfc-2026"].into_iter().zip(rules) {
            let scenario = parse(&format!("preset = '{preset}'"), "");
            let plain = sender(&scenario, "LL");
            let tcp = sender(&scenario, name);
            assert_eq!(tcp, with_congestion(plain, rule), "{name} over {preset}");
            assert_eq!(scenario.fixes(scheme(name)), None, "{name} over {preset}");
        }
        for preset in ["bsd-lite", "ns2", "rfc"] {
            let tcp = sender(&parse(&format!("preset = '{preset}'"), ""), name);
            let linux = sender(&parse("preset = 'linux-6.18'", ""), "LL");
            assert_eq!(tcp, with_congestion(linux, rules[3]), "{name} over {preset}");
        }
    }
    // The scenario's variant is as valid as Linux's.
    let google = parse("preset = 'linux-6.18'\ncongestion = 'bbr3-google'", "");
    assert_eq!(congestion(&sender(&google, "E2E-BBR3")), ControlRule::BBR3_GOOGLE);
    assert_eq!(google.fixes(scheme("E2E-BBR3")), None);
}

#[test]
fn what_the_scenario_says_itself_lies_over_linux() {
    let scenario = Scenario::builtin("wavelan-wan").unwrap();
    let tcp = sender(&scenario, "E2E-BBR");
    assert_eq!((tcp.common.mss, tcp.common.send_buffer, tcp.receiver.receive_buffer), (1400, 32 << 10, 32 << 10));
    assert_eq!((tcp.common.rto_min, tcp.receiver.delayed_ack), (Duration::from_secs(5), DelayedAck::Off));
    assert_eq!(congestion(&tcp), ControlRule::BBR);
    assert!(
        matches!(tcp.common.clock, Clock::Jiffies { .. })
            && tcp.common.timestamps.is_on()
            && tcp.common.initial_window == 10
    );
    // A host's own keys take precedence over those, and its own older preset is replaced like the common one.
    let hosts = [
        ("hosts.source.tcp", "{ mss = 1000 }"),
        ("hosts.mobile.tcp", "{ preset = \"bsd-lite\", nagle = \"off\", mss = 536 }"),
    ];
    let network = network(&scenario.with_overrides(&hosts).unwrap(), "SNOOP");
    let [source, mobile] = network.flows[0].tcp.each_ref().map(|tcp| TcpConfig::clone(tcp));
    assert_eq!((source.common.mss, source.common.send_buffer), (1000, 32 << 10));
    assert_eq!((mobile.common.mss, mobile.common.send_buffer, mobile.common.nagle), (536, 4 << 20, Nagle::Off));
    assert_eq!(mobile.receiver.receive_autotune, ReceiveAutotune::Linux);
}

/// An explicit key with the preset's value remains explicit, also after `explain` has written it out with all others;
/// and changes to such a text apply.
#[test]
fn explained_scenarios_remember_what_was_said() {
    let scenario = parse("socket_buffer = '256 KiB'\ndelayed_ack_timeout = '200 ms'", "");
    let usual = sender(&parse("", ""), "LL");
    let plain = sender(&scenario, "LL");
    assert_eq!(plain, usual, "the preset's own values");
    let again = Scenario::parse("explained.toml", &scenario.explain()).unwrap();
    let values = Scenario::parse("values.toml", &scenario.to_toml()).unwrap();
    for name in today().map(|scheme| scheme.name) {
        let tcp = sender(&scenario, name);
        assert_eq!((tcp.common.send_buffer, tcp.common.rto_min), (256 << 10, Duration::from_millis(200)), "{name}");
        // The timeout is kept with its kind of delayed acknowledgment.
        let timeout = Duration::from_millis(200);
        assert_eq!(tcp.receiver.delayed_ack, DelayedAck::EverySecond { timeout }, "{name}");
        for other in [&again, &values] {
            assert_eq!(network(other, name), network(&scenario, name), "{name}");
        }
        let changed = again.with_overrides(&[("tcp.mss", "512")]).unwrap();
        assert_eq!(sender(&changed, name), tcp.with(|c| c.common.mss = 512), "{name}");
    }
    // Under its scheme a text is explained with the endpoints of that run, and is equal under it.
    let under = scenario.explain_under(scheme("E2E-BBR3")).unwrap();
    let under = Scenario::parse("under.toml", &under).unwrap();
    assert_eq!(network(&under, "E2E-BBR3"), network(&scenario, "E2E-BBR3"));
    assert_eq!(sender(&under, "E2E-BBR3"), sender(&under, "LL"));
}

/// Acknowledgment congestion control needs an acknowledgment for every second segment, unlike Linux's endpoints.
#[test]
fn congestion_control_for_acknowledgments_brings_the_acknowledgments_that_it_controls() {
    let scenario = parse("ack_congestion = 'rfc5690'", "");
    let plain = sender(&scenario, "LL");
    let same = |tcp: TcpConfig, name: &str| {
        assert_eq!(
            (tcp.common.ack_congestion, tcp.receiver.delayed_ack),
            (AckCongestion::Rfc5690, plain.receiver.delayed_ack),
            "{name}"
        );
    };
    for name in today().map(|scheme| scheme.name) {
        same(sender(&scenario, name), name);
        same(sender(&Scenario::parse("values.toml", &scenario.to_toml()).unwrap(), name), name);
    }
    assert!(matches!(plain.receiver.delayed_ack, DelayedAck::EverySecond { .. }));
    // Disabled, it needs nothing, and Linux's acknowledgments remain.
    let off = sender(&parse("ack_congestion = 'off'", ""), "SNOOP");
    assert_eq!(off.receiver.delayed_ack, sender(&parse("", ""), "SNOOP").receiver.delayed_ack);
    assert_ne!(off.receiver.delayed_ack, plain.receiver.delayed_ack);
}

#[test]
fn hystart_is_cubics() {
    let scenario = parse("preset = 'linux-6.18'\nhystart = 'off'", "");
    assert_eq!(congestion(&sender(&scenario, "E2E-CUBIC")), ControlRule::cubic(HystartRule::Off));
    assert_eq!(congestion(&sender(&scenario, "SNOOP")), ControlRule::cubic(HystartRule::Off));
    assert_eq!(congestion(&sender(&scenario, "E2E-BBR")), ControlRule::BBR);
    assert_eq!(scenario.fixes(scheme("E2E-BBR")), None);
}

#[test]
fn what_a_scenario_fixes_is_named() {
    let fixes = |scenario: &Scenario, name: &str| scenario.fixes(scheme(name)).unwrap_or_default();
    let reno = parse("congestion = 'reno'", "");
    assert_eq!(fixes(&reno, "E2E-CUBIC"), "tcp.congestion");
    assert_eq!(congestion(&sender(&reno, "E2E-CUBIC")), ControlRule::RENO);
    // The names of the base station's schemes imply nothing about hosts, and the older ones nothing about congestion
    // control.
    assert_eq!([fixes(&reno, "SNOOP"), fixes(&reno, "SPLIT-BBR"), fixes(&reno, "E2E")], ["", "", ""]);

    let cubic = parse("preset = 'linux-6.18'\ncongestion = 'cubic'", "");
    let named = ["E2E-CUBIC", "E2E-BBR", "E2E-BBR3"].map(|name| fixes(&cubic, name));
    assert_eq!(named, ["", "tcp.congestion", "tcp.congestion"]);
    // A preset's value written out by `explain` is not an explicit one.
    let explained = parse("preset = 'linux-6.18'", "").explain();
    assert_eq!(fixes(&Scenario::parse("explained.toml", &explained).unwrap(), "E2E-BBR"), "");

    let sack = parse("recovery = 'sack'", "");
    assert_eq!([fixes(&sack, "E2E-BBR"), fixes(&sack, "SNOOP")], ["tcp.recovery", ""]);
    let host = sack.with_overrides(&[("hosts.server.tcp.recovery", "reno")]).unwrap();
    assert_eq!(fixes(&host, "E2E-BBR"), "hosts.server.tcp.recovery");
    // The configuration of a pure receiver does not matter.
    let receiver = parse("", "").with_overrides(&[("hosts.phone.tcp.congestion", "reno")]).unwrap();
    assert_eq!(fixes(&receiver, "E2E-BBR"), "");
    let relay = parse("", "[base_station.split.wireless]\ncongestion = 'reno'");
    let key = "base_station.split.wireless.congestion";
    assert_eq!([fixes(&relay, "SPLIT-BBR"), fixes(&relay, "SNOOP")], [key, ""]);
    // Modern endpoints detect losses by RACK under any scheme of the studies.
    assert_eq!(fixes(&parse("preset = 'linux-6.18'", ""), "E2E-NEWRENO"), "tcp.preset");
}

#[test]
fn the_base_stations_keys_are_the_gateways() {
    let keys = "
[base_station.snoop]
detection = 'duplicate-acks'
timer_max = '3 s'
flow_control = 'none'
[base_station.split.wired]
congestion = 'bbr'
[base_station.split.wireless]
congestion = 'bbr3'
buffer = '512 KiB'
rto_min = '20 ms'";
    let scenario = parse("mss = 1200", keys);
    let element = |scheme| network(&scenario, scheme).elements[0].element.clone();
    let Snoop(snoop) = element("SNOOP").get().cloned().expect("snoop");
    assert_eq!((snoop.timer_max, snoop.hop), (Duration::from_secs(3), None));
    // Those of the studies' schemes differ.
    let Snoop(studied) = element("LL-SMART-TCP-AWARE").get().cloned().expect("snoop");
    assert_eq!(studied.timer_min, Duration::from_millis(200));
    let Split { wired, wireless, .. } = element("SPLIT-BBR").get().cloned().expect("a relay");
    assert_eq!((wired.common.mss, congestion(&wired), congestion(&wireless)), (1200, ControlRule::BBR, BBR3));
    assert_eq!((wireless.common.send_buffer, wireless.receiver.receive_buffer), (512 << 10, 512 << 10));
    assert!(!wireless.receiver.tunes_itself() && wired.receiver.tunes_itself());
    assert_eq!(wireless.common.rto_min, Duration::from_millis(20));
    // Snoop is beneath the relay, unless it is disabled.
    assert_eq!(network(&scenario, "SPLIT-BBR").elements[1].element.get(), Some(&Snoop(SnoopConfig::beneath_relay())));
    let alone = scenario.with_overrides(&[("base_station.split.repair", "off")]).unwrap();
    assert_eq!(network(&alone, "SPLIT-BBR").elements.len(), 1);
    let fast = SnoopConfig { hop: Some(HopControl::DEFAULT), ..snoop.clone() };
    assert_ne!(snoop, fast);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let refused = |tcp: &str, more: &str| Scenario::parse("test.toml", &text(tcp, more)).unwrap_err().to_string();
    assert_eq!(
        refused("mss = 1000\ngiven = ['mss', 'nagle']", ""),
        "test.toml:4: tcp.given: cannot be an array (nagle is not set here); give names of keys of this table"
    );
    assert!(refused("given = 'preset'", "").contains("tcp.given: cannot be \"preset\""));
    let slow = refused("", "[base_station.split.wireless]\nrto_min = '1 s'");
    assert!(slow.ends_with("base_station.split.wireless.rto_min: cannot be \"1 s\"; give 20 ms to 200 ms"), "{slow}");
    let small = refused("", "[base_station.split.wired]\nbuffer = '1 KiB'");
    assert!(small.ends_with("cannot be \"1 KiB\"; give 4 KiB to 1 GiB, or \"auto\""), "{small}");
    let unknown = refused("", "[base_station.split.wired]\ncongestion = 'vegas'");
    assert!(unknown.contains("base_station.split.wired.congestion: cannot be \"vegas\""), "{unknown}");
    assert!(refused("", "[base_station.snoop]\ncache = '1 MiB'").contains("base_station.snoop.cache: unknown key"));

    // A scenario that no modern scheme can run is still valid for those of the studies.
    let small = parse("preset = 'bsd-lite'\nsocket_buffer = 1410", "");
    assert!(small.network(scheme("E2E")).is_ok());
    for scheme in today() {
        let error = small.network(scheme).unwrap_err().to_string();
        let expected =
            "test.toml:4: tcp.socket_buffer: send_buffer = 1410 B is smaller than one segment (mss = 1448 B)";
        assert_eq!(error, expected, "{}", scheme.name);
    }
}

#[test]
fn the_usual_schemes_fit_the_endpoints() {
    let names = |scenario: &Scenario| scenario.usual_schemes().iter().map(|scheme| scheme.name).collect::<Vec<_>>();
    let studies: Vec<_> = {
        let studied = |scheme: &&Scheme| {
            !matches!(scheme.family, Family::Modern | Family::OneSided | Family::TwoEnded | Family::Discussed)
        };
        SCHEMES.iter().filter(studied).map(|scheme| scheme.name).collect()
    };
    assert_eq!(studies.len(), 16);
    for name in ["wavelan-lan", "multilayer-web-lan", "satellite", "many-flows"] {
        assert_eq!(names(&Scenario::builtin(name).unwrap()), studies, "{name}");
    }
    let all = ["E2E-CUBIC", "E2E-BBR", "E2E-BBR3", "SNOOP", "SPLIT-BBR"];
    for name in ["farm-radio", "ship-satellite", "full-wifi"] {
        let scenario = Scenario::builtin(name).unwrap();
        assert!(scenario.is_modern());
        assert_eq!(names(&scenario), all, "{name}");
    }
    // The scenario's own scheme is among them; without a base station, schemes with a part there are not.
    let own = parse("preset = 'rfc-2026'", "").with_overrides(&[("scheme", "LL")]).unwrap();
    assert_eq!(names(&own)[..2], ["LL", "E2E-CUBIC"]);
    let bare = text("preset = 'linux-6.18'", "").replace("[base_station]\nrouter = \"tower\"\nlink = \"radio\"", "");
    assert_eq!(names(&Scenario::parse("bare.toml", &bare).unwrap()), ["E2E-CUBIC", "E2E-BBR", "E2E-BBR3"]);
    // With one older sender, the studies' schemes can be compared.
    let mixed = parse("preset = 'linux-6.18'", "").with_overrides(&[("hosts.server.tcp.preset", "rfc")]).unwrap();
    assert_eq!(names(&mixed), studies);
}

/// A preset selects the end-to-end scheme, if all hosts have it.
#[test]
fn a_modern_preset_names_the_scheme() {
    let scheme = |preset: &str| parse(&format!("preset = '{preset}'"), "").scheme().name;
    let names = ["linux-6.18", "linux-6.18-bbr", "rfc-2026", "rfc", "bsd-lite", "ns2"].map(scheme);
    assert_eq!(names, ["E2E-CUBIC", "E2E-BBR", "E2E-CUBIC", "E2E", "E2E", "E2E"]);
    let mixed = parse("preset = 'linux-6.18'", "").with_overrides(&[("hosts.server.tcp.preset", "rfc")]).unwrap();
    assert_eq!(mixed.scheme().name, "E2E");
}
/// docs/example.md contains the whole built-in scenario.
#[test]
fn the_documented_farm_is_the_ready_made_one() {
    let document = include_str!("../../../docs/example.md");
    let text = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let documented = Scenario::parse("farm.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let farm = Scenario::builtin("farm-radio").unwrap();
    for scheme in &SCHEMES {
        assert_eq!(documented.network(scheme).unwrap(), farm.network(scheme).unwrap(), "{}", scheme.name);
    }
    assert_eq!((documented.scheme(), documented.runs(), documented.seed()), (farm.scheme(), farm.runs(), farm.seed()));
}

#[test]
fn a_scheme_is_explained() {
    let head = |scenario: &Scenario, name: &str| {
        let text = scenario.explain_under(scheme(name)).unwrap();
        text.lines().take_while(|line| line.starts_with("# ")).map(|line| line[2..].to_owned()).collect::<Vec<_>>()
    };
    let scenario = parse("recovery = 'sack'\nsocket_buffer = '256 KiB'", "");
    let fixed = head(&scenario, "E2E-BBR");
    assert_eq!(fixed[0], "test.toml under E2E-BBR, with every default");
    assert_eq!(fixed[1], "E2E-BBR: modified: tcp.recovery is set");
    assert_eq!(fixed[2..4], ["server: recovery sack", "phone: recovery sack"]);
    let split = head(&parse("", ""), "SPLIT-BBR");
    assert_eq!(
        split[1..],
        [
            "server: recovery rack, congestion cubic",
            "phone: recovery rack, congestion cubic",
            "tower, on its port to radio: split: recovery rack, congestion cubic on the wired side; recovery rack, congestion bbr \
             on the link; separate buffers",
            "tower, on its port to radio: snoop: detects losses by later arrivals, suppresses duplicates, no flow control, \
             after a silence",
            "Comments give the origin of each value.",
        ]
    );
    let text = scenario.explain_under(scheme("E2E-BBR")).unwrap();
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(line("preset").ends_with("# E2E-BBR, instead of \"rfc\" (the default)"), "{}", line("preset"));
    // The explicit recovery does not use it.
    let congestion = line("congestion");
    assert!(congestion.ends_with("# E2E-BBR; no effect: requires recovery = \"rack\""), "{congestion}");
    assert!(line("rtt_rule").ends_with("# preset linux-6.18"), "{}", line("rtt_rule"));
    assert!(line("socket_buffer").ends_with("# line 4"), "{}", line("socket_buffer"));
}
