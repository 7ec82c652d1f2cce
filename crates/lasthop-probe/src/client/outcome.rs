//! Progress and outcome of a measurement.

use super::FIRST_SIZE;
use crate::estimate::Log;

/// Reason for which a measurement failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// No answer to the first message.
    #[error(
        "no answer within 5 s; check that `lasthop probe serve` is running there with the same key, and that firewalls pass UDP"
    )]
    NoAnswer,
    /// All sessions of the server are in use.
    #[error("the server is busy with another measurement; try again in a minute")]
    Busy,
    /// The other end was stopped.
    #[error("the server was stopped")]
    Ended,
    /// No packet arrived for 15 s.
    #[error("no packet from the server for 15 s")]
    Silent,
    /// This end was stopped.
    #[error("stopped")]
    Stopped,
    /// The server does not know the trains of a moving measurement.
    #[error("the server does not support --moving; install this version of lasthop there")]
    NoTrains,
    /// No rate was found in one direction.
    #[error(
        "{0}: no packet train arrived; the path loses almost all packets, or does not carry packets of {FIRST_SIZE} bytes"
    )]
    NoRate(Way),
}

/// Direction, as seen from the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the caller.
    Down,
    /// From the caller.
    Up,
}

impl Way {
    /// Both directions, in the order of all results.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Down { "down" } else { "up" })
    }
}

/// Progress of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Current activity.
    pub doing: &'static str,
    /// Share of the duration that has passed, 0 to 1.
    pub share: f64,
    /// Packets that have arrived: down, and up as far as the other end has reported them.
    pub arrived: [usize; 2],
}

/// Raw results of a measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Packets of both directions: down, up.
    pub logs: [Log; 2],
    /// Round-trip times of pings, in seconds, without the other end's processing time.
    pub round_trips: Vec<f64>,
    /// Size of a ping in bytes, IP header included.
    pub ping: u16,
    /// Rate limits in bits per second: down, up.
    pub limits: [f64; 2],
    /// Datagrams that the receiver's kernel dropped because its buffer was full: down, up.
    pub overruns: [u32; 2],
    /// Maximum number of other callers that the server measured with at the same time; 0 if the server does not report
    /// it.
    pub others: u8,
    /// Duration in seconds.
    pub seconds: f64,
    /// End of the first two seconds, in seconds of the sender's clock: down, up.
    pub settled: [f64; 2],
    /// Number of packets in a train of a moving measurement; `None` for others: down, up.
    pub trains: Option<[u16; 2]>,
    /// True if the measurement was stopped early.
    pub stopped: bool,
}
