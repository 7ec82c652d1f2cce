//! Kinds of elements, each in a file of its own: its name, its keys and their reader, its requirements for endpoints,
//! and its state machine. A new kind is a file here and a line in `KINDS`.

pub(crate) mod ack_reconstructor;
pub(crate) mod arq;
pub(crate) mod eln_marker;
mod part;
mod quic_snoop;
pub(crate) mod radio;
pub(crate) mod snoop;
pub(crate) mod split;
mod srp;
pub(crate) mod two_ended;

pub use self::ack_reconstructor::AckReconstructor;
pub use self::arq::{Arq, LinkPreset};
pub(crate) use self::arq::{Keys as ArqKeys, read as read_arq};
pub use self::eln_marker::ElnMarker;
pub(crate) use self::part::{AnyPart, Beyond, Duty, Kind, Part, PortKeys};
pub use self::quic_snoop::QuicSnoop;
pub use self::radio::HopRadio;
pub use self::snoop::Snoop;
pub(crate) use self::snoop::{Keys as CacheKeys, cache};
pub use self::split::Split;
pub(crate) use self::split::{Keys as RelayKeys, Relay, RelayPart, endpoint, relay};
pub use self::srp::Srp;
pub(crate) use self::srp::{Keys as SrpKeys, SrpPart, SrpSettings, read as read_srp};
pub(crate) use self::two_ended::{Keys as TwoEndedKeys, TwoEndedSettings, read as read_two_ended};
pub use self::two_ended::{SendingRate, TwoEnded};

use lasthop_sim::element::Ends;

use crate::document::{Data, quote};
use crate::key::Row;
use crate::reader::Value;
use crate::values::{named, one_of};

/// All kinds, in the order of messages.
static KINDS: &[&Kind] = &[
    &snoop::KIND,
    &eln_marker::KIND,
    &radio::KIND,
    &split::KIND,
    &srp::KIND,
    &arq::KIND,
    &two_ended::KIND,
    &ack_reconstructor::KIND,
    &quic_snoop::KIND,
];

impl Kind {
    /// Returns the rows of all kinds in the table of elements' keys.
    pub(crate) fn all_rows() -> impl Iterator<Item = &'static Row> {
        KINDS.iter().flat_map(|kind| kind.rows)
    }

    /// Describes the names of all kinds by the ends at which they are present.
    pub(crate) fn all_names() -> String {
        let at = |ends: Ends| {
            let names = KINDS.iter().filter(move |kind| kind.ends == ends).map(|kind| format!("`\"{}\"`", kind.name));
            names.collect::<Vec<_>>().join(", ")
        };
        format!("on one end: {}; on both ends of the link: {}", at(Ends::One), at(Ends::Both))
    }

    /// Returns the keys of all kinds.
    pub(crate) fn all_keys() -> Vec<&'static str> {
        let mut all = Vec::new();
        for key in KINDS.iter().flat_map(|kind| kind.keys()) {
            if !all.contains(&key) {
                all.push(key);
            }
        }
        all
    }
}

impl Value for &'static Kind {
    fn expected() -> String {
        one_of(KINDS.iter().map(|kind| kind.name))
    }

    fn read(data: &Data) -> Result<Self, String> {
        let Data::String(name) = data else { return Err(String::new()) };
        named(name, KINDS.iter().copied(), |kind| kind.name)
    }

    fn show(&self) -> String {
        quote(self.name)
    }
}
