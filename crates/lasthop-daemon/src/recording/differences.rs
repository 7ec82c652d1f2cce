//! Where a replay decides otherwise than was recorded.

use std::fmt::{self, Display};

use lasthop_proto::time::Instant;
use serde::Serialize;

/// A call on which the replay decided otherwise.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// The number of the call's frame, from 1.
    pub frame: u64,
    /// Seconds of the recording's clock.
    pub time: f64,
    /// What was decided then.
    pub recorded: String,
    /// What is decided now.
    pub replayed: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frame, time, recorded, replayed } = self;
        write!(f, "frame {frame} at {time:.6} s: recorded: {recorded}; replayed: {replayed}")
    }
}

/// All of them.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Differences {
    /// How many.
    #[serde(rename = "differences")]
    pub count: u64,
    /// The first.
    #[serde(rename = "first_difference")]
    pub first: Option<Difference>,
}

impl Differences {
    /// Compares what was decided at `time`, in the call of frame `frame`, with what is decided now.
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
