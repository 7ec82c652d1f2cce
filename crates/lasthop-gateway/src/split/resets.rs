//! Repetition of resets. A reset is not acknowledged, and the gateway has acknowledged all data of the end: an end that
//! only receives would wait forever if the reset were lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::seq::Seq;
use lasthop_sys::raw::Sender;
use lasthop_sys::tcp::Numbers;
use lasthop_wire::Route;
use socket2::Socket;

use super::Marks;

/// Pauses before each repetition, in milliseconds: at 20 % loss, all packets are lost for one connection in 15,000.
const PAUSES: [u64; 5] = [200, 400, 800, 1600, 3200];
/// Maximum number of connections whose resets are being repeated.
const MOST: usize = 4096;

/// Half of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Half {
    /// Between opener and gateway.
    Near,
    /// Between gateway and called end.
    Far,
}

/// Resets to repeat.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// Sender for each half, since only one half is tracked; `None` without permission to open raw sockets.
    senders: Option<[Sender; 2]>,
    /// Pending resets, not in chronological order: pauses differ.
    waiting: VecDeque<Reset>,
}

#[derive(Debug)]
struct Reset {
    half: Half,
    /// Resets with different sequence numbers: the end may have received all data in flight, or none.
    packets: Vec<Vec<u8>>,
    sent: usize,
    next: Instant,
}

impl Resets {
    /// Opens the raw sockets.
    pub fn open(marks: Marks) -> Self {
        let open = || Ok::<_, std::io::Error>([Sender::new(marks.accepted)?, Sender::new(marks.opened)?]);
        let senders = open()
            .inspect_err(|error| tracing::debug!(%error, "cannot open raw sockets; resets will not be repeated"))
            .ok();
        Self { senders, waiting: VecDeque::new() }
    }

    /// Schedules repetitions for a socket that is about to be closed with a reset.
    pub fn repeat(&mut self, now: Instant, socket: &Socket, half: Half) {
        if self.senders.is_none() || self.waiting.len() >= MOST {
            return;
        }
        let ends =
            |socket: &Socket| Some((socket.local_addr().ok()?.as_socket()?, socket.peer_addr().ok()?.as_socket()?));
        let Some(((source, destination), numbers)) = ends(socket).zip(Numbers::of(socket)) else { return };
        let mut starts = vec![numbers.next, numbers.unacknowledged];
        starts.dedup();
        let build = |start| {
            let flags = Flags::RST.with(Flags::ACK);
            let segment = Segment { seq: Seq(start), ack: Seq(numbers.expected), flags, ..Segment::default() };
            lasthop_wire::build(Route { source, destination }, &segment, &[])
        };
        let packets = starts.into_iter().filter_map(build).collect();
        self.waiting.push_back(Reset { half, packets, sent: 0, next: now + Duration::from_millis(PAUSES[0]) });
    }

    /// Sends the resets that are due.
    pub fn send(&mut self, now: Instant) {
        let Some([near, far]) = &self.senders else { return };
        self.waiting.retain_mut(|reset| {
            if now < reset.next {
                return true;
            }
            let sender = match reset.half {
                Half::Near => near,
                Half::Far => far,
            };
            // A packet that cannot be sent is like a lost one.
            reset.packets.iter().for_each(|packet| drop(sender.send(packet)));
            reset.sent += 1;
            PAUSES.get(reset.sent).is_some_and(|pause| {
                reset.next = now + Duration::from_millis(*pause);
                true
            })
        });
    }
}
