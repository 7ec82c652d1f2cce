use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;

use super::*;

fn lines(scheme: &str, own: &[(&str, &str)], node: usize) -> Result<Vec<String>, LabError> {
    let scenario = Scenario::builtin("two-dsl").unwrap().with_overrides(own).unwrap();
    let scheme = Scheme::by_name(scheme).unwrap();
    let network = scenario.network(scheme).unwrap();
    Ok(Plan::new(&network, scheme, scenario.lab())?.addresses(NodeId(node)))
}

const MPTCP: (&str, &str) = ("lab.mptcp", "on");
const SERVER: usize = 0;
const VPS: usize = 2;
const OFFICE: usize = 3;

#[test]
fn a_line_is_chosen_by_the_address_for_it() {
    // Hosts: server 10.0.0.1, desk 10.0.0.2; routers: vps 10.0.0.3, office 10.0.0.4. Links: internet 0, vdsl 1, adsl 2,
    // lan 3.
    let server = lines("E2E-CUBIC", &[MPTCP], SERVER).unwrap();
    for line in ["addr add 10.17.0.1/32 dev link0", "mptcp endpoint add 10.17.0.1 dev link0 subflow"] {
        assert!(server.iter().any(|known| known == line), "{line}: {server:#?}");
    }
    let vps = lines("E2E-CUBIC", &[MPTCP], VPS).unwrap();
    for line in [
        "route add 10.0.0.2/32 via 10.0.0.4 dev link1 onlink src 10.0.0.3",
        "route add 10.17.0.2/32 via 10.0.0.4 dev link2 onlink src 10.0.0.3",
        "route add 10.17.0.1/32 via 10.0.0.1 dev link0 onlink src 10.0.0.3",
        "route add 10.0.0.2/32 via 10.0.0.4 dev link2 onlink table 202",
        "rule add from 10.17.0.1 lookup 202 pref 200",
    ] {
        assert!(vps.iter().any(|known| known == line), "{line}: {vps:#?}");
    }
    assert!(!vps.iter().any(|line| line.contains("from 10.17.0.2")), "{vps:#?}");
    let office = lines("E2E-CUBIC", &[MPTCP], OFFICE).unwrap();
    for line in [
        "route add 10.17.0.1/32 via 10.0.0.3 dev link2 onlink src 10.0.0.4",
        "rule add from 10.17.0.2 lookup 202 pref 200",
    ] {
        assert!(office.iter().any(|known| known == line), "{line}: {office:#?}");
    }
    // Without the key there is nothing of this.
    for node in [SERVER, VPS, OFFICE] {
        let lines = lines("E2E-CUBIC", &[], node).unwrap();
        assert!(!lines.iter().any(|line| line.contains("10.17.") || line.contains("rule")), "{lines:#?}");
    }
}

#[test]
fn multipath_tcp_is_refused_where_it_has_no_paths_or_no_kernel() {
    let message = |scheme, own: &[(&str, &str)]| lines(scheme, own, 0).unwrap_err().to_string();
    let over = message("LINK-MULTI", &[MPTCP]);
    assert!(over.contains("Multipath TCP over elements") && over.contains("E2E-CUBIC"), "{over}");
    let own = message("E2E-BBR3", &[MPTCP]);
    assert!(own.contains("Multipath TCP with lasthop's TCP"), "{own}");
    let scenario = Scenario::builtin("farm-radio").unwrap().with_overrides(&[MPTCP]).unwrap();
    let scheme = Scheme::by_name("E2E-CUBIC").unwrap();
    let network = scenario.network(scheme).unwrap();
    let message = Plan::new(&network, scheme, scenario.lab()).err().unwrap().to_string();
    assert!(message.contains("[bundles.NAME]"), "{message}");
}
