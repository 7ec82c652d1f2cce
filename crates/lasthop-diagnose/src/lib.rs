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
pub use report::{Direction, FlowReport, Kind, Limit, LossReport, QuicReport, Report, Vantage};
pub use table::Diagnosis;

use crate::capture::{Capture, CaptureError};

/// Position of a capture relative to the sender of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The capture tells it.
    Found,
    /// This.
    Given(Vantage),
}

/// Options of a diagnosis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Position of the capture.
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
    diagnose_capture(Capture::open(source)?, options)
}

/// As [`diagnose`], of a capture that may have several files.
///
/// # Errors
///
/// When nothing in it can be read.
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
