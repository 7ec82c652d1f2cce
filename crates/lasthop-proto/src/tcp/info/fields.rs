//! Fields of `struct tcp_info` as a table, so that every output has the same names, units and order.

use super::super::state::State;
use super::TcpInfo;
use crate::time::Duration;

/// A field: its name in Linux's `struct tcp_info` without the prefix `tcpi_`, and its value in Linux's unit; `None` if
/// it is unknown.
type Field = (&'static str, fn(&TcpInfo) -> Option<u64>);

const FIELDS: [Field; 44] = [
    ("state", |info| Some(info.state.number().into())),
    ("ca_state", |info| info.counted(info.ca_state as u64)),
    ("retransmits", |info| Some(info.retransmits.into())),
    ("probes", |info| Some(info.probes.into())),
    ("backoff", |info| Some(info.backoff.into())),
    ("options", |info| Some(options(info))),
    ("snd_wscale", |info| Some(info.options.snd_wscale.into())),
    ("rcv_wscale", |info| Some(info.options.rcv_wscale.into())),
    ("rto", |info| Some(micros(info.rto))),
    ("ato", |info| Some(micros(info.receiver.ato))),
    ("snd_mss", |info| Some(info.snd_mss.into())),
    ("rcv_mss", |info| positive(info.receiver.rcv_mss)),
    ("unacked", |info| Some(info.flight.unacked.into())),
    ("sacked", |info| info.counted(info.flight.sacked)),
    ("lost", |info| info.counted(info.flight.lost)),
    ("retrans", |info| info.counted(info.flight.retrans)),
    ("rcv_ssthresh", |info| positive(info.receiver.rcv_ssthresh)),
    ("rtt", |info| positive(micros(info.rtt))),
    ("rttvar", |info| positive(micros(info.rtt)).map(|_| micros(info.rttvar))),
    ("snd_ssthresh", |info| info.snd_ssthresh.map(u64::from)),
    ("snd_cwnd", |info| Some(info.snd_cwnd.into())),
    ("reordering", |info| info.counted(info.reordering)),
    ("rcv_rtt", |info| info.receiver.rcv_rtt.map(micros)),
    ("total_retrans", |info| info.counted(info.total_retrans)),
    ("pacing_rate", |info| info.counted(info.pacing_rate)),
    ("bytes_acked", |info| Some(info.bytes_acked)),
    ("bytes_received", |info| Some(info.receiver.bytes_received)),
    ("notsent_bytes", |info| Some(info.notsent_bytes)),
    ("min_rtt", |info| info.min_rtt.map(micros)),
    ("delivered", |info| info.counted(info.delivered)),
    ("delivered_ce", |info| info.counted(info.accurate.delivered_ce)),
    ("dsack_dups", |info| info.counted(info.dsack_dups)),
    ("snd_wnd", |info| Some(info.snd_wnd.into())),
    ("rcv_wnd", |info| Some(info.receiver.rcv_wnd.into())),
    ("received_ce", |info| Some(info.accurate.received_ce.into())),
    ("delivered_e1_bytes", |info| Some(info.accurate.delivered_bytes[0].into())),
    ("delivered_e0_bytes", |info| Some(info.accurate.delivered_bytes[1].into())),
    ("delivered_ce_bytes", |info| Some(info.accurate.delivered_bytes[2].into())),
    ("received_e1_bytes", |info| Some(info.accurate.received_bytes[0].into())),
    ("received_e0_bytes", |info| Some(info.accurate.received_bytes[1].into())),
    ("received_ce_bytes", |info| Some(info.accurate.received_bytes[2].into())),
    ("accecn_fail_mode", |info| Some(info.accurate.failures.into())),
    ("accecn_opt_seen", |info| Some(info.accurate.option_seen.into())),
    ("ecn_mode", |info| Some(u64::from(info.options.ecn) + u64::from(info.accurate.is_used))),
];

/// Names of the fields, in the order of Linux's `struct tcp_info`.
pub const NAMES: [&str; FIELDS.len()] = {
    let mut names = [""; FIELDS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FIELDS[at].0;
        at += 1;
    }
    names
};

/// Values of the fields, in the order of [`NAMES`] and in Linux's units: times in microseconds, windows in segments,
/// `pacing_rate` in bytes per second; `None` if a value is unknown. `options` has Linux's bits (`TCPI_OPT_…`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields(pub [Option<u64>; NAMES.len()]);

impl Fields {
    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        NAMES.into_iter().zip(self.0)
    }

    /// Returns the value of a field; `None` if it is unknown or there is no such field.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(field, _)| *field == name).and_then(|(_, value)| value)
    }
}

/// Returns the word for a value of `state` or `ca_state`; `None` for other fields.
pub fn word(name: &str, value: u64) -> Option<&'static str> {
    const STATES: [&str; 11] = [
        "established",
        "syn-sent",
        "syn-received",
        "fin-wait-1",
        "fin-wait-2",
        "time-wait",
        "closed",
        "close-wait",
        "last-ack",
        "listen",
        "closing",
    ];
    const CA_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];
    let value = usize::try_from(value).ok()?;
    match name {
        "state" => STATES.get(value.checked_sub(1)?).copied(),
        "ca_state" => CA_STATES.get(value).copied(),
        _ => None,
    }
}

impl TcpInfo {
    /// Returns the values as a table.
    pub fn fields(&self) -> Fields {
        Fields(FIELDS.map(|(_, value)| value(self)))
    }

    /// Returns a value of a sender with a scoreboard; `None` if this one has none.
    fn counted(&self, value: impl Into<u64>) -> Option<u64> {
        self.has_scoreboard.then(|| value.into())
    }
}

impl State {
    /// Returns Linux's number of the state (`net/tcp_states.h`).
    pub const fn number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynReceived => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Closed => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Listen => 10,
            Self::Closing => 11,
        }
    }
}

/// Returns a value for which zero means that it was never measured.
fn positive(value: impl Into<u64>) -> Option<u64> {
    Some(value.into()).filter(|value| *value > 0)
}

const fn micros(span: Duration) -> u64 {
    span.as_nanos() / 1000
}

/// Returns the bits of `tcpi_options`.
fn options(info: &TcpInfo) -> u64 {
    let all = [
        (info.options.timestamps, 1),
        (info.options.sack, 2),
        (info.options.wscale, 4),
        (info.options.ecn, 8),
        (info.options.ecn_seen, 16),
    ];
    all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, bit)| bit).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::congestion::control::CaState;
    use super::*;

    #[test]
    fn states_have_words_and_other_fields_none() {
        assert_eq!(word("state", State::SynReceived.number().into()), Some("syn-received"));
        assert_eq!(word("state", State::Closing.number().into()), Some("closing"));
        assert_eq!((word("state", 0), word("state", 12)), (None, None));
        assert_eq!(word("ca_state", CaState::Recovery as u64), Some("recovery"));
        assert_eq!((word("ca_state", 5), word("rtt", 1)), (None, None));
    }
}
