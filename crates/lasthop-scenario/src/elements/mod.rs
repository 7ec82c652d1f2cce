//! The kinds of elements, each in a file of its own: its name, the keys that a scenario gives it and their reader, what it asks of
//! endpoints, and the state machine that it is. A new kind is a file here and a line in `KINDS`.

mod ack_reconstructor;
mod arq;
mod eln_marker;
mod radio;
mod snoop;
mod split;
mod srp;
mod two_ended;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::{Recovery, Switch, TcpConfig};
use lasthop_sim::element::{AnyElement, Ends, SameElement};

pub use self::ack_reconstructor::AckReconstructor;
pub(crate) use self::arq::{ARQ_KEYS, read as read_arq};
pub use self::arq::{Arq, LinkPreset};
pub use self::eln_marker::ElnMarker;
pub use self::radio::HopRadio;
pub use self::snoop::Snoop;
pub(crate) use self::snoop::{CACHE_KEYS, cache};
pub use self::split::Split;
pub(crate) use self::split::{RELAY_KEYS, Relay, RelayPart, endpoint, relay};
pub use self::srp::Srp;
pub(crate) use self::srp::{SRP_KEYS, SrpKeys, SrpPart, read as read_srp};
pub use self::two_ended::TwoEnded;
pub(crate) use self::two_ended::{TWO_ENDED_KEYS, TwoEndedKeys, read as read_two_ended};

use crate::document::{Data, quote};
use crate::error::Error;
use crate::reader::{Reader, Value};
use crate::tcp::TcpSpec;
use crate::values::{named, one_of};

/// All kinds, as messages list them.
static KINDS: [&Kind; 8] = [
    &snoop::KIND,
    &eln_marker::KIND,
    &radio::KIND,
    &split::KIND,
    &srp::KIND,
    &arq::KIND,
    &two_ended::KIND,
    &ack_reconstructor::KIND,
];

/// What a scenario can say of a kind of element.
#[derive(Debug)]
pub(crate) struct Kind {
    /// `kind = "NAME"`.
    pub name: &'static str,
    /// Its keys, besides those of its place.
    pub keys: &'static [&'static [&'static str]],
    /// Where it sits.
    pub ends: Ends,
    /// Reads its keys; `common` is what all endpoints have in common.
    pub read: fn(reader: &Reader<'_>, common: &TcpSpec) -> Result<AnyPart, Error>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Kind {
    /// All its keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().flat_map(|keys| keys.iter().copied())
    }

    /// The keys of all kinds.
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
        one_of(KINDS.into_iter().map(|kind| kind.name))
    }

    fn read(data: &Data) -> Result<Self, String> {
        let Data::String(name) = data else { return Err(String::new()) };
        named(name, KINDS.into_iter(), |kind| kind.name)
    }

    fn show(&self) -> String {
        quote(self.name)
    }
}

/// What a scenario says of an element, before a scheme is laid over it.
pub(crate) trait Part: Any + Debug + Send + Sync + SameElement {
    /// The element under `scheme`; tells the hosts beyond the link what it asks of them.
    fn place(&self, scheme: &Scheme, beyond: &mut Beyond<'_>) -> AnyElement;
}

/// A part of any kind.
#[derive(Clone, Debug)]
pub(crate) struct AnyPart(Arc<dyn Part>);

impl AnyPart {
    pub(crate) fn new(part: impl Part) -> Self {
        Self(Arc::new(part))
    }

    pub(crate) fn get(&self) -> &dyn Part {
        &*self.0
    }
}

impl PartialEq for AnyPart {
    fn eq(&self, other: &Self) -> bool {
        let any: &dyn Any = &*other.0;
        (*self.0).is_same(any)
    }
}

/// What a scheme leaves an endpoint to do, where the scenario does not say otherwise.
#[derive(Clone, Copy)]
pub(crate) struct Duty {
    recovery: Recovery,
    /// Whether someone on the way reads the SMART number, besides a peer with [`Recovery::Smart`].
    smart_acks: Switch,
}

impl Duty {
    pub(crate) const fn of(recovery: Recovery) -> Self {
        Self { recovery, smart_acks: Switch::Off }
    }

    pub(crate) fn apply(self, spec: &TcpSpec) -> TcpConfig {
        let recovery = spec.recovery.unwrap_or(self.recovery);
        let smart = recovery == Recovery::Smart || self.smart_acks.is_on();
        let smart_acks = spec.smart_acks.unwrap_or(if smart { Switch::On } else { Switch::Off });
        TcpConfig { recovery, smart_acks, ..spec.config.clone() }
    }
}

/// The hosts that are reached over an element's link.
pub(crate) struct Beyond<'d> {
    /// Of all hosts.
    pub duties: &'d mut [Duty],
    /// Indices of those beyond.
    pub hosts: &'d [usize],
}

impl Beyond<'_> {
    /// They send SMART numbers.
    fn send_smart_acks(&mut self) {
        self.hosts.iter().for_each(|host| self.duties[*host].smart_acks = Switch::On);
    }

    /// They recover losses so.
    fn recover(&mut self, recovery: Recovery) {
        self.hosts.iter().for_each(|host| self.duties[*host].recovery = recovery);
    }
}
