//! From a packet capture to what limits each TCP flow in it, and to the cause of each loss.
//!
//! [`diagnose`] reads a capture ([`capture`]) packet by packet, follows each connection ([`flow`]), and says of each direction
//! what limited it for how long, and of each retransmission whether the packet was lost to corruption, lost to congestion, or not lost at all.
//! [`annotate`] writes the capture again with these verdicts as comments, [`loss_trace`] writes what the link lost as a table that
//! `lasthop fit` reads; [`matched`] says what two captures of the same connections say together. `docs/models/diagnose.md` has the rules and how they were validated.
//!
//! Memory grows with the number of flows and losses, both bounded, not with the capture. No clock; the same capture gives the same
//! answer to the byte.

pub mod annotate;
pub mod capture;
pub mod flow;
pub mod half;
pub mod link;
pub mod loss;
pub mod loss_trace;
pub mod matched;
mod missing;
pub mod path;
mod report;
pub mod rounds;
pub mod sent;
pub mod spin;
mod table;
pub mod verdict;
pub mod words;

use std::io::Read;

pub use missing::bytes;
pub use report::{Direction, FlowReport, Limit, LossReport, QuicReport, Report, Vantage};
pub use table::Diagnosis;

use crate::capture::{Capture, CaptureError};

/// Where a capture was taken, seen from whoever sends data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The capture tells it.
    Found,
    /// This.
    Given(Vantage),
}

/// What of a capture is looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Where it was taken.
    pub at: At,
    /// Only what this interface saw, by its name in a pcapng file.
    pub interface: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { at: At::Found, interface: None }
    }
}

/// Reads a capture to its end. One that is cut off or damaged further on is reported as far as it goes, with [`Report::damage`].
///
/// # Errors
///
/// When `source` is no capture, or nothing in it can be read.
pub fn diagnose(source: impl Read, options: &Options) -> Result<Report, CaptureError> {
    let mut capture = Capture::open(source)?;
    let mut diagnosis = Diagnosis::new(options.clone());
    let damage = loop {
        match capture.next_frame() {
            Ok(Some((frame, interface))) => diagnosis.take(&frame, interface),
            Ok(None) => break None,
            Err(error) if diagnosis.packets() == 0 => return Err(error),
            Err(error) => break Some(error.to_string()),
        }
    };
    diagnosis.close();
    Ok(Report::of(&diagnosis, options.at, capture.interfaces(), damage))
}
