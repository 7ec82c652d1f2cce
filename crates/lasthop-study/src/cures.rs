//! The cures that can be installed, and which gains count.

/// Minimum gain; a smaller one does not count.
pub const LEAST_GAIN: f64 = 0.03;

/// Maximum difference between the gains of two equally good cures. It is half of the minimum gain. The simulator's
/// error may account for the other half, so that the advised cure is within that gain of the best one after
/// installation.
pub const AS_GOOD: f64 = 0.015;

/// Changes that a cure requires, in increasing order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Needs {
    /// None.
    Nothing,
    /// A setting of the sending machines.
    Sender,
    /// A device in front of the lossy hop.
    Box,
    /// A device at each end of the lossy hop.
    Boxes,
}

impl Needs {
    /// Names of the requirements in options; [`Self::Nothing`] has none.
    pub const NAMES: [(&'static str, Self); 3] = [("sender", Self::Sender), ("box", Self::Box), ("boxes", Self::Boxes)];

    /// Returns the requirement of that name.
    ///
    /// # Errors
    ///
    /// Returns a message with the known names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        let names = || Self::NAMES.map(|(name, _)| name).join(", ");
        known.map(|(_, needs)| *needs).ok_or_else(|| format!("give one or more of {}", names()))
    }

    /// Returns a human-readable description.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Sender => "the senders' setting",
            Self::Box => "one device",
            Self::Boxes => "a device at each end",
        }
    }
}

/// A cure that can be installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cure {
    /// Name of the cure's scheme.
    pub scheme: &'static str,
    /// Required changes.
    pub needs: Needs,
    /// Handling of a loss under the cure, in a sentence.
    pub does: &'static str,
}

/// All cures. The first one leaves everything as it is.
pub const CURES: [Cure; 5] = [
    Cure {
        scheme: "E2E-CUBIC",
        needs: Needs::Nothing,
        does: "Senders run CUBIC, the Linux default, which treats each loss as congestion and slows down.",
    },
    Cure {
        scheme: "E2E-BBR",
        needs: Needs::Sender,
        does: "Senders run BBR, which follows the delivery rate and largely ignores losses.",
    },
    Cure {
        scheme: "SNOOP",
        needs: Needs::Box,
        does: "The gateway retransmits packets lost on the hop before the sender notices; connections stay end-to-end.",
    },
    Cure {
        scheme: "SPLIT-BBR",
        needs: Needs::Box,
        does: "The gateway terminates each connection and opens another with BBR over the hop; senders see no loss.",
    },
    Cure {
        scheme: "LINK-HYBRID",
        needs: Needs::Boxes,
        does: "A device at each end of the hop repairs all traffic on it, encrypted or not.",
    },
];

/// Formats a gain for display.
pub fn times(gain: f64) -> String {
    if gain.is_finite() { format!("{gain:.2}") } else { "from 0".to_owned() }
}
