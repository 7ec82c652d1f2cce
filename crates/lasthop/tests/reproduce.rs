//! Tests of `lasthop reproduce` and its files.

use std::collections::BTreeSet;

use crate::common::{Bench, keys};

const COLUMNS: [&str; 9] = ["paper", "table", "cell", "metric", "unit", "published", "measured", "ci95", "runs"];

#[test]
fn all_of_the_1997_study() {
    let bench = Bench::new();
    let text = bench.stdout("reproduce balakrishnan1997 --runs 2 --out result");
    assert!(text.contains("Balakrishnan") && text.contains("Written: result/index.html"), "{text}");
    cells(&bench);
    figures(&bench);
    page(&bench);
}

/// Table of the second study: throughputs in kbps, and gains of the other combinations over Reno/Raw.
#[test]
fn a_table_of_the_second_study() {
    let bench = Bench::new();
    bench.stdout("reproduce xylomenos-kokkinakis --table III --runs 2 --out second");
    let mut reader = csv::Reader::from_path(bench.path().join("second/cells.csv")).unwrap();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let count = |metric: &str| rows.iter().filter(|row| &row[3] == metric && !row[5].is_empty()).count();
    assert_eq!((rows.len(), count("throughput"), count("gain")), (28, 16, 12));
    let row = rows.iter().find(|row| &row[2] == "web-browsing/uniform/none/9.8/SACK/SR" && &row[3] == "throughput");
    let row = row.unwrap();
    assert_eq!((&row[0], &row[1], &row[4]), ("xylomenos-kokkinakis", "III", "kbps"));
    assert!((10.0..40.0).contains(&row[6].parse::<f64>().unwrap()), "{row:?}");
}

fn cells(bench: &Bench) {
    let mut reader = csv::Reader::from_path(bench.path().join("result/cells.csv")).unwrap();
    assert_eq!(reader.headers().unwrap(), COLUMNS.as_slice());
    let (mut published, mut cells) = (0, BTreeSet::new());
    for row in reader.records() {
        let row = row.unwrap();
        assert_eq!((&row[0], &row[8]), ("balakrishnan1997", "2"));
        match &row[3] {
            "throughput" => assert_eq!(&row[4], "Mbps"),
            "wireless_goodput" | "wired_goodput" => assert_eq!(&row[4], "percent"),
            other => panic!("{other}"),
        }
        assert!(cells.insert((row[2].to_owned(), row[3].to_owned())), "{row:?} twice");
        if !row[5].is_empty() {
            published += 1;
            row[5].parse::<f64>().unwrap();
        }
        let (measured, ci95) = (row[6].parse::<f64>().unwrap(), row[7].parse::<f64>().unwrap());
        assert!(measured > 0.0 && ci95 >= 0.0, "{row:?}");
    }
    // Tables 2 and 3: 29 cells with three numbers each.
    assert_eq!(published, 87);
    for scheme in ["E2E", "LL-SMART", "SPLIT-SMART"] {
        for testbed in ["LAN/8", "LAN/32", "WAN/32"] {
            assert!(cells.contains(&(format!("{scheme}/{testbed}"), "wired_goodput".to_owned())), "{scheme}/{testbed}");
        }
    }
}

fn figures(bench: &Bench) {
    for number in [3, 4, 5, 6, 7, 8, 9, 10, 11, 13] {
        let svg = bench.text(&format!("result/figures/figure-{number}.svg"));
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(document.root_element().tag_name().name(), "svg");
        fetches_nothing(&svg);
    }
}

fn page(bench: &Bench) {
    let page = bench.text("result/index.html");
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(page.contains("LL-SMART-TCP-AWARE"));
    assert_eq!(page.matches("<svg role=\"img\"").count(), 10);
    assert!(!page.contains("<script"));
    fetches_nothing(&page);
}

/// Checks that there are no references to external resources; XML namespaces do not count.
fn fetches_nothing(text: &str) {
    let without_names = text.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "");
    for sign in ["http:", "https:", "src=\"//", "@import", "<link", "<script src", "url(h", "url(/"] {
        assert!(!without_names.contains(sign), "{sign}");
    }
}

#[test]
fn a_part_of_the_study() {
    let bench = Bench::new();
    let json = bench.json("reproduce balakrishnan1997 --table 4 --runs 3 --seed 2 --json");
    assert_eq!(keys(&json), ["study", "command", "tables", "claims", "notes"]);
    assert_eq!(json["command"], "lasthop reproduce balakrishnan1997 --table 4 --runs 3 --seed 2");
    let tables = json["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 1);
    assert_eq!(keys(&tables[0]), ["table", "title", "rows"]);
    let rows = tables[0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 18);
    assert_eq!(keys(&rows[0]), ["cell", "metric", "unit", "published", "measured", "ci95", "runs"]);
    let cells: BTreeSet<_> = rows.iter().map(|row| row["cell"].as_str().unwrap().split('/').next().unwrap()).collect();
    assert_eq!(cells.into_iter().collect::<Vec<_>>(), ["SPLIT", "SPLIT-SMART"]);
    for claim in json["claims"].as_array().unwrap() {
        assert_eq!(keys(claim), ["claim", "text", "holds", "evidence"]);
    }
    assert!(!bench.has("out/figures/figure-3.svg"));
    // The same cells as in the whole study.
    let all = bench.json("reproduce balakrishnan1997 --runs 3 --seed 2 --json --out all");
    let table = all["tables"].as_array().unwrap().iter().find(|table| table["table"] == "4").unwrap();
    assert_eq!(table["rows"], tables[0]["rows"]);
    assert_eq!(all["claims"].as_array().unwrap().len(), 12);
}

#[test]
fn one_figure() {
    let bench = Bench::new();
    for (figure, rows) in [("3", 36), ("4", 0), ("10", 0), ("13", 75)] {
        let out = format!("figure{figure}");
        let json = bench.json(&format!("reproduce balakrishnan1997 --figure {figure} --runs 1 --json --out {out}"));
        assert!(bench.has(&format!("{out}/figures/figure-{figure}.svg")));
        assert_eq!(std::fs::read_dir(bench.path().join(&out).join("figures")).unwrap().count(), 1);
        let tables = json["tables"].as_array().unwrap();
        assert_eq!(tables.iter().map(|table| table["rows"].as_array().unwrap().len()).sum::<usize>(), rows, "{figure}");
    }
}

#[test]
fn without_a_study_all_are_listed() {
    let bench = Bench::new();
    let text = bench.stdout("reproduce");
    let names: Vec<&str> = text
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        names,
        [
            "balakrishnan1997",
            "xylomenos-kokkinakis",
            "discussion1997",
            "bbr2016",
            "sidekick2024",
            "kosek2022",
            "pemi2026",
            "quic-geo2022",
            "mqvpn2026",
            "l4s-tests2021",
            "lasthop2026"
        ]
    );
    assert!(text.lines().last().is_some_and(|line| line.starts_with("--all: ")), "{text}");
    let listed: serde_json::Value = serde_json::from_str(&bench.stdout("reproduce --json")).unwrap();
    let bbr = &listed["studies"][3];
    assert_eq!((&bbr["study"], &bbr["cells"], &bbr["runs"]), (&"bbr2016".into(), &39.into(), &5.into()));
    assert!(bbr["seconds_on_two_processors"].as_f64().unwrap() > 0.0);
}

/// Values of another system stand beside without a deviation, and are not part of the accuracy.
#[test]
fn values_of_other_systems_have_no_deviation() {
    let bench = Bench::new();
    let text = bench.stdout("reproduce quic-geo2022 --runs 1");
    let line = text.lines().find(|line| line.contains("efficiency/TCP-BBR/1%")).unwrap();
    assert!(line.contains("11.00") && line.contains("55.0"), "{line}");
    assert!(!text.contains("off by") && !text.contains("mean absolute deviation"), "{text}");
    let json = bench.json("reproduce quic-geo2022 --runs 1 --json");
    let rows = json["tables"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["cell"] == "efficiency/TCP-BBR/1%" && row["metric"] == "time").unwrap();
    assert_eq!(row["published"], 7.0);
    assert!((5.0..60.0).contains(&row["measured"].as_f64().unwrap()), "{row}");
}

#[test]
fn all_studies_take_no_name_and_the_lab_takes_one() {
    let bench = Bench::new();
    for (command, reason) in [
        ("reproduce balakrishnan1997 --all", "cannot be used with"),
        ("reproduce --lab", "required"),
        ("reproduce bbr2016 --lab-runs 2", "required"),
        ("reproduce bbr2016 --lab --lab-runs 0", "0"),
    ] {
        let output = bench.run(command);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(reason), "{command}: {error}");
    }
}
