//! G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links.
//!
//! Selective repeat on a slow lossy link under Reno and SACK, for file transfer and web browsing, with and without bursts of
//! UDP on the wired link. [`plan`] lists what has to be run, [`reproduce`](crate::reproduce::reproduce) runs it and puts it beside the published numbers.

mod cells;
mod claims;
mod figures;

use self::cells::tables;
pub use self::cells::{Cell, Setting, Testbed, plan, published};
use crate::study::{self, Contents, Options, Results, Selection, StudyError};

/// The name that selects the study.
pub const NAME: &str = "xylomenos-kokkinakis";

/// The study.
pub struct XylomenosKokkinakis;

impl study::Study for XylomenosKokkinakis {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Multiple layer error control over wireless links"
    }

    fn citation(&self) -> &'static str {
        "G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links."
    }

    fn cells(&self, selection: &Selection) -> Result<Vec<study::Cell>, StudyError> {
        study::cells(plan(selection)?, Cell::name, Cell::scenario)
    }

    fn contents(&self, options: &Options, results: &Results) -> Result<Contents, StudyError> {
        Ok(Contents {
            tables: tables(&plan(&options.selection)?, results),
            claims: claims::check(results),
            notes: Vec::new(),
            figures: figures::draw(&options.selection, results),
        })
    }
}
