//! Tests of the published studies: the verdict of each claim, the deviation of each table, and errors for missing
//! parts. With few runs and a fixed seed: intentional changes of results change numbers here.

use std::collections::BTreeSet;

use lasthop_report::study::{Deviation, Holds, Study};
use lasthop_study::replicate::Silent;
use lasthop_study::reproduce::{Plan, names, reproduce};
use lasthop_study::study::{Options, Selection};

fn options(selection: Selection, runs: u32) -> Options {
    Options { selection, runs, seed: 1, jobs: 0 }
}

/// Returns the claims that do not hold, with the comparisons that decide.
fn missed(study: &Study) -> Vec<(&str, Vec<&str>)> {
    let claims = study.claims.iter().filter(|claim| claim.holds == Holds::No);
    claims
        .map(|claim| {
            let comparisons = claim.comparisons.iter().filter(|comparison| comparison.holds == Holds::No);
            (&*claim.id, comparisons.map(|comparison| &*comparison.text).collect())
        })
        .collect()
}

fn verdicts(study: &Study) -> String {
    let mark = |claim: &lasthop_report::study::Claim| match claim.holds {
        Holds::Yes => "",
        Holds::No => "!",
        Holds::Open => "?",
    };
    study.claims.iter().map(|claim| format!("{}{}", mark(claim), claim.id)).collect::<Vec<_>>().join(" ")
}

/// Returns the mean absolute deviation of a table's throughputs with published numbers in percent, and that of its
/// worst cell.
fn deviations(study: &Study, table: &str) -> (f64, f64) {
    let table = study.tables.iter().find(|known| known.id == table).unwrap_or_else(|| panic!("table {table}"));
    let rows = table.rows.iter().filter(|row| row.metric == "throughput");
    let off: Vec<f64> = rows.filter_map(|row| row.deviation()).map(|off| 100.0 * off.value().abs()).collect();
    (off.iter().sum::<f64>() / off.len() as f64, off.iter().copied().fold(0.0, f64::max))
}

#[test]
fn the_1997_study() {
    let study = reproduce("balakrishnan1997", &options(Selection::All, 30), &Silent).unwrap();
    assert_eq!(verdicts(&study), "a b c d e f g ?h i j k l", "{:#?}", missed(&study));
    for (table, mean, worst) in [("2", 10.5, 25.5), ("3", 10.0, 22.0)] {
        let off = deviations(&study, table);
        assert!(off.0 <= mean && off.1 <= worst, "table {table}: {off:.1?} % off");
    }
    let throughput = study.summaries().into_iter().find(|summary| summary.metric == "throughput").unwrap();
    assert_eq!(throughput.cells, 29);
    assert!(throughput.worst.percent().abs() <= 30.0, "{throughput:?}");
    assert!(matches!(throughput.mean, Deviation::Relative(mean) if mean <= 0.10), "{throughput:?}");
    let goodputs = study.tables.iter().flat_map(|table| &table.rows).filter(|row| row.metric.ends_with("_goodput"));
    let off: Vec<f64> = goodputs.filter_map(|row| row.deviation()).map(|off| off.percent().abs()).collect();
    let beyond = off.iter().filter(|off| **off > 1.0).count();
    assert_eq!((off.len(), beyond), (58, 2), "LL-SMART/WAN/32 on the air and E2E/LAN/8 on the wire");
    assert!(study.notes.iter().any(|note| note.starts_with("Fitted to the published throughputs")));
}

/// Returns the number of each claim's comparisons that hold.
fn comparisons(study: &Study) -> String {
    let held = |claim: &lasthop_report::study::Claim| {
        claim.comparisons.iter().filter(|comparison| comparison.holds == Holds::Yes).count()
    };
    let each = study.claims.iter().map(|claim| format!("{} {}/{}", claim.id, held(claim), claim.comparisons.len()));
    each.collect::<Vec<_>>().join(", ")
}

/// The half with published numbers, which suffices for the claims. With four runs intervals are wide, so not every
/// comparison is decided; their number reveals changes.
#[test]
fn the_study_of_several_layers() {
    let plan = Plan::new("xylomenos-kokkinakis", &options(Selection::All, 4)).unwrap();
    let plan = plan.retain(|cell| !cell.name.starts_with("wan/"));
    let study = plan.finish(&plan.run(&Silent).unwrap()).unwrap();
    assert_eq!(comparisons(&study), "A1 10/22, A2 13/16, A3 10/16, F1 40/56, F2 8/8, F3 0/6, F4 8/12");
    let bounds = [2.0, 1.5, 4.5, 2.0, 2.0, 1.5, 4.0, 2.0];
    for (table, mean) in ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"].into_iter().zip(bounds) {
        let off = deviations(&study, table);
        assert!(off.0 <= mean && off.1 <= 12.0, "table {table}: {off:.1?} % off");
    }
    few_runs_agree_with_the_document(&study);
}

/// The numbers in docs/multiple-layers.md are from 30 runs per cell, which take minutes. The first four of them, run
/// here, cannot deviate far; scripts/layers-table.py describes how to recreate the file.
fn few_runs_agree_with_the_document(study: &Study) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data/multiple-layers.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let measured = |of: &str, cell: &str| {
        let table = study.tables.iter().find(|table| table.id == of)?;
        table.rows.iter().find(|row| row.metric == "throughput" && row.cell == cell)
    };
    let mut all = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [table, cell, published, kept, ..] = fields[..] else { panic!("{line}") };
        let row = measured(table, cell).unwrap_or_else(|| panic!("no cell {cell} in table {table}"));
        let [published, kept]: [f64; 2] = [published, kept].map(|number| number.parse().unwrap());
        // The file has nine decimals.
        assert!(row.published.is_some_and(|known| (known - published).abs() < 1e-8), "{cell}: {:?}", row.published);
        let off = (row.measured / kept - 1.0).abs();
        // Web sessions vary more between runs than transfers.
        let bound = if cell.starts_with("web") { 0.12 } else { 0.025 };
        assert!(off <= bound, "{cell}: {} in four runs, {kept} in the file", row.measured);
        all.push(off);
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!(all.len() >= 100 && mean <= 0.025, "{} cells, {mean:.4} off on average", all.len());
}

/// Each topic has a table with every cell, a figure, and claims; eight runs decide which of them hold.
#[test]
fn the_discussion() {
    let plan = Plan::new("discussion1997", &options(Selection::All, 8)).unwrap();
    let study = plan.finish(&plan.run(&Silent).unwrap()).unwrap();
    // Eight runs do not decide whether ELN from queue lengths reaches its reference. With random moves, a window
    // interrupted by a handoff takes longer than the handoff, and much longer for a split connection.
    let expected = "?handoffs-fast !handoffs-state handoffs-loss handoffs-order ?hops-eln asymmetry asymmetry-cures \
                    asymmetry-two-way varying-delay-handover varying-delay-spikes varying-delay-snoop congestion-order \
                    srp-few-losses srp-many-losses small-windows";
    assert_eq!(verdicts(&study), expected, "{:#?}", missed(&study));
    let rows = study.tables.iter().flat_map(|table| &table.rows);
    let cells: BTreeSet<&str> = rows.clone().map(|row| &*row.cell).collect();
    assert_eq!(cells.len(), plan.cells().len());
    // A single transfer has no fairness.
    let fairness: Vec<&str> = rows.filter(|row| row.metric == "fairness").map(|row| &*row.cell).collect();
    assert!(fairness.len() == 12 && fairness.iter().all(|cell| cell.ends_with("/with-cross-traffic")), "{fairness:?}");
    assert_eq!(study.figures.len(), study.tables.len());
}

#[test]
fn what_is_not_there_is_named() {
    let refused = |study, selection| Plan::new(study, &options(selection, 1)).err().map(|error| error.to_string());
    assert_eq!(
        refused("balakrishnan", Selection::All).unwrap(),
        format!("no study balakrishnan; expected one of {}", names().join(", "))
    );
    for name in names() {
        assert!(refused(name, Selection::All).is_none());
        for (what, selection) in
            [("table", Selection::Table("99".to_owned())), ("figure", Selection::Figure("99".to_owned()))]
        {
            let error = refused(name, selection).unwrap();
            assert!(error.starts_with(&format!("{name} has no {what} 99; it has ")), "{error}");
        }
    }
}

/// The page of each study has an introduction, and names for its cells instead of paths.
#[test]
fn pages_introduce_a_study_and_name_its_cells_in_words() {
    let parts = [
        ("balakrishnan1997", Selection::Table("5".to_owned())),
        ("xylomenos-kokkinakis", Selection::Table("WAN-II".to_owned())),
        ("discussion1997", Selection::Table("hops".to_owned())),
    ];
    for (name, selection) in parts {
        let study = reproduce(name, &options(selection, 1), &Silent).unwrap();
        assert!(!study.introduction.is_empty() && study.computed_by.starts_with("lasthop "), "{name}");
        assert_eq!(study.seed, 1);
        let files = study.files().unwrap();
        let (_, page) = files.iter().find(|(name, _)| name == "index.html").unwrap();
        let page = String::from_utf8(page.clone()).unwrap();
        let (body, _) = page.split_once("<script").unwrap_or((&page, ""));
        for row in study.tables.iter().flat_map(|table| &table.rows) {
            assert!(study.names.get(&row.cell).is_some_and(|parts| parts.len() > 1), "{}", row.cell);
            let shown = body.replace(&format!("title=\"{} in cells.csv\"", row.cell), "");
            assert!(!shown.contains(&row.cell), "{}", row.cell);
        }
        // Two cells of a table never have the same name.
        for table in &study.tables {
            let names = study.names_in(table);
            assert_eq!(names.values().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        }
    }
}

/// The numbers in docs/lasthop2026.md are those of all cells, which take minutes; three lines over the farm radio and the
/// satellite are run here. `scripts/lasthop2026-table.py` describes how to recreate the file.
#[test]
fn the_question_of_2026_has_the_numbers_of_its_document() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data/lasthop2026.csv");
    let mut kept = csv::Reader::from_path(path).unwrap();
    let kept: Vec<_> = kept.records().map(Result::unwrap).collect();
    let runs = kept[0][8].parse().unwrap();
    let plan = Plan::new("lasthop2026", &options(Selection::All, runs)).unwrap().retain(|cell| {
        let parts: Vec<&str> = cell.name.split('/').collect();
        ["farm", "geo"].contains(&parts[1]) && ["CUBIC", "SNOOP", "LINK-HYBRID"].contains(&parts[2])
    });
    let study = plan.finish(&plan.run(&Silent).unwrap()).unwrap();
    let rows: Vec<_> = study.tables.iter().flat_map(|table| &table.rows).collect();
    // Ten metrics of four uses.
    assert_eq!(rows.len(), 60);
    for row in rows {
        let known = kept.iter().find(|known| known[2] == row.cell && known[3] == row.metric);
        let known: f64 = known.unwrap_or_else(|| panic!("no {} {}", row.cell, row.metric))[6].parse().unwrap();
        assert!((known - row.measured).abs() < 1e-8, "{} {}: {} in the file", row.cell, row.measured, known);
    }
}
