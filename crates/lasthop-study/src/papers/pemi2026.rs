//! J. Zhang et al.: PEMI: Transparent Performance Enhancements for QUIC. arXiv:2602.12732, 2026. Goodput of downloads
//! with quinn over a lossy hop.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use super::{MEDIAN, loss_name, median_throughput, read_loss, records, uniform};
use crate::claims::{self, Claimant};
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Base, Point, Topic, Topics};

/// The study.
pub static PEMI: Topics = Topics {
    name: "pemi2026",
    title: "PEMI: one proxy that helps QUIC (baselines)",
    citation: "J. Zhang et al.: PEMI: Transparent Performance Enhancements for QUIC. arXiv:2602.12732, February 2026; values from \
               the report in the repository of its prototype.",
    doi: Some("10.48550/arXiv.2602.12732"),
    introduction: &[
        "A proxy before a lossy hop cannot read QUIC's acknowledgments. PEMI infers losses from the timing of returning packets, and \
         sends lost packets again. Its authors download files over 10 Mbps and 50 ms to a hop of 100 Mbps and 2 ms, without losses \
         and with 1 %.",
        "lasthop simulates the baseline, quinn with CUBIC, and the bound of what repair of the hop can give, by devices at both ends \
         of it (LINK-ARQ). It does not have PEMI, which reached 2.66, 4.92, 3.58 and 3.38 Mbps with these files at 1 % of loss.",
    ],
    topics: &[&Downloads],
};

static BASE: Base = Base::Text("pemi2026.toml", include_str!("../../data/pemi2026.toml"));

const LOSSES: [f64; 2] = [0.0, 1.0];
/// Sizes of the files, in kB.
const SIZES: [u32; 4] = [100, 1000, 5000, 20_000];

/// Lines of the figure, with their schemes.
const LINES: [(&str, &str); 2] = [(QUINN, "E2E"), ("repaired-hop", "LINK-ARQ")];
const QUINN: &str = "quinn";

/// Downloads over their sizes.
struct Downloads;

impl Topic for Downloads {
    fn id(&self) -> &'static str {
        "goodput"
    }

    fn title(&self) -> &'static str {
        "Goodput of downloads with QUIC, without loss and at 1 %"
    }

    fn points(&self) -> Vec<Point> {
        let rows: Vec<_> = records(include_str!("../../data/pemi2026.csv")).collect();
        let mut points = Vec::new();
        for (line, scheme) in LINES {
            for (loss, size) in LOSSES.into_iter().flat_map(|loss| SIZES.map(|size| (loss, size))) {
                let row = rows.iter().find(|row| row[0].parse() == Ok(loss) && row[1].parse() == Ok(size));
                let mut point = Point::drawn(cell(line, loss, size), BASE, scheme, (line, size.into()))
                    .with("flows.download.response", format!("{size} kB"))
                    .with("links.radio.errors", uniform(loss));
                // The figure shows the downloads with losses.
                point.place = point.place.filter(|_| loss > 0.0);
                let value = row.filter(|_| line == QUINN).and_then(|row| row[2].parse().ok());
                points.push(point.published(MEDIAN, value));
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

    fn in_lab(&self, point: &Point) -> bool {
        point.name.starts_with("goodput/quinn/")
    }

    fn reads(&self, part: &str) -> Option<String> {
        read_loss(part).or_else(|| part.strip_suffix("kB").map(|size| format!("{size} kB")))
    }

    fn axes(&self) -> Axes {
        Axes { along: Along::Number("size at 1 % of loss (kB)", Scale::Log), measure: MEDIAN, y: "goodput (Mbps)" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let claim = |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| {
            claims::claim(results, id, text, gather)
        };
        let found = [
            claim("a", "Without losses, repair of the hop changes no goodput by more than 2 %", &|c| {
                SIZES.into_iter().try_for_each(|size| {
                    c.ratio_within(&cell("repaired-hop", 0.0, size), &cell("quinn", 0.0, size), (0.98, 1.02))
                })
            }),
            claim("b", "1 % of loss costs quinn at least two thirds of its goodput at 5 and 20 MB", &|c| {
                [5000, 20_000]
                    .into_iter()
                    .try_for_each(|size| c.above(&cell("quinn", 0.0, size), 3.0, &cell("quinn", 1.0, size)))
            }),
            claim("c", "It costs a file of 100 kB less than 15 %", &|c| {
                c.ratio_within(&cell("quinn", 1.0, 100), &cell("quinn", 0.0, 100), (0.85, 1.0))
            }),
            claim("f", "Repair by both ends of the hop brings twice what PEMI published for 20 MB (3.38 Mbps)", &|c| {
                c.exceeds(&cell("repaired-hop", 1.0, 20_000), 2.0 * 3.38)
            }),
        ];
        found.into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Misses: at 1 MB and 1 % of loss, runs differ by whether a loss ends slow start, and the published values are medians. \
             Without losses, the simulator is 5 % faster: the authors' queues are RED queues, and their transfers are HTTP.",
        )
    }
}

fn cell(line: &str, loss: f64, size: u32) -> String {
    format!("goodput/{line}/{}/{size}kB", loss_name(loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_value_belongs_to_a_cell() {
        let points = Downloads.points();
        assert_eq!((points.len(), points.iter().filter(|point| point.published.len() == 1).count()), (16, 8));
        let of = |name: &str| points.iter().find(|point| point.name == name).unwrap().published.clone();
        assert_eq!(of("goodput/quinn/1%/20000kB"), [(MEDIAN, 2.59)]);
        // It is a bound for PEMI, not PEMI.
        assert_eq!(of("goodput/repaired-hop/1%/1000kB"), []);
    }
}
