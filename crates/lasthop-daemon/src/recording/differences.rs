//! Differences between recorded and replayed decisions.

use std::fmt::{self, Display};

use lasthop_proto::time::Instant;
use serde::Serialize;

/// Step with a different decision in the replay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// Number of the step's frame, from 1.
    pub frame: u64,
    /// Time on the recording's clock, in seconds.
    pub time: f64,
    /// Recorded decision.
    pub recorded: String,
    /// Replayed decision.
    pub replayed: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frame, time, recorded, replayed } = self;
        write!(f, "frame {frame} at {time:.6} s: recorded: {recorded}; replayed: {replayed}")
    }
}

/// All differences.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Differences {
    /// Number of differences.
    #[serde(rename = "differences")]
    pub count: u64,
    /// First difference.
    #[serde(rename = "first_difference")]
    pub first: Option<Difference>,
}

impl Differences {
    /// Compares the decision recorded at `time`, in the step of frame `frame`, with the replayed one.
    pub fn compare<D: PartialEq + Display>(&mut self, frame: u64, time: Instant, recorded: &D, replayed: &D) {
        if recorded == replayed {
            return;
        }
        self.count += 1;
        self.first.get_or_insert_with(|| Difference {
            frame,
            time: time.since(Instant::ZERO).as_secs_f64(),
            recorded: recorded.to_string(),
            replayed: replayed.to_string(),
        });
    }
}
