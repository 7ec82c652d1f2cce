//! Trials: a packet that no socket accepts shows whether a packet of the gateway itself would leave this machine.
//!
//! A trial is a TCP segment between the ends of a real connection, with its addresses and ports, without payload and
//! with a wrong checksum: chains and routes treat it like a repair, and the end drops it (RFC 9293 §3.1). The result of
//! the system call that sends the packet shows whether it left, because netfilter's verdicts in `output` and
//! `postrouting` determine that result.

use std::io;
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::seq::Seq;
use lasthop_sys::raw::Sender;
use lasthop_sys::routes::Routes;
use lasthop_wire::Route;

use crate::daemon::passage::Cause;

/// Outcome of a trial, or of sending any packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The packet left the machine.
    Left,
    /// The packet was dropped.
    Stopped(Cause),
    /// There is no route, or its interface is down.
    Unrouted,
    /// The error has another cause, unrelated to rules.
    Unknown,
}

impl Outcome {
    /// Interprets the result of sending a packet.
    pub fn of(sent: &io::Result<()>) -> Self {
        let Err(error) = sent else { return Self::Left };
        match error.raw_os_error() {
            Some(libc::EPERM) => Self::Stopped(Cause::Output),
            // Routes of type `prohibit`, `blackhole` and `unreachable`, and missing routes.
            Some(libc::EACCES | libc::EINVAL | libc::ENETUNREACH | libc::EHOSTUNREACH) => Self::Unrouted,
            _ => Self::Unknown,
        }
    }
}

/// Returns an empty packet on this route that its receiver drops because of its checksum; `None` if the addresses are
/// of different IP versions.
pub(super) fn packet(route: Route, flags: Flags) -> Option<Vec<u8>> {
    /// Mask that changes a checksum to one that also differs in ones' complement.
    const WRONG: u8 = 0x55;
    let segment = Segment { seq: Seq(0), ack: Seq(0), window: 0, flags, options: Default::default() };
    let mut packet = lasthop_wire::build(route, &segment, &[])?;
    let view = lasthop_wire::parse(&packet)?;
    let checksum = view.total_len().checked_sub(20)? + 16;
    packet.get_mut(checksum..checksum + 2)?.iter_mut().for_each(|byte| *byte ^= WRONG);
    Some(packet)
}

/// Parameters of a trial.
pub(super) struct Way<'a> {
    pub sender: &'a Sender,
    /// Mark that `sender` gives the packet.
    pub mark: u32,
    /// Index of the interface by which the packet should leave, if known.
    pub by: Option<u32>,
    /// Mark of a forwarded packet that leaves by this interface.
    pub forwarded: u32,
}

/// Returns whether routing sends packets with the gateway's mark to a different interface than packets with the mark of
/// forwarded ones. For multipath routes the kernel returns the same interface for both.
fn is_led_astray(routes: &mut Routes, ends: (IpAddr, IpAddr), way: &Way<'_>) -> bool {
    way.by.is_some_and(|by| {
        routes.leaves_by(ends, way.mark).is_some_and(|other| other != by)
            && routes.leaves_by(ends, way.forwarded) == Some(by)
    })
}

/// Sends `packet`, which this machine forwards on `route`.
pub(super) fn send(routes: &mut Routes, way: &Way<'_>, route: Route, packet: &[u8]) -> Outcome {
    match Outcome::of(&way.sender.send(packet)) {
        Outcome::Left if is_led_astray(routes, (route.source.ip(), route.destination.ip()), way) => {
            Outcome::Stopped(Cause::OtherRoute)
        }
        outcome => outcome,
    }
}

/// Returns a route between two ends.
pub(super) const fn between(source: SocketAddr, destination: SocketAddr) -> Route {
    Route { source, destination }
}

#[cfg(test)]
mod tests {
    use lasthop_wire::{Checksum, Checksums};

    use super::*;

    #[test]
    fn a_trial_bears_the_addresses_of_its_connection_and_nobody_takes_it() {
        for (one, other) in [("192.0.2.1:80", "198.51.100.7:4000"), ("[2001:db8::1]:80", "[2001:db8::2]:4000")] {
            let route = between(one.parse().unwrap(), other.parse().unwrap());
            let packet = packet(route, Flags::ACK).unwrap();
            let view = lasthop_wire::parse(&packet).unwrap();
            assert_eq!((view.route, view.payload_len), (route, 0));
            assert_ne!(lasthop_wire::checksums(&packet, &view, Checksum::Complete), Checksums::Hold);
        }
        assert!(packet(between("192.0.2.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()), Flags::SYN).is_none());
    }

    #[test]
    fn a_refusal_is_told_from_a_missing_route_and_from_other_errors() {
        let of = |errno| Outcome::of(&Err(io::Error::from_raw_os_error(errno)));
        assert_eq!(Outcome::of(&Ok(())), Outcome::Left);
        assert_eq!(of(libc::EPERM), Outcome::Stopped(Cause::Output));
        assert_eq!(of(libc::ENETUNREACH), Outcome::Unrouted);
        assert_eq!(of(libc::ENOBUFS), Outcome::Unknown);
    }
}
