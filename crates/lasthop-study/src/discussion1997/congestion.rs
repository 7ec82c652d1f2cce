//! Corruption and congestion together: the schemes of the 1997 study behind a bottleneck with cross traffic.

use lasthop_proto::scheme::{Family, SCHEMES, Scheme};
use lasthop_report::study::Claim;

use crate::claims;
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Point, Topic};

/// Series with and without cross traffic at the bottleneck.
const SERIES: [&str; 2] = ["with cross traffic", "without"];

/// The topic.
pub(super) struct Congestion;

impl Topic for Congestion {
    fn id(&self) -> &'static str {
        "congestion"
    }

    fn title(&self) -> &'static str {
        "A lossy radio behind a wired bottleneck, with and without cross traffic"
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for line in SERIES {
            for scheme in schemes() {
                let point = Point::drawn(name(scheme.name, line), "mixed-losses", scheme.name, (line, 0.0));
                points.push(match line {
                    "without" => point
                        .with("flows.cross.size", "1 B")
                        .with("flows.bursts.start", "39 s")
                        .with("sessions.browser.start", "39 s"),
                    _ => point,
                });
            }
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "lossy_throughput", "lossless_throughput", "fairness"]
    }

    /// Returns whether the point shows `measure`. Without cross traffic there is one transfer, for which fairness is
    /// undefined.
    fn shows(&self, point: &Point, measure: &str) -> bool {
        let alone = point.place.is_some_and(|(line, _)| line == "without");
        !alone || measure == "lossy_throughput"
    }

    fn reads(&self, part: &str) -> Option<String> {
        (part == "without").then(|| "no cross traffic".to_owned())
    }

    fn axes(&self) -> Axes {
        Axes { along: Along::Schemes, measure: "lossy_throughput", y: "throughput to the mobile host (Mbps)" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let text = "The order of the twelve schemes holds with cross traffic: of two whose 95 % intervals without it are disjoint, \
                    the slower is not clearly the faster with it";
        let order = claims::claim(results, "congestion-order", text, &|c| {
            let of = |scheme: &Scheme, line| lossy(results, scheme, line);
            let (mut apart, mut reversed) = (0, Vec::new());
            for faster in schemes() {
                for slower in schemes() {
                    let [alone, others] =
                        ["without", "with cross traffic"].map(|line| (of(faster, line), of(slower, line)));
                    if alone.0?.above(alone.1?) {
                        apart += 1;
                        if others.1?.above(others.0?) {
                            reversed.push(format!("{} and {}", faster.name, slower.name));
                        }
                    }
                }
            }
            let which = if reversed.is_empty() { "none".to_owned() } else { reversed.join(", ") };
            c.check(reversed.is_empty(), format!("of {apart} pairs reversed: {which}"));
            Some(())
        });
        order.into_iter().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Congestion: lossy_throughput is that of the transfer to the mobile host, lossless_throughput that of the transfer \
             between wired hosts beside it; fairness is Jain's index over both, throughput the mean over them and the browser. Without \
             cross traffic there is nothing to compare with, and the table has the transfer to the mobile host alone. A scheme that does not treat corruption as congestion gets more of the \
             bottleneck, at the expense of the other.",
        )
    }
}

/// Returns the twelve schemes of the 1997 study.
fn schemes() -> impl Iterator<Item = &'static Scheme> {
    let families = [Family::EndToEnd, Family::LinkLayer, Family::SplitConnection];
    SCHEMES.iter().filter(move |scheme| families.contains(&scheme.family))
}

fn name(scheme: &str, line: &str) -> String {
    format!("congestion/{scheme}/{}", line.replace(' ', "-"))
}

fn lossy<'r>(results: &'r Results, scheme: &Scheme, line: &str) -> Option<&'r Estimate> {
    results.get(&name(scheme.name, line), "lossy_throughput")
}
