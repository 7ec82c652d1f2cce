//! `kind = "eln-marker"`: marks acknowledgments for losses of the link.

use lasthop_proto::node::Node;
use lasthop_proto::pep::eln::{self, ElnKnowledge, ElnMarkerConfig};
use lasthop_proto::scheme::Scheme;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::Error;
use crate::reader::Reader;
use crate::tcp::TcpSpec;

pub(super) static KIND: Kind =
    Kind { name: "eln-marker", keys: &[Keys::NAMES], rows: Keys::ROWS, ends: Ends::One, read };

keys! {
    /// Keys of a marker.
    pub(crate) Keys {
        /// {} | eln-marker: data that passed it in order was corrupted beyond; `"told"`: as radios report
        knowledge: ElnKnowledge = ElnKnowledge::Own;
    }
}

/// An element that marks acknowledgments with ELN, with this source of knowledge about corruption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElnMarker(pub ElnKnowledge);

fn read(reader: &Reader<'_>, _: &TcpSpec) -> Result<AnyPart, Error> {
    Ok(AnyPart::new(ElnMarker(reader.value(Keys::knowledge)?)))
}

impl ElnMarker {
    /// Returns the configuration of the marker.
    pub fn config(self) -> ElnMarkerConfig {
        ElnMarkerConfig { knowledge: self.0, ..ElnMarkerConfig::default() }
    }
}

impl Part for ElnMarker {
    fn place(&self, _: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        AnyElement::new(*self)
    }
}

impl Element for ElnMarker {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::Marker
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Node<()>> {
        eln::ElnMarker::boxed(self.config())
    }

    fn describe(&self) -> String {
        match self.0 {
            ElnKnowledge::Own => "marks acknowledgments".to_owned(),
            ElnKnowledge::Told => "marks acknowledgments of packets that radios report as corrupted".to_owned(),
        }
    }
}
