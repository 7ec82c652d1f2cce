//! The schemes by the names that the study gives them, and what each runs where.

use crate::tcp::config::Recovery;

/// How a link-layer scheme finds losses on its hop (\[a\] §III-A).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalDetection {
    /// Duplicate acknowledgments and a timer: one hole at a time.
    DuplicateAcks,
    /// The SMART number: every hole, each once per link round trip.
    Smart,
}

/// Whether a link-layer scheme knows that TCP runs over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpAwareness {
    /// Duplicate acknowledgments go on to the sender.
    Unaware,
    /// Duplicate acknowledgments for losses that the hop repairs are suppressed.
    Aware,
}

/// What the base station does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BaseStation {
    /// Forwards.
    Forward,
    /// Caches and resends data locally.
    Local {
        /// How it finds losses.
        detection: LocalDetection,
        /// What it does with duplicate acknowledgments.
        awareness: TcpAwareness,
    },
    /// Ends the sender's connection and opens another towards the mobile host.
    Split {
        /// Loss recovery of the wireless connection.
        wireless: Recovery,
    },
    /// Runs selective repeat with the other end of the lossy link (\[b\]).
    SelectiveRepeat,
}

/// A scheme of the 1997 study, or a combination of the second study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// The name that selects it, everywhere.
    pub name: &'static str,
    /// Its family in the study.
    pub family: Family,
    /// Loss recovery of the sending endpoint (on the wired side, for a split connection).
    pub recovery: Recovery,
    /// What the base station does.
    pub base_station: BaseStation,
    /// One line for `lasthop schemes`.
    pub summary: &'static str,
}

/// The three families of the 1997 study, and the combinations of the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Changes in the endpoints only.
    EndToEnd,
    /// Retransmission on the lossy hop.
    LinkLayer,
    /// Two connections joined at the base station.
    SplitConnection,
    /// TCP's recovery over that of a link protocol which knows nothing of TCP, or over none.
    MultipleLayers,
}

impl Family {
    /// As the study calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndToEnd => "end-to-end",
            Self::LinkLayer => "link-layer",
            Self::SplitConnection => "split-connection",
            Self::MultipleLayers => "multiple-layers",
        }
    }
}

const fn end_to_end(name: &'static str, recovery: Recovery, summary: &'static str) -> Scheme {
    Scheme { name, family: Family::EndToEnd, recovery, base_station: BaseStation::Forward, summary }
}

const fn link_layer(
    name: &'static str,
    detection: LocalDetection,
    awareness: TcpAwareness,
    summary: &'static str,
) -> Scheme {
    let base_station = BaseStation::Local { detection, awareness };
    Scheme { name, family: Family::LinkLayer, recovery: Recovery::Reno, base_station, summary }
}

const fn split(name: &'static str, wireless: Recovery, summary: &'static str) -> Scheme {
    let base_station = BaseStation::Split { wireless };
    Scheme { name, family: Family::SplitConnection, recovery: Recovery::Reno, base_station, summary }
}

const fn layers(name: &'static str, recovery: Recovery, base_station: BaseStation, summary: &'static str) -> Scheme {
    Scheme { name, family: Family::MultipleLayers, recovery, base_station, summary }
}

/// All schemes, in the studies' order.
pub const SCHEMES: [Scheme; 16] = [
    end_to_end("E2E", Recovery::Reno, "TCP Reno"),
    end_to_end(
        "E2E-NEWRENO",
        Recovery::NewReno,
        "Reno that repairs one loss per round trip on partial acknowledgments",
    ),
    end_to_end("E2E-SMART", Recovery::Smart, "acknowledgments name the segment that caused them; every hole is resent"),
    end_to_end("E2E-IETF-SACK", Recovery::Sack, "selective acknowledgments (RFC 2018)"),
    end_to_end("E2E-ELN", Recovery::Eln, "NewReno told of corruption: no window reduction for it"),
    end_to_end("E2E-ELN-RXMT", Recovery::ElnRxmt, "as E2E-ELN, resending on the first marked duplicate"),
    link_layer(
        "LL",
        LocalDetection::DuplicateAcks,
        TcpAwareness::Unaware,
        "local retransmission found by TCP's acknowledgments",
    ),
    link_layer(
        "LL-TCP-AWARE",
        LocalDetection::DuplicateAcks,
        TcpAwareness::Aware,
        "snoop: LL that suppresses duplicate acknowledgments",
    ),
    link_layer(
        "LL-SMART",
        LocalDetection::Smart,
        TcpAwareness::Unaware,
        "local selective retransmission by SMART numbers",
    ),
    link_layer(
        "LL-SMART-TCP-AWARE",
        LocalDetection::Smart,
        TcpAwareness::Aware,
        "LL-SMART that suppresses duplicate acknowledgments",
    ),
    split("SPLIT", Recovery::Reno, "two Reno connections joined at the base station"),
    split("SPLIT-SMART", Recovery::Smart, "split connection with SMART on the wireless side"),
    layers("Reno/Raw", Recovery::Reno, BaseStation::Forward, "TCP Reno over the bare link"),
    layers("SACK/Raw", Recovery::Sack, BaseStation::Forward, "selective acknowledgments over the bare link"),
    layers("Reno/SR", Recovery::Reno, BaseStation::SelectiveRepeat, "TCP Reno over selective repeat on the lossy link"),
    layers(
        "SACK/SR",
        Recovery::Sack,
        BaseStation::SelectiveRepeat,
        "selective acknowledgments over selective repeat on the lossy link",
    ),
];

impl Scheme {
    /// The scheme of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        SCHEMES.iter().find(|scheme| scheme.name == name)
    }

    /// Whether the base station does what it does by reading TCP's headers: it cannot do it to traffic that encrypts its own.
    pub const fn reads_tcp(&self) -> bool {
        matches!(self.base_station, BaseStation::Local { .. } | BaseStation::Split { .. })
    }
}
