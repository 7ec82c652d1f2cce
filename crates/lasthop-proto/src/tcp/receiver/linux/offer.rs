//! Capacity of a Linux receiver, and the window that it offers.

use super::Linux;
use crate::seq::Seq;
use crate::tcp::receiver::Receiver;
use crate::tcp::receiver::autotune::{Fill, Growth, Holdings, memory};

impl Receiver {
    pub(super) fn offered(&self) -> u32 {
        self.rcv_adv.since(self.last_ack_sent)
    }

    /// Grows the window by data of `len` bytes in segments of `size` bytes.
    pub(super) fn grow_window(&mut self, (len, size): (u32, u32), linux: &mut Linux) {
        let mss = linux.mss;
        if let Some(tuning) = &mut linux.tuning
            && tuning.grow(self.holdings(mss), (len, size), mss) == Growth::Grown
        {
            linux.quick |= 1;
        }
    }

    /// Returns the window to offer; a buffer that is more than half full ends quick acknowledgments.
    pub(super) fn offer_anew(&self, linux: &mut Linux) -> u32 {
        let (offer, fill) = self.offer_beside(linux);
        if fill == Fill::Half {
            linux.quick = 0;
        }
        offer
    }

    /// Returns the held data, in segments of `mss` bytes.
    pub(in crate::tcp::receiver) fn holdings(&self, mss: u32) -> Holdings {
        let mss = mss.max(1);
        let memory_of = |bytes: u64| {
            let (whole, rest) = (bytes / u64::from(mss), (bytes % u64::from(mss)) as u32);
            whole * u64::from(memory(mss)) + if rest > 0 { u64::from(memory(rest)) } else { 0 }
        };
        let out_of_order = self.runs.iter().map(|run| memory_of(u64::from(run.right.since(run.left))));
        Holdings {
            taken: self.received - self.unread,
            unread: self.unread,
            memory: memory_of(self.unread) + out_of_order.sum::<u64>(),
            span: self.runs.last().map_or(0, |last| last.right.since(self.rcv_nxt)),
        }
    }

    /// Returns whether all memory is in use (`tcp_try_rmem_schedule`). The window is rounded up to the unit of its
    /// field, again with each segment while it cannot shrink, and so may exceed the buffer.
    pub(super) fn is_overfull(&self, linux: &Linux) -> bool {
        let out_of_order: u64 = self.runs.iter().map(|run| u64::from(run.right.since(run.left))).sum();
        linux.tuning().is_some() && self.unread + out_of_order >= u64::from(self.config.receiver.receive_buffer)
    }

    pub(super) fn announced(&self) -> u32 {
        self.config.common.mss + if self.config.common.timestamps.is_on() { 12 } else { 0 }
    }

    /// Returns the window to offer, where `linux` is this receiver's state.
    pub(in crate::tcp::receiver) fn offer_beside(&self, linux: &Linux) -> (u32, Fill) {
        match linux.tuning() {
            None => (self.fixed_offer(), Fill::Fine),
            Some(tuning) => {
                let unit = 1 << self.window_shift;
                let (window, fill) = tuning.window(self.holdings(linux.mss()), linux.mss(), unit);
                let window = if unit == 1 { self.unscaled(window, linux.mss()) } else { window.next_multiple_of(unit) };
                (window.min(0xffff << self.window_shift), fill)
            }
        }
    }

    /// Returns the window to offer without scaling, for `room` bytes of data: the current one, unless whole segments of
    /// `mss` bytes can be added to it or it does not fit (`__tcp_select_window`).
    fn unscaled(&self, room: u32, mss: u32) -> u32 {
        let (current, mss) = (self.offered(), mss.max(1));
        if current <= room.saturating_sub(mss) || current > room { room - room % mss } else { current }
    }

    /// Returns the right edge of the window in the segment being sent, a multiple of the field's unit; `None` for
    /// another kind of receiver.
    pub(in crate::tcp::receiver) fn edge_as_linux(&mut self) -> Option<Seq> {
        let (offer, fill) = self.linux.read(&self.config, |linux| self.offer_beside(linux))?;
        if fill == Fill::Half
            && let Some(linux) = self.linux.kept_mut()
        {
            linux.quick = 0;
        }
        let open = self.rcv_adv.max(self.rcv_nxt + offer).since(self.rcv_nxt);
        let tuned = self.config.receiver.tunes_itself();
        Some(self.rcv_nxt + if tuned { open.next_multiple_of(1 << self.window_shift) } else { open })
    }

    pub(in crate::tcp::receiver) fn edge_beside(&self, linux: &Linux) -> Seq {
        self.rcv_adv.max(self.rcv_nxt + self.offer_beside(linux).0)
    }
}
