//! Elements of the mechanisms, with parameters chosen by the test.

use std::sync::Arc;

use lasthop_proto::link::arq::{Arq, ArqConfig};
use lasthop_proto::node::Node;
use lasthop_proto::pep::eln::{ElnMarker, ElnMarkerConfig};
use lasthop_proto::pep::snoop::{Snoop, SnoopConfig};
use lasthop_proto::pep::split::{Handover, SplitRelay};
use lasthop_proto::tcp::config::TcpConfig;
use lasthop_sim::element::{AnyElement, Role, Site};
use lasthop_sim::sim::tick_phase;

#[derive(Clone, PartialEq, Debug)]
#[allow(dead_code, reason = "not every test has all of them")]
pub enum Element {
    Snoop(SnoopConfig),
    ElnMarker,
    Split { handover: Handover, wired: Arc<TcpConfig>, wireless: Arc<TcpConfig> },
    Arq(ArqConfig),
}

impl From<Element> for AnyElement {
    fn from(element: Element) -> Self {
        Self::new(element)
    }
}

impl lasthop_sim::element::Element for Element {
    fn kind(&self) -> &'static str {
        match self {
            Self::Snoop(_) => "snoop",
            Self::ElnMarker => "eln-marker",
            Self::Split { .. } => "split",
            Self::Arq(_) => "arq",
        }
    }

    fn role(&self) -> Role {
        match self {
            Self::Snoop(_) => Role::Repair,
            Self::ElnMarker => Role::Marker,
            Self::Split { .. } => Role::Relay,
            Self::Arq(_) => Role::LinkEnd,
        }
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Node<()>> {
        match self {
            Self::Snoop(config) => Snoop::boxed(config.clone()),
            Self::ElnMarker => ElnMarker::boxed(ElnMarkerConfig::default()),
            Self::Split { handover, wired, wireless } => {
                let phase = tick_phase(site.root, site.node, wireless);
                Box::new(SplitRelay::new(*handover, wired.clone(), wireless.clone(), phase, site.watch))
            }
            Self::Arq(config) => Arq::boxed(config.clone()),
        }
    }

    fn describe(&self) -> String {
        format!("{self:?}")
    }

    fn endpoints(&self) -> Option<[&Arc<TcpConfig>; 2]> {
        match self {
            Self::Split { wired, wireless, .. } => Some([wired, wireless]),
            Self::Snoop(_) | Self::ElnMarker | Self::Arq(_) => None,
        }
    }
}
