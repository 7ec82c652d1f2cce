//! Tests arbitrary text: it yields a scenario or a one-line message. A valid scenario becomes networks, and its
//! explanation has the same meaning.
#![no_main]

use lasthop_proto::scheme::SCHEMES;
use lasthop_scenario::Scenario;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|text: &str| -> Corpus {
    let scenario = match Scenario::parse("fuzz.toml", text) {
        Ok(scenario) => scenario,
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("fuzz.toml"), "{message}");
            assert!(!message.contains('\n') && message.len() < 2_000, "{message}");
            return Corpus::Keep;
        }
    };
    for scheme in &SCHEMES {
        if let Ok(network) = scenario.network(scheme) {
            // A mobile host has a link to each of its stations, of which one at a time exists.
            let stations = network.mobility.as_ref().map_or(1, |mobility| mobility.stations.len());
            assert!(network.links.len() < network.nodes.len() + stations - 1, "a tree has fewer links than nodes");
            // Large numbers of flows are valid, but give the fuzzer no information.
            if network.flows.len() > 1_000 {
                return Corpus::Reject;
            }
        }
    }
    let explained = scenario.explain();
    let again = Scenario::parse("explained.toml", &explained);
    assert!(again.as_ref().is_ok_and(|again| *again == scenario), "{again:?}\n{explained}");
    Corpus::Keep
});
