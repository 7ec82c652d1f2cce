//! Tests of the study's cells and claims, without runs.

use std::collections::BTreeSet;

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;

use super::lines::LINES;
use super::links::LINKS;
use super::{NAME, TODAY};
use crate::measures::Samples;
use crate::reproduce::Plan;
use crate::study::{Options, Selection, Study};

fn plan(selection: Selection) -> Plan {
    Plan::new(NAME, &Options { selection, runs: 2, seed: 1, jobs: 1 }).unwrap()
}

/// Eight links and four uses with 14 lines, but FQ-CoDel over five links only.
#[test]
fn cells_are_all_combinations() {
    let plan = plan(Selection::All);
    let names: BTreeSet<&str> = plan.cells().iter().map(|cell| &*cell.name).collect();
    assert_eq!((names.len(), plan.cells().len()), (436, 436));
    for used in ["bulk", "page", "call", "video"] {
        for link in &LINKS {
            for line in &LINES {
                let name = format!("{used}/{}/{}", link.name, line.name);
                let managed = ["wifi", "busy-wifi", "mesh"].contains(&link.name);
                assert_eq!(names.contains(&*name), !(line.name == "FQ-CoDel" && managed), "{name}");
            }
        }
    }
}

#[test]
fn a_third_of_the_cells_is_for_the_lab() {
    let plan = plan(Selection::All);
    assert_eq!(plan.lab_cells().len(), 160);
    assert!(plan.lab_cells().len() * 3 >= plan.cells().len());
    // Each link and each use is part of it.
    for used in ["bulk", "page", "call", "video"] {
        for link in &LINKS {
            let own = format!("{used}/{}/", link.name);
            assert!(plan.lab_cells().iter().any(|at| plan.cells()[*at].name.starts_with(&own)), "{own}");
        }
    }
}

/// Claims name cells that exist, and the whole study has all of them; a table has those of its own use.
#[test]
fn claims_have_their_cells() {
    for (selection, count) in [(Selection::All, 27), (Selection::Table("page/geo".to_owned()), 1)] {
        let plan = plan(selection);
        let columns = plan.measures().to_vec();
        // Runs that differ, so that every comparison has an interval.
        let values = (0..2 * columns.len()).map(|at| 1.0 + (at % 7) as f64).collect();
        let samples = vec![Samples::from_values(columns, values); plan.cells().len()];
        let study = plan.finish(&samples).unwrap();
        assert_eq!(study.claims.len(), count);
        assert!(study.claims.iter().all(|claim| !claim.comparisons.is_empty() && claim.text.len() > 40));
        assert!(study.tables.iter().flat_map(|table| &table.rows).all(|row| row.published.is_none()));
        assert_eq!(study.summaries().len(), 0, "no accuracy without published values");
    }
}

/// A part of a table has the cells whose names begin with it.
#[test]
fn a_link_of_a_table_is_a_selection() {
    let plan = plan(Selection::Table("bulk/farm".to_owned()));
    assert_eq!((plan.cells().len(), plan.lab_cells().len()), (14, 6));
    assert!(plan.cells().iter().all(|cell| cell.name.starts_with("bulk/farm/")));
    let options = Options { selection: Selection::Table("bulk/moon".to_owned()), runs: 2, seed: 1, jobs: 1 };
    let error = Plan::new(NAME, &options).err().unwrap().to_string();
    assert_eq!(error, "lasthop2026 has no table bulk/moon; it has bulk, page, call, video");
}

/// The links are those of the ready-made scenarios that the files name.
#[test]
fn links_are_those_of_ready_made_scenarios() {
    let scheme = Scheme::by_name("E2E-CUBIC").unwrap();
    let hops = |network: &Network| -> Vec<String> {
        // Numbers of nodes and names of links differ.
        let link = |link: &lasthop_sim::network::LinkSpec| format!("{:?} {:?}", link.directions, link.medium);
        network.links.iter().map(link).collect()
    };
    let sources = [
        ("wifi", "home-wifi-1"),
        ("busy-wifi", "full-wifi"),
        ("lte", "train-lte"),
        ("5g", "5g-fwa"),
        ("starlink", "starlink"),
        ("geo", "satellite"),
        ("farm", "farm-radio"),
    ];
    for (name, source) in sources {
        let link = LINKS.iter().find(|link| link.name == name).unwrap();
        let flows = "[flows.f]\nfrom = \"server\"\nto = \"client\"\nsize = \"1 kB\"\n";
        let own = Scenario::parse(link.name, &format!("{}\n{flows}", link.text)).unwrap().network(scheme).unwrap();
        let theirs = Scenario::builtin(source).unwrap().network(scheme).unwrap();
        assert_eq!(hops(&own), hops(&theirs), "{}", link.name);
    }
}

#[test]
fn display_names_are_words() {
    let names = TODAY.names(&Selection::Table("call".to_owned())).unwrap();
    assert_eq!(names["call/5g/QUIC-HYBRID"], ["5G at home", "QUIC-HYBRID"]);
}
