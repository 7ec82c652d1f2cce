//! `kind = "eln-marker"`: marks acknowledgments for losses of the link.

use lasthop_proto::node::Node;
use lasthop_proto::pep::eln::{self, ElnMarkerConfig};
use lasthop_proto::scheme::Scheme;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::{AnyPart, Beyond, Kind, Part};

pub(super) static KIND: Kind =
    Kind { name: "eln-marker", keys: &[], ends: Ends::One, read: |_, _| Ok(AnyPart::new(ElnMarker)) };

/// Marks acknowledgments with ELN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElnMarker;

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
        eln::ElnMarker::boxed(ElnMarkerConfig::default())
    }

    fn describe(&self) -> String {
        "marks acknowledgments".to_owned()
    }
}
