//! The queue discipline `fq` of a sender's host paces congestion controls that do not pace themselves. 50 ms each way.

use std::collections::BTreeMap;

use lasthop_proto::packet::Side;
use lasthop_proto::tcp::config::{Preset, Qdisc, TcpConfig};
use lasthop_proto::time::Instant;

use crate::golden_ecn::Path;
use crate::util::ms;

/// Returns the number of segments of a transfer of 200 kB that leave at each time.
fn bursts(qdisc: Qdisc) -> BTreeMap<Instant, usize> {
    let config = TcpConfig::preset(Preset::Linux618).with(|c| {
        c.common.mss = 1000;
        c.sender.modern_mut().unwrap().qdisc = qdisc;
    });
    let mut path = Path::between([config.clone(), config], |_, _| true);
    path.run(ms(100));
    path.ends[0].write(200_000);
    path.run(ms(5000));
    assert_eq!(path.ends[0].acked(), 200_000);
    let mut bursts = BTreeMap::new();
    for (at, side, packet) in &path.sent {
        if *side == Side::Initiator && packet.len > 0 {
            *bursts.entry(*at).or_default() += 1;
        }
    }
    bursts
}

/// The initial window of ten leaves at once. CUBIC sends two segments for each acknowledgment, at once; under `fq`,
/// the twenty segments of the second round trip leave at 2 · 10 kB per 100 ms in early slow start, two at a time: 10 ms
/// apart, then closer as acknowledgments enlarge the window.
#[test]
fn fq_spaces_the_segments_of_cubic() {
    let (fifo, fq) = (bursts(Qdisc::Fifo), bursts(Qdisc::Fq));
    assert_eq!((fifo.values().next(), fq.values().next()), (Some(&10), Some(&10)));
    assert_eq!(fifo.values().nth(1), Some(&20));
    assert!(fq.values().skip(1).all(|segments| *segments <= 2), "{fq:?}");
    let times: Vec<u64> = fq.keys().skip(1).map(|at| at.as_nanos() / 1_000_000).take(10).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (3..=10).contains(gap)), "{gaps:?}");
}
