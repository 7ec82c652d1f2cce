//! Explanations of each scheme for readers who do not know the papers: its mechanism and effect in two sentences, and
//! its participants on the path.

use lasthop_proto::scheme::{BaseStation, Congestion, Ends, LinkRepair, LocalDetection, Scheme, TcpAwareness};
use lasthop_proto::tcp::config::Recovery;
use serde::Serialize;

/// Explanation of a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct About {
    /// Sentence about its mechanism.
    pub does: &'static str,
    /// Sentence about its effect.
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
        Ends::Today(congestion) => (today_sender(congestion), Some("reports what it has")),
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
                Ends::Today(Some(congestion)) => today(congestion),
                Ends::Today(None) | Ends::Scenario => end_to_end(scheme.recovery),
            };
            About { does, effect, ..plain }
        }
        BaseStation::Local { detection, awareness } => local(detection, awareness, plain),
        BaseStation::Split { wireless } => split(wireless),
        BaseStation::GatewaySnoop => About {
            does: "The gateway's snoop as it is installed: it keeps copies, sees by selective acknowledgments what is missing, sends \
                   that again over the wireless link, and keeps the duplicates and the queue from the sender.",
            effect: "The sender, whatever its congestion control is, notices few of the losses, and what is repaired arrives within a \
                     round trip of the wireless link.",
            base_station: Some("resends, keeps duplicates back"),
            resends: Resends::BaseStation,
            duplicates: Duplicates::KeptBack,
            ..plain
        },
        BaseStation::GatewaySplit { .. } => About {
            does: "The gateway's split as it is installed: it ends the sender's connection and brings the data over a second one, with \
                   CUBIC towards the wire and BBR on the wireless link.",
            effect: "BBR fills the wireless link in spite of its losses; an acknowledgment does not mean any more that the data has \
                     arrived.",
            sender: "sends",
            base_station: Some("two connections"),
            receiver: Some("reports what it has"),
            resends: Resends::BaseStation,
            duplicates: Duplicates::EndAtBaseStation,
        },
        BaseStation::TwoEnded(repair) => About {
            does: match repair {
                LinkRepair::Repeat => {
                    "A box at each end of the lossy link: the first numbers all packets and finds out itself which were lost, sends \
                     those again, and the second restores the order of each flow."
                }
                LinkRepair::Airmail => {
                    "A box at each end of the lossy link: behind each 16 packets the first sends coded frames, more of them the more is \
                     lost, and sends again what the second cannot restore from them; the second restores the order of each flow."
                }
                LinkRepair::Share => {
                    "A box at each end of the lossy link: the first adds 3 coded frames to each 20 packets, from which the second \
                     restores what was lost; nothing is sent again."
                }
                LinkRepair::Adaptive => {
                    "A box at each end of the lossy link: the first sends again what was lost, and ahead of losses sends copies and \
                     coded frames where a repeat would come too late; the second restores the order of each flow."
                }
            },
            effect: match repair {
                LinkRepair::Share => {
                    "An eighth of the link is spent without losses too; more losses in a row than coded frames reach TCP."
                }
                LinkRepair::Airmail => {
                    "TCP, QUIC and calls alike see a link that loses next to nothing, at the price of up to a seventh of it where it \
                     loses much; without losses nothing is added but headers and feedback."
                }
                LinkRepair::Repeat | LinkRepair::Adaptive => {
                    "TCP, QUIC and calls alike see a link that loses next to nothing; without losses nothing is added but headers \
                     and feedback."
                }
            },
            base_station: Some("repairs with the other end"),
            // TCP recovers losses that coded frames do not restore.
            resends: match repair {
                LinkRepair::Share => Resends::Sender,
                LinkRepair::Repeat | LinkRepair::Adaptive | LinkRepair::Airmail => Resends::BaseStation,
            },
            duplicates: Duplicates::None,
            ..plain
        },
        BaseStation::SplitSrp => About {
            does: "The base station ends the sender's connection, and brings the data to the mobile host in numbered datagrams, which are \
                   acknowledged one by one and sent again when one is missing (selective repeat), without any congestion window.",
            effect: "No loss on the wireless link makes it wait longer than for the repeat; an acknowledgment does not mean any more that \
                     the data has arrived.",
            sender: "sends",
            base_station: Some("ends TCP, sends datagrams"),
            receiver: Some("acknowledges each datagram"),
            resends: Resends::BaseStation,
            duplicates: Duplicates::EndAtBaseStation,
        },
        BaseStation::SelectiveRepeat => About {
            does: "Both ends of the lossy link number its frames; what is missing there is asked for and sent again at once \
                   (selective repeat), and the link hands frames on in order without knowing anything of TCP.",
            effect: match scheme.recovery {
                Recovery::Sack => {
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
        Recovery::Reno => ("resends, halves its window", None),
        Recovery::NewReno => ("resends hole after hole", None),
        Recovery::Smart => ("resends every hole", Some("names each segment")),
        Recovery::Sack => ("resends every hole", Some("reports what it has")),
        Recovery::Eln => ("resends, keeps its window", Some("marks: corrupted")),
        Recovery::ElnRxmt => ("resends at once, keeps its window", Some("marks: corrupted")),
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
            "What Linux runs: the sender sends again what is overdue, by time rather than by counting (RACK-TLP), and gives up 30 % of \
             its window for it (CUBIC).",
            "Lost retransmissions and lost tails are repaired without a timeout, but every loss still passes for congestion, so that a \
             link which merely loses frames stays nearly empty.",
        ),
        Congestion::Bbr => (
            "The sender measures at which rate data arrives and how short the round trip can be, and sends at that rate \
             (BBR, version 1); what is lost it sends again.",
            "Losses do not slow it down until some 15 % are lost, but each is repaired over the whole path, and others at the same \
             queue may get less than their share.",
        ),
        Congestion::Bbr3 => (
            "As E2E-BBR, but more than 2 % of losses in a round trip count as a sign of congestion (BBR, version 3).",
            "Up to 2 % it is as fast as the first version, beyond it slower, and others at the same queue get more of it.",
        ),
    }
}

const fn end_to_end(recovery: Recovery) -> (&'static str, &'static str) {
    match recovery {
        Recovery::Reno => (
            "The sender takes three duplicate acknowledgments, or a timer that runs out, for a loss, and sends the segment again.",
            "It takes every loss for congestion and halves its window, or starts again from one segment after a timeout, so \
             that a link which merely loses frames stays half empty.",
        ),
        Recovery::NewReno => (
            "As Reno, but after a loss the sender goes on repairing: an acknowledgment of a part of what is outstanding \
             shows the next hole, which is sent again at once.",
            "Several losses in one window cost a round trip each rather than a timeout, but every recovery still halves the window.",
        ),
        Recovery::Smart => (
            "Each acknowledgment also names the segment that caused it, so the sender sees every hole and sends each again.",
            "Several losses in one window are repaired within a round trip, but each recovery still halves the window.",
        ),
        Recovery::Sack => (
            "The receiver reports which blocks have arrived beyond a hole (selective acknowledgments, RFC 2018), and the \
             sender sends again only what is missing.",
            "Several losses in one window are repaired within a round trip or two, but each recovery still halves the window.",
        ),
        Recovery::Eln => (
            "The receiver marks its acknowledgments when the missing segment was corrupted on the wireless link (explicit loss \
             notification), and the sender sends it again on the third of them.",
            "A loss that was no congestion no longer makes the window smaller; many losses in one window still end in a timeout.",
        ),
        Recovery::ElnRxmt => (
            "As E2E-ELN, but the sender sends the segment again on the first marked duplicate acknowledgment instead of the third.",
            "That also repairs losses in windows so small that three duplicates never come, and keeps the window as it is.",
        ),
        Recovery::Rack => RACK,
    }
}

const RACK: (&str, &str) = (
    "The receiver reports what has arrived beyond a hole, and the sender sends again what should have arrived by then, ahead of \
     a timeout also the last segment (RACK-TLP, RFC 8985).",
    "Lost retransmissions and lost tails are repaired without a timeout, but each recovery still makes the window smaller.",
);

const fn local(detection: LocalDetection, awareness: TcpAwareness, plain: About) -> About {
    let aware = matches!(awareness, TcpAwareness::Aware);
    let (does, effect) = match (detection, awareness) {
        (LocalDetection::DuplicateAcks, TcpAwareness::Unaware) => (
            "The base station keeps copies of the data that it forwards, and sends again over the wireless link what \
             duplicate acknowledgments or a local timer show to be lost.",
            "Repairs are quick, but the duplicates reach the sender too: it may send the same data again and halves its \
             window for a loss that is being repaired.",
        ),
        (LocalDetection::DuplicateAcks, TcpAwareness::Aware) => (
            "As LL, and the base station keeps the duplicate acknowledgments of those losses back that it repairs itself \
             (snoop).",
            "The sender does not notice these losses, and its window stays open.",
        ),
        (LocalDetection::Smart, TcpAwareness::Unaware) => (
            "As LL, but acknowledgments name the segment that caused them: the base station sees every hole and sends each \
             again within a round trip of the wireless link.",
            "Several losses at once are repaired quickly, but the duplicates reach the sender, which may halve its window.",
        ),
        (LocalDetection::Smart, TcpAwareness::Aware) => (
            "As LL-SMART, and the base station keeps the duplicate acknowledgments of those losses back that it repairs itself.",
            "Several losses at once are repaired quickly, and the sender notices none of them.",
        ),
    };
    About {
        does,
        effect,
        base_station: Some(if aware { "resends, keeps duplicates back" } else { "resends from its copies" }),
        receiver: if matches!(detection, LocalDetection::Smart) { Some("names each segment") } else { None },
        resends: if aware { Resends::BaseStation } else { Resends::Both },
        duplicates: if aware { Duplicates::KeptBack } else { Duplicates::Pass },
        ..plain
    }
}

const fn split(wireless: Recovery) -> About {
    let (receiver, does, effect) = match wireless {
        Recovery::Smart => (
            Some("names each segment"),
            "As SPLIT, but on the wireless connection each acknowledgment names the segment that caused it, so the base \
             station sends every hole again.",
            "Neither connection waits much for a timer; still an acknowledgment does not mean that the data has arrived.",
        ),
        _ => (
            None,
            "The base station ends the sender's connection, acknowledges the data itself, and brings it to the receiver over a \
             second TCP connection.",
            "The sender sees no wireless loss, but the second connection stalls on each as Reno does, and an \
             acknowledgment does not mean any more that the data has arrived.",
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
