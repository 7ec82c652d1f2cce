//! Finds the limiting factors of each TCP flow in a packet capture, and the cause of each loss.
//!
//! [`diagnose`] reads a capture ([`capture`]) packet by packet and follows each connection ([`flow`]). For each
//! direction, it determines the limiting factors and their shares of the time, and for each retransmission whether the
//! packet was lost to corruption, lost to congestion, or not lost at all. [`annotate`] writes the capture again with
//! these verdicts as comments, [`loss_trace`] writes the link's losses as a table for `lasthop fit`, and [`matched`]
//! compares two captures of the same connections. `docs/models/diagnose.md` has the rules.
//!
//! Memory depends on the number of flows and losses, which are bounded, not on the size of the capture. The same
//! capture gives the same report, byte for byte.

pub mod annotate;
pub mod black_hole;
pub mod capture;
pub mod copies;
pub mod flow;
pub mod half;
mod judgment;
pub mod loss;
pub mod loss_trace;
pub mod matched;
mod missing;
mod packets;
pub mod path;
pub mod policer;
mod report;
pub mod rotated;
pub mod rounds;
pub mod sent;
pub mod spin;
mod table;
pub mod verdict;
pub mod words;

use std::io::Read;

pub use missing::bytes;
pub use report::{
    Causes, Direction, FlowReport, Kind, Limit, LossReport, QuicReport, Report, Retransmissions, Vantage, WindowCounts,
};
pub use table::Diagnosis;

use crate::capture::{Capture, CaptureError};

/// Position of a capture relative to the sender of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// Derived from the capture.
    Found,
    /// Given by the user.
    Given(Vantage),
}

/// Options of a diagnosis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Position of the capture.
    pub at: At,
    /// Interface, by its name in a pcapng file, to which the diagnosis is restricted.
    pub interface: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { at: At::Found, interface: None }
    }
}

/// Reads a capture to its end. If it is cut off or damaged, the report covers the part before, with [`Report::damage`].
///
/// # Errors
///
/// Returns an error if `source` is not a capture, or nothing in it can be read.
pub fn diagnose(source: impl Read, options: &Options) -> Result<Report, CaptureError> {
    diagnose_capture(Capture::open(source)?, options)
}

/// Same as [`diagnose`], for a capture that may have several files.
///
/// # Errors
///
/// Returns an error if nothing in it can be read.
pub fn diagnose_capture<R: Read>(mut capture: Capture<R>, options: &Options) -> Result<Report, CaptureError> {
    let mut diagnosis = Diagnosis::new(options.clone());
    let last = loop {
        match capture.next_frame() {
            Ok(Some((frame, interface))) => diagnosis.take(&frame, interface),
            Ok(None) => break None,
            Err(error) if diagnosis.packets() == 0 => return Err(error),
            Err(error) => break Some(error.to_string()),
        }
    };
    diagnosis.close();
    let damage: Vec<String> = capture.damage().iter().cloned().chain(last).collect();
    let damage = (!damage.is_empty()).then(|| damage.join("; "));
    Ok(Report::of(&diagnosis, options.at, capture.interfaces(), damage))
}
