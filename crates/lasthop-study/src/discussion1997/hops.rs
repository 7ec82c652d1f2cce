//! Several wireless hops, and Explicit Loss Notification made on the way from queue lengths.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use super::subject::{Axes, Point, Subject};
use crate::claims;
use crate::study::Results;

/// The hosts behind one to five hops, and where the last hop begins.
const HOPS: [(&str, &str, &str); 5] = [
    ("one", "base", "hop-1"),
    ("two", "radio-1", "hop-2"),
    ("three", "radio-2", "hop-3"),
    ("four", "radio-3", "hop-4"),
    ("five", "radio-4", "hop-5"),
];

/// The lines of the figure: scheme, and what it is told by.
const LINES: [(&str, &str); 5] = [
    ("no ELN", "E2E-NEWRENO"),
    ("ELN from queue lengths", "E2E-ELN"),
    ("ELN from the truth", "E2E-ELN"),
    ("snoop on the last hop", "LL-TCP-AWARE"),
    ("selective repeat on the last hop", "Reno/SR"),
];

/// The subject.
pub(super) struct Hops;

impl Subject for Hops {
    fn id(&self) -> &'static str {
        "hops"
    }

    fn title(&self) -> &'static str {
        "One to five packet radios in a chain on one channel"
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (line, scheme) in LINES {
            for (index, (host, router, link)) in HOPS.into_iter().enumerate() {
                let hops = index + 1;
                let point = Point::drawn(name(line, hops), "packet-radio-chain", scheme, (line, hops as f64))
                    .with("flows.bulk.to", host)
                    .with("eln_source", if line == "ELN from the truth" { "receiver" } else { "radios" });
                let on_last = line.ends_with("last hop");
                points.push(if on_last {
                    point.with("base_station.router", router).with("base_station.link", link)
                } else {
                    point
                });
            }
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "timeouts", "losses_judged", "judged_right"]
    }

    fn axes(&self) -> Axes {
        Axes { x: "wireless hops", scale: Scale::Linear, measure: "throughput", y: "throughput (Mbps)" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let near = "ELN from queue lengths comes near to ELN from the truth: within 10 % over one to five hops";
        let near = claims::claim(results, "hops-eln", near, &|c| {
            for hops in 1..=HOPS.len() {
                c.ratio_within(&name("ELN from queue lengths", hops), &name("ELN from the truth", hops), (0.9, 1.1))?;
            }
            Some(())
        });
        near.into_iter().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Hops: radios share one channel, of three adjacent hops one sends at a time. The truth is what the receiver sees of damaged \
             packets whose headers survive; judged_right is the share of lost segments of which the radios' heuristic names the right \
             cause, corruption or a full queue.",
        )
    }
}

fn name(line: &str, hops: usize) -> String {
    format!("hops/{}/{hops}", line.replace(' ', "-"))
}
