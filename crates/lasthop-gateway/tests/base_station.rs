//! Equality of the simulator's elements at a base station and the gateway's.

use lasthop_gateway::configuration::{Gateway, Mode, SideSettings};
use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::pep::split::Handover;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::{ControlRule, HystartRule, Nagle, TcpConfig};
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_scenario::elements::{Snoop, Split};
use lasthop_sim::network::Network;

const CUBIC: ControlRule = ControlRule::cubic(HystartRule::Linux);

fn network(scenario: &Scenario, scheme: &str) -> Network {
    scenario.network(Scheme::by_name(scheme).unwrap()).unwrap()
}

/// The simulator's elements match the gateway's defaults.
#[test]
fn the_base_station_does_what_the_gateway_does() {
    let gateway = |mode: &str| {
        let text = format!("[[rule]]\nname = 'rule'\nmode = '{mode}'\ninterface = 'wlan0'\n");
        Gateway::parse("gateway.toml", &text).unwrap().rules.remove(0).mode
    };
    for name in ["wavelan-lan", "farm-radio"] {
        let scenario = Scenario::builtin(name).unwrap();
        let snoop = network(&scenario, "SNOOP");
        let [element] = &snoop.elements[..] else { panic!("one element") };
        let Mode::Snoop(live) = gateway("snoop") else { panic!() };
        assert_eq!(element.element.get(), Some(&Snoop(live)), "{name}");
        // Without SMART acknowledgments, these ends report data above a hole with SACK.
        assert!(snoop.flows[0].tcp.iter().all(|tcp| !tcp.receiver.smart_acks.is_on() && tcp.sender.modern().is_some()));

        let split = network(&scenario, "SPLIT-BBR");
        let Some(Split { handover: Handover::Moved, wired, wireless, repair }) = split.elements[0].element.get() else {
            panic!()
        };
        let Mode::Split(live) = gateway("split") else { panic!() };
        assert_eq!(live.repair, *repair);
        assert_eq!(split.elements[1].element.get(), Some(&Snoop(SnoopConfig::beneath_relay())), "{name}");
        assert_eq!((live.wired, live.wireless), (SideSettings::wired(), SideSettings::wireless()));
        let congestion = |side: &TcpConfig| side.sender.modern().map(|modern| modern.congestion);
        assert_eq!((congestion(wired), congestion(wireless)), (Some(CUBIC), Some(ControlRule::BBR)));
        let spans = [wired, wireless].map(|side| side.common.rto_min);
        assert_eq!(spans, [Duration::from_millis(200), Duration::from_millis(50)]);
        assert!([wired, wireless].iter().all(|side| side.receiver.tunes_itself() && side.common.nagle == Nagle::Off));
    }
}
