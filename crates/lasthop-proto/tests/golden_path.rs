//! Path limits on segment size (RFC 6691, RFC 1191), for drivers that put segments on the wire. 50 ms each way.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::packet::{Flags, Side};
use lasthop_proto::tcp::config::{Recovery, Switch, TcpConfig};

fn stamped(mss: u32) -> TcpConfig {
    lab(Recovery::NEW_RENO).with(|c| {
        c.common.mss = mss;
        c.common.timestamps = Switch::On;
    })
}

/// The announced sizes of both SYNs.
fn announced(pair: &Pair) -> Vec<Option<u16>> {
    pair.trace.iter().filter(|sent| sent.is(Flags::SYN)).map(|sent| sent.segment.options.mss).collect()
}

fn longest(pair: &Pair) -> u32 {
    pair.trace.iter().map(|sent| sent.len + u32::from(sent.segment.options.wire_len())).max().unwrap_or(0)
}

/// RFC 6691 §2: the announced maximum includes options, so timestamps are added to the configured segment size, up to
/// the limit of the path; the payload is the remainder.
#[test]
fn options_count() {
    for (mss, path, announces, payload) in [(1000, 1460, 1012, 1000), (1460, 1460, 1460, 1448), (9000, 500, 500, 488)] {
        let mut pair = Pair::of(stamped(mss));
        let now = pair.now;
        pair.ends.iter_mut().for_each(|end| end.fit_path(now, path));
        pair.connect();
        pair.client().write(10_000);
        pair.finish();
        assert_eq!(announced(&pair), [Some(announces); 2]);
        let first = pair.sent_by(Side::Initiator).find(|sent| sent.len > 0).map(|sent| sent.len);
        assert_eq!((first, longest(&pair)), (Some(payload), payload + 12));
        assert_eq!(pair.ends[1].received(), 10_000);
    }
}

/// The peer's path may be the narrower one, and SMART numbers and ELN marks occupy space too.
#[test]
fn the_peers_maximum_counts_options_too() {
    let marked = stamped(1460).with(|c| {
        c.receiver.smart_acks = Switch::On;
        c.common.sack_eln = Switch::On;
    });
    let mut pair = Pair::between(marked, stamped(500));
    let now = pair.now;
    pair.ends.iter_mut().for_each(|end| end.fit_path(now, 1460));
    pair.connect();
    pair.client().write(10_000);
    pair.server().write(10_000);
    pair.finish();
    let payload = |side| pair.sent_by(side).map(|sent| sent.len).max();
    assert_eq!((payload(Side::Initiator), payload(Side::Acceptor)), (Some(512 - 24), Some(500)));
    assert_eq!((pair.ends[0].received(), pair.ends[1].received()), (10_000, 10_000));
}

/// A maximum that leaves no space for data is ignored.
#[test]
fn the_least() {
    let mut pair = Pair::between(stamped(1000), stamped(1).with(|c| c.common.timestamps = Switch::On));
    let now = pair.now;
    pair.client().fit_path(now, 0);
    pair.connect();
    pair.client().write(100);
    pair.finish();
    assert_eq!(pair.sent_by(Side::Initiator).map(|sent| sent.len).max(), Some(36));
    assert_eq!(pair.ends[1].received(), 100);
}

/// RFC 1191 §6.4: a router signals that segments of 1000 do not fit while a flight of them is outstanding. All
/// outstanding data is retransmitted at once, in halves, without a timeout or a reduction of the window.
#[test]
fn the_path_takes_less_than_before() {
    let mut pair =
        Pair::of(lab(Recovery::SACK)).judged_by(|sent| if sent.len > 500 { Fate::Lose } else { Fate::Arrive });
    pair.connect();
    pair.client().write(8000);
    pair.flush();
    let now = pair.now;
    let before = pair.ends[0].window();
    pair.client().fit_path(now, 500);
    pair.flush();
    assert_eq!(pair.ends[0].window(), before);
    pair.finish();
    let lens: Vec<_> =
        pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).map(|sent| (sent.at, sent.len)).collect();
    assert_eq!(lens, [vec![(now, 1000); 8], vec![(now, 500); 16]].concat());
    assert_eq!((pair.ends[1].received(), pair.timeouts()), (8000, 0));
}

/// SACK blocks that do not fit in a data segment are left to the next pure acknowledgment.
#[test]
fn blocks_do_not_lengthen_data() {
    let config = lab(Recovery::SACK).with(|c| c.common.mss = 1000);
    let mut pair = Pair::of(config).lose(&[(2, 1)]);
    let now = pair.now;
    pair.ends.iter_mut().for_each(|end| end.fit_path(now, 1000));
    pair.connect();
    pair.server().write(40_000);
    pair.send_segments(40);
    pair.finish();
    assert!(longest(&pair) <= 1000);
    let blocks = pair.trace.iter().any(|sent| sent.is_pure_ack() && !sent.segment.options.sack.is_empty());
    assert!(blocks);
    assert_eq!((pair.ends[0].received(), pair.ends[1].received()), (40_000, 40_000));
}
