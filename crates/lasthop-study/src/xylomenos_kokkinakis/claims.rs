//! What the study concludes, as checks with disjoint 95 % intervals where it claims a difference and with a margin stated
//! beforehand where it claims none.

use lasthop_report::study::Claim;

use super::cells::{Cell, FRAME_LOSS, SETTINGS, Setting, Testbed, gain, throughput};
use crate::claims::{self, Claimant, show};
use crate::study::Results;

/// Two throughputs that differ by less than this share, their intervals included, count as the same.
const MARGIN: f64 = 0.03;

/// Every claim for which `results` has the cells.
pub fn check(results: &Results) -> Vec<Claim> {
    let claim =
        |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| claims::claim(results, id, text, gather);
    let found = [
        claim("1", "SR under Reno beats Reno over the bare link everywhere", &|c| {
            all(c, everywhere, "Reno/SR", "Reno/Raw")
        }),
        claim("2", "SR under SACK beats SACK over the bare link from 2.5 % on", &|c| {
            for cell in cells("SACK/SR", everywhere).into_iter().filter(|cell| cell.loss > 0) {
                beats(c, &cell, "SACK/Raw")?;
            }
            Some(())
        }),
        claim("3", "Without congestion SR makes Reno and SACK indistinguishable: they differ by less than 3 %", &|c| {
            for cell in cells("Reno/SR", |setting| setting.congestion == "none") {
                same(c, &Cell { combination: "SACK/SR", ..cell }, &cell)?;
            }
            Some(())
        }),
        claim("4", "SACK alone gains over Reno in file transfers, under both error models", &|c| {
            all(
                c,
                |setting| setting.application == "file-transfer" && setting.error_model == "uniform",
                "SACK/Raw",
                "Reno/Raw",
            )
        }),
        claim("5", "SACK alone gains less in web browsing than in file transfers (uniform errors)", &|c| {
            for (file, web) in [("I", "III"), ("V", "VII")] {
                for loss in 0..FRAME_LOSS.len() - 1 {
                    let [file, web] = [file, web].map(|table| cell(table, loss, "SACK/Raw"));
                    smaller_gain(c, &web, &file)?;
                }
            }
            Some(())
        }),
        claim("6", "SR's gain under Reno grows with the frame loss rate (uniform errors)", &|c| {
            for table in ["I", "III", "V", "VII"] {
                for loss in 1..FRAME_LOSS.len() {
                    smaller_gain(c, &cell(table, loss - 1, "Reno/SR"), &cell(table, loss, "Reno/SR"))?;
                }
            }
            Some(())
        }),
        claim(
            "7",
            "With congestion SACK and SR complement each other in file transfers: together they beat either alone",
            &|c| {
                let congested =
                    |setting: &Setting| setting.application == "file-transfer" && setting.congestion != "none";
                all(c, congested, "SACK/SR", "Reno/SR")?;
                all(c, congested, "SACK/SR", "SACK/Raw")
            },
        ),
    ];
    found.into_iter().flatten().collect()
}

fn everywhere(_: &Setting) -> bool {
    true
}

/// The LAN cells of one combination in the settings that `keep` lets through.
fn cells(combination: &'static str, keep: impl Fn(&Setting) -> bool) -> Vec<Cell> {
    let settings = SETTINGS.into_iter().filter(|setting| keep(setting));
    let of =
        |setting| (0..FRAME_LOSS.len()).map(move |loss| Cell { testbed: Testbed::Lan, setting, loss, combination });
    settings.flat_map(of).collect()
}

fn cell(table: &str, loss: usize, combination: &'static str) -> Cell {
    let setting = SETTINGS.into_iter().find(|setting| setting.table == table).unwrap_or(SETTINGS[0]);
    Cell { testbed: Testbed::Lan, setting, loss, combination }
}

/// `upper` beats `lower` in each of the settings.
fn all(c: &mut Claimant, keep: impl Fn(&Setting) -> bool, upper: &'static str, lower: &'static str) -> Option<()> {
    for cell in cells(upper, keep) {
        beats(c, &cell, lower)?;
    }
    Some(())
}

/// The cell beats another combination in the same place.
fn beats(c: &mut Claimant, cell: &Cell, lower: &'static str) -> Option<()> {
    let (a, b) = (throughput(c.results, cell)?, throughput(c.results, &Cell { combination: lower, ..*cell })?);
    c.check(a.above(&b), format!("{} {} > {lower} {}", cell.name(), show(&a), show(&b)));
    Some(())
}

/// The whole interval of the ratio lies within the margin.
fn same(c: &mut Claimant, a: &Cell, b: &Cell) -> Option<()> {
    let ratio = c.results.paired_ratio(&a.name(), &b.name())?;
    let (low, high) = ratio.interval();
    let holds = low > 1.0 - MARGIN && high < 1.0 + MARGIN;
    c.check(
        holds,
        format!("{} / {} = {} within {} and {}", a.name(), b.combination, show(&ratio), 1.0 - MARGIN, 1.0 + MARGIN),
    );
    Some(())
}

/// The first cell's gain over Reno/Raw is smaller than the second's.
fn smaller_gain(c: &mut Claimant, a: &Cell, b: &Cell) -> Option<()> {
    let (small, large) = (gain(c.results, a)?, gain(c.results, b)?);
    c.check(
        large.above(&small),
        format!("gain of {} {} % < of {} {} %", a.name(), show(&small), b.name(), show(&large)),
    );
    Some(())
}
