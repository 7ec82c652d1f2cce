//! Resets, repeated: one that is lost leaves an end that only waits waiting for ever, since the gateway has acknowledged all that
//! it sent, and nobody acknowledges a reset.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::seq::Seq;
use lasthop_sys::raw::Sender;
use lasthop_sys::tcp::Numbers;
use lasthop_wire::Route;
use socket2::Socket;

use super::Marks;

/// After how many milliseconds since the one before: with every fifth packet lost, one connection in 15,000 hears of none.
const PAUSES: [u64; 5] = [200, 400, 800, 1600, 3200];
/// Most connections whose resets are repeated at once.
const MOST: usize = 4096;

/// Which half of a connection an end is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Half {
    /// Between opener and gateway.
    Near,
    /// The other.
    Far,
}

/// What is to be repeated.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// For each half, since connection tracking sees the one and not the other; none without the right to open raw sockets.
    senders: Option<[Sender; 2]>,
    /// In no order of time: pauses differ.
    waiting: VecDeque<Reset>,
}

#[derive(Debug)]
struct Reset {
    half: Half,
    /// Alike but for their numbers: the end may have got what was under way, or none of it.
    packets: Vec<Vec<u8>>,
    sent: usize,
    next: Instant,
}

impl Resets {
    /// Opens what it takes to send them.
    pub fn open(marks: Marks) -> Self {
        let open = || Ok::<_, std::io::Error>([Sender::new(marks.accepted)?, Sender::new(marks.opened)?]);
        let senders = open().inspect_err(|error| tracing::debug!(%error, "resets are not repeated")).ok();
        Self { senders, waiting: VecDeque::new() }
    }

    /// This socket is about to be closed with a reset.
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

    /// Sends those whose time has come.
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
            // A packet that cannot be sent is like one that is lost.
            reset.packets.iter().for_each(|packet| drop(sender.send(packet)));
            reset.sent += 1;
            PAUSES.get(reset.sent).is_some_and(|pause| {
                reset.next = now + Duration::from_millis(*pause);
                true
            })
        });
    }
}
