//! Conclusions of the study, checked with disjoint 95 % intervals if they claim a difference, and with a predefined
//! margin if they claim equality. The paper's text was not available; the claims are derived from its tables.

use lasthop_report::study::Claim;

use super::cells::{Cell, FRAME_LOSS, SETTINGS, Testbed, gain, throughput};
use crate::claims::{self, Claimant, show};
use crate::study::Results;

/// Maximum relative difference of two throughputs that count as equal, including their intervals.
const MARGIN: f64 = 0.03;

/// Checks the study's three answers (A) and four findings (F), if `results` has the cells.
pub fn check(results: &Results) -> Vec<Claim> {
    let claim =
        |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| claims::claim(results, id, text, gather);
    let found = [
        claim(
            "A1",
            "SACK alone is not enough: SR under Reno beats it in web browsing, and without congestion from 2.5 % on in file transfers",
            &|c| {
                all(c, |cell| cell.setting.application == "web-browsing", "Reno/SR", "SACK/Raw")?;
                all(c, |cell| is_file(cell) && !is_congested(cell) && cell.loss > 0, "Reno/SR", "SACK/Raw")
            },
        ),
        claim(
            "A2",
            "Without congestion SR makes Reno and SACK indistinguishable: they differ by less than 3 %",
            &|c| {
                for cell in cells("Reno/SR", |cell| !is_congested(cell)) {
                    same(c, &Cell { combination: "SACK/SR", ..cell }, &cell)?;
                }
                Some(())
            },
        ),
        claim(
            "A3",
            "With congestion SACK and SR complement each other in file transfers: together they beat either alone",
            &|c| {
                all(c, |cell| is_file(cell) && is_congested(cell), "SACK/SR", "Reno/SR")?;
                all(c, |cell| is_file(cell) && is_congested(cell), "SACK/SR", "SACK/Raw")
            },
        ),
        claim("F1", "SR helps either TCP: Reno everywhere, SACK from 2.5 % on", &|c| {
            all(c, |_| true, "Reno/SR", "Reno/Raw")?;
            all(c, |cell| cell.loss > 0, "SACK/SR", "SACK/Raw")
        }),
        claim("F2", "SACK alone gains over Reno in file transfers (uniform errors)", &|c| {
            all(c, |cell| is_file(cell) && cell.setting.error_model == "uniform", "SACK/Raw", "Reno/Raw")
        }),
        claim(
            "F3",
            "SACK alone gains less in web browsing than in file transfers (uniform errors, up to 5.4 %)",
            &|c| {
                for (file, web) in [("I", "III"), ("V", "VII")] {
                    for loss in 0..FRAME_LOSS.len() - 1 {
                        smaller_gain(c, &cell(c, web, loss, "SACK/Raw")?, &cell(c, file, loss, "SACK/Raw")?)?;
                    }
                }
                Some(())
            },
        ),
        claim("F4", "SR's gain under Reno grows with the frame loss rate (uniform errors)", &|c| {
            for table in ["I", "III", "V", "VII"] {
                for loss in 1..FRAME_LOSS.len() {
                    let (fewer, more) = (cell(c, table, loss - 1, "Reno/SR")?, cell(c, table, loss, "Reno/SR")?);
                    smaller_gain(c, &fewer, &more)?;
                }
            }
            Some(())
        }),
    ];
    found.into_iter().flatten().collect()
}

fn is_file(cell: &Cell) -> bool {
    cell.setting.application == "file-transfer"
}

fn is_congested(cell: &Cell) -> bool {
    cell.setting.congestion != "none"
}

/// Returns the LAN cells of one combination that satisfy `keep`.
fn cells(combination: &'static str, keep: impl Fn(&Cell) -> bool) -> Vec<Cell> {
    let of =
        |setting| (0..FRAME_LOSS.len()).map(move |loss| Cell { testbed: Testbed::Lan, setting, loss, combination });
    SETTINGS.into_iter().flat_map(of).filter(keep).collect()
}

/// Returns a cell of a table in the LAN. If there is no such table, returns `None` and marks the study as inconsistent.
fn cell(c: &Claimant, table: &str, loss: usize, combination: &'static str) -> Option<Cell> {
    let setting = SETTINGS.into_iter().find(|setting| setting.table == table);
    if setting.is_none() {
        c.results.throughput(&format!("table {table}"));
    }
    Some(Cell { testbed: Testbed::Lan, setting: setting?, loss, combination })
}

/// Checks that `upper` exceeds `lower` in each cell that satisfies `keep`.
fn all(c: &mut Claimant, keep: impl Fn(&Cell) -> bool, upper: &'static str, lower: &'static str) -> Option<()> {
    for cell in cells(upper, keep) {
        let (a, b) = (throughput(c.results, &cell)?, throughput(c.results, &Cell { combination: lower, ..cell })?);
        c.judge_apart(&a, &b, format!("{} {} > {lower} {}", cell.name(), show(&a), show(&b)));
    }
    Some(())
}

/// Checks that the whole interval of the ratio lies within the margin.
fn same(c: &mut Claimant, a: &Cell, b: &Cell) -> Option<()> {
    let ratio = c.results.paired_ratio(&a.name(), &b.name())?;
    c.judge_within(
        &ratio,
        (1.0 - MARGIN, 1.0 + MARGIN),
        format!("{} / {} = {} within {} and {}", a.name(), b.combination, show(&ratio), 1.0 - MARGIN, 1.0 + MARGIN),
    );
    Some(())
}

/// Checks that the first cell's gain over Reno/Raw is smaller than the second's.
fn smaller_gain(c: &mut Claimant, a: &Cell, b: &Cell) -> Option<()> {
    let (small, large) = (gain(c.results, a)?, gain(c.results, b)?);
    c.judge_apart(
        &large,
        &small,
        format!("gain of {} {} % < of {} {} %", a.name(), show(&small), b.name(), show(&large)),
    );
    Some(())
}
