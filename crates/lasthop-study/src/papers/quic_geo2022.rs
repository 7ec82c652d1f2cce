//! S. Endres, J. Deutschmann, K.-S. Hielscher, R. German: Performance of QUIC Implementations Over Geostationary Satellite
//! Links. arXiv:2202.08228, 2022.

use lasthop_report::study::Claim;

use super::{loss_name, read_loss, records, uniform};
use crate::claims::{self, Claimant};
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Base, Point, Topic, Topics};

/// The study.
pub static QUIC_GEO: Topics = Topics {
    name: "quic-geo2022",
    title: "QUIC over a geostationary satellite",
    citation: "S. Endres, J. Deutschmann, K.-S. Hielscher, R. German: Performance of QUIC Implementations Over Geostationary \
               Satellite Links. arXiv:2202.08228, February 2022; parameters from the authors' test cases.",
    doi: Some("10.48550/arXiv.2202.08228"),
    introduction: &[
        "The paper lets each of many QUIC implementations download 10 MiB from each other over a geostationary link of 20 and 2 \
         Mbps, a round trip of 600 ms and queues of 25 packets, without losses (SAT) and with 1 % in each direction (SATL). It finds \
         performance poor in general, and worse with losses.",
        "Its matrix of goodputs was not available as numbers, so this is a scenario with claims rather than a reproduction of a table: \
         the text's figures of picoquic with itself, whose congestion control was BBR, stand beside TCP with BBR. lasthop simulates \
         quinn, TCP of Linux 6.18, and repair by one device or by both ends of the satellite link. Efficiency is the goodput over 20 \
         Mbps.",
    ],
    topics: &[&Downloads],
};

static BASE: Base = Base::Text("quic-geo2022.toml", include_str!("../../data/quic-geo2022.toml"));

const LOSSES: [f64; 2] = [0.0, 1.0];

/// Size of the download in bits.
const BITS: f64 = 8.0 * 10_485_760.0;

/// A sender with a cure.
struct Line {
    name: &'static str,
    scheme: &'static str,
    /// Congestion control of quinn; `None` for TCP.
    quinn: Option<&'static str>,
}

static LINES: [Line; 10] = [
    Line { name: "quinn-CUBIC", scheme: "E2E", quinn: Some("cubic") },
    Line { name: "quinn-NewReno", scheme: "E2E", quinn: Some("new-reno") },
    Line { name: "quinn-LINK-ARQ", scheme: "LINK-ARQ", quinn: Some("cubic") },
    Line { name: "quinn-LINK-HYBRID", scheme: "LINK-HYBRID", quinn: Some("cubic") },
    Line { name: "TCP-CUBIC", scheme: "E2E-CUBIC", quinn: None },
    Line { name: "TCP-BBR", scheme: "E2E-BBR", quinn: None },
    Line { name: "TCP-SPLIT-BBR", scheme: "SPLIT-BBR", quinn: None },
    Line { name: "TCP-SNOOP", scheme: "SNOOP", quinn: None },
    Line { name: "TCP-LINK-ARQ", scheme: "LINK-ARQ", quinn: None },
    Line { name: "TCP-LINK-HYBRID", scheme: "LINK-HYBRID", quinn: None },
];

/// Downloads by implementation and cure.
struct Downloads;

impl Topic for Downloads {
    fn id(&self) -> &'static str {
        "efficiency"
    }

    fn title(&self) -> &'static str {
        "A download of 10 MiB over a geostationary satellite, without loss (SAT) and at 1 % (SATL)"
    }

    fn points(&self) -> Vec<Point> {
        let text: Vec<_> = records(include_str!("../../data/quic-geo2022.csv")).collect();
        let mut points = Vec::new();
        for line in &LINES {
            for (at, loss) in LOSSES.into_iter().enumerate() {
                let place = (if loss > 0.0 { "1 % of loss" } else { "no loss" }, at as f64);
                let mut point = Point::drawn(cell(line.name, loss), BASE, line.scheme, place)
                    .with("links.satellite.errors", uniform(loss));
                // Bars are grouped by scheme: those of quinn would replace TCP's.
                point.place = point.place.filter(|_| line.quinn.is_none());
                if let Some(congestion) = line.quinn {
                    point = point.with("flows.download.app", "quic").with("flows.download.congestion", congestion);
                }
                // picoquic's BBR is not TCP's: its figures stand beside.
                let row = text.iter().find(|row| line.name == "TCP-BBR" && row[1].parse() == Ok(loss));
                for (column, measure) in [(2, "throughput"), (3, "efficiency"), (4, "time")] {
                    point = point.published(measure, row.and_then(|row| row[column].parse().ok()));
                }
                points.push(point.beside());
            }
        }
        points
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "efficiency", "time"]
    }

    fn estimate(&self, point: &Point, measure: &str, results: &Results) -> Option<(Estimate, &'static str)> {
        match measure {
            "efficiency" => Some((results.by_run([&point.name], |[mbps]| 100.0 * mbps / 20.0)?, "percent")),
            "time" => Some((results.by_run([&point.name], |[mbps]| BITS / 1e6 / mbps)?, "s")),
            _ => results.summary(&point.name, measure).map(|summary| (summary.estimate, summary.unit)),
        }
    }

    fn in_lab(&self, point: &Point) -> bool {
        ["TCP-CUBIC/0%", "TCP-BBR/0%", "TCP-BBR/1%", "quinn-CUBIC/0%"].iter().any(|name| point.name.ends_with(name))
    }

    fn reads(&self, part: &str) -> Option<String> {
        read_loss(part)
    }

    fn axes(&self) -> Axes {
        Axes { along: Along::Schemes, measure: "throughput", y: "goodput of TCP (Mbps)" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let claim = |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| {
            claims::claim(results, id, text, gather)
        };
        let cubic = ["quinn-CUBIC", "TCP-CUBIC"];
        let found = [
            claim("a", "Without loss, no CUBIC exceeds an efficiency of 45 %", &|c| {
                cubic.into_iter().try_for_each(|line| c.below(&cell(line, 0.0), 0.45 * 20.0))
            }),
            claim("b", "1 % of loss costs CUBIC at least 80 % of its goodput", &|c| {
                cubic.into_iter().try_for_each(|line| c.above(&cell(line, 0.0), 5.0, &cell(line, 1.0)))
            }),
            claim("c", "BBR keeps at least half of its goodput at 1 % of loss", &|c| {
                c.above(&cell("TCP-BBR", 1.0), 0.5, &cell("TCP-BBR", 0.0))
            }),
            claim(
                "d",
                "At this delay, retransmission over the link alone does not help quinn, coded frames do",
                &|c| {
                    c.ratio_within(&cell("quinn-LINK-ARQ", 1.0), &cell("quinn-CUBIC", 1.0), (0.0, 1.5))?;
                    c.above(&cell("quinn-LINK-HYBRID", 1.0), 2.0, &cell("quinn-CUBIC", 1.0))
                },
            ),
        ];
        found.into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "The published figures are picoquic's: slightly more than 11 Mbps, over 50 % of the link, in 7 s. They are not compared as \
             deviations. TCP's BBR reaches less, since picoquic starts with HyStart instead of BBR's startup at such round trips, and \
             sends in packets that its own acknowledgment rule suits. The pairs that exceeded the time limits of 120 and 360 s are \
             faults of implementations, which have no counterpart. Claim (d) was made of an earlier version of lasthop, in which \
             retransmission over the link alone did not help quinn at this delay; now it does.",
        )
    }
}

fn cell(line: &str, loss: f64) -> String {
    format!("efficiency/{line}/{}", loss_name(loss))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_report::study::Relation;

    #[test]
    fn the_figures_of_the_text_stand_beside_bbr() {
        let points = Downloads.points();
        assert_eq!(points.len(), 20);
        let published: Vec<&Point> = points.iter().filter(|point| !point.published.is_empty()).collect();
        assert_eq!(published.len(), 1);
        assert_eq!((&*published[0].name, published[0].relation), ("efficiency/TCP-BBR/1%", Relation::Beside));
        assert_eq!(published[0].published, [("throughput", 11.0), ("efficiency", 55.0), ("time", 7.0)]);
    }
}
