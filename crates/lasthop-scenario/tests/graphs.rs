//! Networks with cycles: packets take the fewest links.

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::network::LinkId;
use lasthop_sim::{Recording, run};

/// Returns a scenario with a ring of these routers, in order, a host at each of the routers `a` and `c`, and a transfer
/// between the hosts.
fn ring(routers: &[&str], base: &str, link: &str) -> Scenario {
    let mut text = String::from("limit = \"60 s\"\ntcp = { preset = \"linux-6.18\" }\n");
    for router in routers {
        text += &format!("[routers.{router}]\n");
    }
    let rate = "rate = \"10 Mbps\"\ndelay = \"10 ms\"\nqueue = \"100 packets\"";
    for (index, router) in routers.iter().enumerate() {
        let next = routers[(index + 1) % routers.len()];
        text += &format!("[links.{router}{next}]\nbetween = [\"{router}\", \"{next}\"]\n{rate}\n");
    }
    for (host, router) in [("server", "a"), ("client", "c")] {
        text += &format!("[hosts.{host}]\n[links.{host}]\nbetween = [\"{router}\", \"{host}\"]\n{rate}\n");
    }
    text += "[flows.f]\nfrom = \"server\"\nto = \"client\"\nsize = \"1 MiB\"\n";
    text += &format!("[base_station]\nrouter = \"{base}\"\nlink = \"{link}\"\n");
    Scenario::parse("test.toml", &text).unwrap()
}

/// Returns the downward frames on each link of a run.
fn frames(scenario: &Scenario, scheme: &str) -> Vec<[u64; 2]> {
    let network = scenario.network(Scheme::by_name(scheme).unwrap()).unwrap();
    let report = run(&network, 1, Recording::Off).report;
    assert!(report.flows[0].complete, "{scheme}");
    report.links.iter().map(|link| [link[0].frames, link[1].frames]).collect()
}

/// From a to c there are two links by b, and three by e and d: all packets go by b, in both directions, also those that an
/// element sends itself.
#[test]
fn packets_take_the_fewest_links() {
    let scenario = ring(&["a", "b", "c", "d", "e"], "b", "bc");
    for scheme in ["E2E-CUBIC", "SNOOP", "SPLIT-SMART", "LINK-HYBRID"] {
        let frames = frames(&scenario, scheme);
        let used: Vec<bool> = frames.iter().map(|frames| frames.iter().all(|frames| *frames > 300)).collect();
        assert_eq!(used, [true, true, false, false, false, true, true], "{scheme}: {frames:?}");
        assert!(frames[2..5].iter().all(|frames| *frames == [0, 0]), "{scheme}: {frames:?}");
    }
}

/// Of two ways with as many links, it is the one whose links are listed first.
#[test]
fn of_equal_ways_the_first_listed_is_taken() {
    let network = ring(&["a", "b", "c", "d"], "b", "bc").network(Scheme::by_name("SNOOP").unwrap()).unwrap();
    let flow = &network.flows[0];
    let way = network.way(flow.from, flow.to);
    assert_eq!(way, [(LinkId(4), 1), (LinkId(0), 0), (LinkId(1), 0), (LinkId(5), 0)]);
    assert_eq!(network.way(flow.to, flow.from), way.iter().rev().map(|(link, up)| (*link, 1 - up)).collect::<Vec<_>>());
}

/// A phone has a link to each of two routers, which are three links apart. Each server sends over the link nearer to it; a
/// transfer between the servers takes the three links, since the phone does not forward.
#[test]
fn hosts_may_have_several_links_and_do_not_forward() {
    let links = [
        ("core", "web", "cell"),
        ("isp", "files", "wifi"),
        ("lte", "cell", "phone"),
        ("wlan", "wifi", "phone"),
        ("first", "cell", "east"),
        ("second", "east", "west"),
        ("third", "west", "wifi"),
    ];
    let mut text = String::from("limit = \"60 s\"\ntcp = { preset = \"linux-6.18\" }\n");
    text += "[hosts]\nweb = {}\nfiles = {}\nphone = {}\n[routers]\ncell = {}\nwifi = {}\neast = {}\nwest = {}\n";
    for (name, from, to) in links {
        text += &format!("[links.{name}]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"10 Mbps\"\ndelay = \"10 ms\"\n");
    }
    for (from, to) in [("web", "phone"), ("files", "phone"), ("web", "files")] {
        text += &format!("[flows.{from}-{to}]\nfrom = \"{from}\"\nto = \"{to}\"\nsize = \"1 MiB\"\n");
    }
    text += "[base_station]\nrouter = \"cell\"\nlink = \"lte\"\n";
    let network = Scenario::parse("test.toml", &text).unwrap().network(Scheme::by_name("SNOOP").unwrap()).unwrap();
    let report = run(&network, 1, Recording::Off).report;
    assert!(report.flows.iter().all(|flow| flow.complete));
    let frames: Vec<u64> = report.links.iter().map(|link| link[0].frames).collect();
    assert!(frames[2..].iter().all(|frames| (700..1000).contains(frames)), "{frames:?}");
}
