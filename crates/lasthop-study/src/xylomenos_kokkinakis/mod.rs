//! G. Xylomenos, M. Vasalas Kokkinakis: Multiple Layer Error Control over Wireless Links.
//!
//! Selective repeat on a slow lossy link under Reno and SACK, for file transfer and web browsing, with and without
//! bursts of UDP on the wired link. [`plan`] lists the cells to run; [`reproduce`](crate::reproduce::reproduce) runs
//! them and compares with the published numbers.

mod cells;
mod claims;
mod figures;

use std::collections::BTreeMap;

use self::cells::tables;
pub use self::cells::{Cell, Setting, Testbed, plan, published};
use crate::study::{self, Contents, Options, Results, Selection, StudyError};

/// Name that selects the study.
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

    fn introduction(&self) -> &'static [&'static str] {
        &[
            "The study asks which layer should repair the losses of a slow wireless link: TCP, the link, or both. It combines two \
             kinds of TCP, Reno and one with selective acknowledgments (SACK), with a link that repairs nothing (Raw) and with one \
             that retransmits lost frames (selective repeat, SR).",
            "The authors simulated, with ns-2, a server, an access point and a mobile host behind a link of 64 kbps and 50 ms that \
             loses frames in both directions: file transfers of 40,000 packets and 2000 s of web browsing, with uniform errors or a \
             channel of two states (good and bad periods), with and without bursts of UDP on the wired link. The tables list the \
             throughput of Reno over the bare link in kbps, and the gain of each other combination over it in percent. lasthop \
             simulates the same networks with the endpoints of ns-2. The WAN tables are its own: the publication had no space \
             for these results.",
        ]
    }

    fn names(&self, selection: &Selection) -> Result<BTreeMap<String, Vec<String>>, StudyError> {
        Ok(plan(selection)?.iter().map(|cell| (cell.name(), cell.words())).collect())
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
