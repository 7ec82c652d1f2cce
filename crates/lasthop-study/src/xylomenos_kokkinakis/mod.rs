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

/// The study.
pub struct XylomenosKokkinakis;

impl study::Study for XylomenosKokkinakis {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cells(&self, selection: &Selection) -> Result<Vec<study::Cell>, StudyError> {
        study::cells(plan(selection)?, Cell::name, Cell::scenario)
    }

    fn assemble(&self, options: &Options, results: &Results) -> Result<Study, StudyError> {
        assemble(options, results)
    }
}

fn assemble(options: &Options, results: &Results) -> Result<Study, StudyError> {
    let cells = plan(&options.selection)?;
    let (part, flags) = options.selection.words();
    Ok(Study {
        id: NAME.to_owned(),
        title: format!("Multiple layer error control over wireless links{part}"),
        citation: "G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links.".to_owned(),
        command: format!("lasthop reproduce {NAME}{flags} --runs {} --seed {}", options.runs, options.seed),
        tables: tables(&cells, results),
        claims: claims::check(results),
        notes: Vec::new(),
        figures: figures::draw(&options.selection, results),
    })
}
