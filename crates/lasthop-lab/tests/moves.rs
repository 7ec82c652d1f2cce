//! Tests of a host that moves among base stations, in real network namespaces: routes of the kernels change, and
//! connections of the kernel continue. Need root; otherwise they print a message and pass.

use crate::quiet;

use lasthop_lab::{Captures, Experiment, LabError, Outcome, namespace, run};
use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_sim::sim::{Recording, run as simulate};
use lasthop_sim::trace::DropReason;
use quiet::Quiet;

const SEED: u64 = 7;

/// Returns transfers in both directions between a source and a host that alternates between two stations.
fn scenario(mobility: &str, lines: &str) -> Scenario {
    let cell = |number: u32| {
        format!(
            "[links.wire-{number}]\nbetween = [\"core\", \"base-{number}\"]\nrate = \"10 Mbps\"\ndelay = \"1 ms\"\n\
             [links.cell-{number}]\nbetween = [\"base-{number}\", \"mobile\"]\nrate = \"4 Mbps\"\ndelay = \"1 ms\"\n"
        )
    };
    let text = format!(
        "limit = \"60 s\"\nhosts = {{ source = {{}}, mobile = {{}} }}\nrouters = {{ core = {{}}, base-1 = {{}}, base-2 = {{}} }}\n\
         tcp = {{ preset = \"linux-6.18\" }}\n\
         [links.far]\nbetween = [\"source\", \"core\"]\nrate = \"10 Mbps\"\ndelay = \"10 ms\"\n{}{}\
         [flows]\ndown = {{ from = \"source\", to = \"mobile\", size = \"1000 kB\" }}\n\
         up = {{ from = \"mobile\", to = \"source\", size = \"300 kB\" }}\n\
         [base_station]\nrouter = \"base-1\"\nlink = \"cell-1\"\n\
         [mobility]\nhost = \"mobile\"\nstations = [\"cell-1\", \"cell-2\"]\nmoves = {{ every = \"500 ms\" }}\n{mobility}\n\
         [lab]\n# Other tests and builds may run beside this.\nlateness = \"100 ms\"\n{lines}\n",
        cell(1),
        cell(2),
    );
    Scenario::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn try_run(scenario: &Scenario, scheme: &str) -> Result<(Outcome, Report), LabError> {
    let scheme = Scheme::by_name(scheme).unwrap();
    let network = scenario.network(scheme).unwrap();
    let captures = Captures::On;
    let outcome = run(&Experiment { network: &network, scheme, lab: scenario.lab(), seed: SEED, captures }, &Quiet)?;
    Ok((outcome, simulate(&network, SEED, Recording::Off).report))
}

fn whole(what: &str, report: &Report) {
    let flows = &report.flows;
    assert_eq!([flows[0].received, flows[1].received], [1_000_000, 300_000], "{what}: {flows:?}");
    assert!(flows.iter().all(|flow| flow.complete && !flow.aborted), "{what}: {flows:?}");
}

#[test]
#[ignore = "needs root: make root"]
fn connections_of_the_kernel_go_on_through_handoffs_of_every_kind() {
    let Some(_turn) = quiet::turn("the lab's tests of handoffs with namespaces") else { return };
    for kind in ["hard", "hierarchical", "forwarding", "multicast"] {
        let (outcome, simulated) = try_run(&scenario(&format!("kind = \"{kind}\""), ""), "E2E-CUBIC").unwrap();
        let report = &outcome.report;
        whole(kind, report);
        let (moves, expected) = (report.mobility.unwrap(), simulated.mobility.unwrap());
        println!("{kind}: {moves:?}, simulated {expected:?}");
        assert!(moves.handoffs >= 2 && moves.gaps >= 1, "{kind}: {moves:?}");
        // Both cells were in use, and carried useful data.
        for cell in [2, 4] {
            let [down, up] = report.links[cell];
            assert!(down.useful > 100_000 && up.frames > 50, "{kind}: {down:?} {up:?}");
        }
        let useful = report.links[2][0].useful + report.links[4][0].useful;
        assert!(useful.abs_diff(1_000_000) <= 2, "{kind}: {useful}");
        let capture = outcome.capture.as_ref().unwrap();
        let dropped = capture.passages().filter(|(passage, _)| passage.dropped == Some(DropReason::Handoff)).count();
        match kind {
            "hard" | "hierarchical" => assert!(moves.lost > 0 && dropped > 0, "{kind}: {moves:?}"),
            // Only packets on the air and those that the host sends during handoffs are lost.
            _ => assert!(moves.lost < 60, "{kind}: {moves:?}"),
        }
        let ratio = report.flows[0].throughput() / simulated.flows[0].throughput();
        assert!((0.5..=1.6).contains(&ratio), "{kind}: {ratio} of the simulator's");
    }
    assert_eq!(namespace::all().into_iter().filter(|other| other.pid == std::process::id()).count(), 0);
}

/// The timetable is the simulator's, including draws from the seed.
#[test]
#[ignore = "needs root: make root"]
fn random_moves_are_those_of_the_simulator() {
    let Some(_turn) = quiet::turn("the lab's tests of handoffs with namespaces") else { return };
    let random = scenario("kind = \"forwarding\"", "").with_overrides(&[("mobility.moves", "{ mean = \"300 ms\" }")]);
    let (outcome, simulated) = try_run(&random.unwrap(), "E2E-CUBIC").unwrap();
    whole("random", &outcome.report);
    let (moves, expected) = (outcome.report.mobility.unwrap().handoffs, simulated.mobility.unwrap().handoffs);
    // The runs may differ in length.
    assert!(moves.abs_diff(expected) <= 3, "{moves} handoffs, {expected} simulated");
}

/// A station's state of a connection moves with the host, is lost, or continues at both ends of the link.
#[test]
#[ignore = "needs root: make root"]
fn state_at_the_emulated_links_moves_or_begins_anew() {
    let Some(_turn) = quiet::turn("the lab's tests of handoffs with namespaces") else { return };
    for (scheme, mobility, lines) in [
        ("SPLIT", "kind = \"forwarding\"\nstate_setup = \"20 ms\"", "endpoints = \"own\""),
        ("SPLIT-SMART", "kind = \"hard\"\nstate_setup = \"20 ms\"", "endpoints = \"own\""),
        ("LINK-ARQ", "kind = \"forwarding\"\nlink_session = \"moved\"", ""),
        ("LINK-ARQ", "kind = \"multicast\"\nlink_session = \"anew\"", ""),
        ("E2E-SMART", "kind = \"multicast\"", ""),
    ] {
        let (outcome, simulated) = try_run(&scenario(mobility, lines), scheme).unwrap();
        let what = format!("{scheme} {mobility}");
        whole(&what, &outcome.report);
        println!("{what}: {:?}, simulated {:?}", outcome.report.mobility, simulated.mobility);
        assert!(outcome.report.mobility.unwrap().handoffs >= 2, "{what}");
    }
    assert_eq!(namespace::all().into_iter().filter(|other| other.pid == std::process::id()).count(), 0);
}

#[test]
#[ignore = "needs root: make root"]
fn quic_moves_too() {
    let Some(_turn) = quiet::turn("the lab's tests of handoffs with namespaces") else { return };
    let quic = scenario("kind = \"hard\"", "").with_overrides(&[("flows.down.app", "quic")]).unwrap();
    let (outcome, _) = try_run(&quic, "E2E-CUBIC").unwrap();
    whole("quic", &outcome.report);
    let useful = outcome.report.links[2][0].useful + outcome.report.links[4][0].useful;
    assert!(useful.abs_diff(1_000_000) <= 2, "{useful}");
}

#[test]
#[ignore = "needs root: make root"]
fn what_cannot_move_is_said() {
    // Also works without root.
    let _turn = namespace::require_root().is_ok().then(|| quiet::turn("the lab's tests with namespaces"));
    let message = |scenario: &Scenario, scheme: &str| try_run(scenario, scheme).err().unwrap().to_string();
    let split = message(&scenario("", ""), "SPLIT-BBR");
    assert!(split.contains("does not support split connections of a mobile host (SPLIT-BBR)"), "{split}");
    let mirrored = message(&scenario("soft_state = \"mirrored\"", ""), "SNOOP");
    assert!(mirrored.contains("does not support mobility.soft_state = \"mirrored\" (SNOOP)"), "{mirrored}");
}
