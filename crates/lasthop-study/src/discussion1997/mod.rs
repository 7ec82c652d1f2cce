//! Topics that the 1997 study discusses without measurements: one table, one figure and the claims of each topic.
//!
//! A topic is a file here and a line in `SUBJECTS`.

mod asymmetry;
mod congestion;
mod handoffs;
mod hops;
mod small_windows;
mod srp;
mod subject;
mod varying_delay;

use std::collections::BTreeMap;

use self::subject::{Point, Subject, figure, table, words};
use crate::study::{self, Cell, Contents, Options, Results, Selection, StudyError};

/// Name that selects the study.
pub const NAME: &str = "discussion1997";

/// All topics, in the order of the page.
static SUBJECTS: [&dyn Subject; 7] = [
    &handoffs::Handoffs,
    &hops::Hops,
    &asymmetry::Asymmetry,
    &varying_delay::VaryingDelay,
    &congestion::Congestion,
    &srp::Srp,
    &small_windows::SmallWindows,
];

/// The study.
pub struct Discussion1997;

impl study::Study for Discussion1997 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Topics that the 1997 study leaves to others"
    }

    fn citation(&self) -> &'static str {
        "After section V and VI of H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for \
         Improving TCP Performance over Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997. That study \
         printed no numbers for these topics; numbers of others are cited at the tables."
    }

    fn doi(&self) -> Option<&'static str> {
        Some("10.1109/90.650137")
    }

    fn introduction(&self) -> &'static [&'static str] {
        &[
            "The 1997 study ends with what it could not measure: moving hosts, several wireless hops, slow return paths, varying \
             delay, congestion in addition to losses, other schemes, and small windows. lasthop simulates these. Each topic has a \
             table, a figure and claims.",
            "The scenarios are ready-made ones with some keys changed; the table of a topic lists what was varied. Endpoints are those \
             of 1997 (4.4BSD-Lite) or, where a row says Linux, those of Linux 6.18. Each claim is judged by the 95 % interval of a \
             difference between runs with the same losses.",
        ]
    }

    fn names(&self, selection: &Selection) -> Result<BTreeMap<String, Vec<String>>, StudyError> {
        let named = |subject: &'static dyn Subject| {
            subject.points().into_iter().map(move |point| {
                let words = words(subject, &point.name);
                (point.name, words)
            })
        };
        Ok(selected(selection)?.into_iter().flat_map(named).collect())
    }

    fn cells(&self, selection: &Selection) -> Result<Vec<Cell>, StudyError> {
        let points = selected(selection)?.into_iter().flat_map(|subject| subject.points());
        study::cells(points.collect(), |point| point.name.clone(), Point::scenario)
    }

    fn contents(&self, options: &Options, results: &Results) -> Result<Contents, StudyError> {
        let subjects = selected(&options.selection)?;
        // Tables are selected without figures; a figure's numbers are in its table.
        let draws = !matches!(options.selection, Selection::Table(_));
        Ok(Contents {
            tables: subjects.iter().map(|subject| table(*subject, results)).collect(),
            claims: subjects.iter().flat_map(|subject| subject.claims(results)).collect(),
            notes: subjects.iter().flat_map(|subject| subject.note()).map(str::to_owned).collect(),
            figures: subjects.iter().filter(|_| draws).map(|subject| figure(*subject, results)).collect(),
        })
    }
}

/// Returns the topics whose table or figure is in `selection`.
fn selected(selection: &Selection) -> Result<Vec<&'static dyn Subject>, StudyError> {
    let (what, given) = match selection {
        Selection::All => return Ok(SUBJECTS.to_vec()),
        Selection::Table(table) => ("table", table),
        Selection::Figure(figure) => ("figure", figure),
    };
    match SUBJECTS.into_iter().find(|subject| subject.id() == given) {
        Some(subject) => Ok(vec![subject]),
        None => {
            let known = SUBJECTS.map(|subject| subject.id()).join(", ");
            Err(StudyError::Unknown { study: NAME, what, given: given.clone(), known })
        }
    }
}
