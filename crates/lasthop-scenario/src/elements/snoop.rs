//! `kind = "snoop"`: local retransmission from a cache.

use lasthop_proto::node::Node;
use lasthop_proto::pep::snoop::{self, Begin, SnoopConfig};
use lasthop_proto::scheme::{LocalDetection, Scheme, TcpAwareness};
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::Error;
use crate::reader::Reader;
use crate::snoop::{KindKeys, RepairKeys, kind, repair};
use crate::tcp::TcpSpec;
use crate::units::ByteSize;
use crate::values::{Count, Whole};

pub(super) static KIND: Kind = Kind {
    name: "snoop",
    keys: &[KindKeys::NAMES, Keys::NAMES, RepairKeys::NAMES],
    rows: KindKeys::ROWS,
    ends: Ends::One,
    read,
};

keys! {
    /// Keys of the cache.
    pub(crate) Keys {
        /// `"16 MiB"`, 16384 | local retransmission: bytes cached in all, connections tracked
        cache, connections;
        /// `"auto"` | local retransmissions go ahead of (`"urgent"`) or behind (`"normal"`) queued data; `"auto"`: urgent
        /// under TCP-aware schemes
        priority;
    }
}

/// Local retransmission: the four link-layer schemes of the first study, and the gateway's.
#[derive(Clone, PartialEq, Debug)]
pub struct Snoop(pub SnoopConfig);

fn read(reader: &Reader<'_>, _: &TcpSpec) -> Result<AnyPart, Error> {
    let default = SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware);
    Ok(AnyPart::new(Snoop(cache(reader, kind(reader, default)?)?)))
}

/// Reads a cache with its parameters; detection and awareness are those of `default`.
pub(crate) fn cache(reader: &Reader<'_>, default: SnoopConfig) -> Result<SnoopConfig, Error> {
    let ByteSize(cache_bytes) = reader.or(Keys::cache, ByteSize(default.cache_bytes), "default")?;
    if cache_bytes == 0 {
        return Err(reader.refuse(Keys::cache, "a size above zero", ""));
    }
    let connections = u32::try_from(default.connections).unwrap_or(u32::MAX);
    let Whole(connections) = reader.or::<Count>(Keys::connections, Whole(connections), "default")?;
    let config = SnoopConfig { cache_bytes, connections: connections as usize, ..default };
    let config = repair(reader, config)?;
    let priority = reader.or(Keys::priority, config.priority, "default")?;
    Ok(SnoopConfig { priority, ..config })
}

impl Part for Snoop {
    fn place(&self, _: &Scheme, beyond: &mut Beyond<'_>) -> AnyElement {
        if self.0.detection == LocalDetection::Smart {
            beyond.send_smart_acks();
        }
        AnyElement::new(self.clone())
    }
}

impl Element for Snoop {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::Repair
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Node<()>> {
        snoop::Snoop::boxed(self.0.clone())
    }

    fn describe(&self) -> String {
        let losses = match self.0.detection {
            LocalDetection::DuplicateAcks => "detects losses by duplicate acknowledgments",
            LocalDetection::Smart => "detects losses by later arrivals",
        };
        let duplicates = match self.0.awareness {
            TcpAwareness::Aware => "suppresses duplicates",
            TcpAwareness::Unaware => "forwards duplicates",
        };
        let control = if self.0.hop.is_some() { "limits senders" } else { "no flow control" };
        let begin = match self.0.begin {
            Begin::AtOnce => "",
            Begin::AfterSilence => ", after a silence",
        };
        format!("snoop: {losses}, {duplicates}, {control}{begin}")
    }
}
