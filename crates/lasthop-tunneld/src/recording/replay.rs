//! Replays a recording to the simulator's node and compares decisions.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::Read;

use lasthop_daemon::recording::differences::Differences;
use lasthop_daemon::recording::reader::ReadError;
use lasthop_daemon::recording::steps;
use serde::Serialize;

use super::node::{Due, Player, Said};
use super::reader::{Entry, Links, Recording};
use super::{Call, Head, Step, Told};

/// Maximum number of peers in a section.
const MOST_PEERS: usize = 4096;

/// Result of a replay.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Comparison {
    /// Number of workers, one per section.
    pub workers: u64,
    /// Number of links, each from its start.
    pub links: u64,
    /// Packets offered to the hop.
    pub packets: u64,
    /// Frames that arrived.
    pub frames: u64,
    /// Timeouts of links.
    pub timeouts: u64,
    /// Requests for a frame.
    pub polls: u64,
    /// Frames that links sent.
    pub sent: u64,
    /// Received packets that were passed on.
    pub handed_on: u64,
    /// Inputs with different decisions.
    #[serde(flatten)]
    pub differences: Differences,
}

/// Replays a recording to the simulator's node, driven as in the simulator, and compares its decisions with the
/// recorded ones.
///
/// # Errors
///
/// Returns an error if the recording violates the format.
pub fn replay<R: Read>(recording: Recording<R>) -> Result<Comparison, ReadError> {
    let mut comparison = Comparison::default();
    let differences = steps::replay(recording, |()| Ok(Nodes::default()), |entry| comparison.count(entry))?;
    Ok(Comparison { differences, ..comparison })
}

/// Nodes of a worker's links, by the number of their peer.
#[derive(Default)]
struct Nodes(BTreeMap<u32, Player>);

impl steps::Player<Links> for Nodes {
    type Decision = Said;

    fn recorded(&self, step: &Step) -> Said {
        Said { due: Due::Yes, decision: step.decision.clone() }
    }

    fn play(&mut self, step: &Step) -> Result<Said, &'static str> {
        let Call { peer, told } = &step.call;
        if let Told::Begin(setting) = told {
            if self.0.len() >= MOST_PEERS {
                return Err("more peers than an end can have");
            }
            self.0.insert(*peer, Player::new(setting));
        }
        let player = self.0.get_mut(peer).ok_or("no begin before it for this peer")?;
        player.play(step.time, told)
    }
}

impl Comparison {
    fn count(&mut self, entry: &Entry) {
        let step = match entry {
            Entry::Start(()) => return self.workers += 1,
            Entry::Step(step) => step,
        };
        self.links += u64::from(matches!(step.call.told, Told::Begin(_)));
        self.packets += u64::from(matches!(step.call.told, Told::Packet { .. }));
        self.frames += u64::from(matches!(step.call.told, Told::Frame { .. }));
        self.timeouts += u64::from(step.call.told == Told::Timeout);
        self.polls += u64::from(step.call.told == Told::Poll);
        self.sent += u64::from(step.decision.frame.is_some());
        self.handed_on += step.decision.items.len() as u64;
    }

    /// Returns the number of inputs that could have led to differences.
    pub fn calls(&self) -> u64 {
        self.packets + self.frames + self.timeouts + self.polls
    }
}

impl Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.due == Due::No {
            f.write_str("no deadline expired, ")?;
        }
        match &self.decision.frame {
            Some((path, number, head)) => {
                write!(f, "frame {number} on path {} of {} bytes, ", path.0, head.len)?;
                list(f, "", std::slice::from_ref(head))?;
            }
            None => f.write_str("no frame")?,
        }
        list(f, ", deliver ", &self.decision.items)?;
        list(f, ", give back ", &self.decision.back)
    }
}

/// Formats the number of packets, and the beginning of the first one.
fn list(f: &mut fmt::Formatter<'_>, what: &str, heads: &[Head]) -> fmt::Result {
    let Some(first) = heads.first() else { return Ok(()) };
    write!(f, "{what}{} of {} bytes: ", heads.len(), first.len)?;
    first.bytes.iter().take(24).try_for_each(|byte| write!(f, "{byte:02x}"))
}
