//! One QUIC connection through the gateway: addresses and ports, and what was seen of its beginning.

use lasthop_daemon::ab::Arm;
use lasthop_daemon::flows::Standing;
use lasthop_proto::node::Port;
use lasthop_proto::packet::{HeaderForm, Side};
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::Route;

use crate::engine::counters::Untreatable;

/// Minimum size of a datagram with a client's first packet (RFC 9000 §14.1).
const INITIAL: usize = 1200;

/// Minimum length of a pause without data that is attributed to the application.
const PAUSE: Duration = Duration::from_secs(1);

/// Progress of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Progress {
    /// No datagram was seen.
    New,
    /// One end has sent what may begin a connection.
    Opening,
    /// The other end has answered.
    Established,
    /// The connection cannot be treated.
    Passing(Untreatable),
}

impl Progress {
    pub const fn standing(self) -> Standing {
        match self {
            Self::Established => Standing::Established,
            Self::New | Self::Opening | Self::Passing(_) => Standing::Doubtful,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(in crate::engine) struct QuicFlow {
    /// Route of the first datagram, whose sender counts as [`Side::Initiator`].
    pub first: Route,
    /// Port at which that datagram arrived.
    port: Port,
    pub rule: usize,
    pub arm: Arm,
    pub progress: Progress,
    pub seen: Instant,
    pub meter: Meter,
    /// Port at which the datagram arrived that may begin the connection.
    opener: Port,
}

impl QuicFlow {
    pub fn new(first: Route, port: Port, rule: usize, arm: Arm) -> Self {
        let (progress, seen, meter) = (Progress::New, Instant::ZERO, Meter::default());
        Self { first, port, rule, arm, progress, seen, meter, opener: port }
    }

    /// Returns the port at which a side's datagrams arrive.
    pub fn port_of(&self, side: Side) -> Port {
        match side {
            Side::Initiator => self.port,
            Side::Acceptor => self.port.across(),
        }
    }

    pub const fn standing(&self) -> Standing {
        self.progress.standing()
    }

    /// Updates the progress after a datagram with this payload arrived at `port`; `is_aggregate`: it consists of
    /// several. Returns whether it may begin a connection.
    pub fn take(&mut self, port: Port, payload: &[u8], is_aggregate: bool) -> bool {
        if is_aggregate {
            self.progress = Progress::Passing(Untreatable::Aggregated);
            return false;
        }
        match self.progress {
            Progress::New | Progress::Passing(Untreatable::Unseen) if begins(payload) => {
                (self.progress, self.opener) = (Progress::Opening, port);
                return true;
            }
            Progress::New => self.progress = Progress::Passing(Untreatable::Unseen),
            Progress::Opening if port != self.opener && HeaderForm::of(payload) == HeaderForm::Long => {
                self.progress = Progress::Established;
            }
            Progress::Opening | Progress::Established | Progress::Passing(_) => {}
        }
        false
    }

    /// Returns the rate of data towards the hop in bytes per second; `None` below `least` bytes.
    pub fn goodput(&self, least: u64) -> Option<f64> {
        let seconds = self.meter.time.as_secs_f64();
        let is_comparable = self.progress == Progress::Established && self.meter.bytes >= least.max(1);
        (is_comparable && seconds > 0.0).then(|| self.meter.bytes as f64 / seconds)
    }
}

/// Returns whether a datagram may begin a connection: a long header, with a version other than zero, in a datagram of
/// at least 1200 bytes (RFC 8999 §5.1, RFC 9000 §14.1).
fn begins(payload: &[u8]) -> bool {
    let version = payload.get(1..5).unwrap_or_default();
    payload.len() >= INITIAL && HeaderForm::of(payload) == HeaderForm::Long && version.iter().any(|byte| *byte != 0)
}

/// Data from the wired side, as it passed.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::engine) struct Meter {
    bytes: u64,
    /// Time for these bytes, without pauses of the application.
    time: Duration,
    last: Option<Instant>,
}

impl Meter {
    pub fn on_data(&mut self, now: Instant, len: usize) {
        if let Some(last) = self.last {
            let gap = now.since(last);
            if gap < PAUSE {
                self.time = self.time + gap;
                self.bytes += len as u64;
            }
        }
        self.last = Some(now);
    }
}
