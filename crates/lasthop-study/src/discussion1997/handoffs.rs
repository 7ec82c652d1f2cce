//! A host that moves among base stations: the cost of a handoff, by the method.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use crate::claims::{self, Claimant, show};
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Point, Topic};

/// Average number of moves per second.
const RATES: [f64; 4] = [0.2, 0.5, 1.0, 2.0];

/// Kinds of handoffs, with their schemes and their lines in the figure.
const LINES: [(&str, &str, &str); 5] = [
    ("hard", "E2E", "hard"),
    ("hierarchical", "E2E", "hierarchical"),
    ("forwarding", "E2E", "forwarding"),
    ("multicast", "E2E", "multicast"),
    ("forwarding", "SPLIT", "SPLIT, forwarding"),
];

/// The topic.
pub(super) struct Handoffs;

impl Topic for Handoffs {
    fn id(&self) -> &'static str {
        "handoffs"
    }

    fn title(&self) -> &'static str {
        "A host that moves among base stations"
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for scheme in ["E2E", "SPLIT"] {
            let still = Point::drawn(name(scheme, "still", 0.0), "moving-host", scheme, ("", 0.0));
            points.push(Point { place: None, ..still }.with("mobility.moves", "{ at = [] }"));
        }
        for (kind, scheme, line) in LINES {
            points.extend(RATES.map(|rate| {
                let point = Point::drawn(name(scheme, kind, rate), "moving-host", scheme, (line, rate));
                let moves = format!("{{ mean = \"{} ms\" }}", 1000.0 / rate);
                point.with("mobility.moves", moves).with("mobility.kind", format!("\"{kind}\""))
            }));
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "timeouts", "handoffs", "handoff_gap", "handoff_lost", "reordered"]
    }

    fn reads(&self, part: &str) -> Option<String> {
        match part {
            "still" => Some("no moves".to_owned()),
            "hard" | "forwarding" | "multicast" | "hierarchical" => Some(format!("{part} handoffs")),
            "1" => Some("1 move per second".to_owned()),
            rate => rate.parse::<f64>().ok().map(|rate| format!("{rate} moves per second")),
        }
    }

    fn axes(&self) -> Axes {
        Axes {
            along: Along::Number("moves per second, on average", Scale::Log),
            measure: "throughput",
            y: "throughput (Mbps)",
        }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let cell = |kind: &str| name("E2E", kind, 1.0);
        let fast = "Fast handoffs take about ten milliseconds, and cost little even at one per second";
        let fast = claims::claim(results, "handoffs-fast", fast, &|c| {
            let (multicast, still) = (cell("multicast"), name("E2E", "still", 0.0));
            within(c, &multicast, "handoff_gap", (5.0, 50.0))?;
            c.above(&multicast, 0.9, &still)
        });
        let state = "A handoff that moves a split connection's state takes hundreds of milliseconds";
        let state = claims::claim(results, "handoffs-state", state, &|c| {
            within(c, &name("SPLIT", "forwarding", 1.0), "handoff_gap", (100.0, 1000.0))?;
            less(c, "handoff_gap", &cell("forwarding"), 0.5, &name("SPLIT", "forwarding", 1.0))
        });
        let loss = "A little buffering at the base stations prevents loss";
        let loss = claims::claim(results, "handoffs-loss", loss, &|c| {
            for kind in ["forwarding", "multicast"] {
                less(c, "handoff_lost", &cell(kind), 0.2, &cell("hard"))?;
                c.above(&cell(kind), 1.0, &cell("hard"))?;
            }
            Some(())
        });
        let order = "Buffering at neighbours prevents reordering";
        let order = claims::claim(results, "handoffs-order", order, &|c| {
            within(c, &cell("multicast"), "reordered", (0.0, 0.0))?;
            less(c, "reordered", &cell("multicast"), 1.0, &cell("forwarding"))
        });
        [fast, state, loss, order].into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Handoffs: moves are exponentially distributed in time, so their number varies between runs; a handoff is \
             detected in 5 ms and registered in 5 ms. S. Seshan, Low-Latency Handoff for Cellular Data Networks (dissertation, \
             Berkeley 1996), states 5 to 15 ms for typical handoffs in its testbed, without loss or additional delay \
             (digicoll.lib.berkeley.edu/record/139453). handoff_gap is measured at the receiver: it also includes the \
             transmission time of a packet in the cell and, for a hard handoff, TCP's recovery. Moving a split connection's state takes \
             200 ms (mobility.state_setup, an assumption) and the transfer of its bytes between the stations.",
        )
    }
}

fn name(scheme: &str, kind: &str, rate: f64) -> String {
    match kind {
        "still" => format!("handoffs/{scheme}/still"),
        _ => format!("handoffs/{scheme}/{kind}/{rate}"),
    }
}

/// Checks that the 95 % interval of a metric lies in a range.
fn within(c: &mut Claimant<'_>, cell: &str, measure: &str, (low, high): (f64, f64)) -> Option<()> {
    let summary = c.results.summary(cell, measure)?;
    let (unit, estimate): (_, Estimate) = (summary.unit, summary.estimate);
    c.judge_within(&estimate, (low, high), format!("{cell}: {measure} {} {unit} in {low} to {high}", show(&estimate)));
    Some(())
}

/// Checks that `lower` is less than `factor` times `upper`: the 95 % interval of the difference, run by run, lies above
/// zero.
fn less(c: &mut Claimant<'_>, measure: &str, lower: &str, factor: f64, upper: &str) -> Option<()> {
    let estimate = |cell: &str| c.results.get(cell, measure).copied();
    let (a, b) = (estimate(lower)?, estimate(upper)?);
    let difference = c.results.measure_by_run(measure, [upper, lower], |[upper, lower]| factor * upper - lower)?;
    let sign = if factor == 1.0 { String::new() } else { format!("{factor} × ") };
    let evidence = format!("{measure} of {lower} {} < {sign}{upper} {}: by {}", show(&a), show(&b), show(&difference));
    c.judge(&difference, evidence);
    Some(())
}
