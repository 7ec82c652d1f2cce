//! Ethernet headers for packets that the gateway sends itself: the header of the last packet in the same direction of
//! the same connection.

use std::collections::HashMap;

use lasthop_sys::packet_socket::frame::LinkHeader;
use lasthop_wire::Route;

/// Most recently used headers by route, in two generations: when the younger one is full, it replaces the older one.
#[derive(Debug)]
pub struct LinkHeaders {
    young: HashMap<Route, LinkHeader>,
    old: HashMap<Route, LinkHeader>,
    generation: usize,
}

impl LinkHeaders {
    /// Creates a table of at least the last `routes` routes, and at most twice as many.
    pub fn new(routes: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation: routes.max(1) }
    }

    /// Stores the header of a packet on this route.
    pub fn note(&mut self, route: Route, header: LinkHeader) {
        if let Some(known) = self.young.get_mut(&route) {
            *known = header;
            return;
        }
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(route, header);
    }

    /// Returns the header of the last packet on this route.
    pub fn get(&self, route: &Route) -> Option<LinkHeader> {
        self.young.get(route).or_else(|| self.old.get(route)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn route(port: u16) -> Route {
        Route { source: SocketAddr::from(([10, 0, 0, 1], port)), destination: SocketAddr::from(([10, 0, 0, 2], 80)) }
    }

    fn header(number: u8) -> LinkHeader {
        LinkHeader::new(&[number; 14], None).expect("long enough")
    }

    #[test]
    fn the_last_header_of_each_direction_counts_and_room_is_bounded() {
        let mut links = LinkHeaders::new(100);
        links.note(route(1), header(1));
        links.note(route(1).reversed(), header(2));
        links.note(route(1), header(3));
        assert_eq!(links.get(&route(1)), Some(header(3)));
        assert_eq!(links.get(&route(1).reversed()), Some(header(2)));
        for port in 1000..1100 {
            links.note(route(port), header(9));
            links.note(route(1), header(4));
        }
        // Routes in use stay while others come and go.
        for port in 2000..12_000 {
            links.note(route(port), header(9));
            links.note(route(1), header(5));
        }
        assert_eq!(links.get(&route(1)), Some(header(5)));
        assert_eq!(links.get(&route(2000)), None);
        assert!(links.young.len() + links.old.len() <= 200);
    }
}
