//! States of one connection's repair, and their legal transitions.

use super::super::snoop_config::Begin;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Time after a silence during which losses are repaired on a connection whose losses are otherwise left to the sender
/// ([`Begin::AfterSilence`]).
const AWAKE: Duration = Duration::from_secs(10);

/// Side that repairs the connection's losses on the hop.
///
/// | from | event | to |
/// |---|---|---|
/// | `BaseStation` | – | – |
/// | `Sender` | the local timer expires | `BaseStationUntil` |
/// | `BaseStationUntil` | the local timer expires | `BaseStationUntil`, later |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Responsibility {
    /// The base station, from the connection's first packet.
    BaseStation,
    /// The sender: no silence has occurred yet.
    Sender,
    /// The base station until this time, since a silence has activated local repair; then the sender again.
    BaseStationUntil(Instant),
}

impl Responsibility {
    /// Returns the initial state.
    pub const fn new(begin: Begin) -> Self {
        match begin {
            Begin::AtOnce => Self::BaseStation,
            Begin::AfterSilence => Self::Sender,
        }
    }

    /// Returns whether losses are left to the sender: all packets pass, and the connection is only tracked.
    pub fn is_senders(self, now: Instant) -> bool {
        match self {
            Self::BaseStation => false,
            Self::Sender => true,
            Self::BaseStationUntil(until) => now >= until,
        }
    }

    /// Returns whether a silence has activated local repair, and it is still active.
    pub fn is_activated(self, now: Instant) -> bool {
        matches!(self, Self::BaseStationUntil(until) if now < until)
    }

    /// Records that the local timer has expired.
    pub fn time_out(&mut self, now: Instant) {
        let until = now + AWAKE;
        *self = match *self {
            Self::BaseStation => Self::BaseStation,
            Self::Sender => Self::BaseStationUntil(until),
            Self::BaseStationUntil(before) => Self::BaseStationUntil(before.max(until)),
        };
    }
}

/// Delivery on the hop, as far as this connection's arrivals show it.
///
/// | from | event | to |
/// |---|---|---|
/// | `Delivering` | the local timer expires | `TimedOut`, unless something arrives at that instant |
/// | `TimedOut` | data is acknowledged or reported as arrived, or a copy returns as a duplicate | `Delivering` |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Delivery {
    /// Something has arrived since data in flight was last declared lost.
    Delivering,
    /// All data in flight was declared lost, and nothing has arrived since.
    TimedOut,
}

/// Scan of the cached packets for losses by transmission order.
///
/// | from | event | to |
/// |---|---|---|
/// | `Complete` | acknowledgment or timer; more packets are lost than may be sent now | `From` |
/// | `From` | acknowledgment or timer; the next part is sent | `From`, or `Complete` after the last |
///
/// While the scan is not complete, the silence timer runs, unless losses are left to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scan {
    /// All packets in flight were examined.
    Complete,
    /// Packets starting at this number are still to be examined.
    From(Seq),
}

/// Repairs that an acknowledgment has allowed.
///
/// | from | event | to |
/// |---|---|---|
/// | any | acknowledgment | `Allowed`, or `None` if all losses were repaired |
/// | `Allowed` | timer | `Allowed` with fewer repairs, or `None` |
///
/// If the reordering timer completes the scan, the burst ends with its next part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Burst {
    /// None are left.
    None,
    /// The acknowledgment that arrived at `since` allows `repairs` more. They are due at once, before held data.
    Allowed { since: Instant, repairs: u32 },
}

/// Local retransmission timer of the oldest packet. It runs while data is outstanding, except in the states below.
///
/// The state is not stored: it follows from the oldest packet, the window and the timeout.
///
/// | event | from | to |
/// |---|---|---|
/// | data that becomes, replaces or removes the oldest packet | any | any |
/// | acknowledgment | any | any |
/// | timer | `Running` | `GivenUp`, `Never` |
///
/// In addition, everything restarts when packets turn out to exceed the path MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LocalTimer {
    /// Nothing is outstanding.
    Idle,
    /// No acknowledgment has arrived yet. If the only packet seen of a connection is lost, none ever will.
    BeforeFirstAck,
    /// The mobile host's window is closed.
    WindowClosed,
    /// The timer has resent the packet so often that it is left to the sender.
    GivenUp,
    /// The missing packet before the oldest exceeds the path MTU and is left to the sender.
    TooLarge,
    /// The timeout ends beyond the range of the clock.
    Never,
    /// It expires at this time.
    Running(Instant),
}
