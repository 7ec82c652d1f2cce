//! Fields of `tcp_info` by their names in the kernel.

use lasthop_proto::tcp::{State, TcpInfo};
use lasthop_proto::time::{Duration, Instant};

use super::socket::Live;

/// `TCP_INFINITE_SSTHRESH`.
const INFINITE: i64 = 0x7fff_ffff;

/// Fields with their values.
type Field = (&'static str, fn(&TcpInfo) -> i64);

const FIELDS: [Field; 33] = [
    ("tcpi_state", |info| state(info.state)),
    ("tcpi_ca_state", |info| info.ca_state as i64),
    ("tcpi_retransmits", |info| info.retransmits.into()),
    ("tcpi_probes", |info| info.probes.into()),
    ("tcpi_backoff", |info| info.backoff.into()),
    ("tcpi_options", options),
    ("tcpi_snd_wscale", |info| info.options.snd_wscale.into()),
    ("tcpi_rcv_wscale", |info| info.options.rcv_wscale.into()),
    ("tcpi_rto", |info| micros(info.rto)),
    ("tcpi_ato", |info| micros(info.receiver.ato)),
    ("tcpi_snd_mss", |info| info.snd_mss.into()),
    ("tcpi_rcv_mss", |info| info.receiver.rcv_mss.into()),
    ("tcpi_unacked", |info| info.flight.unacked.into()),
    ("tcpi_sacked", |info| info.flight.sacked.into()),
    ("tcpi_lost", |info| info.flight.lost.into()),
    ("tcpi_retrans", |info| info.flight.retrans.into()),
    ("tcpi_rtt", |info| micros(info.rtt)),
    ("tcpi_rttvar", |info| micros(info.rttvar)),
    ("tcpi_min_rtt", |info| info.min_rtt.map_or(i64::from(u32::MAX), micros)),
    ("tcpi_snd_ssthresh", |info| info.snd_ssthresh.map_or(INFINITE, i64::from)),
    ("tcpi_snd_cwnd", |info| info.snd_cwnd.into()),
    ("tcpi_reordering", |info| info.reordering.into()),
    ("tcpi_total_retrans", |info| info.total_retrans as i64),
    ("tcpi_dsack_dups", |info| info.dsack_dups as i64),
    ("tcpi_delivered", |info| info.delivered as i64),
    ("tcpi_pacing_rate", |info| info.pacing_rate as i64),
    ("tcpi_rcv_ssthresh", |info| info.receiver.rcv_ssthresh.into()),
    ("tcpi_rcv_rtt", |info| info.receiver.rcv_rtt.map_or(0, micros)),
    ("tcpi_snd_wnd", |info| info.snd_wnd.into()),
    ("tcpi_rcv_wnd", |info| info.receiver.rcv_wnd.into()),
    ("tcpi_bytes_acked", |info| info.bytes_acked as i64),
    ("tcpi_bytes_received", |info| info.receiver.bytes_received as i64),
    ("tcpi_notsent_bytes", |info| info.notsent_bytes as i64),
];

/// Returns the reason why a field cannot be read.
pub(super) fn lacks(field: &str) -> Option<String> {
    let is_known = FIELDS.iter().any(|(name, _)| *name == field);
    (!is_known).then(|| format!("tcp_info field {field}"))
}

/// Returns the value of a field.
pub(super) fn value(live: &Live, _now: Instant, field: &str) -> Option<i64> {
    let (_, value) = FIELDS.iter().find(|(name, _)| *name == field)?;
    Some(value(&live.connection.info()))
}

/// Returns the value of a field of a listening socket.
pub(super) fn of_listener(field: &str) -> Option<i64> {
    (field == "tcpi_state").then(|| state(State::Listen))
}

fn micros(span: Duration) -> i64 {
    (span.as_nanos() / 1000) as i64
}

/// Returns Linux's number of a state. Linux reports a socket in TIME-WAIT as closed once its owner is gone.
fn state(state: State) -> i64 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Listen => 10,
        State::Closing => 11,
    }
}

fn options(info: &TcpInfo) -> i64 {
    let all = [
        (info.options.timestamps, 1),
        (info.options.sack, 2),
        (info.options.wscale, 4),
        (info.options.ecn, 8),
        (info.options.ecn_seen, 16),
    ];
    all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, bit)| bit).sum()
}
