//! Cells of the study: runs, published values, and tables.

use std::collections::BTreeMap;

use lasthop_proto::scheme::{Family, SCHEMES, Scheme};
use lasthop_report::study::Table;
use lasthop_scenario::Scenario;

use super::NAME;
use crate::replicate::Task;
use crate::study::{Results, Selection, StudyError, scheme};

/// Published cells of Tables 2 and 3.
const PUBLISHED: &str = include_str!("../../data/balakrishnan1997.csv");

/// Testbeds: LAN or WAN, and the socket buffer in KB.
pub const TESTBEDS: [(&str, u32); 3] = [("LAN", 8), ("LAN", 32), ("WAN", 32)];

/// Burst lengths of Table 5, in packets.
pub const BURSTS: [u32; 3] = [2, 4, 6];

/// Mean bytes between errors in Figure 13, in KB.
pub const ERROR_INTERVALS: [u32; 5] = [16, 32, 64, 128, 256];

/// The schemes of Figure 13.
pub const FIGURE_13: [&str; 5] = ["LL-SMART-TCP-AWARE", "LL-TCP-AWARE", "E2E-SMART", "E2E-IETF-SACK", "E2E"];

/// The figures that can be drawn.
pub const FIGURES: [&str; 10] = ["3", "4", "5", "6", "7", "8", "9", "10", "11", "13"];

const TABLES: [&str; 4] = ["2", "3", "4", "5"];

/// Variation besides scheme and testbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Experiment {
    /// None.
    Standard,
    /// No errors: the link's maximum.
    NoErrors,
    /// Bursts of this number of packets, on average once per 64 KB.
    Burst(u32),
    /// Errors once per this number of KB on average.
    ErrorInterval(u32),
}

/// A cell of the study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// `LAN` or `WAN`.
    pub testbed: &'static str,
    /// Socket buffer in KB.
    pub buffer_kb: u32,
    /// Variation.
    pub experiment: Experiment,
}

impl Cell {
    /// Returns `SCHEME/TESTBED/BUFFER`, followed by the variation.
    pub fn name(&self) -> String {
        let base = format!("{}/{}/{}", self.scheme, self.testbed, self.buffer_kb);
        match self.experiment {
            Experiment::Standard => base,
            Experiment::NoErrors => format!("{base}/no-errors"),
            Experiment::Burst(packets) => format!("{base}/burst-{packets}"),
            Experiment::ErrorInterval(kb) => format!("{base}/error-interval-{kb}KB"),
        }
    }

    /// Returns the parts of the cell's display name.
    pub fn words(&self) -> Vec<String> {
        let testbed = [self.scheme.to_owned(), self.testbed.to_owned(), format!("buffers of {} KB", self.buffer_kb)];
        let varied = match self.experiment {
            Experiment::Standard => None,
            Experiment::NoErrors => Some("no errors".to_owned()),
            Experiment::Burst(packets) => Some(format!("bursts of {packets} packets")),
            Experiment::ErrorInterval(kb) => Some(format!("one error per {kb} KB")),
        };
        testbed.into_iter().chain(varied).collect()
    }

    /// Returns the cell's task.
    pub fn task(&self, seed: u64, runs: u32) -> Result<Task, StudyError> {
        let (scenario, scheme) = self.scenario()?;
        Ok(Task::new(&scenario, scheme, seed, runs)?)
    }

    /// Returns the cell's scenario and scheme.
    pub fn scenario(&self) -> Result<(Scenario, &'static Scheme), StudyError> {
        let scenario = testbed_scenario(self.testbed, self.buffer_kb)?;
        let errors = match self.experiment {
            Experiment::Standard => None,
            Experiment::NoErrors => Some("{ model = \"none\" }".to_owned()),
            Experiment::Burst(packets) => Some(format!(
                "{{ model = \"burst\", mean_bytes = \"64 KiB\", packets = {packets}, frames = \"data\" }}"
            )),
            Experiment::ErrorInterval(kb) => Some(format!("{{ model = \"exponential\", mean_bytes = \"{kb} KiB\" }}")),
        };
        let scenario = match errors {
            None => scenario,
            Some(errors) => scenario.with_overrides(&[("links.wireless.errors", errors)])?,
        };
        Ok((scenario, scheme(NAME, self.scheme)?))
    }

    /// Returns the table that contains the cell.
    fn table(&self) -> Option<&'static str> {
        let family = Scheme::by_name(self.scheme)?.family;
        match (self.experiment, family) {
            (Experiment::Standard, Family::LinkLayer) => Some("2"),
            (Experiment::Standard, Family::EndToEnd) => Some("3"),
            (Experiment::Standard, Family::SplitConnection) => Some("4"),
            (
                Experiment::Standard,
                Family::MultipleLayers | Family::Modern | Family::OneSided | Family::TwoEnded | Family::Discussed,
            ) => None,
            (Experiment::Burst(_), _) => Some("5"),
            (Experiment::ErrorInterval(_), _) => Some("figure-13"),
            (Experiment::NoErrors, _) => Some("no-errors"),
        }
    }
}

/// Returns the scenario of a testbed.
pub fn testbed_scenario(testbed: &str, buffer_kb: u32) -> Result<Scenario, StudyError> {
    let name = match (testbed, buffer_kb) {
        ("LAN", 8) => "wavelan-lan-8k",
        ("LAN", 32) => "wavelan-lan",
        ("WAN", 32) => "wavelan-wan",
        _ => {
            let given = format!("{testbed}/{buffer_kb}");
            return Err(StudyError::Inconsistent { study: NAME, what: "testbed", given });
        }
    };
    Ok(Scenario::builtin(name)?)
}

fn family(family: Family) -> Vec<Cell> {
    let schemes = SCHEMES.iter().filter(|scheme| scheme.family == family);
    let cell = |scheme: &'static Scheme, (testbed, buffer_kb)| Cell {
        scheme: scheme.name,
        testbed,
        buffer_kb,
        experiment: Experiment::Standard,
    };
    schemes.flat_map(|scheme| TESTBEDS.map(|testbed| cell(scheme, testbed))).collect()
}

fn lan32(scheme: &'static str, experiment: Experiment) -> Cell {
    Cell { scheme, testbed: "LAN", buffer_kb: 32, experiment }
}

fn bursts() -> Vec<Cell> {
    let schemes = ["LL-TCP-AWARE", "LL-SMART-TCP-AWARE"];
    schemes.iter().flat_map(|scheme| BURSTS.map(|packets| lan32(scheme, Experiment::Burst(packets)))).collect()
}

fn error_intervals() -> Vec<Cell> {
    let cell = |scheme, kb| lan32(scheme, Experiment::ErrorInterval(kb));
    FIGURE_13.iter().flat_map(|scheme| ERROR_INTERVALS.map(|kb| cell(scheme, kb))).collect()
}

fn no_errors() -> Vec<Cell> {
    let cell = |(testbed, buffer_kb)| Cell { scheme: "E2E", testbed, buffer_kb, experiment: Experiment::NoErrors };
    TESTBEDS.map(cell).to_vec()
}

/// Returns the cells to run for `selection`.
pub fn plan(selection: &Selection) -> Result<Vec<Cell>, StudyError> {
    let cells = match selection {
        Selection::All => [
            family(Family::LinkLayer),
            family(Family::EndToEnd),
            family(Family::SplitConnection),
            bursts(),
            error_intervals(),
            no_errors(),
        ]
        .concat(),
        Selection::Table(table) => match table.as_str() {
            "2" => family(Family::LinkLayer),
            "3" => [family(Family::EndToEnd), no_errors()].concat(),
            "4" => family(Family::SplitConnection),
            "5" => bursts(),
            _ => return Err(unknown("table", table, &TABLES.join(", "))),
        },
        Selection::Figure(figure) => match figure.as_str() {
            "3" => family(Family::LinkLayer),
            "6" => family(Family::EndToEnd),
            "9" => family(Family::SplitConnection),
            "13" => error_intervals(),
            known if FIGURES.contains(&known) => Vec::new(),
            _ => return Err(unknown("figure", figure, &FIGURES.join(", "))),
        },
    };
    Ok(cells)
}

fn unknown(what: &'static str, given: &str, known: &str) -> StudyError {
    StudyError::Unknown { study: NAME, what, given: given.to_owned(), known: known.to_owned() }
}

/// Returns the published values by cell and metric.
pub fn published() -> BTreeMap<(String, &'static str), f64> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(PUBLISHED.as_bytes());
    let mut values = BTreeMap::new();
    for record in reader.records().flatten() {
        let cell = format!("{}/{}/{}", &record[1], &record[2], &record[3]);
        for (column, metric) in [(4, "throughput"), (5, "wireless_goodput"), (6, "wired_goodput")] {
            if let Ok(value) = record[column].parse() {
                values.insert((cell.clone(), metric), value);
            }
        }
    }
    values
}

/// Returns the tables that contain `cells`.
pub fn tables(cells: &[Cell], results: &Results) -> Vec<Table> {
    let titles = [
        ("2", "Link-layer schemes"),
        ("3", "End-to-end schemes"),
        ("4", "Split-connection schemes"),
        ("5", "Bursts of 2, 4 and 6 packets, LAN, 32 KB"),
        ("figure-13", "Error rates of one per 16 to 256 KB, LAN, 32 KB"),
        ("no-errors", "The testbeds without errors"),
    ];
    let published = published();
    let mut tables = Vec::new();
    for (id, title) in titles {
        let mut rows = Vec::new();
        for cell in cells.iter().filter(|cell| cell.table() == Some(id)) {
            let name = cell.name();
            for (metric, unit) in
                [("throughput", "Mbps"), ("wireless_goodput", "percent"), ("wired_goodput", "percent")]
            {
                let Some(estimate) = results.get(&name, metric) else { continue };
                let published = published.get(&(name.clone(), metric)).copied();
                rows.push(estimate.row(&name, (metric, unit), published));
            }
        }
        if !rows.is_empty() {
            tables.push(Table { id: id.to_owned(), title: title.to_owned(), rows });
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_published_numbers_are_there() {
        let published = published();
        let count = |metric| published.keys().filter(|key| key.1 == metric).count();
        // Tables 2 and 3 have 30 cells; SMART was not run in the WAN.
        assert_eq!((count("throughput"), count("wireless_goodput"), count("wired_goodput")), (29, 29, 29));
    }

    #[test]
    fn every_published_cell_is_planned() {
        let planned: Vec<_> = plan(&Selection::All).unwrap().iter().map(Cell::name).collect();
        assert!(published().keys().all(|(cell, _)| planned.contains(cell)));
    }

    #[test]
    fn unknown_parts_are_named() {
        let error = plan(&Selection::Table("7".to_owned())).unwrap_err().to_string();
        assert_eq!(error, "balakrishnan1997 has no table 7; it has 2, 3, 4, 5");
    }
}
