//! `kind = "radio"`: radios at both ends of a hop that exchange their queue lengths, and use them to distinguish
//! corruption from congestion.

use lasthop_proto::link::radio::{End, Radio, RadioConfig};
use lasthop_proto::node::Node;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::Error;
use crate::reader::Reader;
use crate::values::{Count, Positive, Whole};

pub(super) static KIND: Kind = Kind {
    name: "radio",
    keys: &[&["exchange", "threshold", "header", "message", "connections"]],
    ends: Ends::Both,
    read: |reader, _| Ok(AnyPart::new(HopRadio(read(reader)?))),
};

/// One of the two radios of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopRadio(pub RadioConfig);

/// Reads the configuration of the near end, the router's.
fn read(reader: &Reader<'_>) -> Result<RadioConfig, Error> {
    let Positive(exchange) = reader.or("exchange", Positive(Duration::from_millis(200)), "default")?;
    let Whole(threshold) = reader.or::<Whole<0, 65_535>>("threshold", Whole(5), "default")?;
    // A kind, the number, and padding.
    let Whole(header) = reader.or::<Whole<0, 64>>("header", Whole(4), "default")?;
    let Whole(message) = reader.or::<Whole<0, 64>>("message", Whole(20), "default")?;
    let Whole(connections) = reader.or::<Count>("connections", Whole(16_384), "default")?;
    Ok(RadioConfig {
        end: End::Near,
        exchange,
        threshold: threshold as u16,
        header: header as u16,
        message: message as u16,
        connections: connections as usize,
    })
}

impl Part for HopRadio {
    fn place(&self, _: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        AnyElement::new(*self)
    }
}

impl Element for HopRadio {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::Marker
    }

    fn ends(&self) -> Ends {
        Ends::Both
    }

    fn asks_for_queue(&self) -> bool {
        self.0.end == End::Near
    }

    fn judges_losses(&self) -> bool {
        self.0.end == End::Far
    }

    fn at_other_end(&self) -> Option<AnyElement> {
        Some(AnyElement::new(Self(RadioConfig { end: End::Far, ..self.0 })))
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Node<()>> {
        Radio::boxed(self.0)
    }

    fn describe(&self) -> String {
        match self.0.end {
            End::Near => "radio: numbers packets, reports its queue".to_owned(),
            End::Far => {
                let threshold = self.0.threshold;
                format!(
                    "radio: takes missing packets for corrupted if the neighbour's queue has fewer than {threshold}"
                )
            }
        }
    }
}
