//! A device at the customer's side of a hop, in a scenario's values.

use crate::document::{Data, Item, Table};
use crate::traffic::{item, put, table, text};

/// Rate, delay and queue of the link between a customer's device and its host.
pub(crate) const LAN: [(&str, &str); 3] = [("rate", "1 Gbps"), ("delay", "50 us"), ("queue", "1000 packets")];

/// Device at the customer's side of a hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Customer {
    /// Link of the hop.
    pub(crate) link: String,
    /// Router on which the device runs.
    pub(crate) router: String,
    /// Host at the end of the hop, if the router is inserted between the two.
    pub(crate) host: Option<String>,
}

impl Customer {
    /// Replaces the base station in `root` by this device; other keys of `[base_station]` remain.
    pub(crate) fn put_into(&self, root: &mut Table) {
        if let Some(host) = &self.host {
            let hop = root.table_mut("links").and_then(|links| links.table_mut(&self.link));
            let ends = hop.and_then(|hop| hop.get_mut("between"));
            if let Some(Data::Array(ends)) = ends.map(|ends| &mut ends.data) {
                let is_host = |end: &&mut Item| matches!(&end.data, Data::String(name) if name == host);
                ends.iter_mut().filter(is_host).for_each(|end| *end = text(&self.router));
            }
            put(root, "routers", &self.router, table([]));
            let between = item(Data::Array(vec![text(&self.router), text(host)]));
            let [rate, delay, queue] = LAN.map(|(key, value)| (key, text(value)));
            put(root, "links", &self.router, table([("between", between), rate, delay, queue]));
        }
        put(root, "base_station", "router", text(&self.router));
        put(root, "base_station", "link", text(&self.link));
    }
}
