//! Links with varying delay: spurious timeouts, and their cost.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use crate::claims::{self, Claimant, show};
use crate::study::Results;
use crate::topics::{Along, Axes, Point, Topic};

/// Durations of spikes, in milliseconds.
const SPIKES: [u32; 4] = [500, 1000, 2000, 4000];

/// Senders and base stations: the name of cells and lines, the scheme, and the endpoints' preset.
const ENDS: [(&str, &str, &str); 4] = [
    ("reno-era", "E2E", "bsd-lite"),
    ("reno-era-snoop", "LL-TCP-AWARE", "bsd-lite"),
    ("linux", "E2E-CUBIC", "linux-6.18"),
    ("linux-snoop", "SNOOP", "linux-6.18"),
];

/// Other variations of the delay, with their keys.
const COURSES: [(&str, &[(&str, &str)]); 5] = [
    ("constant", &[(VARIATION, "{ model = \"none\" }")]),
    ("handover", &[]),
    ("repeats", &[(VARIATION, "{ model = \"repeats\", frame_loss = 0.2, round = \"40 ms\" }")]),
    ("overtaking", &[(VARIATION, "{ model = \"jitter\", up_to = \"20 ms\", order = \"free\" }")]),
    (
        "turnaround",
        &[
            (VARIATION, "{ model = \"none\" }"),
            ("links.satellite.medium", "\"half-duplex\""),
            ("links.satellite.turnaround", "\"2 ms\""),
        ],
    ),
];

const VARIATION: &str = "links.satellite.delay_variation";

/// The topic.
pub(super) struct VaryingDelay;

impl Topic for VaryingDelay {
    fn id(&self) -> &'static str {
        "varying-delay"
    }

    fn title(&self) -> &'static str {
        "A download over 5 Mbps whose delay varies"
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (ends, scheme, preset) in ENDS {
            let usual = |point: Point| {
                let point =
                    point.with("tcp.preset", format!("\"{preset}\"")).with("links.satellite.rate", "\"5 Mbps\"");
                point.with("flows.download.size", "\"16 MiB\"")
            };
            for (course, set) in COURSES {
                let point = Point { place: None, ..Point::drawn(name(ends, course), SCENARIO, scheme, (ends, 0.0)) };
                points.push(set.iter().fold(usual(point), |point, (key, value)| point.with(key, *value)));
            }
            points.extend(SPIKES.map(|millis| {
                let place = (ends, f64::from(millis) / 1000.0);
                let spikes = format!("{{ model = \"spikes\", every = \"8 s\", length = \"{millis} ms\" }}");
                usual(Point::drawn(name(ends, &spike(millis)), SCENARIO, scheme, place)).with(VARIATION, spikes)
            }));
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "timeouts", "spurious_timeouts", "source_retransmissions", "local_retransmissions"]
    }

    fn reads(&self, part: &str) -> Option<String> {
        Some(match part {
            "reno-era" => "endpoints of 1997".to_owned(),
            "reno-era-snoop" => "endpoints of 1997, snoop".to_owned(),
            "linux" => "Linux 6.18".to_owned(),
            "linux-snoop" => "Linux 6.18, snoop".to_owned(),
            "constant" => "constant delay".to_owned(),
            "handover" => "handovers".to_owned(),
            "repeats" => "link-layer retransmissions".to_owned(),
            "overtaking" => "jitter that reorders".to_owned(),
            "turnaround" => "half-duplex, 2 ms turnaround".to_owned(),
            spikes => format!("spikes of {} ms", spikes.strip_prefix("spikes-")?.strip_suffix("ms")?),
        })
    }

    fn axes(&self) -> Axes {
        Axes {
            along: Along::Number("length of delay spikes (s)", Scale::Log),
            measure: "throughput",
            y: "throughput (Mbps)",
        }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let handover = "Handovers of low satellites, a tenth of a second and up to 30 ms every 15 s, cost modern endpoints less than 10 %";
        let handover = claims::claim(results, "varying-delay-handover", handover, &|c| {
            for ends in ["linux", "linux-snoop"] {
                c.above(&name(ends, "handover"), 0.9, &name(ends, "constant"))?;
            }
            Some(())
        });
        let spikes = "In delay spikes of 1 s, modern timers expire spuriously, and those of the Reno era do not";
        let spikes = claims::claim(results, "varying-delay-spikes", spikes, &|c| {
            more(c, "spurious_timeouts", &name("linux", &spike(1000)), &name("reno-era", &spike(1000)))
        });
        let snoop = "In delay spikes of 2 s, snoop's timer retransmits packets that are only delayed";
        let snoop = claims::claim(results, "varying-delay-snoop", snoop, &|c| {
            for ends in ["reno-era-snoop", "linux-snoop"] {
                more(c, "local_retransmissions", &name(ends, &spike(2000)), &name(ends, "constant"))?;
            }
            Some(())
        });
        [handover, spikes, snoop].into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Varying delay: spikes are 8 s apart on average and lose nothing; in addition, 0.1 % of all frames are lost. \
             Reno-era endpoints are 4.4BSD's with windows of 32 KB, which fill 4 Mbps at most.",
        )
    }
}

/// Checks that one cell has more of `measure` than another: their intervals do not overlap.
fn more(c: &mut Claimant<'_>, measure: &str, one: &str, other: &str) -> Option<()> {
    let [a, b] = [one, other].map(|cell| c.results.summary(cell, measure));
    let (a, b) = (&a?.estimate, &b?.estimate);
    let evidence = format!("{measure} of {one} {} > {other} {}", show(a), show(b));
    c.judge_apart(a, b, evidence);
    Some(())
}

const SCENARIO: &str = "satellite-handover";

fn spike(millis: u32) -> String {
    format!("spikes-{millis}ms")
}

fn name(ends: &str, course: &str) -> String {
    format!("varying-delay/{ends}/{course}")
}
