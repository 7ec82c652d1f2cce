//! Functions for drivers on real networks: restarted ends, changed paths, scheduling delay.

use alloc::vec::Vec;

use super::frame::Item;
use super::ingress::Ingress;
use super::numbers::PathId;
use super::settings::HopConfig;
use super::transmissions::Fate;
use super::{Counters, Hop};
use crate::time::{Duration, Instant};

impl<I: Item> Hop<I> {
    /// Restarts this end with another configuration, and one path, because the other end has lost its state. Packets in the
    /// entry queue stay; data in flight and counters are discarded.
    pub fn begin_anew(&mut self, config: HopConfig) {
        let first = self.path(PathId::FIRST);
        let (fresh, lag) = (Ingress::new(&config, first.control.rate()), first.control.pacer.lag());
        let watched = first.sent.is_watched();
        let ingress = core::mem::replace(&mut self.ingress, fresh);
        *self = Self { ingress, ..Self::new(config) };
        self.tolerate(lag);
        if watched {
            self.watch();
        }
    }

    /// Moves a path to other addresses, where frames have `header` bytes of headers: its round trip is unknown, and so
    /// is its rate if that is estimated. One of several paths is probed.
    pub fn on_new_path(&mut self, path: PathId, header: u16) {
        let is_multipath = self.is_multipath();
        let (id, path) = (path, self.path_mut(path));
        path.move_to(header);
        path.probe = is_multipath;
        self.couples.forget(id);
    }

    /// Allows for a scheduling delay of up to `lag`: the driver may send missed frames at once, and the time after
    /// which transmissions are declared lost increases by `lag`.
    pub fn tolerate(&mut self, lag: Duration) {
        self.paths.iter_mut().for_each(|path| path.tolerate(lag));
    }

    /// Returns all unacknowledged packets, in the order of their first transmission, and the packets in the entry
    /// queue, because the other end is silent and they will take another path. Packets that this end holds for an
    /// earlier one are passed on ([`Hop::poll_item`]). If the other end is reachable after all, it learns that none of
    /// them will be sent.
    pub fn give_back(&mut self, now: Instant) -> Vec<I> {
        let mut items = self.symbols.give_back(now);
        while let Some(item) = self.ingress.pop(now) {
            items.push(item);
        }
        self.ingress.forget_windows();
        self.receiver.release_all(&mut self.out);
        items
    }

    /// Starts to record the fates of transmissions for [`Hop::poll_fate`].
    pub fn watch(&mut self) {
        self.paths.iter_mut().for_each(|path| path.sent.watch());
    }

    /// Returns the fate of a transmission on a path. At most 4096 are queued; more are dropped.
    pub fn poll_fate(&mut self, path: PathId) -> Option<Fate> {
        self.path_mut(path).sent.poll_fate()
    }
}

impl Counters {
    /// Returns the sum of two sets of counters.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            dropped: self.dropped + other.dropped,
            windows_cut: self.windows_cut + other.windows_cut,
            given_up: self.given_up + other.given_up,
            released: self.released + other.released,
            resent: self.resent + other.resent,
            redundant: self.redundant + other.redundant,
            restored: self.restored + other.restored,
            feedback: self.feedback + other.feedback,
            refused: self.refused + other.refused,
        }
    }
}
