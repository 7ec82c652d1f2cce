//! Several wireless hops, and Explicit Loss Notification derived on the path from queue lengths.

use std::ops::Range;

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use crate::claims;
use crate::study::Results;
use crate::topics::{Along, Axes, Point, Topic};

/// Hosts behind one to five hops, with the start of their last hop.
const HOPS: [(&str, &str, &str); 5] = [
    ("one", "base", "hop-1"),
    ("two", "radio-1", "hop-2"),
    ("three", "radio-2", "hop-3"),
    ("four", "radio-3", "hop-4"),
    ("five", "radio-4", "hop-5"),
];

/// Hops with a link protocol: none, the last, or all hops of the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    None,
    Last,
    Each,
}

/// A line of the figure.
struct Line {
    name: &'static str,
    scheme: &'static str,
    /// Source of loss notifications, for endpoints that use them.
    eln_source: &'static str,
    repeats: Repeats,
}

const fn line(name: &'static str, scheme: &'static str) -> Line {
    Line { name, scheme, eln_source: "radios", repeats: Repeats::None }
}

static LINES: [Line; 7] = [
    line("no ELN", "E2E-NEWRENO"),
    line("ELN from queue lengths", "E2E-ELN"),
    Line { eln_source: "receiver", ..line("ELN from the truth", "E2E-ELN") },
    line(SNOOP, "LL-TCP-AWARE"),
    Line { repeats: Repeats::Last, ..line("selective repeat on the last hop", "E2E") },
    Line { repeats: Repeats::Each, ..line("selective repeat on each hop", "E2E") },
    line("no repair", "E2E"),
];

const SNOOP: &str = "snoop on the last hop";

/// The topic.
pub(super) struct Hops;

impl Topic for Hops {
    fn id(&self) -> &'static str {
        "hops"
    }

    fn title(&self) -> &'static str {
        "One to five packet radios in a chain on one channel"
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for line in &LINES {
            for (index, (host, router, link)) in HOPS.into_iter().enumerate() {
                let hops = index + 1;
                let place = (line.name, hops as f64);
                let point = Point::drawn(name(line.name, hops), "packet-radio-chain", line.scheme, place)
                    .with("flows.bulk.to", host)
                    .with("eln_source", line.eln_source);
                let point = if line.name == SNOOP {
                    point.with("base_station.router", router).with("base_station.link", link)
                } else {
                    point
                };
                points.push(match line.repeats {
                    Repeats::None => point,
                    Repeats::Last => point.with("elements", elements(index..hops)),
                    Repeats::Each => point.with("elements", elements(0..hops)),
                });
            }
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "timeouts", "losses_judged", "judged_right"]
    }

    fn reads(&self, part: &str) -> Option<String> {
        match part {
            "1" => Some("1 hop".to_owned()),
            hops => hops.parse::<usize>().ok().map(|hops| format!("{hops} hops")),
        }
    }

    fn axes(&self) -> Axes {
        Axes { along: Along::Number("wireless hops", Scale::Linear), measure: "throughput", y: "throughput (Mbps)" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let near = "ELN from queue lengths comes close to ELN from the truth: within 10 % over one to five hops";
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
            "Hops: radios share one channel; of three adjacent hops, one sends at a time. The truth comes from damaged packets whose \
             headers the receiver can read; judged_right is the share of lost segments for which the radios' heuristic names the right \
             cause, corruption or a full queue. Selective repeat has a window of 8 frames, smaller than a radio's queue of 12. On each hop \
             it avoids most timeouts but saves no time, since each of its acknowledgments occupies the channel of all adjacent hops. \
             Remaining losses occur in its own queue, which radios do not report, so they wrongly attribute them to corruption.",
        )
    }
}

/// Returns the scenario's radios, and a link protocol at both ends of the hops in `repeating`. Its window is shorter
/// than a hop's queue: a longer one would overflow it.
fn elements(repeating: Range<usize>) -> String {
    let mut elements = Vec::new();
    for (index, (_, router, link)) in HOPS.into_iter().enumerate() {
        let (hop, at) = (index + 1, format!(r#"router = "{router}", link = "{link}""#));
        elements.push(format!(r#"radio-{hop} = {{ kind = "radio", {at}, exchange = "100 ms", threshold = 8 }}"#));
        if repeating.contains(&index) {
            elements.push(format!(r#"repeat-{hop} = {{ kind = "arq", {at}, window = 8 }}"#));
        }
    }
    format!("{{ {} }}", elements.join(", "))
}

fn name(line: &str, hops: usize) -> String {
    format!("hops/{}/{hops}", line.replace(' ', "-"))
}
