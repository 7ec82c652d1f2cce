//! Random cases.

use lasthop_proto::time::Duration;

use crate::script::SegmentSpec;

/// Subject of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The stack sends: losses, reordering, duplicates, timeouts.
    Sender,
    /// The stack receives: holes, duplicates, overlaps, reads.
    Receiver,
    /// The stack sends into small and closed windows.
    Window,
    /// Either end closes or resets.
    Close,
    /// Valid and invalid segments while the connection opens.
    Handshake,
    /// ECN (RFC 3168).
    Ecn,
}

impl Kind {
    /// All kinds with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("sender", Self::Sender),
        ("receiver", Self::Receiver),
        ("window", Self::Window),
        ("close", Self::Close),
        ("handshake", Self::Handshake),
        ("ecn", Self::Ecn),
    ];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| *name)
    }

    /// Returns the variables of the host, besides the defaults of the kernel.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Ecn => &[("net.ipv4.tcp_ecn", "1"), ("net.ipv4.tcp_wmem", "4096 1048576 4194304")],
            _ => &[("net.ipv4.tcp_wmem", "4096 1048576 4194304")],
        }
    }
}

/// End that opens the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens {
    /// The script: the stack listens.
    Script,
    /// The stack: it connects at the start.
    Stack,
}

/// A stimulus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stimulus {
    /// A segment from the script. Timestamps of the stack count from 100.
    Segment(SegmentSpec),
    /// The application writes so many bytes.
    Write(u64),
    /// The application reads up to so many bytes.
    Read(u64),
    /// The application ends writing.
    Shutdown,
    /// The application closes.
    Close,
    /// The application sets an option.
    SetOption(&'static str, i64),
}

/// A stimulus with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Time since the previous step.
    pub after: Duration,
    /// Stimulus.
    pub what: Stimulus,
}

/// A random case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Subject.
    pub kind: Kind,
    /// Seed from which the case was drawn.
    pub seed: u64,
    /// End that opens.
    pub opens: Opens,
    /// Stimuli, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Time after the last step for which segments are observed.
    pub const TAIL: Duration = Duration::from_millis(1500);

    /// Returns the time of the last step.
    pub fn last_step(&self) -> Duration {
        self.steps.iter().fold(Duration::ZERO, |sum, step| sum + step.after)
    }
}

/// A segment that a stack sent, in the numbers of the script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// Time since the start.
    pub at: Duration,
    /// Number of steps that were applied before.
    pub steps: usize,
    /// Segment.
    pub segment: SegmentSpec,
}
