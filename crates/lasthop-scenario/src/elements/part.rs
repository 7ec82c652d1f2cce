//! Common parts of all kinds of elements: a name with keys, and the part that is read from them.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::{Recovery, Switch, TcpConfig};
use lasthop_sim::element::{AnyElement, Ends, SameElement};

use crate::Error;
use crate::key::Row;
use crate::reader::Reader;
use crate::tcp::TcpSpec;

keys! {
    /// Keys of a port.
    pub(crate) PortKeys {
        /// required | the router, and the port by its link
        router, link;
    }
}

/// A kind of element in a scenario.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Name in `kind = "NAME"`.
    pub name: &'static str,
    /// Keys of the kind, besides those of the element's place.
    pub keys: &'static [&'static [&'static str]],
    /// Rows of the kind in the table of elements' keys. Keys that other tables have too are documented there.
    pub rows: &'static [Row],
    /// Ends of the link at which the element is present.
    pub ends: Ends,
    /// Reads the element's keys; `common` contains the settings of all endpoints.
    pub read: fn(reader: &Reader<'_>, common: &TcpSpec) -> Result<AnyPart, Error>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Kind {
    /// Returns all keys of this kind of element.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().flat_map(|keys| keys.iter().copied())
    }
}

/// An element of a scenario, before a scheme is applied.
pub(crate) trait Part: Any + Debug + Send + Sync + SameElement {
    /// Returns the element under `scheme`, and sets its requirements for the hosts beyond the link.
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

/// Role of an endpoint under a scheme, unless the scenario sets it.
#[derive(Clone, Copy)]
pub(crate) struct Duty {
    recovery: Recovery,
    /// Indicates whether an element on the path reads the SMART number, besides a peer with [`Recovery::SMART`].
    smart_acks: Switch,
}

impl Duty {
    pub(crate) const fn of(recovery: Recovery) -> Self {
        Self { recovery, smart_acks: Switch::Off }
    }

    pub(crate) fn apply(self, spec: &TcpSpec) -> TcpConfig {
        let recovery = spec.recovery.unwrap_or(self.recovery);
        let smart = recovery == Recovery::SMART || self.smart_acks.is_on();
        let smart_acks = spec.smart_acks.unwrap_or(if smart { Switch::On } else { Switch::Off });
        spec.config(recovery, smart_acks)
    }
}

/// Hosts that are reached over an element's link.
pub(crate) struct Beyond<'d> {
    /// Duties of all hosts.
    pub duties: &'d mut [Duty],
    /// Indices of the hosts beyond.
    pub hosts: &'d [usize],
}

impl Beyond<'_> {
    /// Makes the hosts beyond the link send SMART numbers.
    pub(super) fn send_smart_acks(&mut self) {
        self.hosts.iter().for_each(|host| self.duties[*host].smart_acks = Switch::On);
    }

    /// Sets the loss recovery of the hosts beyond the link.
    pub(super) fn recover(&mut self, recovery: Recovery) {
        self.hosts.iter().for_each(|host| self.duties[*host].recovery = recovery);
    }
}
