//! `kind = "split"`: terminates each connection and opens another over the link.

use std::sync::Arc;

use lasthop_proto::node::Node;
use lasthop_proto::pep::split::{Handover, SplitRelay};
use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::{Recovery, Switch, TcpConfig};
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};
use lasthop_sim::sim::tick_phase;

use super::part::{AnyPart, Beyond, Duty, Kind, Part, PortKeys};
use crate::modern;
use crate::reader::{Reader, Value};
use crate::tcp::{Base, TcpSpec};
use crate::units::ByteSize;
use crate::values::Window;
use crate::{Error, Problem};

pub(super) static KIND: Kind =
    Kind { name: "split", keys: &[SplitKeys::NAMES, Keys::NAMES], rows: SplitKeys::ROWS, ends: Ends::One, read };

keys! {
    /// Keys of the element, besides those of a relay.
    pub(crate) SplitKeys {
        /// {} | split: loss recovery at both ends of the connection beyond the link
        recovery: Recovery = Recovery::RENO;
    }

    /// Keys of a relay.
    pub(crate) Keys {
        // "64 KB of buffer at the base" ([a] §IV-C).
        /// {} | split connection: per connection and direction
        split_buffer: Window = Window(64 << 10);
        /// as `[tcp]` | TCP keys of the relay's two ends
        wired_tcp, wireless_tcp;
    }
}

/// Relay of a split connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Split {
    /// Transfer of bytes from one connection to the other, and the maximum that may wait.
    pub handover: Handover,
    /// Endpoint that faces the router.
    pub wired: Arc<TcpConfig>,
    /// Endpoint that faces the link.
    pub wireless: Arc<TcpConfig>,
    /// Indicates whether the element behind it is a snoop that repairs its packets, as in the gateway.
    pub repair: Switch,
}

/// Settings of a relay in a scenario.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Relay {
    pub buffer: u32,
    /// Endpoint that faces the router.
    pub wired: TcpSpec,
    /// Endpoint that faces the link.
    pub wireless: TcpSpec,
}

/// A relay, and the loss recovery of the connection beyond the link.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RelayPart {
    pub relay: Relay,
    pub recovery: Recovery,
}

fn read(reader: &Reader<'_>, common: &TcpSpec) -> Result<AnyPart, Error> {
    let recovery = reader.value(SplitKeys::recovery)?;
    Ok(AnyPart::new(RelayPart { relay: relay(reader, common)?, recovery }))
}

/// Reads a relay's keys.
pub(crate) fn relay(reader: &Reader<'_>, common: &TcpSpec) -> Result<Relay, Error> {
    let (buffer, wired) = relay_end(reader, common)?;
    let wireless = modern::read(&reader.section(Keys::wireless_tcp)?, Base::RelayEnd(common, buffer))?;
    Ok(Relay { buffer, wired, wireless })
}

/// Reads the buffer and the endpoint that faces the router.
pub(crate) fn relay_end(reader: &Reader<'_>, common: &TcpSpec) -> Result<(u32, TcpSpec), Error> {
    let Window(buffer) = reader.value(Keys::split_buffer)?;
    if buffer < common.mss() {
        let (buffer, mss) = (ByteSize(buffer.into()), ByteSize(common.mss().into()));
        let key = if reader.has(Keys::split_buffer) { Keys::split_buffer.plain() } else { PortKeys::router };
        let message = format!("split_buffer = {buffer} is smaller than one segment (mss = {mss})");
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok((buffer, modern::read(&reader.section(Keys::wired_tcp)?, Base::RelayEnd(common, buffer))?))
}

impl Part for RelayPart {
    /// Returns the element. Endpoints beyond it are the peers of its wireless endpoint.
    fn place(&self, scheme: &Scheme, beyond: &mut Beyond<'_>) -> AnyElement {
        let Self { relay, recovery } = self;
        beyond.recover(*recovery);
        AnyElement::new(Split {
            handover: Handover::Shared(relay.buffer),
            wired: Arc::new(Duty::of(scheme.recovery).apply(&relay.wired)),
            wireless: Arc::new(Duty::of(*recovery).apply(&relay.wireless)),
            repair: Switch::Off,
        })
    }
}

impl Element for Split {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::Relay
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Node<()>> {
        let phase = tick_phase(site.root, site.node, &self.wireless);
        Box::new(SplitRelay::new(self.handover, self.wired.clone(), self.wireless.clone(), phase, site.watch))
    }

    fn describe(&self) -> String {
        let buffers = match self.handover {
            Handover::Shared(_) => "one buffer for both",
            Handover::Moved => "separate buffers",
        };
        let [wired, wireless] = [&self.wired, &self.wireless].map(|end| endpoint(end));
        format!("split: {wired} on the wired side; {wireless} on the link; {buffers}")
    }

    fn endpoints(&self) -> Option<[&Arc<TcpConfig>; 2]> {
        Some([&self.wired, &self.wireless])
    }
}

/// Returns the loss recovery, and the congestion control if the recovery supports a choice.
pub(crate) fn endpoint(tcp: &TcpConfig) -> String {
    let recovery = format!("recovery {}", plain(&tcp.sender.recovery().show()));
    match tcp.sender.modern() {
        Some(modern) => format!("{recovery}, congestion {}", modern.congestion.algorithm().name),
        None => recovery,
    }
}

fn plain(shown: &str) -> &str {
    shown.trim_matches('"')
}
