//! What may sit between a node and one of its links: the contract that every kind of element meets. The kinds are in
//! `lasthop-scenario`, each with what a scenario says of it.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use lasthop_proto::node::Node;
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::{Switch, TcpConfig};

use crate::link_spec::{Medium, Rate};

/// What an element does with what passes, as far as others must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Ends each connection and opens another: a second sender.
    Relay,
    /// Repeats what senders have sent.
    Repair,
    /// Writes into what passes, and sends nothing but what concerns its like.
    Marker,
    /// Makes acknowledgments, and spaces them.
    Pacer,
    /// An end of a link protocol: the other end of the link has one too.
    LinkEnd,
}

/// At which ends of its link an element sits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// At the one where it is put.
    One,
    /// At both.
    Both,
}

/// What becomes of an element's state when the host beyond its link moves to another station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateAtHandoff {
    /// None of it is of use elsewhere: the new station begins anew.
    Anew,
    /// It makes work faster, and nothing breaks without it: lost, or mirrored at the new station.
    Soft,
    /// The host depends on it: it goes over the wire to the new station while the host waits.
    Hard,
    /// Both ends of the link have it: they begin anew, or go on at the new station.
    Session,
}

/// Where an element is built.
#[derive(Clone, Copy, Debug)]
pub struct Site<'n> {
    /// The name of the node whose link it is.
    pub node: &'n str,
    /// What the link carries from there.
    pub rate: Rate,
    /// Who sends on it when.
    pub medium: Medium,
    /// The run's randomness.
    pub root: Root,
    /// Whether changes of congestion windows are reported.
    pub watch: Switch,
}

/// A kind of element with its parameters.
pub trait Element: Any + Debug + Send + Sync + SameElement {
    /// Its kind, as scenarios name it.
    fn kind(&self) -> &'static str;

    /// What it does.
    fn role(&self) -> Role;

    /// Where it sits.
    fn ends(&self) -> Ends {
        if self.role() == Role::LinkEnd { Ends::Both } else { Ends::One }
    }

    /// Whether it marks congestion.
    fn marks(&self) -> bool {
        false
    }

    /// Whether it makes acknowledgments that a return link took.
    fn reconstructs(&self) -> bool {
        false
    }

    /// What becomes of its state when the host beyond its link moves on.
    fn at_handoff(&self) -> StateAtHandoff {
        match self.role() {
            Role::Relay => StateAtHandoff::Hard,
            Role::Repair => StateAtHandoff::Soft,
            Role::Marker | Role::Pacer | Role::LinkEnd => StateAtHandoff::Anew,
        }
    }

    /// Whether it asks how many frames wait in front of its link ([`Node::see_queue`]).
    fn asks_for_queue(&self) -> bool {
        false
    }

    /// Whether it says of lost segments what took them.
    fn judges_losses(&self) -> bool {
        false
    }

    /// What sits at the other end of the link in its place, where the two ends differ.
    fn at_other_end(&self) -> Option<AnyElement> {
        None
    }

    /// The state machine at `site`.
    fn build(&self, site: &Site<'_>) -> Box<dyn Node<()>>;

    /// The same for packets with bytes in them, if it can handle such: those of the lab. Ends of links can.
    fn build_on_bytes(&self, _site: &Site<'_>) -> Option<Box<dyn Node<Bytes> + Send>> {
        None
    }

    /// What it does, in a line for people.
    fn describe(&self) -> String;

    /// The TCP endpoints that it has, if it has any: the one that faces the node, and the one that faces the link.
    fn endpoints(&self) -> Option<[&Arc<TcpConfig>; 2]> {
        None
    }
}

/// Comparison of elements whose kinds are not known. Every kind that can be compared has it.
pub trait SameElement {
    /// Whether `other` is of the same kind and has the same parameters.
    fn is_same(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> SameElement for T {
    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}

/// An element of any kind.
#[derive(Clone, Debug)]
pub struct AnyElement(Arc<dyn Element>);

impl AnyElement {
    /// Any element.
    pub fn new(element: impl Element) -> Self {
        Self(Arc::new(element))
    }

    /// The element, if it is of that kind.
    pub fn get<T: Element>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

impl Deref for AnyElement {
    type Target = dyn Element;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for AnyElement {
    fn eq(&self, other: &Self) -> bool {
        let any: &dyn Any = &*other.0;
        (*self.0).is_same(any)
    }
}
