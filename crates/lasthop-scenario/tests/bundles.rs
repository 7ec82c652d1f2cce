//! Tests of bundles of links: their keys, and runs over them.

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::network::LinkId;
use lasthop_sim::{Recording, run};

/// Returns a scenario with two links between the routers r and s, and these further lines.
fn scenario(lines: &str) -> Result<Scenario, String> {
    let link = |name: &str, ends: &str| {
        format!("[links.{name}]\nbetween = {ends}\nrate = \"10 Mbps\"\ndelay = \"10 ms\"\nqueue = \"100 packets\"\n")
    };
    let text = format!(
        "limit = \"60 s\"\ntcp = {{ preset = \"linux-6.18\" }}\nhosts = {{ a = {{}}, b = {{}} }}\nrouters = {{ r = {{}}, s = {{}} }}\n\
         {}{}{}{}[flows.f]\nfrom = \"a\"\nto = \"b\"\nsize = \"8 MiB\"\n[base_station]\nrouter = \"r\"\nlink = \"two\"\n{lines}\n",
        link("in", "[\"a\", \"r\"]").replace("10 Mbps", "1 Gbps"),
        link("one", "[\"r\", \"s\"]"),
        link("two", "[\"r\", \"s\"]"),
        link("out", "[\"s\", \"b\"]").replace("10 Mbps", "1 Gbps").replace("100 packets", "8 MiB"),
    );
    Scenario::parse("test.toml", &text).map_err(|error| error.to_string())
}

const BOTH: &str = "[bundles.both]\nlinks = [\"one\", \"two\"]";

/// Returns the throughput of the flow in Mbps, and the frames on the links downwards.
fn measured(scheme: &str) -> (f64, [u64; 2]) {
    measured_with(scheme, BOTH)
}

fn measured_with(scheme: &str, bundle: &str) -> (f64, [u64; 2]) {
    let scenario = scenario(bundle).unwrap();
    let network = scenario.network(Scheme::by_name(scheme).unwrap()).unwrap();
    let report = run(&network, 1, Recording::Off).report;
    let flow = &report.flows[0];
    assert!(flow.complete, "{scheme}");
    let rate = flow.received as f64 * 8.0 / flow.end.since(flow.start).as_secs_f64() / 1e6;
    (rate, [report.links[1][0].frames, report.links[2][0].frames])
}

/// Other schemes use the base station's link, and one flow over both carries much more.
#[test]
fn one_scheme_uses_all_links() {
    let (single, frames) = measured("LINK-HYBRID");
    assert!(single < 9.6 && frames[0] == 0 && frames[1] > 5000, "{single} {frames:?}");
    let (end_to_end, frames) = measured("E2E-CUBIC");
    assert!(end_to_end < 9.7 && frames[0] == 0, "{end_to_end} {frames:?}");
    let (both, frames) = measured("LINK-MULTI");
    assert!(both > 1.6 * single && frames.iter().all(|frames| *frames > 2500), "{both} {frames:?}");
}

/// The base station's link is the first of its bundle.
#[test]
fn packets_are_routed_over_the_base_stations_link() {
    let network = scenario(BOTH).unwrap().network(Scheme::by_name("LINK-MULTI").unwrap()).unwrap();
    assert_eq!(network.bundles[0].links, [LinkId(2), LinkId(1)]);
    assert_eq!(network.side_links(), [LinkId(1)]);
    assert_eq!(network.more_links(&network.elements[0]), [LinkId(1)]);
}

/// A flow fills the second link, that of the base station, so that a secondary link is used, but no backup. A secondary
/// link alone is used in any case.
#[test]
fn links_are_used_by_their_tiers() {
    let of = |one: &str, two: &str| measured_with("LINK-MULTI", &format!("{BOTH}\ntiers = [\"{one}\", \"{two}\"]"));
    let (both, frames) = of("secondary", "primary");
    assert!(both > 14.0 && frames[0] > 2000, "{both} {frames:?}");
    let (single, frames) = of("backup", "primary");
    assert!(single > 8.5 && frames[0] < 20, "{single} {frames:?}");
    let (other, frames) = of("secondary", "off");
    assert!(other > 8.5 && frames[0] > 5000 && frames[1] < 2, "{other} {frames:?}");
}

#[test]
fn mistakes_are_named() {
    for (lines, parts) in [
        ("", ["links.two.between", "already connected by \"one\""]),
        ("[bundles.b]\nlinks = [\"one\"]", ["bundles.b.links", "2 to 8 links"]),
        ("[bundles.b]\nlinks = [\"one\", \"two\", \"three\"]", ["bundles.b.links", "three"]),
        ("[bundles.b]\nlinks = [\"one\", \"two\", \"two\"]", ["bundles.b.links", "twice"]),
        (
            "[bundles.b]\nlinks = [\"one\", \"two\"]\n[bundles.c]\nlinks = [\"two\", \"in\"]",
            ["bundles.c.links", "twice"],
        ),
        ("[bundles.b]\nlinks = [\"one\", \"two\", \"in\"]", ["bundles.b.links", "same two routers"]),
        ("[bundles.b]\nlinks = [\"one\", \"two\"]\nmode = \"x\"", ["bundles.b.mode", "unknown key"]),
        (
            "[bundles.b]\nlinks = [\"one\", \"two\"]\ntiers = [\"backup\"]",
            ["bundles.b.tiers", "one tier for each of the 2 links"],
        ),
        (
            "[bundles.b]\nlinks = [\"one\", \"two\"]\ntiers = [\"off\", \"off\"]",
            ["bundles.b.tiers", "all links are off"],
        ),
        (
            "[bundles.b]\nlinks = [\"one\", \"two\"]\ntiers = [\"primary\", \"last\"]",
            ["bundles.b.tiers", "\"secondary\""],
        ),
    ] {
        let error = scenario(lines).err().unwrap_or_default();
        assert!(parts.iter().all(|part| error.contains(part)), "{lines}: {error}");
    }
}
