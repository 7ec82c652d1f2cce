//! Fates of the packets sent: the record of each one's arrival or drop.
//!
//! A trace records a packet when it is sent, and again when it is dropped. Identical packets can be on a link at the
//! same time (duplicate acknowledgments look alike), so a drop does not identify one of them. Links deliver in order:
//! among identical packets, the k-th fate (received at the other end, or destroyed by the channel) is that of the k-th
//! sent. A full queue drops the packet that arrives, which is the last one sent.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::{HashMap, VecDeque};

use lasthop_proto::packet::{Body, Ecn, FlowId, Integrity, Packet, Priority, Side};
use lasthop_sim::trace::{DropReason, Trace, What};

/// Relation of a record to a drop.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Fate {
    /// The record is not part of a drop.
    #[default]
    NotDropped,
    /// The packet sent was dropped later.
    DroppedLater(DropReason),
    /// The record is the drop of a packet whose `Sent` record has the fate.
    Merged,
}

/// Fields that identical packets share, except those that are compared individually.
pub(crate) type Key = (FlowId, Side, &'static str, u32, u32);

pub(crate) fn key(packet: &Packet) -> Key {
    let number = match &packet.body {
        Body::Tcp(segment) => segment.seq.0 ^ segment.ack.0.rotate_left(16),
        Body::Datagram { number } | Body::Media { number } | Body::Quic { number, .. } => *number,
        Body::Control | Body::Coded(_) | Body::Report(_) => 0,
    };
    (packet.flow, packet.from, packet.cause.name(), packet.len, number)
}

/// Returns whether two records show the same packet: a link may damage it, and queues may mark and prioritise it.
pub(crate) fn same(a: &Packet, b: &Packet) -> bool {
    let plain = |packet: &Packet| Packet {
        priority: Priority::Normal,
        integrity: Integrity::Intact,
        ecn: Ecn::NotEct,
        ..*packet
    };
    plain(a) == plain(b)
}

/// Fate of a packet sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Course {
    /// The packet was neither received nor dropped when the trace ended.
    #[default]
    Underway,
    /// The record with this index received the packet.
    Arrived(usize),
    /// The record with this index dropped the packet.
    Dropped(usize, DropReason),
}

/// Returns the fate of the packet that each record of `trace` sends; [`Course::Underway`] for records that send none.
pub fn courses(trace: &Trace) -> Vec<Course> {
    let mut courses = vec![Course::Underway; trace.records.len()];
    let mut underway: HashMap<(u16, Key), VecDeque<usize>> = HashMap::new();
    let sent_at = |index: usize| match &trace.records[index].what {
        What::Sent(packet) => packet,
        _ => unreachable!("only packets sent are underway"),
    };
    for (index, record) in trace.records.iter().enumerate() {
        match &record.what {
            What::Sent(packet) => underway.entry((record.point, key(packet))).or_default().push_back(index),
            What::Received(packet) => {
                let sender = Trace::far_end(record.point);
                let queue = underway.get_mut(&(sender, key(packet)));
                let sent =
                    queue.and_then(|queue| take(queue, |index| same(sent_at(index), packet), DropReason::Channel));
                if let Some(sent) = sent {
                    courses[sent] = Course::Arrived(index);
                }
            }
            What::Dropped(packet, reason) => {
                let Some(queue) = underway.get_mut(&(record.point, key(packet))) else { continue };
                if let Some(sent) = take(queue, |index| same(sent_at(index), packet), *reason) {
                    courses[sent] = Course::Dropped(index, *reason);
                }
            }
            What::Event(_) => {}
        }
    }
    courses
}

/// Removes the packet in question: the oldest one for the channel and active queue management, the newest one for a
/// full queue or a policer.
pub(crate) fn take(queue: &mut VecDeque<usize>, matches: impl Fn(usize) -> bool, reason: DropReason) -> Option<usize> {
    let position = match reason {
        DropReason::Channel | DropReason::Aqm | DropReason::Filtered | DropReason::Handoff => {
            queue.iter().position(|&index| matches(index))
        }
        DropReason::Queue | DropReason::Policer => queue.iter().rposition(|&index| matches(index)),
    }?;
    queue.remove(position)
}
