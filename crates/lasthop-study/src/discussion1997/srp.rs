//! Selective repeat in place of TCP on the wireless half of a split connection.

use lasthop_report::study::Claim;

use crate::claims;
use crate::study::Results;
use crate::topics::{Axes, Point, Topic};

/// Mean bytes between errors, in KB.
const INTERVALS: [u32; 6] = [16, 32, 64, 128, 256, 1024];

/// Schemes for the wireless half: Reno, SMART, selective repeat over datagrams.
const SCHEMES: [&str; 3] = ["SPLIT", "SPLIT-SMART", "SPLIT-SRP"];

/// The topic.
pub(super) struct Srp;

impl Topic for Srp {
    fn id(&self) -> &'static str {
        "srp"
    }

    fn title(&self) -> &'static str {
        "Selective repeat on the wireless half of a split connection, LAN, 32 KB"
    }

    fn points(&self) -> Vec<Point> {
        let point = |scheme: &'static str, kb: u32| {
            let errors = format!("{{ model = \"exponential\", mean_bytes = \"{kb} KiB\" }}");
            Point::drawn(name(scheme, kb), "wavelan-lan", scheme, (scheme, f64::from(kb)))
                .with("links.wireless.errors", errors)
        };
        SCHEMES.into_iter().flat_map(|scheme| INTERVALS.map(|kb| point(scheme, kb))).collect()
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "relay_timeouts", "local_retransmissions"]
    }

    fn reads(&self, part: &str) -> Option<String> {
        Axes::read_interval(part)
    }

    fn axes(&self) -> Axes {
        Axes::OVER_INTERVALS
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let few = "SRP on the wireless half gains little over TCP there when losses are few (one error per 1 MB): at most 15 %";
        let many = "It gains where losses are many (one error per 16 KB)";
        let (few, many) = (
            claims::claim(results, "srp-few-losses", few, &|c| {
                c.ratio_within(&name("SPLIT-SRP", 1024), &name("SPLIT", 1024), (0.0, 1.15))
            }),
            claims::claim(results, "srp-many-losses", many, &|c| {
                c.above(&name("SPLIT-SRP", 16), 1.0, &name("SPLIT", 16))
            }),
        );
        few.into_iter().chain(many).collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "SRP: after Yavatkar and Bhagwat (1994); the wireless half is selective repeat over datagrams, without a congestion window. \
             With few losses it is slower than TCP here: each datagram is acknowledged, and acknowledgments occupy the half-duplex \
             radio. Their testbed and numbers are not comparable with these.",
        )
    }
}

fn name(scheme: &str, kb: u32) -> String {
    format!("srp/{scheme}/{kb}KB")
}
