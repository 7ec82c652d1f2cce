//! Web browsing, as in ns-2's class `Http` (`tcl/http/http.tcl`) with the distributions of Mah (INFOCOM 1997).

use lasthop_proto::random::Stream;
use lasthop_proto::time::Instant;

use super::{objects_per_page, reply_bytes, request_bytes};

/// Bytes that ns-2 sends for a size of 0.
const SIZE_OF_NOTHING: u32 = 1000;

/// Parameters of web browsing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WebConfig {
    /// Number of objects of a page fetched in parallel, at least 1; 4 by default in ns-2 and in the study.
    pub parallel: usize,
    /// Bytes per packet, at least 1; 250 in the study. Transfers are rounded up to a multiple.
    pub packet: u32,
}

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Leg {
    /// Request: client to server.
    Request,
    /// Reply: server to client.
    Reply,
}

/// A transfer, on a connection of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Index of the parallel exchange, below [`WebConfig::parallel`].
    pub pair: usize,
    /// Direction.
    pub leg: Leg,
    /// Length in bytes.
    pub bytes: u64,
}

/// Result of a session. Its throughput is `reply_bytes` over the time to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WebReport {
    /// Number of pages completed with all their objects.
    pub pages: u64,
    /// Bytes of the replies of these pages.
    pub reply_bytes: u64,
    /// Completion time of the last of these pages.
    pub end: Instant,
}

/// A web user: requests a page, receives it, fetches its objects, several in parallel, and continues with the next
/// page, without pauses.
///
/// All sizes of a page are drawn at its start. So a seed determines the pages, however transfers interleave.
#[derive(Clone, Debug)]
pub struct WebSession {
    packet: u32,
    stream: Stream,
    phase: Phase,
    /// Objects of the page still to be requested.
    waiting: Vec<Exchange>,
    pairs: Vec<Pair>,
    /// Reply bytes of the page so far.
    page_bytes: u64,
    report: WebReport,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Fetching the page itself.
    Page,
    /// Fetching its objects.
    Objects,
}

/// Sizes of a request and its reply, in bytes.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    request: u64,
    reply: u64,
}

/// State of a pair of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pair {
    Idle,
    Requesting { reply: u64 },
    Replying { bytes: u64 },
}

impl WebSession {
    /// Creates a session that has not started.
    pub fn new(config: WebConfig, stream: Stream) -> Self {
        Self {
            packet: config.packet.max(1),
            stream,
            phase: Phase::Page,
            waiting: Vec::new(),
            pairs: vec![Pair::Idle; config.parallel.max(1)],
            page_bytes: 0,
            report: WebReport::default(),
        }
    }

    /// Starts a page (initially the first) and returns its request. Abandons transfers in progress.
    pub fn start(&mut self) -> Transfer {
        let page = self.exchange();
        let objects = objects_per_page().draw(&mut self.stream);
        self.pairs.fill(Pair::Idle);
        self.waiting.clear();
        for _ in 0..objects {
            let object = self.exchange();
            self.waiting.push(object);
        }
        self.phase = Phase::Page;
        self.page_bytes = 0;
        self.request(0, page)
    }

    /// Records that a transfer's sender has received the acknowledgment of its last byte. Returns the transfers that
    /// start now. Ignores transfers that are not in progress.
    pub fn on_complete(&mut self, now: Instant, pair: usize, leg: Leg) -> Vec<Transfer> {
        match (leg, self.pairs.get(pair)) {
            (Leg::Request, Some(&Pair::Requesting { reply })) => {
                self.pairs[pair] = Pair::Replying { bytes: reply };
                vec![Transfer { pair, leg: Leg::Reply, bytes: reply }]
            }
            (Leg::Reply, Some(&Pair::Replying { bytes })) => {
                self.pairs[pair] = Pair::Idle;
                self.page_bytes += bytes;
                self.go_on(now, pair)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the totals so far.
    pub fn done(&self) -> WebReport {
        self.report
    }

    /// Continues after a reply that left `pair` idle: requests the next objects, or the next page if this one is
    /// complete.
    fn go_on(&mut self, now: Instant, pair: usize) -> Vec<Transfer> {
        let idle = match self.phase {
            Phase::Page => 0..self.pairs.len(),
            Phase::Objects => pair..pair + 1,
        };
        self.phase = Phase::Objects;
        let mut starts = Vec::new();
        for pair in idle {
            let Some(object) = self.waiting.pop() else { break };
            starts.push(self.request(pair, object));
        }
        if self.pairs.iter().all(|&pair| pair == Pair::Idle) {
            self.report.pages += 1;
            self.report.reply_bytes += self.page_bytes;
            self.report.end = now;
            starts.push(self.start());
        }
        starts
    }

    fn request(&mut self, pair: usize, exchange: Exchange) -> Transfer {
        self.pairs[pair] = Pair::Requesting { reply: exchange.reply };
        Transfer { pair, leg: Leg::Request, bytes: exchange.request }
    }

    fn exchange(&mut self) -> Exchange {
        let request = request_bytes().draw(&mut self.stream);
        let reply = reply_bytes().draw(&mut self.stream);
        Exchange { request: whole_packets(request, self.packet), reply: whole_packets(reply, self.packet) }
    }
}

/// Returns the bytes sent for `size` bytes, in whole packets of `packet` bytes.
fn whole_packets(size: u32, packet: u32) -> u64 {
    let size = if size == 0 { SIZE_OF_NOTHING } else { size };
    u64::from(size).next_multiple_of(u64::from(packet))
}

#[cfg(test)]
mod tests {
    use lasthop_proto::random::Root;
    use lasthop_proto::time::{Duration, Instant};
    use proptest::prelude::*;

    use super::{Leg, Transfer, WebConfig, WebReport, WebSession, whole_packets};
    use crate::apps::{objects_per_page, reply_bytes};

    const STUDY: WebConfig = WebConfig { parallel: 4, packet: 250 };

    fn session(config: WebConfig, seed: u64) -> WebSession {
        WebSession::new(config, Root(seed).stream("web"))
    }

    /// A page on the network: sizes of request and reply of each exchange, in the order of the requests.
    type Page = Vec<(u64, u64)>;

    /// Browses `count` pages and checks the session's rules. Transfers complete a millisecond apart; `choose` picks the
    /// next among those in progress.
    fn browse(config: WebConfig, seed: u64, count: usize, mut choose: impl FnMut(usize) -> usize) -> Vec<Page> {
        let mut session = session(config, seed);
        let mut expected = WebReport::default();
        let mut now = Instant::ZERO;
        let mut pages = Vec::new();
        let mut page: Page = Vec::new();
        // Transfers in progress, with the index of their exchange on the page.
        let mut under_way: Vec<(Transfer, usize)> = Vec::new();
        let mut replies = 0;
        let mut starts = vec![session.start()];
        loop {
            for start in starts {
                assert_eq!(start.leg, Leg::Request, "replies are taken below");
                assert!(start.pair < config.parallel && start.bytes > 0);
                assert!(under_way.iter().all(|(transfer, _)| transfer.pair != start.pair), "one at a time on a pair");
                under_way.push((start, page.len()));
                page.push((start.bytes, 0));
            }
            if page.len() == 1 {
                assert_eq!((under_way.len(), under_way[0].0.pair), (1, 0), "the page comes alone, on the first pair");
            }
            assert_eq!(session.done(), expected);

            let (transfer, exchange) = under_way.swap_remove(choose(under_way.len()));
            now += Duration::from_millis(1);
            starts = session.on_complete(now, transfer.pair, transfer.leg);
            match transfer.leg {
                Leg::Request => {
                    let [reply] = starts[..] else { panic!("a request has one reply, not {starts:?}") };
                    assert_eq!((reply.pair, reply.leg), (transfer.pair, Leg::Reply));
                    page[exchange].1 = reply.bytes;
                    under_way.push((reply, exchange));
                    starts = Vec::new();
                }
                Leg::Reply => {
                    replies += 1;
                    let pairs: Vec<usize> = starts.iter().map(|start| start.pair).collect();
                    if replies == 1 {
                        // The page is complete: it starts as many objects as go in parallel, at least one.
                        assert!(!pairs.is_empty() && pairs == (0..pairs.len()).collect::<Vec<_>>());
                    } else if !under_way.is_empty() {
                        // Before the last reply: another object on the same pair, or none are left.
                        assert!(pairs.is_empty() || pairs == [transfer.pair]);
                    } else if page.len() == replies && pairs == [0] && session.done() != expected {
                        // All requested objects have arrived: the next page starts.
                        expected.pages += 1;
                        expected.reply_bytes += page.iter().map(|(_, reply)| reply).sum::<u64>();
                        expected.end = now;
                        pages.push(std::mem::take(&mut page));
                        replies = 0;
                        if pages.len() == count {
                            assert_eq!(session.done(), expected);
                            return pages;
                        }
                    } else {
                        // With no other transfer in progress, another must start.
                        assert_eq!(pairs, [transfer.pair]);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_session_follows_the_rules_in_any_order(
            seed: u64,
            parallel in 1usize..9,
            packet in prop::sample::select(vec![1u32, 250, 1460]),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
        ) {
            let mut picks = picks.iter().cycle();
            let config = WebConfig { parallel, packet };
            let pages = browse(config, seed, 20, |choices| picks.next().unwrap().index(choices));
            for (request, reply) in pages.iter().flatten() {
                prop_assert_eq!((request % u64::from(packet), reply % u64::from(packet)), (0, 0));
            }
            // Neither the order nor the number of parallel exchanges changes the pages.
            let one_by_one = browse(WebConfig { parallel: 1, packet }, seed, 20, |_| 0);
            prop_assert_eq!(pages, one_by_one);
        }
    }

    #[test]
    fn as_many_objects_are_under_way_as_can_be() {
        let mut session = session(STUDY, 1);
        for _ in 0..200 {
            let page = session.start();
            session.on_complete(Instant::ZERO, page.pair, Leg::Request);
            let objects = session.waiting.len();
            assert_eq!(session.on_complete(Instant::ZERO, page.pair, Leg::Reply).len(), objects.min(4));
            assert_eq!(session.waiting.len(), objects.saturating_sub(4));
        }
    }

    #[test]
    fn pages_are_as_long_as_the_measured_ones() {
        const PAGES: f64 = 20_000.0;
        let pages = browse(WebConfig { parallel: 4, packet: 1 }, 1, PAGES as usize, |_| 0);
        let exchanges: Vec<&(u64, u64)> = pages.iter().flatten().collect();
        let objects = exchanges.len() as f64 / PAGES - 1.0;
        let variance = moment(objects_per_page(), 2) - objects_per_page().mean().powi(2);
        assert!((objects - objects_per_page().mean()).abs() < 4.0 * (variance / PAGES).sqrt(), "{objects}");

        let bytes = exchanges.iter().map(|(_, reply)| *reply as f64).sum::<f64>() / exchanges.len() as f64;
        // 8 of 4100 observations are empty and count as 1000 bytes.
        let expected = reply_bytes().mean() + 1000.0 * 8.0 / 4100.0;
        let variance = moment(reply_bytes(), 2) - reply_bytes().mean().powi(2);
        assert!((bytes - expected).abs() < 4.0 * (variance / exchanges.len() as f64).sqrt(), "{bytes}, not {expected}");
    }

    /// Returns the n-th moment, from the quantiles at 100 000 equally probable points.
    fn moment(distribution: &crate::apps::Empirical, n: i32) -> f64 {
        (0..100_000).map(|i| f64::from(distribution.quantile((f64::from(i) + 0.5) / 1e5)).powi(n)).sum::<f64>() / 1e5
    }

    #[test]
    fn only_complete_pages_count_and_up_to_the_last_one() {
        let mut session = session(STUDY, 1);
        let request = session.start();
        let mut now = Instant::from_nanos(1);
        let mut under_way = vec![request];
        let mut bytes = 0;
        while session.done().pages == 0 {
            assert_eq!(session.done(), WebReport::default());
            let transfer = under_way.remove(0);
            if transfer.leg == Leg::Reply {
                bytes += transfer.bytes;
            }
            now += Duration::from_secs(1);
            under_way.extend(session.on_complete(now, transfer.pair, transfer.leg));
        }
        let first = WebReport { pages: 1, reply_bytes: bytes, end: now };
        assert_eq!(session.done(), first);
        // The second page itself is complete, but not its objects.
        session.on_complete(now + Duration::from_secs(1), 0, Leg::Request);
        session.on_complete(now + Duration::from_secs(2), 0, Leg::Reply);
        assert_eq!(session.done(), first);
    }

    #[test]
    fn what_is_not_under_way_is_ignored() {
        let mut session = session(STUDY, 1);
        let complete = |session: &mut WebSession, pair, leg| session.on_complete(Instant::ZERO, pair, leg).len();
        assert_eq!(complete(&mut session, 0, Leg::Request), 0, "not begun");
        session.start();
        assert_eq!(complete(&mut session, 0, Leg::Reply), 0, "not replying yet");
        assert_eq!(complete(&mut session, 1, Leg::Request), 0, "idle");
        assert_eq!(complete(&mut session, 4, Leg::Request), 0, "no such pair");
        assert_eq!(complete(&mut session, 0, Leg::Request), 1);
        assert_eq!(complete(&mut session, 0, Leg::Request), 0, "already replying");
    }

    #[test]
    fn sizes_are_whole_packets_and_never_nothing() {
        let sizes = [0, 1, 250, 251, u32::MAX].map(|size| whole_packets(size, 250));
        assert_eq!(sizes, [1000, 250, 250, 500, 4_294_967_500]);
        assert_eq!([whole_packets(0, 1460), whole_packets(0, 1), whole_packets(7, 1)], [1460, 1000, 7]);
    }
}
