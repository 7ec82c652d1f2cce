//! Acknowledgments of a Linux receiver that its own end causes: data that it sends, reads, and the timer.

use super::{LEAST_DELAY, Linux, Pushed};
use crate::packet::SackBlocks;
use crate::tcp::config::Switch;
use crate::tcp::receiver::autotune::Autotune;
use crate::tcp::receiver::{AckDue, Receiver};
use crate::time::Instant;

impl Receiver {
    /// Records that data of this end leaves. If the peer's arrived shortly before, the connection is interactive
    /// (`tcp_event_data_sent`).
    #[inline]
    pub fn on_data_sent(&mut self, now: Instant) {
        self.linux.begin(&self.config);
        if let Some(linux) = self.linux.kept_mut()
            && now.since(linux.last_arrival) < linux.delay
        {
            linux.interactive = Switch::On;
        }
    }

    /// Records that the application has read `bytes` (`tcp_rcv_space_adjust`, `__tcp_cleanup_rbuf`).
    pub(in crate::tcp::receiver) fn read_as_linux(&mut self, bytes: u64) {
        let Some(mut linux) = self.linux.take() else { return };
        // Linux checks after each packet. After the first of a read, no round trip has passed since the last check.
        let first = bytes.min(u64::from(linux.mss)).min(self.unread);
        self.unread -= first;
        if let Some(tuning) = &mut linux.tuning {
            tuning.on_read(linux.now, self.holdings(linux.mss), linux.round_trip.get());
        }
        self.unread = self.unread.saturating_sub(bytes - first);
        if self.due != AckDue::Now && self.read_calls_for_ack(bytes, &linux) {
            self.due = AckDue::Now;
        }
        self.linux.put(linux);
    }

    fn read_calls_for_ack(&self, bytes: u64, linux: &Linux) -> bool {
        if linux.scheduled.is_on() {
            let small = match linux.pushed {
                Pushed::No => false,
                Pushed::Once => !linux.interactive.is_on(),
                Pushed::Again => true,
            };
            let unacked = self.rcv_nxt.since(self.last_ack_sent);
            let empty = self.unread == 0 && self.runs.is_empty();
            // A FIN ends updates of the window, not this.
            if unacked > linux.mss || small && bytes > 0 && empty {
                return true;
            }
        }
        let open = self.rcv_adv.since(self.rcv_nxt);
        let most = linux.tuning().map_or(self.config.receiver.receive_buffer, Autotune::clamp);
        if bytes == 0 || self.finished() || open > most / 2 {
            return false;
        }
        let offer = self.offer_beside(linux).0;
        offer > 0 && offer / 2 >= open
    }

    /// Handles the timer of a delayed acknowledgment (`tcp_delack_timer_handler`).
    pub(in crate::tcp::receiver) fn delay_expired(&mut self) {
        if let Some(linux) = self.linux.kept_mut() {
            if linux.interactive.is_on() {
                linux.interactive = Switch::Off;
                linux.delay = LEAST_DELAY;
            } else {
                linux.delay = linux.delay.saturating_mul(2).min(linux.rto);
            }
        }
    }

    /// Records that an acknowledgment leaves; returns whether it is an early one that leaves ahead of the next.
    pub(in crate::tcp::receiver) fn linux_ack_sent(&mut self) -> Switch {
        match self.linux.kept_mut() {
            Some(linux) if linux.early.is_some() => Switch::On,
            Some(linux) => {
                linux.on_ack_sent();
                Switch::Off
            }
            None => Switch::Off,
        }
    }

    pub(in crate::tcp::receiver) fn has_early_report(&self) -> bool {
        self.linux.kept().is_some_and(|linux| linux.early.is_some())
    }

    pub(in crate::tcp::receiver) fn take_early_report(&mut self) -> Option<SackBlocks> {
        self.linux.kept_mut()?.early.take()
    }

    /// Returns the blocks to report, if they are kept as in Linux.
    pub(in crate::tcp::receiver) fn table(&self) -> Option<SackBlocks> {
        self.linux.kept().map(|linux| linux.table.blocks())
    }
}
