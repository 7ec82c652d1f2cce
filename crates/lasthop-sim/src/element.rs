//! Elements between a node and one of its links: the interface of every kind of element. The kinds are in
//! `lasthop-scenario`, with their keys in scenarios.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use lasthop_proto::link::hybrid::Terms;
use lasthop_proto::node::Node;
use lasthop_proto::random::Root;
use lasthop_proto::rate::Rate;
use lasthop_proto::tcp::config::{Switch, TcpConfig};

use crate::link_spec::Medium;

/// Effect of an element on traffic, reduced to the properties that other parts depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Terminates each connection and opens another: a second sender.
    Relay,
    /// Retransmits the data of senders.
    Repair,
    /// Retransmits datagrams that it cannot read.
    DatagramRepair,
    /// Modifies packets, and sends nothing except to its peers.
    Marker,
    /// Creates acknowledgments and paces them.
    Pacer,
    /// Is an end of a link protocol: the other end of the link has one too.
    LinkEnd,
}

/// Ends of a link at which an element is present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// The end at which the element is placed.
    One,
    /// Both ends.
    Both,
}

/// Handling of an element's state when the host beyond its link moves to another station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateAtHandoff {
    /// Useless elsewhere: the new station starts without the state.
    Anew,
    /// Only speeds up work: discarded, or mirrored at the new station.
    Soft,
    /// Essential to the host: transferred over the wire to the new station while the host waits.
    Hard,
    /// Shared by both ends of the link: the state starts anew, or continues at the new station.
    Session,
}

/// Place where an element is built.
#[derive(Clone, Copy, Debug)]
pub struct Site<'n> {
    /// Name of the node that has the link.
    pub node: &'n str,
    /// Rate of the link from that node.
    pub rate: Rate,
    /// Rates of the other links of its bundle from that node, if the element uses them.
    pub more: &'n [Rate],
    /// Terms of the links of its bundle, starting with its own link.
    pub terms: &'n [Terms],
    /// Medium access of the link.
    pub medium: &'n Medium,
    /// Root of the run's randomness.
    pub root: Root,
    /// Indicates whether changes of congestion windows are reported.
    pub watch: Switch,
}

/// Kind of element with its parameters.
pub trait Element: Any + Debug + Send + Sync + SameElement {
    /// Returns the name of the element's kind in scenarios.
    fn kind(&self) -> &'static str;

    /// Returns the element's role.
    fn role(&self) -> Role;

    /// Returns the ends of the link at which the element is present.
    fn ends(&self) -> Ends {
        if self.role() == Role::LinkEnd { Ends::Both } else { Ends::One }
    }

    /// Returns whether the element uses all links of its link's bundle: each one has a port, from [`Port::WIRELESS`] on.
    ///
    /// [`Port::WIRELESS`]: lasthop_proto::node::Port::WIRELESS
    fn uses_bundle(&self) -> bool {
        false
    }

    /// Returns whether the element marks congestion.
    fn marks(&self) -> bool {
        false
    }

    /// Returns whether the element recreates acknowledgments that a return link removed.
    fn reconstructs(&self) -> bool {
        false
    }

    /// Returns the handling of the element's state when the host beyond its link moves to another station.
    fn at_handoff(&self) -> StateAtHandoff {
        match self.role() {
            Role::Relay => StateAtHandoff::Hard,
            Role::Repair => StateAtHandoff::Soft,
            Role::DatagramRepair | Role::Marker | Role::Pacer | Role::LinkEnd => StateAtHandoff::Anew,
        }
    }

    /// Returns whether the element needs the number of frames queued in front of its link ([`Node::see_queue`]).
    fn asks_for_queue(&self) -> bool {
        false
    }

    /// Returns whether the element needs that number before each packet.
    fn watches_queue(&self) -> bool {
        false
    }

    /// Returns whether the element reports the causes of losses.
    fn judges_losses(&self) -> bool {
        false
    }

    /// Returns the element at the other end of the link, if the two ends differ.
    fn at_other_end(&self) -> Option<AnyElement> {
        None
    }

    /// Builds the state machine for `site`.
    fn build(&self, site: &Site<'_>) -> Box<dyn Node<()>>;

    /// Builds the state machine for packets with bytes, as in the lab; `None` if it does not support them. Ends of
    /// links do.
    fn build_on_bytes(&self, _site: &Site<'_>) -> Option<Box<dyn Node<Bytes> + Send>> {
        None
    }

    /// Describes the element's function in one line.
    fn describe(&self) -> String;

    /// Returns the element's TCP endpoints, if any: the one that faces the node, and the one that faces the link.
    fn endpoints(&self) -> Option<[&Arc<TcpConfig>; 2]> {
        None
    }
}

/// Comparison of elements of unknown kinds. Implemented for every comparable kind.
pub trait SameElement {
    /// Returns whether `other` is of the same kind and has the same parameters.
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
    /// Wraps an element.
    pub fn new(element: impl Element) -> Self {
        Self(Arc::new(element))
    }

    /// Returns the element if it is of type `T`.
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
