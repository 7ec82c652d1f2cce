//! [`TcpInfo`](lasthop_proto::tcp::TcpInfo) during a recovery.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::packet::Side;
use lasthop_proto::tcp::State;
use lasthop_proto::tcp::config::{Preset, TcpConfig};
use lasthop_proto::tcp::congestion::control::CaState;

fn linux() -> TcpConfig {
    TcpConfig::preset(Preset::Linux618).with(|c| c.common.mss = 1000)
}

/// Ten segments leave with a round trip of 100 ms, and the first is lost. The acknowledgments of 2 to 4 declare it
/// lost; the window of CUBIC falls to 7 of 10 by the end of the recovery.
#[test]
fn it_names_what_is_in_flight_sacked_lost_and_retransmitted() {
    let mut pair = Pair::of(linux()).lose(&[(1, 1)]);
    pair.send_segments(10);
    let info = pair.ends[0].info();
    assert_eq!((info.state, info.ca_state), (State::Established, CaState::Open));
    assert_eq!((info.flight.unacked, info.flight.sacked, info.flight.lost, info.flight.retrans), (10, 0, 0, 0));
    assert_eq!((info.snd_cwnd, info.snd_ssthresh, info.delivered), (10, None, 1));
    assert_eq!((info.rtt, info.rttvar, info.rto), (millis(100), millis(50), millis(300)));
    assert!(info.options.timestamps && info.options.sack && info.options.wscale && !info.options.ecn);
    let sent = pair.now;
    pair.run_until(sent + millis(102));
    let info = pair.ends[0].info();
    assert_eq!(info.ca_state, CaState::Recovery);
    assert_eq!((info.flight.unacked, info.flight.sacked, info.flight.lost, info.flight.retrans), (10, 9, 1, 1));
    assert_eq!((info.snd_ssthresh, info.total_retrans), (Some(7), 1));
    pair.finish();
    let info = pair.ends[0].info();
    assert_eq!((info.ca_state, info.flight.unacked, info.flight.sacked, info.flight.lost), (CaState::Open, 0, 0, 0));
    assert_eq!((info.snd_cwnd, info.delivered, info.bytes_acked), (7, 11, 10_001));
    let peer = pair.ends[1].info();
    assert_eq!((peer.receiver.bytes_received, peer.receiver.rcv_mss), (10_000, 1000));
}

/// The classic sender has no scoreboard: it reports windows in segments.
#[test]
fn the_classic_sender_reports_windows_in_segments() {
    let mut pair = Pair::of(lab_with_window(lasthop_proto::tcp::config::Recovery::NEW_RENO, 8));
    pair.send_segments(8);
    let info = pair.ends[0].info();
    assert_eq!((info.snd_cwnd, info.snd_ssthresh, info.flight.unacked, info.notsent_bytes), (8, Some(8), 8, 0));
    pair.until_all_acked_by(Side::Initiator);
    assert_eq!(pair.ends[0].info().bytes_acked, 8001);
}
