//! G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links.
//!
//! Selective repeat on a slow lossy link under Reno and SACK, for file transfer and web browsing, with and without bursts of
//! UDP on the wired link. [`plan`] lists what has to be run, [`reproduce`](crate::reproduce::reproduce) runs it and puts it beside the published numbers.

mod cells;
mod claims;
mod figures;

use lasthop_report::study::Study;

use self::cells::tables;
pub use self::cells::{Cell, Setting, Testbed, plan, published};
use crate::study::{self, Options, Results, Selection, StudyError};

/// The name that selects the study.
pub const NAME: &str = "xylomenos-kokkinakis";

/// What has to be run for `selection`: each cell with its scenario and scheme.
pub fn cells(selection: &Selection) -> Result<Vec<study::Cell>, StudyError> {
    study::cells(plan(selection)?, Cell::name, Cell::scenario)
}

/// The study, or the part selected, from what was measured.
pub(crate) fn assemble(options: &Options, results: &Results) -> Result<Study, StudyError> {
    let cells = plan(&options.selection)?;
    let (part, flags) = options.selection.words();
    Ok(Study {
        id: NAME.to_owned(),
        title: format!("Multiple layer error control over wireless links{part}"),
        citation: "G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links.".to_owned(),
        command: format!("lasthop reproduce {NAME}{flags} --runs {} --seed {}", options.runs, options.seed),
        tables: tables(&cells, results),
        claims: claims::check(results),
        figures: figures::draw(&options.selection, results),
    })
}
