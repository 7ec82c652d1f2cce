//! Explanations of each scheme for readers who do not know the papers: its mechanism and effect in two sentences, and
//! its participants on the path.

use lasthop_proto::scheme::{BaseStation, Congestion, Ends, LinkRepair, LocalDetection, Scheme, TcpAwareness};
use lasthop_proto::tcp::config::Recovery;
use serde::Serialize;

/// Explanation of a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct About {
    /// Sentence about the scheme's mechanism.
    pub does: &'static str,
    /// Sentence about the scheme's effect.
    pub effect: &'static str,
    /// The sender's loss recovery, in at most three words.
    pub sender: &'static str,
    /// Function of the base station; `None` if it only forwards.
    pub base_station: Option<&'static str>,
    /// Function of the receiver besides acknowledging bytes in order.
    pub receiver: Option<&'static str>,
    /// Source of retransmissions.
    pub resends: Resends,
    /// Handling of duplicate acknowledgments on their way to the sender.
    pub duplicates: Duplicates,
}

/// Source of retransmissions.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Resends {
    /// The sender, over the whole path.
    Sender,
    /// The base station over the lossy link; the sender may retransmit as well.
    Both,
    /// The base station over the lossy link.
    BaseStation,
}

/// Handling of duplicate acknowledgments on their way to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Duplicates {
    /// Forwarded to the sender.
    Pass,
    /// Suppressed by the base station for losses that it repairs.
    KeptBack,
    /// Terminated at the base station, which is the sender on the lossy link.
    EndAtBaseStation,
    /// Avoided: the link delivers in order.
    None,
}

/// Explains a scheme.
pub const fn about(scheme: &Scheme) -> About {
    let (sender, receiver) = match scheme.ends {
        Ends::Scenario => ends(scheme.recovery),
        Ends::Modern(congestion) => (today_sender(congestion), Some("reports what it has")),
    };
    let plain = About {
        does: "",
        effect: "",
        sender,
        base_station: None,
        receiver,
        resends: Resends::Sender,
        duplicates: Duplicates::Pass,
    };
    match scheme.base_station {
        BaseStation::Forward => {
            let (does, effect) = match scheme.ends {
                Ends::Modern(Some(congestion)) => today(congestion),
                Ends::Modern(None) | Ends::Scenario => end_to_end(scheme.recovery),
            };
            About { does, effect, ..plain }
        }
        BaseStation::Local { detection, awareness } => local(detection, awareness, plain),
        BaseStation::Split { wireless } => split(wireless),
        BaseStation::GatewaySnoop => About {
            does: "The gateway's snoop with default settings: it caches packets, detects losses by selective acknowledgments, retransmits \
                   lost packets over the wireless link, suppresses duplicates or removes their SACK blocks, and hides the queue.",
            effect: "With any congestion control, the sender notices few of the losses, and repairs arrive within a round trip of the \
                     wireless link.",
            base_station: Some("resends, suppresses dupacks"),
            resends: Resends::BaseStation,
            duplicates: Duplicates::KeptBack,
            ..plain
        },
        BaseStation::QuicSnoop => About {
            does: "One device in front of the lossy link keeps copies of QUIC datagrams, infers losses from the lengths of \
                   acknowledgments, which it cannot read, resends the missing datagrams, and holds the acknowledgments meanwhile.",
            effect: "The sender notices few of the losses on links with round trips of up to 22 ms; TCP and uploads pass \
                     unchanged.",
            base_station: Some("resends, delays acks"),
            resends: Resends::Both,
            duplicates: Duplicates::KeptBack,
            ..plain
        },
        BaseStation::GatewaySplit { .. } => About {
            does: "The gateway's split with default settings: it terminates the sender's connection and forwards the data over a second \
                   one, with CUBIC on the wired side and BBR on the wireless link.",
            effect: "BBR fills the wireless link despite its losses; an acknowledgment no longer means that the data has arrived.",
            sender: "sends",
            base_station: Some("two connections"),
            receiver: Some("reports what it has"),
            resends: Resends::BaseStation,
            duplicates: Duplicates::EndAtBaseStation,
        },
        BaseStation::TwoEnded(repair) => About {
            does: match repair {
                LinkRepair::Repeat => {
                    "A device at each end of the lossy link: the first numbers all packets, detects losses, and retransmits the lost \
                     packets; the second restores the order of each flow."
                }
                LinkRepair::Airmail => {
                    "A device at each end of the lossy link: after every 16 packets the first sends coded frames, more at higher \
                     loss, and retransmits packets that the second cannot recover from them; the second restores the order of \
                     each flow."
                }
                LinkRepair::Share => {
                    "A device at each end of the lossy link: the first adds 3 coded frames to every 20 packets, from which the second \
                     recovers lost packets; it retransmits nothing."
                }
                LinkRepair::Multipath => {
                    "A device at each end of several links: the first sends each packet on the link on which it arrives first, and \
                     retransmits lost packets on any of them; the second restores the order of each flow."
                }
                LinkRepair::Adaptive => {
                    "A device at each end of the lossy link: the first retransmits lost packets, and where a retransmission would \
                     arrive too late, sends copies and coded frames in advance; the second restores the order of each flow."
                }
            },
            effect: match repair {
                LinkRepair::Share => {
                    "It uses an eighth of the link even without losses; loss bursts longer than the number of coded frames reach TCP."
                }
                LinkRepair::Airmail => {
                    "TCP, QUIC and calls see a link with almost no loss, at the cost of up to a seventh of its capacity at high loss \
                     rates; without losses it adds only headers and feedback."
                }
                LinkRepair::Multipath => {
                    "TCP, QUIC and calls see one link with the sum of the rates and almost no loss; one link after another may fail."
                }
                LinkRepair::Repeat | LinkRepair::Adaptive => {
                    "TCP, QUIC and calls see a link with almost no loss; without losses it adds only headers and feedback."
                }
            },
            base_station: Some("repairs with the other end"),
            // TCP recovers losses that coded frames do not restore.
            resends: match repair {
                LinkRepair::Share => Resends::Sender,
                LinkRepair::Repeat | LinkRepair::Adaptive | LinkRepair::Multipath | LinkRepair::Airmail => {
                    Resends::BaseStation
                }
            },
            duplicates: Duplicates::None,
            ..plain
        },
        BaseStation::SplitSrp => About {
            does: "The base station terminates the sender's connection and forwards the data to the mobile host in numbered datagrams, \
                   which are acknowledged individually and retransmitted if lost (selective repeat), without a congestion window.",
            effect: "A loss on the wireless link causes no delay beyond its retransmission; an acknowledgment no longer means that the data \
                     has arrived.",
            sender: "sends",
            base_station: Some("splits TCP, sends datagrams"),
            receiver: Some("acknowledges each datagram"),
            resends: Resends::BaseStation,
            duplicates: Duplicates::EndAtBaseStation,
        },
        BaseStation::SelectiveRepeat => About {
            does: "Both ends of the lossy link number its frames; missing frames are requested and retransmitted at once (selective \
                   repeat), and the link delivers frames in order without knowledge of TCP.",
            effect: match scheme.recovery {
                Recovery::SACK => {
                    "TCP sees delays instead of losses, and its selective acknowledgments have little left to repair."
                }
                _ => "TCP sees delays instead of losses: its window stays open unless a delay outlasts its timer.",
            },
            base_station: Some("resends frames"),
            resends: Resends::BaseStation,
            duplicates: Duplicates::None,
            ..plain
        },
    }
}

/// Describes sender and receiver of a recovery.
const fn ends(recovery: Recovery) -> (&'static str, Option<&'static str>) {
    match recovery {
        Recovery::RENO => ("resends, halves its window", None),
        Recovery::NEW_RENO => ("resends hole after hole", None),
        Recovery::SMART => ("resends every hole", Some("names each segment")),
        Recovery::SACK => ("resends every hole", Some("reports what it has")),
        Recovery::ELN => ("resends, keeps its window", Some("marks: corrupted")),
        Recovery::ELN_RXMT => ("resends at once, keeps its window", Some("marks: corrupted")),
        Recovery::Rack => ("resends what is overdue", Some("reports what it has")),
    }
}

/// Describes a modern sender.
const fn today_sender(congestion: Option<Congestion>) -> &'static str {
    match congestion {
        Some(Congestion::Bbr | Congestion::Bbr3) => "resends, keeps its rate",
        Some(Congestion::Cubic) | None => "resends what is overdue",
    }
}

const fn today(congestion: Congestion) -> (&'static str, &'static str) {
    match congestion {
        Congestion::Cubic => (
            "The Linux default: the sender detects losses by time rather than by counting duplicates (RACK-TLP), retransmits, and \
             reduces its window by 30 % (CUBIC).",
            "Lost retransmissions and lost tails are repaired without a timeout, but every loss is still treated as congestion, so a \
             link that merely loses frames stays nearly empty.",
        ),
        Congestion::Bbr => (
            "The sender measures the delivery rate and the minimum round trip, and sends at that rate (BBR, version 1); it \
             retransmits losses.",
            "Losses do not slow it down up to about 15 %, but each is repaired over the whole path, and other flows in the same queue \
             may get less than their share.",
        ),
        Congestion::Bbr3 => (
            "As E2E-BBR, but more than 2 % of losses in a round trip are treated as congestion (BBR, version 3).",
            "Up to 2 % loss it is as fast as version 1, beyond that slower, and other flows in the same queue get a larger share.",
        ),
    }
}

const fn end_to_end(recovery: Recovery) -> (&'static str, &'static str) {
    match recovery {
        Recovery::RENO => (
            "The sender detects a loss by three duplicate acknowledgments or a timeout, and retransmits the segment.",
            "It treats every loss as congestion and halves its window, or restarts from one segment after a timeout, so a link \
             that merely loses frames stays half empty.",
        ),
        Recovery::NEW_RENO => (
            "As Reno, but the sender continues recovery: a partial acknowledgment shows the next hole, which is retransmitted at \
             once.",
            "Several losses in one window cost a round trip each rather than a timeout, but every recovery still halves the window.",
        ),
        Recovery::SMART => (
            "Each acknowledgment also names the segment that caused it, so the sender sees every hole and retransmits it.",
            "Several losses in one window are repaired within a round trip, but each recovery still halves the window.",
        ),
        Recovery::SACK => (
            "The receiver reports which blocks have arrived beyond a hole (selective acknowledgments, RFC 2018), and the \
             sender retransmits only missing data.",
            "Several losses in one window are repaired within a round trip or two, but each recovery still halves the window.",
        ),
        Recovery::ELN => (
            "The receiver marks its acknowledgments when the missing segment was corrupted on the wireless link (explicit loss \
             notification), and the sender retransmits it on the third of them.",
            "Losses without congestion no longer reduce the window; many losses in one window still end in a timeout.",
        ),
        Recovery::ELN_RXMT => (
            "As E2E-ELN, but the sender retransmits on the first marked duplicate acknowledgment instead of the third.",
            "This also repairs losses in windows too small for three duplicates, and keeps the window unchanged.",
        ),
        Recovery::Rack => RACK,
    }
}

const RACK: (&str, &str) = (
    "The receiver reports data received beyond a hole, and the sender retransmits segments that are overdue, and before a \
     timeout also the last segment (RACK-TLP, RFC 8985).",
    "Lost retransmissions and lost tails are repaired without a timeout, but each recovery still reduces the window.",
);

const fn local(detection: LocalDetection, awareness: TcpAwareness, plain: About) -> About {
    let aware = matches!(awareness, TcpAwareness::Aware);
    let (does, effect) = match (detection, awareness) {
        (LocalDetection::DuplicateAcks, TcpAwareness::Unaware) => (
            "The base station caches the data that it forwards, and retransmits over the wireless link after duplicate \
             acknowledgments or a local timeout.",
            "Repairs are quick, but the duplicates also reach the sender: it may retransmit the same data and halve its window for \
             a loss that is being repaired.",
        ),
        (LocalDetection::DuplicateAcks, TcpAwareness::Aware) => (
            "As LL, and the base station suppresses the duplicate acknowledgments of losses that it repairs itself (snoop).",
            "The sender does not notice these losses, and its window stays open.",
        ),
        (LocalDetection::Smart, TcpAwareness::Unaware) => (
            "As LL, but acknowledgments name the segment that caused them: the base station sees every hole and \
             retransmits it within a round trip of the wireless link.",
            "Several losses at once are repaired quickly, but the duplicates reach the sender, which may halve its window.",
        ),
        (LocalDetection::Smart, TcpAwareness::Aware) => (
            "As LL-SMART, and the base station suppresses the duplicate acknowledgments of losses that it repairs itself.",
            "Several losses at once are repaired quickly, and the sender notices none of them.",
        ),
    };
    About {
        does,
        effect,
        base_station: Some(if aware { "resends, suppresses dupacks" } else { "resends from its cache" }),
        receiver: if matches!(detection, LocalDetection::Smart) { Some("names each segment") } else { None },
        resends: if aware { Resends::BaseStation } else { Resends::Both },
        duplicates: if aware { Duplicates::KeptBack } else { Duplicates::Pass },
        ..plain
    }
}

const fn split(wireless: Recovery) -> About {
    let (receiver, does, effect) = match wireless {
        Recovery::SMART => (
            Some("names each segment"),
            "As SPLIT, but on the wireless connection each acknowledgment names the segment that caused it, so the base station \
             retransmits every hole.",
            "Timeouts on either connection are rare; an acknowledgment still does not mean that the data has arrived.",
        ),
        _ => (
            None,
            "The base station terminates the sender's connection, acknowledges the data itself, and forwards it to the receiver over \
             a second TCP connection.",
            "The sender sees no wireless loss, but the second connection stalls on each as Reno does, and an acknowledgment no \
             longer means that the data has arrived.",
        ),
    };
    About {
        does,
        effect,
        sender: "sends",
        base_station: Some("two connections"),
        receiver,
        resends: Resends::BaseStation,
        duplicates: Duplicates::EndAtBaseStation,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lasthop_proto::scheme::SCHEMES;

    use super::*;

    #[test]
    fn each_scheme_is_explained_in_two_sentences_of_its_own() {
        let mut seen = BTreeSet::new();
        for scheme in &SCHEMES {
            let About { does, effect, .. } = about(scheme);
            for sentence in [does, effect] {
                assert!(sentence.ends_with('.') && !sentence.contains(". "), "{}: {sentence}", scheme.name);
                assert!(sentence.len() < 230, "{}: {} characters", scheme.name, sentence.len());
            }
            seen.insert((does, effect));
        }
        // End-to-end Reno and SACK are equal under another study's name.
        assert_eq!(seen.len(), SCHEMES.len() - 2);
    }

    #[test]
    fn the_page_of_the_schemes_says_the_same() {
        let page = include_str!("../../../docs/models/schemes.md");
        for scheme in &SCHEMES {
            let About { does, effect, .. } = about(scheme);
            let row = format!("| `{}` | {does} {effect} |", scheme.name);
            assert!(page.contains(&row), "docs/models/schemes.md needs this line:\n{row}");
        }
    }
}
