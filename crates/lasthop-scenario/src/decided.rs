//! What a scheme decides of endpoints and base station, in lines for `explain`.

use lasthop_proto::link::hybrid::{RateRule, Repair, Share};
use lasthop_proto::pep::split::Handover;
use lasthop_proto::scheme::{LocalDetection, TcpAwareness};
use lasthop_proto::tcp::config::{Recovery, TcpConfig};
use lasthop_sim::network::{Element, Network};

use crate::reader::Value;
use crate::spec::Spec;
use crate::units::BitRate;
use crate::values::CongestionName;

/// A line for each host with a flow, and for each element.
pub(crate) fn lines(spec: &Spec, network: &Network) -> Vec<String> {
    let hosts = spec.nodes.hosts.iter().enumerate().filter_map(|(index, host)| {
        let ends = network.flows.iter().flat_map(|flow| [(flow.from.0, &flow.tcp[0]), (flow.to.0, &flow.tcp[1])]);
        let (_, tcp) = ends.into_iter().find(|(node, _)| *node == index)?;
        Some(format!("{}: {}", host.name, endpoint(tcp)))
    });
    let elements = network.elements.iter().map(|spec| {
        let (node, link) = (&network.nodes[spec.node.0].name, &network.links[spec.link.0].name);
        format!("{node}, on its port to {link}: {}", element(&spec.element))
    });
    hosts.chain(elements).collect()
}

/// The loss recovery, and the congestion control where the recovery has one to choose.
fn endpoint(tcp: &TcpConfig) -> String {
    let recovery = format!("recovery {}", plain(tcp.recovery.show()));
    match tcp.recovery {
        Recovery::Rack => format!("{recovery}, congestion {}", plain(CongestionName::of(tcp.congestion).show())),
        _ => recovery,
    }
}

fn element(element: &Element) -> String {
    match element {
        Element::Snoop(config) => {
            let losses = match config.detection {
                LocalDetection::DuplicateAcks => "losses by duplicate acknowledgments",
                LocalDetection::Smart => "losses by what has arrived beyond them",
            };
            let duplicates = match config.awareness {
                TcpAwareness::Aware => "keeps duplicates back",
                TcpAwareness::Unaware => "lets duplicates pass",
            };
            let control = if config.hop.is_some() { "holds senders back" } else { "no flow control" };
            format!("snoop: {losses}, {duplicates}, {control}")
        }
        Element::ElnMarker => "marks acknowledgments".to_owned(),
        Element::TwoEnded(config) => {
            let repair = match config.repair {
                Repair::Repeat => "repeats what is lost".to_owned(),
                Repair::Adaptive => "repeats what is lost, copies and codes where that is too late".to_owned(),
                Repair::Share(Share { data, coded, .. }) => format!("{coded} coded frames for {data} packets"),
            };
            let RateRule::Fixed(rate) = config.rate;
            format!("one of the link's two ends: {repair}; sends at {}", BitRate(rate))
        }
        Element::Arq(_) => "selective repeat with the other end of the link".to_owned(),
        Element::Split { handover, wired, wireless } => {
            let buffers = match handover {
                Handover::Shared(_) => "one buffer for both",
                Handover::Moved => "buffers of their own",
            };
            format!("split: {} towards the wire; {} on the link; {buffers}", endpoint(wired), endpoint(wireless))
        }
    }
}

fn plain(shown: String) -> String {
    shown.trim_matches('"').to_owned()
}
