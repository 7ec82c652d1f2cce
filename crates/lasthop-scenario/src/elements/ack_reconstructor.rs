//! `kind = "ack-reconstructor"`: recreates acknowledgments that the link behind it removed.

use lasthop_proto::node::Node;
use lasthop_proto::pep::reconstruct::{Reconstructor, ReconstructorConfig};
use lasthop_proto::scheme::Scheme;
use lasthop_sim::Bytes;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::Error;
use crate::reader::Reader;
use crate::tcp::TcpSpec;
use crate::values::{Count, Off, Or, Whole};

pub(super) static KIND: Kind =
    Kind { name: "ack-reconstructor", keys: &[Keys::NAMES], rows: Keys::ROWS, ends: Ends::One, read };

keys! {
    /// Keys of a reconstructor.
    pub(crate) Keys {
        /// {} | ack-reconstructor ([asymmetry](models/asymmetry.md)): segments per acknowledgment, 1 to 64 (`ack_thresh`,
        /// RFC 3449 §5.3.1), `"off"`: forwards all; connections tracked
        spacing: Or<Off, Whole<1, 64>> = ReconstructorConfig::default().spacing.map(Whole).into(),
        connections: Count = Whole(ReconstructorConfig::default().connections as u32);
    }
}

/// An element that recreates missing acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckReconstructor(pub ReconstructorConfig);

fn read(reader: &Reader<'_>, _: &TcpSpec) -> Result<AnyPart, Error> {
    let Or(spacing, _) = reader.value(Keys::spacing)?;
    let Whole(connections) = reader.value(Keys::connections)?;
    let spacing = spacing.map(|Whole(spacing)| spacing);
    let config = ReconstructorConfig { spacing, connections: connections as usize };
    Ok(AnyPart::new(AckReconstructor(config)))
}

impl Part for AckReconstructor {
    fn place(&self, _: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        AnyElement::new(*self)
    }
}

impl Element for AckReconstructor {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::Pacer
    }

    fn reconstructs(&self) -> bool {
        self.0.spacing.is_some()
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Node<()>> {
        Reconstructor::boxed(self.0)
    }

    fn build_on_bytes(&self, _: &Site<'_>) -> Option<Box<dyn Node<Bytes> + Send>> {
        Some(Box::new(Reconstructor::<Bytes>::new(self.0)))
    }

    fn describe(&self) -> String {
        match self.0.spacing {
            Some(spacing) => format!("reconstructs missing acknowledgments, one per {spacing} segments"),
            None => "forwards acknowledgments unchanged".to_owned(),
        }
    }
}
