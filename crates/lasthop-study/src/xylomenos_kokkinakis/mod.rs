//! G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links.
//!
//! Selective repeat on a slow lossy link under Reno and SACK, for file transfer and web browsing, with and without bursts of
//! UDP on the wired link. [`plan`] lists what has to be run, [`reproduce`] runs it and puts it beside the published numbers.

mod cells;
mod claims;
mod figures;

use lasthop_report::study::Study;

use self::cells::tables;
pub use self::cells::{Cell, Setting, Testbed, plan, published};
use crate::replicate::Progress;
use crate::study::{Options, StudyError, run_cells};

/// The name that selects the study.
pub const NAME: &str = "xylomenos-kokkinakis";

/// Runs the study, or the part selected, and returns it with its tables, claims and figures. Claims that need cells outside
/// the selection are left out.
pub fn reproduce(options: &Options, progress: &dyn Progress) -> Result<Study, StudyError> {
    let cells = plan(&options.selection)?;
    let mut tasks = Vec::new();
    for cell in &cells {
        tasks.push((cell.name(), cell.task(options.seed, options.runs)?));
    }
    let results = run_cells(tasks, options, progress)?;
    let (part, flags) = options.selection.words();
    Ok(Study {
        id: NAME.to_owned(),
        title: format!("Multiple layer error control over wireless links{part}"),
        citation: "G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links.".to_owned(),
        command: format!("lasthop reproduce {NAME}{flags} --runs {} --seed {}", options.runs, options.seed),
        tables: tables(&cells, &results),
        claims: claims::check(&results),
        figures: figures::draw(&options.selection, &results),
    })
}
