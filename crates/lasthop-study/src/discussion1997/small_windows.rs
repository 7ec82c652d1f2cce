//! New segments on the first two duplicate acknowledgments: the benefit for small windows.

use lasthop_report::study::Claim;

use crate::claims;
use crate::study::Results;
use crate::topics::{Axes, Point, Topic};

/// Mean bytes between errors, in KB. More errors mean smaller windows.
const INTERVALS: [u32; 5] = [16, 32, 64, 128, 256];

/// Schemes whose sender waits for three duplicate acknowledgments, with their lines in the figure: without and with new
/// segments.
const SCHEMES: [(&str, [&str; 2]); 2] =
    [("E2E", ["E2E", "E2E, new segments"]), ("E2E-NEWRENO", ["E2E-NEWRENO", "E2E-NEWRENO, new segments"])];

/// The topic.
pub(super) struct SmallWindows;

impl Topic for SmallWindows {
    fn id(&self) -> &'static str {
        "small-windows"
    }

    fn title(&self) -> &'static str {
        "New segments on the first two duplicate acknowledgments, LAN, 32 KB"
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (scheme, lines) in SCHEMES {
            for (limited_transmit, line) in ["off", "on"].into_iter().zip(lines) {
                points.extend(INTERVALS.map(|kb| {
                    Point::drawn(name(scheme, limited_transmit, kb), "wavelan-lan", scheme, (line, f64::from(kb)))
                        .with(
                            "links.wireless.errors",
                            format!("{{ model = \"exponential\", mean_bytes = \"{kb} KiB\" }}"),
                        )
                        .with("tcp.limited_transmit", format!("\"{limited_transmit}\""))
                }));
            }
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "timeouts"]
    }

    fn reads(&self, part: &str) -> Option<String> {
        Axes::read_interval(part)
    }

    fn axes(&self) -> Axes {
        Axes::OVER_INTERVALS
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let text = "New segments on the first two duplicate acknowledgments help where windows are small (one error per 16 KB), \
                    and do no harm where they are not (256 KB)";
        let claim = claims::claim(results, "small-windows", text, &|c| {
            for (scheme, _) in SCHEMES {
                let cell = |limited_transmit: &str, kb: u32| name(scheme, limited_transmit, kb);
                c.above(&cell("on", 16), 1.0, &cell("off", 16))?;
                c.not_below(&cell("on", 256), &cell("off", 256))?;
            }
            Some(())
        });
        claim.into_iter().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Small windows: the 1997 study proposes new segments on the first duplicates; RFC 3042 (limited transmit) defines \
             the rule simulated here. Windows are small because errors are frequent; the receive window stays 32 KB, which a \
             sender may not exceed.",
        )
    }
}

fn name(scheme: &str, limited_transmit: &str, kb: u32) -> String {
    format!("small-windows/{scheme}/limited-transmit-{limited_transmit}/{kb}KB")
}
