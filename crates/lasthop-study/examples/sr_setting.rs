//! Searches for the window and timer of selective repeat in the second study, which does not state them. Sweeps both
//! over every published cell with SR and prints, per setting, the deviation of each table, as a Markdown table.
//!
//! ```sh
//! cargo run --release -p lasthop-study --example sr_setting
//! ```

use std::error::Error;
use std::io::{IsTerminal, Write, stderr};

use lasthop_proto::link::arq::{ArqConfig, Timer};
use lasthop_proto::time::Duration;
use lasthop_scenario::elements::Arq;
use lasthop_sim::element::AnyElement;
use lasthop_study::measures::throughput;
use lasthop_study::replicate::{Silent, run_all};
use lasthop_study::study::Selection;
use lasthop_study::xylomenos_kokkinakis::{Cell, Testbed, plan, published};

const WINDOWS: [u16; 4] = [8, 12, 16, 20];
const TIMERS_MS: [u64; 5] = [600, 700, 800, 900, 1000];
const TABLES: [&str; 8] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"];
const RUNS: u32 = 4;
const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let with_sr = |cell: &Cell| cell.testbed == Testbed::Lan && cell.combination.ends_with("/SR");
    let cells: Vec<Cell> = plan(&Selection::All)?.into_iter().filter(with_sr).collect();
    println!(
        "Mean absolute deviation from the published throughput, percent, {RUNS} runs a cell; worst cell of all.\n"
    );
    println!("| window | timer | {} | all | worst |", TABLES.join(" | "));
    println!("|--:|--:|{}", "--:|".repeat(TABLES.len() + 2));
    for window in WINDOWS {
        for milliseconds in TIMERS_MS {
            if stderr().is_terminal() {
                write!(stderr(), "\rwindow {window}, timer {milliseconds} ms ...")?;
            }
            let deviations = deviations(&cells, window, Duration::from_millis(milliseconds))?;
            let of = |table: &str| {
                let those = cells.iter().zip(&deviations).filter(|(cell, _)| cell.setting.table == table);
                mean(those.map(|(_, deviation)| deviation.abs()))
            };
            let tables = TABLES.map(|table| format!("{:.1}", of(table))).join(" | ");
            let all = mean(deviations.iter().map(|deviation| deviation.abs()));
            let worst = deviations.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(f64::NAN);
            println!("| {window} | {milliseconds} ms | {tables} | {all:.1} | {worst:+.1} |");
        }
    }
    Ok(())
}

/// Returns the deviation of each cell's mean throughput from the published one, in percent.
fn deviations(cells: &[Cell], window: u16, timer: Duration) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut tasks = Vec::new();
    for cell in cells {
        let mut task = cell.task(SEED, RUNS)?;
        for spec in &mut task.network.elements {
            if let Some(Arq(config)) = spec.element.get().cloned() {
                spec.element = AnyElement::new(Arq(ArqConfig { window, timer: Timer::Fixed(timer), ..config }));
            }
        }
        tasks.push(task);
    }
    let published = published();
    let reports = run_all(&tasks, 0, &Silent).unwrap();
    let each = cells.iter().zip(tasks.iter().zip(&reports)).filter_map(|(cell, (task, reports))| {
        let kbps = 1000.0 * mean(reports.iter().map(|report| throughput(&task.network, report)));
        Some(100.0 * (kbps / published.get(&(cell.name(), "throughput"))? - 1.0))
    });
    Ok(each.collect())
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}
