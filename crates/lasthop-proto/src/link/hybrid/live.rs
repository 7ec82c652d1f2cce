//! What drivers on real networks need besides: ends that start anew, paths that change, clocks that are late.

use alloc::vec::Vec;

use super::frame::Item;
use super::ingress::Ingress;
use super::sender::Fate;
use super::settings::HopConfig;
use super::{Counters, Hop};
use crate::time::{Duration, Instant};

impl<I: Item> Hop<I> {
    /// The other end has forgotten everything: this one begins anew too, by another configuration. What waits at the entrance stays;
    /// what was under way, and what was counted, is forgotten.
    pub fn begin_anew(&mut self, config: HopConfig) {
        let (fresh, lag) = (Ingress::new(&config, self.control.rate()), self.control.pacer.lag());
        let ingress = core::mem::replace(&mut self.ingress, fresh);
        let watched = self.sender.is_watched();
        *self = Self { ingress, ..Self::new(config) };
        self.tolerate(lag);
        if watched {
            self.sender.watch();
        }
    }

    /// Frames take another way from now on, and have so many bytes of headers: nothing is known of its round trip, nor of a rate that is to be found.
    pub fn on_new_path(&mut self, header: u16) {
        self.config.header = header;
        self.detector.begin_anew();
        self.control.begin_anew();
    }

    /// A driver that comes late, by up to `lag`, may send at once what it could have sent meanwhile; and the other end is waited for so
    /// much longer before anything is held lost by time.
    pub fn tolerate(&mut self, lag: Duration) {
        self.control.pacer.tolerate(lag);
        self.detector.tolerate(lag);
    }

    /// The other end is silent, and what it would have got goes another way: gives out what it has not acknowledged, in the order in
    /// which that was sent first, and what waits to be sent. What this end holds for an earlier packet is handed on
    /// ([`Hop::poll_item`]). Should the other end be there after all, it hears that none of it comes.
    pub fn give_back(&mut self, now: Instant) -> Vec<I> {
        let mut items = self.sender.give_back(now);
        while let Some(item) = self.ingress.pop(now) {
            items.push(item);
        }
        self.ingress.forget_windows();
        self.receiver.release_all(&mut self.out);
        items
    }

    /// From now on [`Hop::poll_fate`] tells what becomes of transmissions.
    pub fn watch(&mut self) {
        self.sender.watch();
    }

    /// What became of a transmission, as far as the driver kept up: no more than 4096 wait for it.
    pub fn poll_fate(&mut self) -> Option<Fate> {
        self.sender.poll_fate()
    }
}

impl Counters {
    /// The sum of two counts.
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
