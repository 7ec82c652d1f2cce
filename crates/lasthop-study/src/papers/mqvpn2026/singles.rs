//! Each path alone.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use super::BASE;
use super::profiles::{Column, Link, PROFILES, published};
use crate::claims::{self, Claimant};
use crate::papers::{MEDIAN, median_throughput};
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Point, Topic};

/// Bytes of a packet inside of the tunnel (its MTU), and of the datagram with it on Ethernet: 13 bytes of QUIC's short
/// header, 3 of the DATAGRAM frame, 2 of MASQUE, 16 of the authentication tag, 28 of IP and UDP, 14 of Ethernet.
const INNER: f64 = 1182.0;
const OUTER: f64 = INNER + 13.0 + 3.0 + 2.0 + 16.0 + 28.0 + 14.0;

/// Payload of a TCP segment of that size.
const SEGMENT: u32 = 1130;

/// Single paths.
pub struct Singles;

impl Topic for Singles {
    fn id(&self) -> &'static str {
        "single"
    }

    fn title(&self) -> &'static str {
        "Goodput of a download of 20 MiB over each path alone"
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (at, profile) in PROFILES.iter().enumerate() {
            for (link, path) in Link::BOTH.into_iter().zip(profile.paths) {
                let line = match link {
                    Link::A => "path A",
                    Link::B => "path B",
                };
                let point = Point::drawn(cell(profile.name, link), BASE, "E2E-BBR3", (line, (at + 1) as f64))
                    .with("base_station.link", format!("\"{}\"", link.name()))
                    .with("tcp.mss", SEGMENT.to_string())
                    .published(MEDIAN, published(profile.name, Column::Single(link)));
                points.push(path.of(point, link, INNER / OUTER));
            }
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &[MEDIAN]
    }

    fn estimate(&self, point: &Point, _: &str, results: &Results) -> Option<(Estimate, &'static str)> {
        median_throughput(point, results)
    }

    fn axes(&self) -> Axes {
        Axes {
            along: Along::Number("profile, in the order of the table", Scale::Linear),
            measure: MEDIAN,
            y: "goodput (Mbps)",
        }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let claim = |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| {
            claims::claim(results, id, text, gather)
        };
        let found = [
            claim("a", "Goodput falls with each increase of the delay from 20 to 320 ms", &|c| {
                let steps = ["baseline", "rtt_40", "rtt_70", "rtt_120", "rtt_320"];
                steps.windows(2).try_for_each(|pair| c.above(&cell(pair[0], Link::B), 1.0, &cell(pair[1], Link::B)))
            }),
            claim("b", "BBR carries at least 80 % of the rate of a clean path of 20 ms", &|c| {
                c.exceeds(&cell("baseline", Link::A), 0.8 * 50.0)
            }),
        ];
        found.into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Misses over single paths: netem's queue limit of 1000 packets includes those that are delayed, which at 50 Mbps and 320 ms \
             is less than the path holds; lasthop's queues hold waiting packets only. With losses of 0.5 and 2 %, picoquic's BBR gives \
             way earlier than the draft's. With a deviation of 20 ms, results of the report range over a factor of 4 between both equal \
             paths.",
        )
    }
}

pub fn cell(profile: &str, link: Link) -> String {
    let path = if link == Link::A { "path-A" } else { "path-B" };
    format!("single/{profile}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_published_value_and_the_tunnels_share_of_its_rate() {
        let points = Singles.points();
        assert_eq!(points.iter().filter(|point| point.published.len() == 1).count(), 32);
        let point = points.iter().find(|point| point.name == "single/dual_lte/path-B").unwrap();
        assert_eq!(point.published, [(MEDIAN, 18.76)]);
        let set = |key: &str| point.set.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value);
        assert_eq!(set("links.b.rate"), Some("23.490 Mbps"));
        let varied = "{ model = \"normal\", mean = \"45 ms\", deviation = \"8 ms\" }";
        assert_eq!((set("links.b.delay"), set("links.b.delay_variation")), (Some("0 ms"), Some(varied)));
    }
}
