//! Socket options that an application changes on a live connection. They are stored once one is set, so that other
//! connections stay small.

use alloc::collections::VecDeque;

use super::Stream;
use crate::tcp::config::{Nagle, Switch};
use crate::time::{Duration, Instant};

/// Values of the options.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub nagle: Nagle,
    /// On if segments smaller than the mss wait (`TCP_CORK`).
    pub corked: Switch,
    /// On if more data follows the last write at once (`MSG_MORE`).
    more: Switch,
    /// On if the data written last carries no PSH for that.
    unmarked: Switch,
    /// On if the data written so far leaves although segments smaller than the mss wait (`TCP_NAGLE_PUSH`).
    pushes: Switch,
    /// Positions at which a segment ends (`MSG_EOR`), in order.
    records: VecDeque<u64>,
    /// Maximum of written and unsent data (`TCP_NOTSENT_LOWAT`).
    unsent_limit: Option<u32>,
    /// Time after which a connection without progress is given up (`TCP_USER_TIMEOUT`).
    user_timeout: Option<Duration>,
    /// Time of the first timeout without progress.
    stalled_since: Option<Instant>,
}

impl Stream {
    /// Returns the options, which are stored from now on.
    pub(super) fn live_mut(&mut self) -> &mut Live {
        let nagle = self.config.common.nagle;
        self.live.get_or_insert_with(|| {
            alloc::boxed::Box::new(Live {
                nagle,
                corked: Switch::Off,
                more: Switch::Off,
                unmarked: Switch::Off,
                pushes: Switch::Off,
                records: VecDeque::new(),
                unsent_limit: None,
                user_timeout: None,
                stalled_since: None,
            })
        })
    }

    /// Sends segments smaller than the mss at once, or according to the settings (`TCP_NODELAY`). Linux also sends the
    /// data that is written, even if it is corked (`__tcp_sock_set_nodelay`).
    pub fn set_nodelay(&mut self, on: Switch) {
        let configured = self.config.common.nagle;
        let pushes = self.probes_as_linux() && on.is_on();
        let live = self.live_mut();
        live.nagle = if on.is_on() { Nagle::Off } else { configured };
        live.pushes = if pushes { Switch::On } else { live.pushes };
    }

    /// Lets segments smaller than the mss wait, or not any more (`TCP_CORK`).
    pub fn set_cork(&mut self, on: Switch) {
        self.live_mut().corked = on;
    }

    /// Records that more data follows the last write at once: a segment smaller than the mss does not leave because of
    /// that write (`MSG_MORE`).
    pub fn expect_more(&mut self) {
        let live = self.live_mut();
        (live.more, live.unmarked) = (Switch::On, Switch::On);
    }

    /// Records a write after which no more is expected. Data in a new buffer waits again (`tcp_skb_entail`).
    pub(super) fn mark_end(&mut self) {
        let is_new = self.pos(self.snd_nxt) > self.queued;
        if let Some(live) = &mut self.live {
            (live.more, live.unmarked) = (Switch::Off, Switch::Off);
            live.pushes = if is_new { Switch::Off } else { live.pushes };
        }
    }

    /// Returns whether the end of the written data carries PSH.
    pub fn marks_end(&self) -> bool {
        self.live.as_ref().is_none_or(|live| !live.unmarked.is_on())
    }

    /// Ends a segment after the data written last (`MSG_EOR`).
    pub fn end_record(&mut self) {
        let end = 1 + self.queued;
        self.live_mut().records.push_back(end);
    }

    /// Limits the data that is written and not sent (`TCP_NOTSENT_LOWAT`).
    pub fn limit_unsent(&mut self, bytes: Option<u32>) {
        self.live_mut().unsent_limit = bytes;
    }

    /// Sets the time after which a connection without progress is given up (`TCP_USER_TIMEOUT`).
    pub fn set_user_timeout(&mut self, limit: Option<Duration>) {
        self.live_mut().user_timeout = limit;
    }

    /// Returns the time after which a connection without progress is given up, if it is set.
    pub fn user_timeout(&self) -> Option<Duration> {
        self.live.as_ref()?.user_timeout
    }

    /// Returns the maximum of written and unsent data, if it is set.
    pub fn unsent_limit(&self) -> Option<u32> {
        self.live.as_ref()?.unsent_limit
    }

    /// Returns whether segments smaller than the mss wait because the application says so.
    #[inline]
    pub(super) fn is_corked(&self) -> bool {
        self.live.as_ref().is_some_and(|live| (live.corked.is_on() || live.more.is_on()) && !live.pushes.is_on())
    }

    /// Ends the effect of [`Self::expect_more`]: after an acknowledgment, data leaves by the usual rules
    /// (`tcp_data_snd_check`).
    #[inline]
    pub fn end_write(&mut self) {
        if let Some(live) = &mut self.live {
            live.more = Switch::Off;
        }
    }

    /// Returns `len` bytes at `pos`, or those before the end of the record.
    #[inline]
    pub(super) fn within_record(&self, pos: u64, len: u32) -> u32 {
        match &self.live {
            None => len,
            Some(live) => {
                live.records.iter().find(|end| **end > pos).map_or(len, |end| (end - pos).min(len.into()) as u32)
            }
        }
    }

    /// Returns whether a record ends at `pos`.
    #[inline]
    pub fn is_record_end(&self, pos: u64) -> bool {
        self.live.as_ref().is_some_and(|live| live.records.contains(&pos))
    }

    /// Discards records that are acknowledged. Called when the application writes another one.
    pub fn forget_records(&mut self) {
        let una = self.una_pos;
        if let Some(live) = &mut self.live {
            while live.records.front().is_some_and(|end| *end <= una) {
                live.records.pop_front();
            }
        }
    }

    /// Records a timeout without progress, the first one if `first`. Returns whether the user timeout is over.
    pub(super) fn outlasts_user(&mut self, now: Instant, first: bool) -> bool {
        let Some(live) = &mut self.live else { return false };
        if first {
            live.stalled_since = None;
        }
        let since = *live.stalled_since.get_or_insert(now);
        live.user_timeout.is_some_and(|limit| !first && now.since(since) >= limit)
    }

    /// Returns `span`, or the time until the user timeout ends (`tcp_clamp_rto_to_user_timeout`).
    pub(super) fn clamp_to_user(&self, now: Instant, span: Duration) -> Duration {
        let Some(live) = &self.live else { return span };
        match (live.user_timeout, live.stalled_since) {
            (Some(limit), Some(since)) => span.min(limit.saturating_sub(now.since(since)).max(self.rtt.jiffy())),
            _ => span,
        }
    }
}
