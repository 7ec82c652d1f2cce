//! Possible places of a device in front of the lossy link, for scenarios without `[base_station]`.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_sim::network::{Network, NodeId, NodeKind};

use crate::scenario::Scenario;
use crate::traffic::Traffic;
use crate::{Error, Place, Problem, Spot};

/// A router, and the link from it towards the receiver.
struct Port {
    router: String,
    link: String,
    is_lossy: bool,
}

impl Scenario {
    /// Returns the scenario with a base station at the place of a device, and a clause that describes it: the router in
    /// front of the only lossy link between the ends of the first transfer, or, without losses, the only router. If the
    /// scenario has a base station, returns it unchanged and `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such place or more than one; the message states the missing keys.
    pub fn with_place(&self) -> Result<(Self, Option<String>), Error> {
        if self.has_base_station() {
            return Ok((self.clone(), None));
        }
        let transfer = self.with_traffic(Traffic::Bulk(Duration::from_secs(1)))?;
        let schemes = ["E2E-CUBIC", "E2E"].into_iter().filter_map(Scheme::by_name);
        let network = schemes.map(|scheme| transfer.network(scheme)).find_map(Result::ok);
        let ports = network.as_ref().map(ports).unwrap_or_default();
        let lossy: Vec<&Port> = ports.iter().filter(|port| port.is_lossy).collect();
        let any: Vec<&Port> = ports.iter().collect();
        match (&lossy[..], &any[..]) {
            ([port], _) | ([], [port]) => {
                let keys = [("base_station.router", &port.router), ("base_station.link", &port.link)];
                let what =
                    format!("the device is assumed to be at router {}, in front of link {}", port.router, port.link);
                Ok((self.with_overrides(&keys)?, Some(what)))
            }
            _ => Err(self.no_place(network.as_ref(), &ports)),
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
