//! Tests of a study as CSV, on the terminal, and as a page.

use crate::study;

use lasthop_report::cells_csv::write_cells_csv;
use lasthop_report::html::index_html;
use lasthop_report::study::{CellRow, Claim, Comparison, Deviation, Holds, Lab, Relation, Study, Table};
use lasthop_report::study_index::{Accuracy, studies_html};
use lasthop_report::text_table::{text_claims, text_lab_summaries, text_summaries, text_table};

fn cell(cell: &str, metric: &str, unit: &str, published: Option<f64>, measured: f64) -> CellRow {
    let (cell, metric, unit) = (cell.to_owned(), metric.to_owned(), unit.to_owned());
    CellRow { cell, metric, unit, published, measured, ci95: Some(0.01), runs: 30, relation: Relation::Same, lab: None }
}

fn small() -> Study {
    let rows = vec![
        cell("LL/LAN/8", "throughput", "Mbps", Some(1.2), 1.140_000_000_04),
        cell("LL/LAN/8", "wireless_goodput", "percent", Some(95.6), 97.1),
        cell("LL/WAN/32", "throughput", "Mbps", None, 0.8),
        CellRow { ci95: None, runs: 1, ..cell("E2E/LAN/8", "throughput", "Mbps", Some(0.5), 0.75) },
    ];
    Study {
        tables: vec![Table { id: "2".to_owned(), title: "Link-layer schemes".to_owned(), rows }],
        figures: Vec::new(),
        ..study::study()
    }
}

#[test]
fn cells_csv_has_the_agreed_form() {
    let mut out = Vec::new();
    write_cells_csv(&small(), &mut out).expect("memory takes everything");
    assert_eq!(
        String::from_utf8(out).expect("UTF-8"),
        "paper,table,cell,metric,unit,published,measured,ci95,runs\n\
         balakrishnan1997,2,LL/LAN/8,throughput,Mbps,1.2,1.14,0.01,30\n\
         balakrishnan1997,2,LL/LAN/8,wireless_goodput,percent,95.6,97.1,0.01,30\n\
         balakrishnan1997,2,LL/WAN/32,throughput,Mbps,,0.8,0.01,30\n\
         balakrishnan1997,2,E2E/LAN/8,throughput,Mbps,0.5,0.75,,1\n"
    );
}

#[test]
fn deviations_are_relative_or_in_points() {
    let rows = &small().tables[0].rows;
    assert!(matches!(rows[0].deviation(), Some(Deviation::Relative(value)) if (value + 0.05).abs() < 1e-9));
    assert!(matches!(rows[1].deviation(), Some(Deviation::Points(value)) if (value - 1.5).abs() < 1e-9));
    assert_eq!(rows[2].deviation(), None);
}

/// One rule applies to all: 10 % of the published value or, for percentages, 10 points. A throughput that is 24.7 % off
/// is marked, a goodput that is 1.4 points off is not, and the page states the rule.
#[test]
fn one_rule_marks_deviations_and_the_page_states_it() {
    let far = |unit, published, measured| {
        let deviation = cell("LL/LAN/8", "any", unit, Some(published), measured).deviation();
        deviation.is_some_and(Deviation::is_far)
    };
    assert!(far("Mbps", 1.0, 1.247) && far("Mbps", 1.0, 0.753) && far("s", 2.0, 2.21));
    assert!(!far("Mbps", 1.0, 1.099) && !far("kbps", 50.0, 45.1));
    assert!(!far("percent", 97.5, 98.9) && !far("percent", 100.0, 90.1) && far("percent", 120.0, 109.0));
    let page = index_html(&small()).expect("the page can be made");
    assert!(page.contains("those beyond 10 % or 10 pp are marked"));
}

/// The page alone says what was studied, where the numbers are published, and what computed the others.
#[test]
fn page_says_what_it_is_about() {
    let page = index_html(&small()).expect("the page can be made");
    for expected in [
        "<p>Twelve schemes over a link that loses packets.</p>",
        "<dt>DOI</dt><dd>10.1109/90.650137</dd>",
        "<dt>Computed by</dt><dd>lasthop 0.1.0, seed 7, 30 runs per configuration</dd>",
    ] {
        assert!(page.contains(expected), "no {expected}");
    }
    let unknown = index_html(&Study { doi: None, ..small() }).expect("the page can be made");
    assert!(unknown.contains("<dt>DOI</dt><dd>none known</dd>"));
}

/// Parts that all cells of a table share are in its title; claims and summaries have complete names.
#[test]
fn cells_have_names_for_people() {
    let mut study = small();
    study.tables[0].rows.truncate(3);
    let names = study.names_in(&study.tables[0]);
    assert_eq!(names["LL/LAN/8"], "LAN, buffers of 8 KB");
    assert_eq!(names["LL/WAN/32"], "WAN, buffers of 32 KB");
    assert_eq!(
        study.in_words("LL/LAN/8 1.2 > 2 × LL/WAN/32: by 0.1, LL/LAN/80"),
        "LL (LAN, buffers of 8 KB) 1.2 > 2 × LL (WAN, buffers of 32 KB): by 0.1, LL/LAN/80"
    );
    // A table of a single cell keeps its complete name.
    study.tables[0].rows.truncate(1);
    assert_eq!(study.names_in(&study.tables[0])["LL/LAN/8"], "LL, LAN, buffers of 8 KB");
}

#[test]
fn summaries_count_what_is_far_off() {
    let summaries = small().summaries();
    let throughput = &summaries[0];
    assert_eq!((throughput.metric.as_str(), throughput.cells, throughput.beyond), ("throughput", 2, 1));
    assert!(matches!(throughput.mean, Deviation::Relative(mean) if (mean - 0.275).abs() < 1e-9));
    assert_eq!(throughput.worst_cell, "E2E/LAN/8");
    assert_eq!(
        text_summaries(&summaries),
        "throughput: mean absolute deviation 27.5 % over 2 published cells; 1 beyond 10 %; the farthest +50.0 % \
         (E2E/LAN/8)\n\
         wireless goodput: mean absolute deviation 1.5 pp over 1 published cells; 0 beyond 10 pp; the farthest +1.5 pp \
         (LL/LAN/8)\n"
    );
}

#[test]
fn terminal_table_sets_published_beside_measured() {
    let text = text_table(&small().tables[0], None);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Table 2: Link-layer schemes");
    for expected in [
        "LL/LAN/8 1.20 1.140 ±0.010 −5.0 % 95.6 97.10 ±0.01 +1.5 pp 30",
        "LL/WAN/32 – 0.800 ±0.010 30",
        "E2E/LAN/8 0.50 0.750 +50.0 % 1",
    ] {
        let found = lines.iter().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == expected);
        assert!(found, "no line {expected} in\n{text}");
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 120), "fits a terminal");
}

#[test]
fn full_tables_fit_a_terminal_too() {
    for table in &study::study().tables {
        assert!(text_table(table, None).lines().all(|line| line.chars().count() <= 120));
    }
    // The same number of runs for all cells appears once.
    assert!(
        text_table(&study::study().tables[0], None).starts_with("Table 2: Link-layer schemes (30 runs per cell)\n")
    );
}

#[test]
fn tables_fit_narrow_terminals() {
    let words = |text: &str| -> Vec<String> {
        let words = text.split_whitespace().filter(|word| !word.starts_with('─'));
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        words.sort();
        words
    };
    for table in &study::study().tables {
        let whole = text_table(table, None);
        for width in [40, 60, 80, 100] {
            let text = text_table(table, Some(width));
            assert!(text.lines().skip(1).all(|line| line.chars().count() <= width), "{width}:\n{text}");
            // Every number is present.
            let (wide, narrow) = (words(&whole), words(&text));
            assert!(wide.iter().filter(|word| word.contains('.')).all(|word| narrow.contains(word)), "{text}");
        }
        assert_eq!(text_table(table, Some(200)), whole);
    }
    let text = text_table(&small().tables[0], Some(30));
    assert!(
        text.contains(
            "\nthroughput, Mbps\n  paper      measured   off by\nLL/LAN/8 (30 runs)\n   1.20  1.140 ±0.010   −5.0 %\n"
        ),
        "{text}"
    );
}

#[test]
fn claims_say_what_holds() {
    assert_eq!(
        text_claims(&small().claims),
        "holds   (a) LL < LL-SMART < LL-TCP-AWARE in LAN 32 KB and WAN\n            1.20 ±0.01 < 1.29 ±0.01\n\
         MISSED  (b) E2E below 50 % of the no-error maximum in the LAN\n            MISSED: 0.78 ±0.02 of 1.50 Mbps: 52 %\n\
         1 of 2 claims hold\n"
    );
}

#[test]
fn many_comparisons_are_counted_and_those_missed_are_named() {
    let claim = |missed: &[usize]| {
        let comparison = |number: usize| {
            let holds = if missed.contains(&number) { Holds::No } else { Holds::Yes };
            Comparison { holds, text: format!("{number} < 9") }
        };
        Claim { comparisons: (0..5).map(comparison).collect(), ..small().claims.remove(0) }
    };
    let shown = |missed: &[usize]| text_claims(&[claim(missed)]).lines().nth(1).unwrap_or_default().trim().to_owned();
    assert_eq!(shown(&[]), "all 5 comparisons hold");
    assert_eq!(shown(&[3]), "4 of 5 comparisons hold; MISSED: 3 < 9");
    assert_eq!(claim(&[3]).evidence(), "0 < 9; 1 < 9; 2 < 9; MISSED: 3 < 9; 4 < 9");
    // The page lists all comparisons.
    let page = index_html(&Study { claims: vec![claim(&[3])], ..small() }).expect("the page can be made");
    assert!(page.contains("<summary>4 of 5 comparisons hold</summary>"));
    assert!(page.contains("<li>0 &lt; 9</li>") && page.contains("<li class=\"missed\">3 &lt; 9</li>"));
}

#[test]
fn page_needs_nothing_else() {
    let page = index_html(&study::study()).expect("the page can be made");
    for reference in ["http:", "https:", "src=", "<link", "@import", "url(", "<script"] {
        assert!(!page.contains(reference), "{reference}");
    }
    // The browser enforces it.
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    assert_eq!(page.matches("<svg role=\"img\"").count(), 4);
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn numbers_of_figures_are_on_the_page() {
    let page = index_html(&study::study()).expect("the page can be made");
    assert_eq!(page.matches("<summary>Numbers as a table</summary>").count(), 4);
    for named in &study::study().figures {
        let numbers = named.figure.numbers();
        assert!(!numbers.rows.is_empty() && numbers.rows.iter().all(|row| row.len() == numbers.headings.len()));
        let last = numbers.rows.last().and_then(|row| row.last()).expect("a cell");
        assert!(page.contains(&format!("<td>{last}</td></tr>")), "{}: {last}", named.id);
    }
    // A bar shows its number at the pointer.
    assert!(page.contains("<g class=\"datum\">\n<title>"));
    assert!(!index_html(&small()).expect("the page can be made").contains("<svg"));
}

#[test]
fn page_shows_everything() {
    let page = index_html(&small()).expect("the page can be made");
    for expected in [
        "<h1>A comparison of mechanisms for improving TCP performance over wireless links</h1>",
        "Balakrishnan, Padmanabhan, Seshan &amp; Katz",
        "<li>1 of 2 claims hold.</li>",
        "<th scope=\"row\" title=\"LL/LAN/8 in cells.csv\">LL, LAN, buffers of 8 KB</th><td class=\"start\">1.20</td>\
         <td>1.140 ±0.010</td><td>−5.0 %</td>",
        "<td>+1.5 pp</td>",
        // A cell without a name for people keeps its own.
        "<th scope=\"row\">E2E/LAN/8</th>",
        "<td class=\"far\">+50.0 %</td>",
        "<td class=\"verdict missed\">✗ missed</td>",
        "<td>LL &lt; LL-SMART &lt; LL-TCP-AWARE in LAN 32 KB and WAN</td>",
        "<pre tabindex=\"0\"><code>cargo run --release -- reproduce balakrishnan1997 --out out</code></pre>",
    ] {
        assert!(page.contains(expected), "no {expected}");
    }
}

#[test]
fn figures_on_the_page_are_described() {
    let mut study = study::study();
    study.figures.truncate(1);
    study.figures[0].alt = "bars of \"E2E\" & <others>".to_owned();
    let page = index_html(&study).expect("the page can be made");
    assert!(page.contains("<svg role=\"img\" aria-label=\"bars of &quot;E2E&quot; &amp; &lt;others&gt;\" viewBox="));
    assert!(page.contains("<figcaption>Throughput of all schemes</figcaption>"));
}

#[test]
fn what_a_study_says_cannot_break_the_page() {
    let claim = Claim {
        id: "x".to_owned(),
        text: "<script>alert(1)</script>".to_owned(),
        holds: Holds::Yes,
        comparisons: vec![Comparison { holds: Holds::Yes, text: "\"><b>".to_owned() }],
    };
    let page = index_html(&Study { claims: vec![claim], ..small() }).expect("the page can be made");
    assert!(!page.contains("<script>") && !page.contains("<b>"));
    let mut study = study::study();
    let title = "</script><b>".to_owned();
    if let lasthop_report::figures::Figure::Bars(chart) = &mut study.figures[0].figure {
        chart.title.clone_from(&title);
    }
    study.figures[0].alt = title;
    let page = index_html(&study).expect("the page can be made");
    assert!(!page.contains("</script><b>") && page.contains("&lt;/script&gt;&lt;b&gt;"));
}

/// A study whose first cell was run in the lab, 10 % above the simulator; another system's value stands beside the third.
fn with_lab() -> Study {
    let mut study = small();
    let rows = &mut study.tables[0].rows;
    rows[0].lab = Some(Lab { value: 1.254, ci95: Some(0.02), runs: 3 });
    rows[2].published = Some(2.0);
    rows[2].relation = Relation::Beside;
    study
}

#[test]
fn the_lab_stands_beside_the_simulator_everywhere() {
    let study = with_lab();
    let mut out = Vec::new();
    write_cells_csv(&study, &mut out).expect("memory takes everything");
    let csv = String::from_utf8(out).expect("UTF-8");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].ends_with(",runs,lab,lab_ci95,lab_runs"), "{csv}");
    assert!(lines[1].ends_with(",30,1.254,0.02,3") && lines[2].ends_with(",30,,,"), "{csv}");
    let text = text_table(&study.tables[0], None);
    let line = text.lines().find(|line| line.contains("LL/LAN/8")).expect("a line");
    assert!(line.contains("1.254 ±0.020") && line.contains("+10.0 %"), "{line}");
    let summary = text_lab_summaries(&study.lab_summaries());
    assert!(summary.starts_with("lab, throughput: mean absolute deviation 10.0 % over 1 simulated cells"), "{summary}");
    let page = index_html(&study).expect("a page");
    assert!(page.contains(">lab<") && page.contains("lab, throughput: mean absolute deviation"), "{page}");
}

#[test]
fn values_of_other_systems_are_shown_without_a_deviation() {
    let study = with_lab();
    assert_eq!(study.tables[0].rows[2].deviation(), None);
    let of = |name: &str| study.summaries().into_iter().find(|summary| summary.metric == name).expect("a summary");
    assert_eq!(of("throughput").cells, 2);
    let text = text_table(&study.tables[0], None);
    assert!(text.lines().any(|line| line.contains("LL/WAN/32") && line.contains("2.00")), "{text}");
}

#[test]
fn one_page_links_to_the_studies() {
    let page = studies_html(&[with_lab()], "lasthop reproduce --all --seed 1").expect("a page");
    assert!(page.contains("href=\"balakrishnan1997/index.html\"") && page.contains("lasthop reproduce --all --seed 1"));
    assert!(!page.contains("<script") && !page.contains("http:"), "{page}");
    // Percentages do not count: of two throughputs, one is 5 % off, one 50 %.
    let Accuracy { cells, mean } = Accuracy::of([&with_lab()]);
    assert!(cells == 2 && (mean - 27.5).abs() < 1e-6, "{cells} {mean}");
    assert!(page.contains("mean absolute deviation 27.5 % over 2 published cells"), "{page}");
}
