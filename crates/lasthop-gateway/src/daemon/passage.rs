//! Passage of the gateway's own packets: other programs' netfilter chains, and routes, may drop packets that the
//! gateway sends or redirects although they accept forwarded packets. Connections then pass untreated, and treatment is
//! tried again later.
//!
//! State and decisions only: `trial` has the sockets, executes trials, and reports their outcomes.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::family::Family;

/// Pause before the first new trial after a refusal. It doubles with each successive refusal, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause between two trials.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time for which missing routes are attributed to an interface that is briefly down.
const ROUTE_PATIENCE: Duration = Duration::from_secs(1);
/// Age after which a new connection must prove passage again.
const PROOF_LIFETIME: Duration = Duration::from_secs(10);

/// Treatment that involves packets of the gateway itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Treatment {
    /// Local retransmissions, and acknowledgments to senders.
    Snoop,
    /// Local retransmissions below the relay.
    Repair,
    /// Connections of the relay.
    Split,
    /// Copies of datagrams.
    Quic,
}

impl Treatment {
    /// All treatments, in the order of the variants.
    pub const ALL: [Self; 4] = [Self::Snoop, Self::Repair, Self::Split, Self::Quic];

    /// Returns the treatment's name in messages, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snoop => "snoop",
            Self::Repair => "repair",
            Self::Split => "split",
            Self::Quic => "quic",
        }
    }
}

/// Reason why packets did not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Sending a packet failed with `EPERM`: a chain reached from netfilter's hooks `output` or `postrouting` drops it.
    Output,
    /// A redirected packet did not reach its socket: a chain reached from `prerouting` or `input` drops it, or no route
    /// delivers it.
    Input,
    /// A connection that the relay opened got no answer, although none of its packets was refused.
    Silent,
    /// There is a route for forwarded packets, but none for packets with the gateway's mark.
    NoRoute,
    /// Packets with the gateway's mark leave by another interface than forwarded ones.
    OtherRoute,
}

impl Cause {
    /// Returns a description, to follow the name of a treatment.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Output => "netfilter drops packets sent by the gateway (hooks output, postrouting)",
            Self::Input => "netfilter drops connections redirected to the gateway (hooks prerouting, input)",
            Self::Silent => "connections opened by the gateway receive no answer (hooks output, input)",
            Self::NoRoute => "no route for packets sent by the gateway",
            Self::OtherRoute => {
                "routing rules send the gateway's packets through another interface than forwarded packets"
            }
        }
    }
}

/// Treatment that is suspended for one IP version.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Untreated {
    /// The treatment.
    pub treatment: Treatment,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Cause of the suspension.
    pub cause: Cause,
    /// Time since the suspension, in seconds.
    pub seconds: f64,
}

/// Permission to treat packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Treat the packets.
    Treat,
    /// Pass the packets untreated.
    Pass,
    /// A trial decides. Its outcome must be reported before the next call.
    Try,
}

/// Consequence of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// None.
    None,
    /// The treatment is now suspended; the state of its connections must be dropped.
    Suspended,
}

/// Path on which a treatment's packets leave or arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Towards the lossy hop, or to the opener of a split connection.
    There,
    /// Towards the wired side, or to the called end of a split connection.
    Back,
    /// Path from the redirection to the relay's socket; not used by other treatments.
    In,
}

/// Treatment of packets of one IP version.
#[derive(Debug)]
struct Lane {
    treatment: Treatment,
    family: Family,
    state: State,
    /// Time of the last proof of each [`Way`].
    proven: [Option<Instant>; 3],
    /// Time of the first failure for lack of a route since a packet was last sent.
    unrouted: Option<Instant>,
    /// Number of consecutive packets that did not pass for an unknown reason.
    doubts: u32,
    pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Treated on each way that is proven.
    Open,
    /// Suspended; tried again at `next`.
    Suspended { cause: Cause, since: Instant, next: Instant },
}

/// All lanes of one worker.
#[derive(Debug)]
pub struct Passage {
    lanes: Vec<Lane>,
    suspensions: u64,
}

impl Default for Passage {
    fn default() -> Self {
        let lane = |(treatment, family)| Lane {
            treatment,
            family,
            state: State::Open,
            proven: [None; 3],
            unrouted: None,
            doubts: 0,
            pause: FIRST_PAUSE,
        };
        let all = Treatment::ALL.into_iter().flat_map(|treatment| Family::BOTH.map(|family| (treatment, family)));
        Self { lanes: all.map(lane).collect(), suspensions: 0 }
    }
}

impl Passage {
    /// Returns whether packets of this treatment may be treated on this way.
    pub fn ask(&self, now: Instant, treatment: Treatment, family: Family, way: Way) -> Answer {
        let lane = self.lane(treatment, family);
        match lane.state {
            State::Suspended { next, .. } if now < next => Answer::Pass,
            State::Suspended { .. } => Answer::Try,
            State::Open if lane.proven[way as usize].is_some() => Answer::Treat,
            State::Open => Answer::Try,
        }
    }

    /// Returns whether the proof of a way is so old that the next opening must renew it.
    pub fn is_stale(&self, now: Instant, treatment: Treatment, family: Family, way: Way) -> bool {
        self.lane(treatment, family).proven[way as usize].is_none_or(|at| now.duration_since(at) >= PROOF_LIFETIME)
    }

    /// Records a packet that passed. Resumes the treatment if it was suspended.
    pub fn passed(&mut self, now: Instant, treatment: Treatment, family: Family, way: Way) {
        let lane = self.lane_mut(treatment, family);
        lane.proven[way as usize] = Some(now);
        lane.unrouted = None;
        lane.doubts = 0;
        if lane.state != State::Open {
            lane.state = State::Open;
            tracing::info!(treatment = treatment.name(), family = family.name(), "treatment resumed");
        }
    }

    /// Records that the gateway's own packets leave on both ways; whether redirected ones arrive is still open. A
    /// suspended treatment is not tried again until that is known or the pause has passed.
    pub fn sent(&mut self, now: Instant, treatment: Treatment, family: Family) {
        let lane = self.lane_mut(treatment, family);
        if let State::Suspended { next, .. } = &mut lane.state {
            *next = now + lane.pause;
            return;
        }
        lane.proven[Way::There as usize] = Some(now);
        lane.proven[Way::Back as usize] = Some(now);
    }

    /// Records a packet that did not pass on this way for an unknown reason, so that the way must be proven again.
    /// Returns the number of consecutive such packets.
    pub fn doubted(&mut self, treatment: Treatment, family: Family, way: Way) -> u32 {
        let lane = self.lane_mut(treatment, family);
        lane.proven[way as usize] = None;
        lane.doubts += 1;
        lane.doubts
    }

    /// Returns the cause of a treatment's suspension; `None` if it is not suspended.
    pub fn cause(&self, treatment: Treatment, family: Family) -> Option<Cause> {
        match self.lane(treatment, family).state {
            State::Open => None,
            State::Suspended { cause, .. } => Some(cause),
        }
    }

    /// Records a packet that did not pass.
    pub fn stopped(&mut self, now: Instant, treatment: Treatment, family: Family, cause: Cause) -> Change {
        let lane = self.lane_mut(treatment, family);
        let is_new = lane.state == State::Open;
        if is_new && lane.proven.iter().flatten().any(|at| now.duration_since(*at) >= PROOF_LIFETIME) {
            lane.pause = FIRST_PAUSE;
        }
        let since = match lane.state {
            State::Suspended { since, .. } => since,
            State::Open => now,
        };
        lane.state = State::Suspended { cause, since, next: now + lane.pause };
        lane.pause = (lane.pause * 2).min(LONGEST_PAUSE);
        lane.proven = [None; 3];
        lane.unrouted = None;
        if is_new {
            self.suspensions += 1;
            return Change::Suspended;
        }
        Change::None
    }

    /// Records a packet without a route. An interface that is briefly down does not suspend the treatment.
    pub fn unrouted(&mut self, now: Instant, treatment: Treatment, family: Family) -> Change {
        let lane = self.lane_mut(treatment, family);
        let since = *lane.unrouted.get_or_insert(now);
        if lane.state == State::Open && now.duration_since(since) < ROUTE_PATIENCE {
            return Change::None;
        }
        self.stopped(now, treatment, family, Cause::NoRoute)
    }

    /// Discards all proofs after a change of rules. Suspended treatments are tried again at once.
    pub fn reconsider(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            lane.proven = [None; 3];
            if let State::Suspended { next, .. } = &mut lane.state {
                *next = now;
            }
        }
    }

    /// Returns the suspended treatments.
    pub fn untreated(&self, now: Instant) -> Vec<Untreated> {
        let of = |lane: &Lane| match lane.state {
            State::Open => None,
            State::Suspended { cause, since, .. } => Some(Untreated {
                treatment: lane.treatment,
                family: lane.family.name().to_owned(),
                cause,
                seconds: now.duration_since(since).as_secs_f64(),
            }),
        };
        self.lanes.iter().filter_map(of).collect()
    }

    /// Returns the number of suspensions so far.
    pub const fn suspensions(&self) -> u64 {
        self.suspensions
    }

    fn place(treatment: Treatment, family: Family) -> usize {
        treatment as usize * Family::BOTH.len() + family as usize
    }

    fn lane(&self, treatment: Treatment, family: Family) -> &Lane {
        &self.lanes[Self::place(treatment, family)]
    }

    fn lane_mut(&mut self, treatment: Treatment, family: Family) -> &mut Lane {
        &mut self.lanes[Self::place(treatment, family)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNOOP: (Treatment, Family) = (Treatment::Snoop, Family::V4);

    #[test]
    fn a_way_is_tried_before_it_is_used_and_a_refusal_ends_all_ways_of_its_family() {
        let (mut passage, now) = (Passage::default(), Instant::now());
        let (snoop, family) = SNOOP;
        assert_eq!(passage.ask(now, snoop, family, Way::There), Answer::Try);
        passage.passed(now, snoop, family, Way::There);
        assert_eq!(passage.ask(now, snoop, family, Way::There), Answer::Treat);
        assert_eq!(passage.ask(now, snoop, family, Way::Back), Answer::Try);
        passage.passed(now, snoop, family, Way::Back);
        passage.passed(now, snoop, Family::V6, Way::There);
        assert_eq!(passage.stopped(now, snoop, family, Cause::Output), Change::Suspended);
        assert_eq!(passage.stopped(now, snoop, family, Cause::Output), Change::None, "said once");
        for way in [Way::There, Way::Back] {
            assert_eq!(passage.ask(now, snoop, family, way), Answer::Pass);
        }
        assert_eq!(passage.ask(now, snoop, Family::V6, Way::There), Answer::Treat);
        assert_eq!(passage.ask(now, Treatment::Split, family, Way::In), Answer::Try);
        assert_eq!((passage.untreated(now).len(), passage.suspensions()), (1, 1));
    }

    #[test]
    fn trials_become_rarer_and_a_change_of_rules_has_one_at_once() {
        let (mut passage, mut now) = (Passage::default(), Instant::now());
        let (snoop, family) = SNOOP;
        let begin = now;
        let mut trials = 0;
        passage.stopped(now, snoop, family, Cause::Output);
        while now < begin + Duration::from_secs(600) {
            now += Duration::from_millis(100);
            if passage.ask(now, snoop, family, Way::There) == Answer::Try {
                trials += 1;
                passage.stopped(now, snoop, family, Cause::Output);
            }
        }
        assert!((10..=20).contains(&trials), "{trials}");
        passage.reconsider(now);
        assert_eq!(passage.ask(now, snoop, family, Way::There), Answer::Try);
        passage.passed(now, snoop, family, Way::There);
        assert_eq!(passage.ask(now, snoop, family, Way::There), Answer::Treat);
        assert!(passage.untreated(now).is_empty());
    }

    #[test]
    fn a_doubt_has_a_way_tried_again_and_a_proof_ends_it() {
        let (mut passage, now) = (Passage::default(), Instant::now());
        let (split, family) = (Treatment::Split, Family::V6);
        passage.passed(now, split, family, Way::In);
        assert_eq!(passage.doubted(split, family, Way::In), 1);
        assert_eq!(passage.ask(now, split, family, Way::In), Answer::Try);
        passage.passed(now, split, family, Way::In);
        assert_eq!(passage.ask(now, split, family, Way::In), Answer::Treat);
        assert_eq!([1, 2].map(|_| passage.doubted(split, family, Way::In)), [1, 2], "in a row");
        assert!(passage.untreated(now).is_empty(), "a doubt suspends nothing");
    }

    #[test]
    fn an_interface_that_is_down_for_a_moment_suspends_nothing() {
        let (mut passage, now) = (Passage::default(), Instant::now());
        let (snoop, family) = SNOOP;
        passage.passed(now, snoop, family, Way::There);
        let at = |ms: u64| now + Duration::from_millis(ms);
        for ms in (0..900).step_by(50) {
            assert_eq!(passage.unrouted(at(ms), snoop, family), Change::None);
        }
        passage.passed(at(900), snoop, family, Way::There);
        assert_eq!(passage.unrouted(at(1500), snoop, family), Change::None, "counts from here");
        assert_eq!(passage.unrouted(at(2600), snoop, family), Change::Suspended);
    }
}
