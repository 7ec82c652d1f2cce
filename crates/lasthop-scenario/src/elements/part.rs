//! What all kinds of elements have in common: a name with keys, and the part that is read from them.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::{Recovery, Switch, TcpConfig};
use lasthop_sim::element::{AnyElement, Ends, SameElement};

use crate::error::Error;
use crate::reader::Reader;
use crate::tcp::TcpSpec;

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
    pub(super) fn send_smart_acks(&mut self) {
        self.hosts.iter().for_each(|host| self.duties[*host].smart_acks = Switch::On);
    }

    /// They recover losses so.
    pub(super) fn recover(&mut self, recovery: Recovery) {
        self.hosts.iter().for_each(|host| self.duties[*host].recovery = recovery);
    }
}
