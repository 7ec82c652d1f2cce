//! Ethernet frames between the two ends while the other end gives signs of life; otherwise they pass unrepaired over
//! the hop.

use std::collections::VecDeque;

use lasthop_proto::link::hybrid::{MOST_PATHS, PathId};
use lasthop_proto::time::{Duration, Instant};
use lasthop_tunnel::{PeerId, SocketId};

use super::{Engine, Inner, MOST_OUT, link_of};
use crate::inner::fit::{Oversize, clamp, oversize};
use crate::inner::frame::{self, LENGTH};
use crate::inner::packet::Packet;

/// Number of signs of life within the silence after which an end is considered disconnected.
const SIGNS: u64 = 6;

/// Additional state on a bridge.
#[derive(Default)]
pub(super) struct Bridged {
    /// True if the other end gives signs of life, so that frames are taken.
    takes: bool,
    /// Time of the next sign of life to the other end on each path.
    sign_at: [Option<Instant>; MOST_PATHS as usize],
    /// True after a frame of a path arrived by another path's interface.
    is_crossed: bool,
    /// Frames to be sent unrepaired over the hop.
    plain: VecDeque<Vec<u8>>,
}

impl Engine {
    fn bridged(&mut self) -> Option<&mut Bridged> {
        match &mut self.inner {
            Inner::Bridged(bridged) => Some(bridged),
            Inner::Routed { .. } => None,
        }
    }

    /// Returns the only peer.
    fn other(&self) -> Option<PeerId> {
        self.links.iter().position(Option::is_some).map(|index| PeerId(index as u32))
    }

    /// Returns whether frames that leave by the hop are to be redirected here, because the other end gives signs of
    /// life.
    pub fn takes(&self) -> bool {
        matches!(&self.inner, Inner::Bridged(bridged) if bridged.takes)
    }

    /// Returns the next frame to be sent unrepaired over the hop.
    pub fn poll_plain(&mut self) -> Option<Vec<u8>> {
        self.bridged()?.plain.pop_front()
    }

    fn go_plain(&mut self, frame: &[u8]) {
        let id = self.other();
        let Some(bridged) = self.bridged() else { return };
        if bridged.plain.len() >= MOST_OUT {
            self.counters.overflow += 1;
            return;
        }
        bridged.plain.push_back(frame.to_vec());
        if let Some(link) = id.and_then(|id| link_of(&mut self.links, id)) {
            link.counters.plain += 1;
        }
    }

    /// Handles a frame that leaves by the hop.
    pub(super) fn take_bridged(&mut self, now: Instant, bytes: &mut [u8]) {
        let takes = self.takes();
        let ip = frame::ip(bytes);
        let Some((id, link)) = self.other().and_then(|id| Some((id, link_of(&mut self.links, id)?))) else { return };
        let room = usize::from(link.mtu(now)).saturating_sub(LENGTH);
        let fits = bytes.len() <= room;
        // Frames that waited in the device when the other end became silent are not taken.
        if !takes || (!fits && ip.is_none()) {
            link.counters.oversize += u64::from(takes);
            return self.go_plain(bytes);
        }
        let inner_room = |at: usize| u16::try_from(room.saturating_sub(at)).unwrap_or(u16::MAX);
        if fits {
            if let Some((range, view)) = &ip {
                clamp(&mut bytes[range.clone()], view, inner_room(range.start));
            }
            return self.offer_frame(now, id, bytes);
        }
        link.counters.oversize += 1;
        let Some((range, view)) = ip else { return };
        match oversize(&bytes[range.clone()], &view, inner_room(range.start)) {
            Oversize::Parts(parts) => {
                for part in parts {
                    self.offer_frame(now, id, &[&bytes[..range.start], &part].concat());
                }
            }
            Oversize::Answer(answer) => {
                if let Some(header) = frame::header_back(bytes, &range) {
                    let answer = frame::carried(&[header, answer].concat());
                    if let Some(answer) = answer.and_then(|answer| Packet::arrived(&answer)) {
                        self.deliver(answer);
                    }
                }
                // The sender may not receive the answer.
                self.go_plain(bytes);
            }
            Oversize::Drop => self.go_plain(bytes),
        }
    }

    fn offer_frame(&mut self, now: Instant, id: PeerId, bytes: &[u8]) {
        let ip = frame::ip(bytes);
        let packet = Packet::outgoing_frame(bytes, ip.as_ref(), &mut self.flows);
        let (Some(link), Some(packet)) = (link_of(&mut self.links, id), packet) else { return };
        link.counters.sent.count(bytes.len());
        link.offer(now, packet, ip.as_ref().map(|(range, view)| (&bytes[range.clone()], view)));
    }

    /// Passes a frame from the other end to the device.
    pub(super) fn hand_on_bridged(&mut self, now: Instant, id: PeerId, mut packet: Packet) {
        let Some(link) = link_of(&mut self.links, id) else { return };
        let Some(bytes) = frame::frame(packet.bytes()) else {
            link.counters.foreign += 1;
            return;
        };
        let ip = frame::ip(bytes);
        link.on_received(now, bytes.len(), ip.as_ref().map(|(range, _)| &bytes[range.clone()]));
        let room = usize::from(link.mtu(now)).saturating_sub(LENGTH);
        if let Some((range, view)) = ip {
            let mtu = u16::try_from(room.saturating_sub(range.start)).unwrap_or(u16::MAX);
            packet.clamp(LENGTH + range.start..LENGTH + range.end, &view, mtu);
        }
        self.deliver(packet);
    }

    /// Records that a datagram was sent to the other end on a path, which is a sign of life.
    pub(super) fn gave_sign(&mut self, now: Instant, id: PeerId, path: PathId) {
        let Some(silence) = link_of(&mut self.links, id).map(|link| link.plan.silence) else { return };
        let sign_at = self.bridged().and_then(|bridged| bridged.sign_at.get_mut(usize::from(path.0)));
        if let Some(sign_at) = sign_at {
            *sign_at = Some(now + Duration::from_nanos(silence / SIGNS));
        }
    }

    /// Sends a sign of life on each path on which it is due, since another path may fail at any time, and checks those of
    /// the other end.
    pub(super) fn look_after_silence(&mut self, now: Instant) {
        let Some(id) = self.other() else { return };
        let paths = self.signed_paths(id);
        let Some(bridged) = self.bridged() else { return };
        let (takes, sign_at) = (bridged.takes, bridged.sign_at);
        if !self.tunnel.is_up(now, id) {
            // Called until it answers.
            self.wake(now, id);
        } else {
            let is_due = |(_, at): &(u8, Option<Instant>)| at.is_none_or(|at| at <= now);
            for (path, _) in (0..paths).zip(sign_at).filter(is_due) {
                self.tunnel.keep_alive(now, id, PathId(path));
                self.gave_sign(now, id, PathId(path));
            }
        }
        let is_heard = self.silence_ends(id).is_some_and(|end| now < end);
        if is_heard == takes {
            return;
        }
        if !is_heard {
            if let Some(link) = link_of(&mut self.links, id) {
                link.counters.silences += 1;
            }
            self.fall_silent(now, id);
        }
        if let Some(bridged) = self.bridged() {
            bridged.takes = is_heard;
        }
        tracing::debug!(heard = is_heard, "peer silence changed");
    }

    /// Returns the number of paths on which signs of life are sent.
    fn signed_paths(&self, PeerId(id): PeerId) -> u8 {
        self.links.get(id as usize).and_then(Option::as_ref).map_or(0, |link| link.hop.path_count())
    }

    /// Warns of paths whose interfaces are connected to those of other paths: answers on them do not arrive.
    pub(super) fn look_for_crossing(&mut self, id: PeerId, path: PathId, socket: SocketId) {
        let Inner::Bridged(bridged) = &mut self.inner else { return };
        let Some(link) = link_of(&mut self.links, id) else { return };
        if link.socket(path).1 == socket || std::mem::replace(&mut bridged.is_crossed, true) {
            return;
        }
        tracing::warn!(
            path = link.path_name(path),
            "frames of the path arrive by another path's interface; list [[peer.path]] in the same order at both ends"
        );
    }

    /// Returns the time at which the other end becomes silent.
    fn silence_ends(&self, id: PeerId) -> Option<Instant> {
        let link = self.links.get(id.0 as usize)?.as_ref().filter(|link| link.up)?;
        Some(self.tunnel.heard(id)? + Duration::from_nanos(link.plan.silence))
    }

    /// Handles a silent or restarted other end: frames that it may not have received are sent unrepaired over the hop.
    pub(super) fn fall_silent(&mut self, now: Instant, id: PeerId) {
        let Some(link) = link_of(&mut self.links, id) else { return };
        let given_back = link.hop.give_back(now);
        self.take_items(now, id);
        for packet in given_back {
            if let Some(bytes) = frame::frame(packet.bytes()) {
                self.go_plain(bytes);
            }
        }
    }

    /// Returns the time at which [`Engine::look_after_silence`] has work to do.
    pub(super) fn silence_deadline(&self) -> Option<Instant> {
        let Inner::Bridged(bridged) = &self.inner else { return None };
        let id = self.other()?;
        let silence = bridged.takes.then(|| self.silence_ends(id)).flatten();
        let up = self.links.get(id.0 as usize)?.as_ref()?.up;
        let paths = if up { usize::from(self.signed_paths(id)) } else { 0 };
        let signs = bridged.sign_at.iter().take(paths).flatten().copied().min();
        [silence, signs].into_iter().flatten().min()
    }
}

#[cfg(test)]
#[path = "bridged_tests.rs"]
mod tests;
