//! `kind = "quic-snoop"`: repair of QUIC downloads from lengths and times of datagrams.

use lasthop_proto::node::Node;
use lasthop_proto::pep::quic::{self, QuicSnoopConfig};
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::Error;
use crate::reader::Reader;
use crate::tcp::TcpSpec;
use crate::units::ByteSize;

pub(super) static KIND: Kind =
    Kind { name: "quic-snoop", keys: &[Keys::NAMES], rows: Keys::ROWS, ends: Ends::One, read };

keys! {
    /// Keys of the repair of QUIC.
    pub(crate) Keys {
        /// {} | quic-snoop ([quic-snoop](models/quic-snoop.md)): longest time for which a returning datagram is held;
        /// bytes of copies of a connection
        hold: Duration = QuicSnoop::DEFAULT.hold;
        copies: ByteSize = ByteSize(QuicSnoop::DEFAULT.copies);
    }
}

/// Repair of QUIC downloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuicSnoop {
    hold: Duration,
    copies: u64,
}

impl QuicSnoop {
    /// The defaults, which the scheme has.
    pub const DEFAULT: Self = Self { hold: Duration::from_millis(25), copies: 262_144 };
}

fn read(reader: &Reader<'_>, _: &TcpSpec) -> Result<AnyPart, Error> {
    let ByteSize(copies) = reader.value(Keys::copies)?;
    Ok(AnyPart::new(QuicSnoop { hold: reader.value(Keys::hold)?, copies }))
}

impl Part for QuicSnoop {
    fn place(&self, _: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        AnyElement::new(*self)
    }
}

impl Element for QuicSnoop {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::DatagramRepair
    }

    fn watches_queue(&self) -> bool {
        true
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Node<()>> {
        let Self { hold, copies } = *self;
        quic::QuicSnoop::boxed(QuicSnoopConfig { hold, copies, ..QuicSnoopConfig::new(site.rate) })
    }

    fn describe(&self) -> String {
        format!("repairs QUIC downloads, holds acknowledgments for up to {} ms", self.hold.as_nanos() / 1_000_000)
    }
}
