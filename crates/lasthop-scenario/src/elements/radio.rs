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
    keys: &[Keys::NAMES],
    rows: Keys::ROWS,
    ends: Ends::Both,
    read: |reader, _| Ok(AnyPart::new(HopRadio(read(reader)?))),
};

keys! {
    /// Keys of the radios of a hop.
    pub(crate) Keys {
        /// {} | radio: interval of queue reports; queue length from which missing frames count as queue drops
        /// ([chain](models/wireless-chain.md))
        exchange: Positive<Duration> = Positive(Duration::from_millis(200)), threshold: Whole<0, 65_535> = Whole(5);
        // A kind, the number, and padding.
        /// {} | radio: bytes before each packet, of each report; connections tracked
        header: Whole<0, 64> = Whole(4), message: Whole<0, 64> = Whole(20), connections: Count = Whole(16_384);
    }
}

/// One of the two radios of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopRadio(pub RadioConfig);

/// Reads the configuration of the near end, the router's.
fn read(reader: &Reader<'_>) -> Result<RadioConfig, Error> {
    let Positive(exchange) = reader.value(Keys::exchange)?;
    let Whole(threshold) = reader.value(Keys::threshold)?;
    let Whole(header) = reader.value(Keys::header)?;
    let Whole(message) = reader.value(Keys::message)?;
    let Whole(connections) = reader.value(Keys::connections)?;
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
