//! Replays a recording to a player and compares decisions.

use std::fmt::{self, Display};
use std::io::Read;

use lasthop_daemon::recording::differences::Differences;
use lasthop_daemon::recording::steps::{self, Player};
use lasthop_proto::node::Port;
use serde::Serialize;

use super::element::Element;
use super::reader::{Engines, Entry, NewEngine, Recording, RecordingError};
use super::text::{list, segment};
use super::{Call, Decision, Headers, Judgement, Step};
use crate::configuration::Gateway;
use crate::engine::rules::EngineConfig;
use crate::engine::{Engine, Injection, Verdict};
use crate::settings;

/// Result of a replay.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Comparison {
    /// Number of engines, one per section.
    pub engines: u64,
    /// Packets passed to the engines.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets replaced.
    pub replaced: u64,
    /// Number of timeouts.
    pub timeouts: u64,
    /// Packets sent in addition.
    pub sent: u64,
    /// Inputs with different decisions.
    #[serde(flatten)]
    pub differences: Differences,
}

/// Replays a recording to an engine, without clock or network, and compares its decisions with the recorded ones.
///
/// # Errors
///
/// Returns an error if the recording violates the format.
pub fn replay<R: Read>(recording: Recording<R>) -> Result<Comparison, RecordingError> {
    compare(recording, |gateway, seed| Ok(Again { engine: Engine::new(settings::engine(gateway), seed) }))
}

/// Replays a recording to the mechanism alone, driven as in the simulator, and compares its decisions with the recorded
/// ones.
///
/// # Errors
///
/// Returns an error if the recording violates the format, has more than one rule or a rule with another mode than snoop
/// or with `ab`, or contains a connection without its SYNs or a packet of several segments.
pub fn replay_element<R: Read>(recording: Recording<R>) -> Result<Comparison, RecordingError> {
    compare(recording, |gateway, _| Element::new(gateway))
}

fn compare<R: Read, P: Player<Engines>>(
    recording: Recording<R>,
    mut start: impl FnMut(&Gateway, u64) -> Result<P, &'static str>,
) -> Result<Comparison, RecordingError> {
    let mut comparison = Comparison::default();
    let start = |new: &NewEngine| start(&new.gateway, new.seed);
    let differences = steps::replay(recording, start, |entry| comparison.count(entry))?;
    Ok(Comparison { differences, ..comparison })
}

impl Comparison {
    fn count(&mut self, entry: &Entry) {
        let step = match entry {
            Entry::Start(_) => return self.engines += 1,
            Entry::Step(step) => step,
        };
        self.packets += u64::from(matches!(step.call, Call::Packet { .. }));
        self.timeouts += u64::from(step.call == Call::Timeout);
        self.dropped += u64::from(step.decision.judgement == Judgement::Drop);
        self.replaced += u64::from(matches!(step.decision.judgement, Judgement::Replace(_)));
        self.sent += step.decision.sent.len() as u64;
    }
}

/// An engine that receives recorded inputs.
struct Again {
    engine: Engine,
}

impl Player<Engines> for Again {
    type Decision = Said;

    fn recorded(&self, step: &Step) -> Said {
        Said { due: Due::Yes, decision: step.decision.clone() }
    }

    fn play(&mut self, step: &Step) -> Result<Said, &'static str> {
        let mut sent: Vec<Injection> = Vec::new();
        let (mut due, mut verdict) = (Due::Yes, Verdict::Accept);
        match &step.call {
            Call::Packet { port, headers, offloaded, condition } => {
                let packet = headers.packet_again(*offloaded, *condition);
                verdict = self.engine.handle_packet(step.time, *port, &packet, *offloaded, &mut sent);
            }
            Call::Timeout => {
                // A driver calls when a deadline has passed, never earlier.
                if self.engine.poll_deadline().is_none_or(|at| at > step.time) {
                    due = Due::No;
                }
                self.engine.handle_timeout(step.time, &mut sent);
            }
            Call::Mtu { port, mtu } => self.engine.set_mtu(*port, *mtu),
            Call::Configure { text } => {
                let gateway = Gateway::parse("", text).map_err(|_| "invalid configuration")?;
                self.engine.reconfigure(step.time, settings::engine(&gateway), &mut sent);
            }
            Call::Release => self.engine.reconfigure(step.time, EngineConfig::new(Vec::new()), &mut sent),
        }
        Ok(Said { due, decision: Decision::of(&verdict, &sent) })
    }
}

/// A decision with the bytes of its packets.
struct Said {
    due: Due,
    decision: Decision,
}

/// True if a deadline had passed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Yes,
    No,
}

impl PartialEq for Said {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.decision, &other.decision);
        let judged = match (&ours.judgement, &theirs.judgement) {
            (Judgement::Replace(ours), Judgement::Replace(theirs)) => ours.agrees(theirs),
            (ours, theirs) => ours == theirs,
        };
        let same =
            |(ours, theirs): (&(Port, Headers), &(Port, Headers))| ours.0 == theirs.0 && ours.1.agrees(&theirs.1);
        self.due == other.due
            && judged
            && ours.sent.len() == theirs.sent.len()
            && ours.sent.iter().zip(&theirs.sent).all(same)
    }
}

impl Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.due == Due::No {
            f.write_str("no deadline expired, ")?;
        }
        match &self.decision.judgement {
            Judgement::Accept => f.write_str("accept")?,
            Judgement::Drop => f.write_str("drop")?,
            Judgement::Replace(headers) => write!(f, "replace by {}", describe(headers))?,
        }
        list(f, self.decision.sent.iter().map(|(port, headers)| (*port, describe(headers))))
    }
}

fn describe(headers: &Headers) -> String {
    let view = lasthop_wire::parse(&headers.packet());
    view.map_or_else(|| format!("{} bytes", headers.len), |view| segment(&view.segment, view.payload_len as u32))
}
