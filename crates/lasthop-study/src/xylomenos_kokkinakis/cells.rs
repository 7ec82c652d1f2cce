//! Cells of the study: runs, published values, and tables.

use std::collections::BTreeMap;

use lasthop_proto::scheme::Scheme;
use lasthop_report::study::Table;
use lasthop_scenario::Scenario;

use super::NAME;
use crate::replicate::Task;
use crate::stats::Estimate;
use crate::study::{Results, Selection, StudyError, scheme};

/// Published cells of Tables I to VIII.
const PUBLISHED: &str = include_str!("../../data/xylomenos_kokkinakis.csv");

/// Frame loss rates in percent. The tables also use them to name the two-state channel's bad periods.
pub const FRAME_LOSS: [&str; 4] = ["1.5", "2.5", "5.4", "9.8"];

/// Mean bad periods of the two-state channel that correspond to [`FRAME_LOSS`].
const BAD_PERIODS: [&str; 4] = ["100 ms", "200 ms", "500 ms", "1 s"];

/// TCP's recovery and the link protocol.
pub const COMBINATIONS: [&str; 4] = ["Reno/Raw", "SACK/Raw", "Reno/SR", "SACK/SR"];

/// Wired network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Testbed {
    /// 10 Mbps, 1 ms.
    Lan,
    /// 2 Mbps, 50 ms. The paper does not print its results for lack of space.
    Wan,
}

/// Setting of a table, with all four combinations at all four loss rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Number of the table in the paper.
    pub table: &'static str,
    /// Figure with the same data.
    pub figure: &'static str,
    /// `file-transfer` or `web-browsing`.
    pub application: &'static str,
    /// `uniform` or `two-state`.
    pub error_model: &'static str,
    /// `none` or `udp-on-off`.
    pub congestion: &'static str,
}

impl Setting {
    /// Returns the display name of application and cross traffic.
    fn words(&self) -> [&'static str; 2] {
        let application = if self.application == "web-browsing" { "web browsing" } else { "file transfer" };
        let congestion = if self.congestion == "udp-on-off" { "bursts of UDP" } else { "no cross traffic" };
        [application, congestion]
    }
}

const fn setting(
    [table, figure]: [&'static str; 2],
    [application, error_model, congestion]: [&'static str; 3],
) -> Setting {
    Setting { table, figure, application, error_model, congestion }
}

/// Settings of the paper's eight tables.
pub const SETTINGS: [Setting; 8] = [
    setting(["I", "2"], ["file-transfer", "uniform", "none"]),
    setting(["II", "3"], ["file-transfer", "two-state", "none"]),
    setting(["III", "4"], ["web-browsing", "uniform", "none"]),
    setting(["IV", "5"], ["web-browsing", "two-state", "none"]),
    setting(["V", "6"], ["file-transfer", "uniform", "udp-on-off"]),
    setting(["VI", "7"], ["file-transfer", "two-state", "udp-on-off"]),
    setting(["VII", "8"], ["web-browsing", "uniform", "udp-on-off"]),
    setting(["VIII", "9"], ["web-browsing", "two-state", "udp-on-off"]),
];

/// A cell of the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Wired network.
    pub testbed: Testbed,
    /// Application, errors and congestion.
    pub setting: Setting,
    /// Index of the frame loss rate.
    pub loss: usize,
    /// TCP's recovery and the link protocol, such as `SACK/SR`.
    pub combination: &'static str,
}

impl Cell {
    /// Returns `APPLICATION/ERROR_MODEL/CONGESTION/LOSS/COMBINATION`, with the prefix `wan/` for the WAN.
    pub fn name(&self) -> String {
        let Setting { application, error_model, congestion, .. } = self.setting;
        let wan = if self.testbed == Testbed::Wan { "wan/" } else { "" };
        format!("{wan}{application}/{error_model}/{congestion}/{}/{}", FRAME_LOSS[self.loss], self.combination)
    }

    /// Returns the parts of the cell's display name.
    pub fn words(&self) -> Vec<String> {
        let (tcp, link) = self.combination.split_once('/').unwrap_or((self.combination, "Raw"));
        let link = if link == "SR" { "selective repeat" } else { "bare link" };
        let losses = if self.setting.error_model == "uniform" {
            format!("{} % of frames lost", FRAME_LOSS[self.loss])
        } else {
            format!("bad periods of {}", BAD_PERIODS[self.loss])
        };
        let testbed = if self.testbed == Testbed::Lan { "LAN" } else { "WAN" };
        let [application, congestion] = self.setting.words();
        [losses.as_str(), tcp, link, application, congestion, testbed].map(str::to_owned).to_vec()
    }

    /// Returns the cell's task.
    pub fn task(&self, seed: u64, runs: u32) -> Result<Task, StudyError> {
        let (scenario, scheme) = self.scenario()?;
        Ok(Task::new(&scenario, scheme, seed, runs)?)
    }

    /// Returns the cell's scenario and scheme.
    pub fn scenario(&self) -> Result<(Scenario, &'static Scheme), StudyError> {
        let web = if self.setting.application == "web-browsing" { "-web" } else { "" };
        let udp = if self.setting.congestion == "udp-on-off" { "-udp" } else { "" };
        let testbed = if self.testbed == Testbed::Lan { "lan" } else { "wan" };
        let scenario = Scenario::builtin(&format!("multilayer{web}{udp}-{testbed}"))?;
        let errors = match self.setting.error_model {
            "uniform" => format!("{{ model = \"uniform\", frame_loss = \"{} %\" }}", FRAME_LOSS[self.loss]),
            _ => format!(
                "{{ model = \"two-state\", good = \"10 s\", bad = \"{}\", good_ber = 1e-6, bad_ber = 1e-2 }}",
                BAD_PERIODS[self.loss]
            ),
        };
        let scenario = scenario.with_overrides(&[("links.wireless.errors", errors)])?;
        Ok((scenario, scheme(NAME, self.combination)?))
    }
}

/// Returns the cells of one table.
pub fn cells_of(testbed: Testbed, setting: Setting) -> Vec<Cell> {
    let row = |loss| COMBINATIONS.map(|combination| Cell { testbed, setting, loss, combination });
    (0..FRAME_LOSS.len()).flat_map(row).collect()
}

/// Returns the name of a table. WAN tables have none in the paper.
fn table_id(testbed: Testbed, setting: &Setting) -> String {
    match testbed {
        Testbed::Lan => setting.table.to_owned(),
        Testbed::Wan => format!("WAN-{}", setting.table),
    }
}

/// Returns the cells to run for `selection`.
pub fn plan(selection: &Selection) -> Result<Vec<Cell>, StudyError> {
    let all = [Testbed::Lan, Testbed::Wan].into_iter().flat_map(|testbed| SETTINGS.map(|setting| (testbed, setting)));
    let chosen: Vec<_> = all
        .filter(|(testbed, setting)| match selection {
            Selection::All => true,
            Selection::Table(table) => table_id(*testbed, setting) == *table,
            Selection::Figure(figure) => *testbed == Testbed::Lan && setting.figure == figure,
        })
        .collect();
    let unknown = |what: &'static str, given: &str, known: Vec<&str>| StudyError::Unknown {
        study: NAME,
        what,
        given: given.to_owned(),
        known: known.join(", "),
    };
    match selection {
        Selection::Table(table) if chosen.is_empty() => {
            let mut known = SETTINGS.map(|setting| setting.table).to_vec();
            known.push("and each as WAN-I, ...");
            Err(unknown("table", table, known))
        }
        Selection::Figure(figure) if chosen.is_empty() => {
            Err(unknown("figure", figure, SETTINGS.map(|setting| setting.figure).to_vec()))
        }
        _ => Ok(chosen.into_iter().flat_map(|(testbed, setting)| cells_of(testbed, setting)).collect()),
    }
}

/// Published values by cell and metric: throughputs in kbps, derived from the paper's gains over Reno/Raw, and the
/// gains in percent.
pub type Published = BTreeMap<(String, &'static str), f64>;

/// Returns all published values.
pub fn published() -> Published {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(PUBLISHED.as_bytes());
    let mut values = BTreeMap::new();
    for record in reader.records().flatten() {
        let numbers: Vec<f64> = record.iter().skip(5).filter_map(|field| field.parse().ok()).collect();
        let [base, gains @ ..] = &numbers[..] else { continue };
        let row = format!("{}/{}/{}/{}", &record[1], &record[2], &record[3], &record[4]);
        values.insert((format!("{row}/{}", COMBINATIONS[0]), "throughput"), *base);
        for (combination, gain) in COMBINATIONS[1..].iter().zip(gains) {
            values.insert((format!("{row}/{combination}"), "throughput"), base * (1.0 + gain / 100.0));
            values.insert((format!("{row}/{combination}"), "gain"), *gain);
        }
    }
    values
}

/// Returns the throughput of a cell in kbps.
pub fn throughput(results: &Results, cell: &Cell) -> Option<Estimate> {
    results.throughput(&cell.name()).map(|estimate| estimate.scaled(1000.0))
}

/// Returns the gain of a cell over Reno/Raw in percent.
pub fn gain(results: &Results, cell: &Cell) -> Option<Estimate> {
    let base = Cell { combination: COMBINATIONS[0], ..*cell };
    let ratio = throughput(results, cell)?.over(&throughput(results, &base)?);
    Some(Estimate { mean: ratio.mean - 1.0, ..ratio }.scaled(100.0))
}

/// Returns the tables that contain `cells`.
pub fn tables(cells: &[Cell], results: &Results) -> Vec<Table> {
    let published = published();
    let mut tables: Vec<Table> = Vec::new();
    for cell in cells {
        let id = table_id(cell.testbed, &cell.setting);
        let Setting { application, error_model, congestion, .. } = cell.setting;
        if tables.last().is_none_or(|table| table.id != id) {
            let testbed = if cell.testbed == Testbed::Lan { "LAN" } else { "WAN" };
            let title = format!("{application}, {error_model} errors, congestion: {congestion}, {testbed}");
            tables.push(Table { id, title, rows: Vec::new() });
        }
        let Some(table) = tables.last_mut() else { continue };
        let name = cell.name();
        let base = cell.combination == COMBINATIONS[0];
        let numbers = [
            ("throughput", "kbps", throughput(results, cell)),
            ("gain", "percent", if base { None } else { gain(results, cell) }),
        ];
        for (metric, unit, estimate) in numbers {
            let Some(estimate) = estimate else { continue };
            let published = published.get(&(name.clone(), metric)).copied();
            table.rows.push(estimate.row(&name, (metric, unit), published));
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_number_is_there_and_planned() {
        let published = published();
        let count = |metric| published.keys().filter(|key| key.1 == metric).count();
        assert_eq!((count("throughput"), count("gain")), (128, 96));
        let planned: Vec<_> = plan(&Selection::All).unwrap().iter().map(Cell::name).collect();
        assert_eq!(planned.len(), 256);
        assert!(published.keys().all(|(cell, _)| planned.contains(cell)));
        // Table I: 48.7 kbps, and 19.2 % more.
        let sack_sr = published[&("file-transfer/uniform/none/2.5/SACK/SR".to_owned(), "throughput")];
        assert!((sack_sr - 48.7 * 1.192).abs() < 1e-9);
    }

    #[test]
    fn parts_are_chosen_by_name() {
        let cells = |selection| plan(&selection).unwrap().len();
        assert_eq!(cells(Selection::Table("WAN-III".to_owned())), 16);
        assert_eq!(cells(Selection::Figure("9".to_owned())), 16);
        let error = plan(&Selection::Table("IX".to_owned())).unwrap_err().to_string();
        assert!(error.starts_with("xylomenos-kokkinakis has no table IX; it has I, II, "), "{error}");
    }
}
