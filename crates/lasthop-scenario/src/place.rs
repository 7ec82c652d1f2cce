//! Possible places of a device beside the lossy link: in front of it, for scenarios without `[base_station]`, or at the
//! customer's side.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_sim::network::{Network, NodeId, NodeKind};

use crate::customer::{Customer, LAN};
use crate::scenario::Scenario;
use crate::traffic::Traffic;
use crate::{Error, Place, Problem, Spot};

/// Name of a router and link that is inserted at the customer's side, followed by a number if it is taken.
const NAME: &str = "customer";

/// A router, and the link from it towards the receiver.
struct Port {
    router: String,
    link: String,
    is_lossy: bool,
}

/// The lossy link.
struct Hop {
    link: usize,
    /// Base station's end, a router unless both ends are hosts.
    near: NodeId,
    /// Customer's end.
    far: NodeId,
}

impl Scenario {
    /// Returns the scenario with a base station at the place of a device, and a clause that describes it: the router in
    /// front of the only lossy link between the ends of the first transfer, the router behind that link if the sender
    /// is directly on it, or, without losses, the only router. If the scenario has a base station, returns it unchanged
    /// and `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such place or more than one; the message states the missing keys.
    pub fn with_place(&self) -> Result<(Self, Option<String>), Error> {
        if self.has_base_station() {
            return Ok((self.clone(), None));
        }
        let (network, hop) = self.hop()?;
        if !matches!(network.nodes[hop.near.0].kind, NodeKind::Router) {
            return Err(self.no_place(Some(&network), &[]));
        }
        let (router, link) = (&network.nodes[hop.near.0].name, &network.links[hop.link].name);
        let keys = [("base_station.router", router), ("base_station.link", link)];
        let what = format!("the device is assumed to be at router {router}, in front of link {link}");
        Ok((self.with_overrides(&keys)?, Some(what)))
    }

    /// Returns the scenario with the device at the customer's side of the hop, and a clause that describes the place.
    /// If the hop ends at a host, adds a router between the two, with a link of 1 Gbps.
    ///
    /// # Errors
    ///
    /// Returns an error if the hop is ambiguous, or if the host moves among base stations.
    pub fn with_place_at_customer(&self) -> Result<(Self, String), Error> {
        let (network, hop) = self.hop()?;
        let (far, link) = (&network.nodes[hop.far.0], network.links[hop.link].name.clone());
        let (customer, what) = if matches!(far.kind, NodeKind::Router) {
            let what = format!("the device at the customer's side is assumed to be at router {}", far.name);
            (Customer { link, router: far.name.clone(), host: None }, what)
        } else {
            if network.links.iter().filter(|other| other.ends.contains(&hop.far)).count() > 1 {
                let place = Place { file: self.file().to_owned(), spot: Spot::Whole };
                let message = format!(
                    "{} has several links: a device at the customer's side of {link} cannot be simulated; use the base station's side",
                    far.name
                );
                return Err(Error::new(place, Some(format!("links.{link}")), Problem::Conflict(message)));
            }
            let is_taken = |name: &str| {
                network.nodes.iter().any(|node| node.name == name) || network.links.iter().any(|link| link.name == name)
            };
            let names = std::iter::once(NAME.to_owned()).chain((2..).map(|number| format!("{NAME}-{number}")));
            let router = { names }.find(|name| !is_taken(name)).unwrap_or_default();
            let what = format!(
                "the device at the customer's side is assumed to be a router between link {link} and {}, which has {} to it",
                far.name, LAN[0].1
            );
            (Customer { link, router, host: Some(far.name.clone()) }, what)
        };
        Ok((self.with_customer(customer)?, what))
    }

    /// Returns whether the first transfer is an upload: its data crosses the hop towards the base station.
    ///
    /// # Errors
    ///
    /// Returns an error if the hop is ambiguous, or if the scenario has no transfer.
    pub fn is_upload(&self) -> Result<bool, Error> {
        let (network, hop) = self.hop()?;
        let flow = network.flows.iter().find(|flow| flow.app.is_transfer());
        let way = flow.map(|flow| network.way(flow.from, flow.to)).unwrap_or_default();
        Ok(way
            .iter()
            .any(|&(link, direction)| link.0 == hop.link && network.links[hop.link].ends[1 - direction] == hop.near))
    }

    /// Returns the network of the first transfer, and the hop: the link of the base station, or the lossy one.
    fn hop(&self) -> Result<(Network, Hop), Error> {
        let transfer = self.with_traffic(Traffic::Bulk(Duration::from_secs(1)))?;
        let schemes = ["E2E-CUBIC", "E2E"].into_iter().filter_map(Scheme::by_name);
        let Some(network) = schemes.map(|scheme| transfer.network(scheme)).find_map(Result::ok) else {
            return Err(self.no_place(None, &[]));
        };
        let at = |router: &str, link: &str| {
            let near = network.nodes.iter().position(|node| node.name == router).map(NodeId)?;
            let link = network.links.iter().position(|it| it.name == link)?;
            let ends = network.links[link].ends;
            Some(Hop { link, near, far: ends[usize::from(ends[0] == near)] })
        };
        let ports = ports(&network);
        let hop = match self.base_station() {
            Some((router, link)) => at(router, link),
            None => {
                let lossy: Vec<&Port> = ports.iter().filter(|port| port.is_lossy).collect();
                match (&lossy[..], on_sender(&network), &ports[..]) {
                    ([port], _, _) => at(&port.router, &port.link),
                    ([], Some(hop), _) => Some(hop),
                    ([], None, [port]) => at(&port.router, &port.link),
                    _ => None,
                }
            }
        };
        match hop {
            Some(hop) => Ok((network, hop)),
            None => Err(self.no_place(Some(&network), &ports)),
        }
    }

    fn no_place(&self, network: Option<&Network>, ports: &[Port]) -> Error {
        let has_lossy_link = network.is_some_and(|network| network.links.iter().any(is_lossy));
        let expected = match ports {
            [] => "a router in front of the lossy link, e.g. [routers.gateway] and a link to it, and [base_station] with router = \"gateway\" and that link: \
                a device requires a router, and none is on the path"
                .to_owned(),
            ports => {
                let choices: Vec<String> =
                    ports.iter().map(|port| format!("router = \"{}\" and link = \"{}\"", port.router, port.link)).collect();
                let why = if has_lossy_link { "the lossy link is ambiguous" } else { "no link loses packets" };
                format!("[base_station] with {}: {why}", choices.join(", or "))
            }
        };
        let place = Place { file: self.file().to_owned(), spot: Spot::Whole };
        Error::new(place, Some("base_station".to_owned()), Problem::Missing { expected })
    }
}

fn is_lossy(link: &lasthop_sim::network::LinkSpec) -> bool {
    link.directions.iter().any(|direction| !matches!(direction.errors, ErrorSpec::None))
}

/// Returns the first link of the first transfer's path if it is lossy: the sender is directly on the hop.
fn on_sender(network: &Network) -> Option<Hop> {
    let flow = network.flows.iter().find(|flow| flow.app.is_transfer())?;
    let &(link, direction) = network.way(flow.from, flow.to).first()?;
    let ends = network.links[link.0].ends;
    let (sender, other) = (ends[direction], ends[1 - direction]);
    let is_router = matches!(network.nodes[other.0].kind, NodeKind::Router);
    let (near, far) = if is_router { (other, sender) } else { (sender, other) };
    is_lossy(&network.links[link.0]).then_some(Hop { link: link.0, near, far })
}

/// Returns each router on the path of the first transfer with the link behind it, in order.
fn ports(network: &Network) -> Vec<Port> {
    let Some(flow) = network.flows.iter().find(|flow| flow.app.is_transfer()) else { return Vec::new() };
    let mut ports = Vec::new();
    let mut open = vec![(flow.from, Vec::new())];
    let mut seen = vec![false; network.nodes.len()];
    while let Some((node, way)) = open.pop() {
        if node == flow.to {
            ports = way;
            break;
        }
        seen[node.0] = true;
        for (index, link) in network.links.iter().enumerate() {
            let next = match link.ends {
                [one, other] if one == node => other,
                [one, other] if other == node => one,
                _ => continue,
            };
            if !seen[next.0] {
                let mut way: Vec<(NodeId, usize)> = way.clone();
                way.push((node, index));
                open.push((next, way));
            }
        }
    }
    let routers = ports.into_iter().filter(|(node, _)| matches!(network.nodes[node.0].kind, NodeKind::Router));
    let port = |(node, index): (NodeId, usize)| Port {
        router: network.nodes[node.0].name.clone(),
        link: network.links[index].name.clone(),
        is_lossy: is_lossy(&network.links[index]),
    };
    routers.map(port).collect()
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    fn with(links: &str) -> Scenario {
        let text = format!(
            "hosts = {{ server = {{}}, phone = {{}} }}\nrouters = {{ core = {{}}, mast = {{}} }}\n\
             [links.wire]\nbetween = [\"server\", \"core\"]\nrate = \"1 Gbps\"\ndelay = \"1 ms\"\n\
             [links.trunk]\nbetween = [\"core\", \"mast\"]\nrate = \"1 Gbps\"\ndelay = \"1 ms\"\n\
             [links.radio]\nbetween = [\"mast\", \"phone\"]\nrate = \"5 Mbps\"\ndelay = \"1 ms\"\n{links}\n\
             [flows.f]\nfrom = \"server\"\nto = \"phone\"\nsize = 1\n"
        );
        Scenario::parse("x.toml", &text).unwrap()
    }

    const LOSSY: &str = "errors = { model = \"uniform\", frame_loss = \"1 %\" }";

    /// The router in front of the lossy link, seen from the sender.
    #[test]
    fn the_place_is_in_front_of_the_lossy_link() {
        let (placed, what) = with(LOSSY).with_place().unwrap();
        assert_eq!(what.as_deref(), Some("the device is assumed to be at router mast, in front of link radio"));
        let scheme = lasthop_proto::scheme::Scheme::by_name("SNOOP").unwrap();
        assert_eq!(placed.network(scheme).unwrap().elements.len(), 1);
        let (again, what) = placed.with_place().unwrap();
        assert!(again == placed && what.is_none());
    }

    /// The sender of an upload is directly on the hop; the base station is at the hop's other end.
    #[test]
    fn the_base_station_of_an_upload_is_behind_the_hop() {
        let upload = with(LOSSY).with_overrides(&[("flows.f.from", "phone"), ("flows.f.to", "server")]).unwrap();
        assert!(upload.is_upload().unwrap() && !with(LOSSY).is_upload().unwrap());
        let (_, what) = upload.with_place().unwrap();
        assert_eq!(what.as_deref(), Some("the device is assumed to be at router mast, in front of link radio"));
    }

    /// A device at the customer's side is a router of its own if the hop ends at a host. The base station's other
    /// settings remain, and the hop keeps its properties.
    #[test]
    fn a_device_at_the_customers_side_is_between_hop_and_host() {
        let scheme = lasthop_proto::scheme::Scheme::by_name("SNOOP").unwrap();
        for scenario in [with(LOSSY), with(LOSSY).with_place().unwrap().0] {
            let (placed, what) = scenario.with_place_at_customer().unwrap();
            assert!(what.contains("between link radio and phone"), "{what}");
            let network = placed.network(scheme).unwrap();
            let station = &network.elements[0];
            assert_eq!(network.nodes[station.node.0].name, "customer");
            let hop = &network.links[station.link.0];
            assert_eq!((hop.name.as_str(), network.nodes[hop.ends[0].0].name.as_str()), ("radio", "mast"));
            assert_eq!(network.links.len(), scenario.network(scheme).map_or(3, |network| network.links.len()) + 1);
            assert!(placed.with_overrides(&[("links.radio.rate", "6 Mbps")]).is_ok());
        }
    }

    /// Every ready-made scenario has a place at the customer's side, except those whose host has several links.
    #[test]
    fn ready_made_scenarios_have_a_place_at_the_customers_side() {
        for name in crate::builtin_names() {
            match Scenario::builtin(name).unwrap().with_place_at_customer() {
                Ok((placed, _)) => assert!(placed.has_base_station(), "{name}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains("has several links") || said.contains("base_station"), "{name}: {said}");
                }
            }
        }
    }

    #[test]
    fn where_it_does_not_show_it_is_asked_for() {
        let said = with("").with_place().unwrap_err().to_string();
        assert!(
            said.contains("router = \"core\" and link = \"trunk\", or router = \"mast\" and link = \"radio\""),
            "{said}"
        );
        assert!(said.starts_with("x.toml: base_station: missing") && said.contains("no link loses packets"), "{said}");
        let direct = "hosts = { a = {}, b = {} }\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbps\"\ndelay = \"1 ms\"\n\
            errors = { model = \"uniform\", frame_loss = \"1 %\" }\n[flows.f]\nfrom = \"a\"\nto = \"b\"\nsize = 1\n";
        let said = Scenario::parse("y.toml", direct).unwrap().with_place().unwrap_err().to_string();
        assert!(said.contains("[routers.gateway]"), "{said}");
    }
}
