//! Acknowledgments that wait: delayed ones, and selective ones that are held back.

use super::{LEAST_DELAY, Linux};
use crate::tcp::config::{SackCompression, Switch};
use crate::tcp::jiffies::Jiffies;
use crate::tcp::receiver::{AckDue, Receiver};
use crate::time::{Duration, Instant};

/// Duplicates that leave at once for each `rcv_nxt` (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u8 = 3;
/// `tcp_comp_sack_delay_ns`, `tcp_comp_sack_slack_ns`, `tcp_comp_sack_nr`.
const COMPRESSION_DELAY: Duration = Duration::from_millis(1);
const COMPRESSION_SLACK: Duration = Duration::from_micros(100);
const COMPRESSION_MOST: u32 = 44;

impl Receiver {
    pub(super) fn delay_as_linux(&mut self, now: Instant, srtt: Option<Duration>, linux: &mut Linux) {
        let wait = linux.wait(srtt);
        if let Some(clock) = self.jiffies() {
            return self.delay_by_ticks(now, wait, &clock, linux);
        }
        match self.due {
            AckDue::Now => {}
            AckDue::No => self.due = AckDue::Delayed(now + wait),
            // It is about to leave anyhow.
            AckDue::Delayed(at) if at <= now + wait / 4 => self.due = AckDue::Now,
            AckDue::Delayed(at) => self.due = AckDue::Delayed(at.min(now + wait)),
        }
    }

    /// The same where timers count in ticks.
    fn delay_by_ticks(&mut self, now: Instant, wait: Duration, clock: &Jiffies, linux: &mut Linux) {
        let (tick, wait) = (clock.at(now), clock.ticks(wait));
        match self.due {
            AckDue::Now => {}
            AckDue::Delayed(_) if linux.expires <= tick + wait / 4 => self.due = AckDue::Now,
            AckDue::Delayed(_) if linux.expires <= tick + wait => {}
            AckDue::Delayed(_) | AckDue::No => {
                linux.expires = tick + wait;
                self.due = AckDue::Delayed(clock.fires(now, linux.expires));
            }
        }
    }

    /// The clock of its timers, where that ticks.
    pub(super) fn jiffies(&self) -> Option<Jiffies> {
        Jiffies::of(&self.config, self.phase.slow)
    }

    /// A duplicate acknowledgment: the first three leave at once, the next ones together.
    pub(super) fn hold_back(&mut self, now: Instant, srtt: Option<Duration>, linux: &mut Linux) {
        let compresses = self.config.sack_compression == SackCompression::Linux && self.sack.is_on();
        if !compresses || linux.compressed >= COMPRESSION_MOST {
            self.due = AckDue::Now;
            return;
        }
        let (at, count) = &mut linux.duplicates;
        if *at != self.rcv_nxt {
            (*at, *count) = (self.rcv_nxt, 0);
        }
        if *count < AT_ONCE {
            *count += 1;
            self.due = AckDue::Now;
            return;
        }
        linux.compressed += 1;
        if linux.release.is_none() {
            let round_trip = linux.round_trip.get().unwrap_or(Duration::ZERO);
            let round_trip = srtt.filter(|srtt| *srtt > Duration::ZERO).map_or(round_trip, |srtt| srtt.min(round_trip));
            let delay = COMPRESSION_DELAY.min(round_trip / 20);
            linux.release = Some(now + delay + COMPRESSION_SLACK);
        }
    }

    /// The timer of a delayed acknowledgment expired (`tcp_delack_timer_handler`).
    pub(in crate::tcp::receiver) fn delay_expired(&mut self) {
        if let Some(linux) = &mut self.linux {
            if linux.interactive.is_on() {
                linux.interactive = Switch::Off;
                linux.delay = LEAST_DELAY;
            } else {
                linux.delay = linux.delay.saturating_mul(2).min(linux.rto);
            }
        }
    }
}
