//! Return paths that are too slow for acknowledgments, and cures (RFC 3449).

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use crate::claims;
use crate::study::Results;
use crate::topics::{Along, Axes, Point, Topic};

/// Ratios of the forward rate, 10 Mbps, to that of the return path.
const RATIOS: [u32; 4] = [1, 50, 100, 200];

/// One or several cures, with their place.
struct Cure {
    /// Name in cells.
    name: &'static str,
    /// Name in the figure.
    line: &'static str,
    /// Keys and their values.
    set: &'static [(&'static str, &'static str)],
}

const FILTER: (&str, &str) = ("links.cable.queue_up.filter", "\"on\"");
const FIRST: (&str, &str) = ("links.cable.queue_up.first", "\"on\"");
const BYTES: (&str, &str) = ("tcp.growth", "\"rfc3465\"");
const MADE: (&str, &str) = ("elements.reconstructor.spacing", "2");
const RATIO: (&str, &str) = ("tcp.ack_congestion", "\"rfc5690\"");
const ECN: (&str, &str) = ("tcp.ecn", "\"on\"");
const MARKS: (&str, &str) = ("links.cable.queue_up", r#"{ kind = "codel", limit = "50 packets", ecn = "on" }"#);

/// Cures for a return path with only acknowledgments.
const ONE_WAY: [Cure; 6] = [
    Cure { name: "none", line: "none", set: &[] },
    Cure { name: "filter", line: "filter", set: &[FILTER] },
    Cure { name: "filter-bytes", line: "filter, bytes", set: &[FILTER, BYTES] },
    Cure { name: "filter-reconstruction", line: "filter, reconstruction", set: &[FILTER, MADE] },
    Cure { name: "ratio", line: "ack congestion control", set: &[RATIO, BYTES] },
    Cure { name: "ratio-marks", line: "ack congestion control, marks", set: &[RATIO, BYTES, ECN, MARKS] },
];

/// Cures for a return path that also carries data.
const TWO_WAY: [Cure; 6] = [
    Cure { name: "none", line: "two-way: none", set: &[] },
    Cure { name: "filter", line: "two-way: filter", set: &[FILTER] },
    Cure { name: "first", line: "two-way: acks first", set: &[FIRST] },
    Cure { name: "filter-first", line: "two-way: filter, acks first", set: &[FILTER, FIRST] },
    Cure { name: "ratio", line: "two-way: ack congestion control", set: &[RATIO, BYTES] },
    Cure { name: "ratio-marks", line: "two-way: ack congestion control, marks", set: &[RATIO, BYTES, ECN, MARKS] },
];

/// The topic.
pub(super) struct Asymmetry;

impl Topic for Asymmetry {
    fn id(&self) -> &'static str {
        "asymmetry"
    }

    fn title(&self) -> &'static str {
        "A download over 10 Mbps whose return path is up to 200 times slower"
    }

    fn points(&self) -> Vec<Point> {
        let of = |way: &'static str, cures: &'static [Cure]| {
            cures.iter().flat_map(move |cure| RATIOS.map(|ratio| point(way, cure, ratio)))
        };
        of("one-way", &ONE_WAY).chain(of("two-way", &TWO_WAY)).collect()
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "timeouts", "acks_filtered", "acks_reconstructed", "marks"]
    }

    fn reads(&self, part: &str) -> Option<String> {
        if let Some(ratio) = part.strip_prefix("1:") {
            return Some(if ratio == "1" {
                "return path of equal rate".to_owned()
            } else {
                format!("return path {ratio} times slower")
            });
        }
        let cure = ONE_WAY.iter().chain(&TWO_WAY).find(|cure| cure.name == part)?;
        Some(match cure.name {
            "none" => "no cure".to_owned(),
            _ => cure.line.trim_start_matches("two-way: ").to_owned(),
        })
    }

    fn axes(&self) -> Axes {
        Axes {
            along: Along::Number("forward rate over return rate", Scale::Log),
            measure: "throughput",
            y: "throughput of the download (Mbps)",
        }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let forward = name("one-way", "none", 1);
        let restored = "Cures for acknowledgments restore at least 90 % of the forward rate at 1:100: filtering, with and without \
                        reconstruction";
        let restored = claims::claim(results, "asymmetry-cures", restored, &|c| {
            c.above(&name("one-way", "filter", 100), 0.9, &forward)?;
            c.above(&name("one-way", "filter-reconstruction", 100), 0.9, &forward)
        });
        let lost = "Without a cure, less than 90 % remains at 1:200, and with other traffic at 1:100";
        let lost = claims::claim(results, "asymmetry", lost, &|c| {
            c.above(&forward, 1.11, &name("one-way", "none", 200))?;
            c.above(&forward, 1.11, &name("two-way", "none", 100))
        });
        let beside = "With other traffic, acknowledgments also need priority: filtering then gains more";
        let beside = claims::claim(results, "asymmetry-two-way", beside, &|c| {
            for ratio in [100, 200] {
                c.above(&name("two-way", "filter-first", ratio), 1.0, &name("two-way", "filter", ratio))?;
                c.above(&name("two-way", "filter-first", ratio), 1.0, &name("two-way", "none", ratio))?;
            }
            Some(())
        });
        [lost, restored, beside].into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Asymmetry: a queue of 50 packets, 0.5 % of frames lost on the return path; two-way, a camera sends full packets at the \
             rate of the return path half of the time. Of RFC 3449's example, 10 Mbps and 50 kbps with packets of 1,000 and 40 \
             bytes, the normalised ratio is 8; here, with 1,500 and 52 bytes, it is 1:200 over 28.8, that is 6.9.",
        )
    }
}

fn point(way: &'static str, cure: &Cure, ratio: u32) -> Point {
    let rate = format!("\"{} bps\"", 10_000_000 / ratio);
    let place = (cure.line, f64::from(ratio));
    let point = Point::drawn(name(way, cure.name, ratio), "thin-return", "E2E-IETF-SACK", place)
        .with("links.cable.rate_up", rate.clone());
    let point = match way {
        "two-way" => point.with("flows.camera.rate", rate),
        // After the download.
        _ => point.with("flows.camera.start", "\"299 s\""),
    };
    cure.set.iter().fold(point, |point, (key, value)| point.with(key, *value))
}

fn name(way: &str, cure: &str, ratio: u32) -> String {
    format!("asymmetry/{way}/{cure}/1:{ratio}")
}
