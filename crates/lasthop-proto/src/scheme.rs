//! The schemes by the names that the studies give them, those of today's endpoints, and what each runs where.

use crate::tcp::config::{Bbr3Rule, ControlRule, HystartRule, Recovery};

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

/// A congestion control of today, as schemes are named after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR, version 1.
    Bbr,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr3,
}

impl Congestion {
    /// Whether `rule` is it, in whichever of its variants.
    pub const fn is(self, rule: ControlRule) -> bool {
        match self {
            Self::Cubic => matches!(rule, ControlRule::Cubic(_) | ControlRule::Cubic9438(_)),
            Self::Bbr => matches!(rule, ControlRule::Bbr),
            Self::Bbr3 => matches!(rule, ControlRule::Bbr3(_)),
        }
    }

    /// The variant that runs where nothing asks for another: Linux's, and the draft's of [`Congestion::Bbr3`].
    pub const fn rule(self) -> ControlRule {
        match self {
            Self::Cubic => ControlRule::Cubic(HystartRule::Linux),
            Self::Bbr => ControlRule::Bbr,
            Self::Bbr3 => ControlRule::Bbr3(Bbr3Rule::Draft),
        }
    }
}

/// Whose endpoints a scheme is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// The scenario's, with [`Scheme::recovery`] where it says none.
    Scenario,
    /// Endpoints of today: the scenario's where they are of today, otherwise Linux's under whatever the scenario says of its own.
    /// They run this congestion control where the scenario says none; without one, their preset's.
    Today(Option<Congestion>),
}

/// What the two ends of a link do against its losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkRepair {
    /// They send again what is lost.
    Repeat,
    /// They send a fixed share of coded frames, and nothing again.
    Share,
    /// They send again what is lost, and copies and coded frames where that comes too late.
    Adaptive,
    /// They send coded frames behind each block of packets where something is lost, and again what these do not restore; the base
    /// station reports time after time, the mobile host when something happens (AIRMAIL).
    Airmail,
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
    /// Ends the sender's connection, and runs selective repeat over datagrams with the mobile host (Yavatkar and Bhagwat).
    SplitSrp,
    /// Repairs the lossy link together with its other end, for all traffic.
    TwoEnded(LinkRepair),
    /// Runs selective repeat with the other end of the lossy link (\[b\]).
    SelectiveRepeat,
    /// Does what the gateway does in its mode `snoop` ([`SnoopConfig::gateway`](crate::pep::snoop::SnoopConfig::gateway)).
    GatewaySnoop,
    /// Does what the gateway does in its mode `split`: two connections of Linux's, each with a congestion control of its own.
    GatewaySplit {
        /// Congestion control of the wireless connection.
        wireless: Congestion,
    },
}

/// A scheme of the 1997 study, a combination of the second study, or one of today's endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// The name that selects it, everywhere.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// Whose endpoints run it.
    pub ends: Ends,
    /// Loss recovery of the sending endpoint (on the wired side, for a split connection).
    pub recovery: Recovery,
    /// What the base station does.
    pub base_station: BaseStation,
    /// One line for `lasthop schemes`.
    pub summary: &'static str,
}

/// The three families of the 1997 study, the combinations of the second, what runs today, and what others proposed.
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
    /// What endpoints and gateways run now.
    Today,
    /// Repair by a box at each end of the lossy hop, between endpoints of today.
    TwoEnded,
    /// Schemes of others that the 1997 study discusses and does not run.
    Discussed,
}

impl Family {
    /// As the studies call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndToEnd => "end-to-end",
            Self::LinkLayer => "link-layer",
            Self::SplitConnection => "split-connection",
            Self::MultipleLayers => "multiple-layers",
            Self::Today => "today",
            Self::TwoEnded => "two-ended",
            Self::Discussed => "discussed",
        }
    }
}

const fn end_to_end(name: &'static str, recovery: Recovery, summary: &'static str) -> Scheme {
    let base_station = BaseStation::Forward;
    Scheme { name, family: Family::EndToEnd, ends: Ends::Scenario, recovery, base_station, summary }
}

const fn link_layer(
    name: &'static str,
    detection: LocalDetection,
    awareness: TcpAwareness,
    summary: &'static str,
) -> Scheme {
    let base_station = BaseStation::Local { detection, awareness };
    let (family, recovery) = (Family::LinkLayer, Recovery::Reno);
    Scheme { name, family, ends: Ends::Scenario, recovery, base_station, summary }
}

const fn split(name: &'static str, wireless: Recovery, summary: &'static str) -> Scheme {
    let base_station = BaseStation::Split { wireless };
    let (family, recovery) = (Family::SplitConnection, Recovery::Reno);
    Scheme { name, family, ends: Ends::Scenario, recovery, base_station, summary }
}

const fn layers(name: &'static str, recovery: Recovery, base_station: BaseStation, summary: &'static str) -> Scheme {
    Scheme { name, family: Family::MultipleLayers, ends: Ends::Scenario, recovery, base_station, summary }
}

const fn today(
    name: &'static str,
    congestion: Option<Congestion>,
    base_station: BaseStation,
    summary: &'static str,
) -> Scheme {
    let (family, recovery) = (Family::Today, Recovery::Rack);
    Scheme { name, family, ends: Ends::Today(congestion), recovery, base_station, summary }
}

const fn two_ended(name: &'static str, repair: LinkRepair, summary: &'static str) -> Scheme {
    let (family, recovery) = (Family::TwoEnded, Recovery::Rack);
    let base_station = BaseStation::TwoEnded(repair);
    Scheme { name, family, ends: Ends::Today(None), recovery, base_station, summary }
}

/// All schemes: those of the studies in their order, then today's, those with a box at each end, and those that the 1997 study discusses.
pub const SCHEMES: [Scheme; 26] = [
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
    today("E2E-CUBIC", Some(Congestion::Cubic), BaseStation::Forward, "what Linux runs: CUBIC with RACK-TLP"),
    today("E2E-BBR", Some(Congestion::Bbr), BaseStation::Forward, "BBR as Linux has it, with RACK-TLP"),
    today("E2E-BBR3", Some(Congestion::Bbr3), BaseStation::Forward, "BBR's third version, with RACK-TLP"),
    today(
        "SNOOP",
        None,
        BaseStation::GatewaySnoop,
        "the gateway's snoop between today's endpoints: local repair, flow control",
    ),
    today(
        "SPLIT-BBR",
        None,
        BaseStation::GatewaySplit { wireless: Congestion::Bbr },
        "the gateway's split: CUBIC towards the wire, BBR on the lossy side",
    ),
    two_ended("LINK-ARQ", LinkRepair::Repeat, "both ends of the hop repeat what is lost, in order per flow"),
    two_ended("LINK-FEC", LinkRepair::Share, "a fixed share of coded frames on the hop, as tunnels do today"),
    two_ended("LINK-HYBRID", LinkRepair::Adaptive, "LINK-ARQ with copies and a code where repeats come too late"),
    two_ended(
        "AIRMAIL",
        LinkRepair::Airmail,
        "after AIRMAIL (1995): coded frames behind each block, repeats for what is left",
    ),
    Scheme {
        name: "SPLIT-SRP",
        family: Family::Discussed,
        ends: Ends::Scenario,
        recovery: Recovery::Reno,
        base_station: BaseStation::SplitSrp,
        summary: "split connection whose wireless half is selective repeat over datagrams (1994)",
    },
];

impl Scheme {
    /// The scheme of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        SCHEMES.iter().find(|scheme| scheme.name == name)
    }

    /// Whether the base station does what it does by reading TCP's headers: it cannot do it to traffic that encrypts its own.
    pub const fn reads_tcp(&self) -> bool {
        match self.base_station {
            BaseStation::Local { .. }
            | BaseStation::Split { .. }
            | BaseStation::SplitSrp
            | BaseStation::GatewaySnoop
            | BaseStation::GatewaySplit { .. } => true,
            BaseStation::Forward | BaseStation::SelectiveRepeat | BaseStation::TwoEnded(_) => false,
        }
    }
}
