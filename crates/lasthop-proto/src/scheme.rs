//! Schemes by the names that the studies use, including those of modern endpoints, and the parts of each at the
//! endpoints and the base station.

pub use crate::pep::snoop::{LocalDetection, TcpAwareness};
use crate::tcp::config::{ControlRule, HystartRule, Recovery};

/// Modern congestion control after which schemes are named.
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
    /// Returns whether `rule` is this congestion control, in any of its variants.
    pub fn is(self, rule: ControlRule) -> bool {
        rule.algorithm().family == self.rule().algorithm().family
    }

    /// Returns the default variant: Linux's, and the draft's for [`Congestion::Bbr3`].
    pub const fn rule(self) -> ControlRule {
        match self {
            Self::Cubic => ControlRule::cubic(HystartRule::Linux),
            Self::Bbr => ControlRule::BBR,
            Self::Bbr3 => ControlRule::BBR3,
        }
    }
}

/// Endpoints of a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// The scenario's, with [`Scheme::recovery`] as the default.
    Scenario,
    /// Modern endpoints: the scenario's if they are modern, otherwise Linux's with the scenario's own settings. The
    /// value is the default congestion control; `None` is that of their preset.
    Modern(Option<Congestion>),
}

/// Repair of a link's losses by its two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkRepair {
    /// Retransmission of lost packets.
    Repeat,
    /// A fixed share of coded frames, without retransmission.
    Share,
    /// Retransmission of lost packets, with copies and coded frames where retransmission is too late.
    Adaptive,
    /// As [`Self::Adaptive`], over all links of a bundle.
    Multipath,
    /// Coded frames after each block of packets if losses occur, and retransmission of packets that these do not
    /// restore; the base station reports periodically, the mobile host on events (AIRMAIL).
    Airmail,
}

/// Function of the base station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BaseStation {
    /// Forwards.
    Forward,
    /// Caches and resends data locally.
    Local {
        /// Loss detection.
        detection: LocalDetection,
        /// Handling of duplicate acknowledgments.
        awareness: TcpAwareness,
    },
    /// Terminates the sender's connection and opens another towards the mobile host.
    Split {
        /// Loss recovery of the wireless connection.
        wireless: Recovery,
    },
    /// Terminates the sender's connection, and runs selective repeat over datagrams with the mobile host (Yavatkar and
    /// Bhagwat).
    SplitSrp,
    /// Repairs the lossy link together with its other end, for all traffic.
    TwoEnded(LinkRepair),
    /// Runs selective repeat with the other end of the lossy link (\[b\]).
    SelectiveRepeat,
    /// Acts as the gateway in its mode `snoop` ([`SnoopConfig::gateway`](crate::pep::snoop::SnoopConfig::gateway)).
    GatewaySnoop,
    /// Repairs QUIC from the lengths and times of its datagrams ([`QuicSnoop`](crate::pep::quic::QuicSnoop)).
    QuicSnoop,
    /// Acts as the gateway in its mode `split`: two Linux connections, each with its own congestion control.
    GatewaySplit {
        /// Congestion control of the wireless connection.
        wireless: Congestion,
    },
}

/// A scheme of the 1997 study, a combination of the second study, or one of modern endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// Unique name that selects the scheme.
    pub name: &'static str,
    /// Family of the scheme.
    pub family: Family,
    /// Endpoints of the scheme.
    pub ends: Ends,
    /// Loss recovery of the sending endpoint (on the wired side, for a split connection).
    pub recovery: Recovery,
    /// Function of the base station.
    pub base_station: BaseStation,
    /// One line for `lasthop schemes`.
    pub summary: &'static str,
}

/// The three families of the 1997 study, the combinations of the second, modern practice, and proposals by others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Changes in the endpoints only.
    EndToEnd,
    /// Retransmission on the lossy hop.
    LinkLayer,
    /// Two connections joined at the base station.
    SplitConnection,
    /// TCP's recovery over a link protocol that is not TCP-aware, or over none.
    MultipleLayers,
    /// Endpoints and gateways in use today.
    Modern,
    /// Repair of encrypted traffic by one device at the lossy hop, between modern endpoints.
    OneSided,
    /// Repair by a device at each end of the lossy hop, between modern endpoints.
    TwoEnded,
    /// Schemes by other authors that the 1997 study discusses but does not run.
    Discussed,
}

impl Family {
    /// Returns the name that the studies use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndToEnd => "end-to-end",
            Self::LinkLayer => "link-layer",
            Self::SplitConnection => "split-connection",
            Self::MultipleLayers => "multiple-layers",
            Self::Modern => "today",
            Self::OneSided => "one-sided",
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
    let (family, recovery) = (Family::LinkLayer, Recovery::RENO);
    Scheme { name, family, ends: Ends::Scenario, recovery, base_station, summary }
}

const fn split(name: &'static str, wireless: Recovery, summary: &'static str) -> Scheme {
    let base_station = BaseStation::Split { wireless };
    let (family, recovery) = (Family::SplitConnection, Recovery::RENO);
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
    let (family, recovery) = (Family::Modern, Recovery::Rack);
    Scheme { name, family, ends: Ends::Modern(congestion), recovery, base_station, summary }
}

const fn two_ended(name: &'static str, repair: LinkRepair, summary: &'static str) -> Scheme {
    let (family, recovery) = (Family::TwoEnded, Recovery::Rack);
    let base_station = BaseStation::TwoEnded(repair);
    Scheme { name, family, ends: Ends::Modern(None), recovery, base_station, summary }
}

/// All schemes: those of the studies in their order, then modern ones, those with a device at each end, and those that
/// the 1997 study discusses.
pub const SCHEMES: [Scheme; 28] = [
    end_to_end("E2E", Recovery::RENO, "TCP Reno"),
    end_to_end(
        "E2E-NEWRENO",
        Recovery::NEW_RENO,
        "Reno that repairs one loss per round trip on partial acknowledgments",
    ),
    end_to_end(
        "E2E-SMART",
        Recovery::SMART,
        "acknowledgments name the segment that caused them; every hole is retransmitted",
    ),
    end_to_end("E2E-IETF-SACK", Recovery::SACK, "selective acknowledgments (RFC 2018)"),
    end_to_end("E2E-ELN", Recovery::ELN, "NewReno with explicit loss notification: no window reduction for corruption"),
    end_to_end("E2E-ELN-RXMT", Recovery::ELN_RXMT, "as E2E-ELN, but retransmits on the first marked duplicate"),
    link_layer(
        "LL",
        LocalDetection::DuplicateAcks,
        TcpAwareness::Unaware,
        "local retransmission, triggered by TCP acknowledgments",
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
    split("SPLIT", Recovery::RENO, "two Reno connections joined at the base station"),
    split("SPLIT-SMART", Recovery::SMART, "split connection with SMART on the wireless side"),
    layers("Reno/Raw", Recovery::RENO, BaseStation::Forward, "TCP Reno over the bare link"),
    layers("SACK/Raw", Recovery::SACK, BaseStation::Forward, "selective acknowledgments over the bare link"),
    layers("Reno/SR", Recovery::RENO, BaseStation::SelectiveRepeat, "TCP Reno over selective repeat on the lossy link"),
    layers(
        "SACK/SR",
        Recovery::SACK,
        BaseStation::SelectiveRepeat,
        "selective acknowledgments over selective repeat on the lossy link",
    ),
    today("E2E-CUBIC", Some(Congestion::Cubic), BaseStation::Forward, "Linux default: CUBIC with RACK-TLP"),
    today("E2E-BBR", Some(Congestion::Bbr), BaseStation::Forward, "BBR as in Linux, with RACK-TLP"),
    today("E2E-BBR3", Some(Congestion::Bbr3), BaseStation::Forward, "BBR version 3, with RACK-TLP"),
    today(
        "SNOOP",
        None,
        BaseStation::GatewaySnoop,
        "the gateway's snoop between modern endpoints: local repair, flow control",
    ),
    today(
        "SPLIT-BBR",
        None,
        BaseStation::GatewaySplit { wireless: Congestion::Bbr },
        "the gateway's split: CUBIC on the wired side, BBR on the lossy side",
    ),
    Scheme {
        name: "QUIC-SNOOP",
        family: Family::OneSided,
        ends: Ends::Modern(None),
        recovery: Recovery::Rack,
        base_station: BaseStation::QuicSnoop,
        summary: "one device resends QUIC datagrams whose loss the lengths of acknowledgments reveal",
    },
    two_ended("LINK-ARQ", LinkRepair::Repeat, "both ends of the hop retransmit losses, in order per flow"),
    two_ended("LINK-FEC", LinkRepair::Share, "a fixed share of coded frames on the hop, as in common tunnels"),
    two_ended(
        "LINK-HYBRID",
        LinkRepair::Adaptive,
        "LINK-ARQ with copies and coding where retransmissions are too late",
    ),
    two_ended(
        "LINK-MULTI",
        LinkRepair::Multipath,
        "LINK-HYBRID's retransmissions and copies over several links at once (needs [bundles])",
    ),
    two_ended(
        "AIRMAIL",
        LinkRepair::Airmail,
        "after AIRMAIL (1995): coded frames after each block, retransmission of the rest",
    ),
    Scheme {
        name: "SPLIT-SRP",
        family: Family::Discussed,
        ends: Ends::Scenario,
        recovery: Recovery::RENO,
        base_station: BaseStation::SplitSrp,
        summary: "split connection whose wireless half is selective repeat over datagrams (1994)",
    },
];

impl Scheme {
    /// Returns the scheme with that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        SCHEMES.iter().find(|scheme| scheme.name == name)
    }

    /// Returns whether the base station depends on reading TCP headers, and therefore has no effect on traffic that
    /// encrypts its own.
    pub const fn reads_tcp(&self) -> bool {
        match self.base_station {
            BaseStation::Local { .. }
            | BaseStation::Split { .. }
            | BaseStation::SplitSrp
            | BaseStation::GatewaySnoop
            | BaseStation::GatewaySplit { .. } => true,
            BaseStation::Forward | BaseStation::SelectiveRepeat | BaseStation::TwoEnded(_) | BaseStation::QuicSnoop => {
                false
            }
        }
    }
}
