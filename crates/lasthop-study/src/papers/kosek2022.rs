//! M. Kosek, H. Cech, V. Bajpai, J. Ott: Exploring Proxying QUIC and HTTP/3 for Satellite Communication. IFIP Networking
//! 2022. Goodput of downloads of 30 s.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use super::{loss_name, read_loss, records, uniform};
use crate::claims::{self, Claimant};
use crate::study::Results;
use crate::topics::{Along, Axes, Base, Point, Topic, Topics};

/// The study.
pub static KOSEK: Topics = Topics {
    name: "kosek2022",
    title: "TCP and QUIC over satellites, with and without a proxy",
    citation: "M. Kosek, H. Cech, V. Bajpai, J. Ott: Exploring Proxying QUIC and HTTP/3 for Satellite Communication. IFIP \
               Networking 2022; values from the data that the authors published.",
    doi: Some("10.23919/IFIPNetworking55013.2022.9829773"),
    introduction: &[
        "Proxies that split TCP connections are common on satellite links. The paper asks what they bring to TCP, and what a proxy \
         that takes part in QUIC brings to QUIC, over a geostationary satellite and a low orbit, with losses of 0 to 1 %.",
        "lasthop simulates TCP (Reno of Linux 6.18), quinn with NewReno, and a splitting proxy with Reno on the satellite link; \
         snoop at the ground station is its own addition. QUIC with a proxy has no counterpart.",
    ],
    topics: &[
        &Orbit { id: "geo", title: "Goodput over a geostationary satellite, 30 s", delay: "250 ms" },
        &Orbit { id: "leo", title: "Goodput over a satellite in a low orbit, 30 s", delay: "16 ms" },
    ],
};

static BASE: Base = Base::Text("kosek2022.toml", include_str!("../../data/kosek2022.toml"));

const LOSSES: [f64; 4] = [0.0, 0.01, 0.1, 1.0];

/// Lines of the figures: scheme, and the column of the published values.
const LINES: [(&str, &str, usize); 4] =
    [("TCP", "E2E-CUBIC", 2), ("QUIC", "E2E", 3), ("split", "SPLIT-BBR", 4), ("snoop", "SNOOP", usize::MAX)];

/// Downloads over an orbit.
struct Orbit {
    id: &'static str,
    title: &'static str,
    /// Delay of the satellite link in each direction.
    delay: &'static str,
}

impl Topic for Orbit {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn points(&self) -> Vec<Point> {
        let rows: Vec<_> = records(include_str!("../../data/kosek2022.csv")).collect();
        let mut points = Vec::new();
        for (line, scheme, column) in LINES {
            for loss in LOSSES {
                let row = rows.iter().find(|row| &row[0] == self.id && row[1].parse() == Ok(loss));
                let mut point = Point::drawn(cell(self.id, line, loss), BASE, scheme, (line, loss))
                    .with("links.satellite.delay", self.delay)
                    .with("links.satellite.errors", uniform(loss));
                if line == "QUIC" {
                    point = point
                        .with("flows.download.app", "quic")
                        .with("flows.download.congestion", "new-reno")
                        .with("flows.download.stream_window", "4 MB");
                }
                point.published.extend(row.and_then(|row| Some(("throughput", row.get(column)?.parse().ok()?))));
                points.push(point);
            }
        }
        points
    }

    fn in_lab(&self, point: &Point) -> bool {
        point.name.starts_with("geo/TCP/") || [0.0, 0.01].iter().any(|loss| point.name == cell("leo", "TCP", *loss))
    }

    fn reads(&self, part: &str) -> Option<String> {
        read_loss(part)
    }

    fn axes(&self) -> Axes {
        Axes { along: Along::Number("loss rate (%)", Scale::Linear), measure: "throughput", y: "goodput (Mbps)" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let claim = |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| {
            claims::claim(results, id, text, gather)
        };
        let geo = |line: &str, loss: f64| cell("geo", line, loss);
        let leo = |line: &str, loss: f64| cell("leo", line, loss);
        let found = if self.id == "geo" {
            [
                claim("a", "Without losses, a proxy gains TCP less than 10 % in 30 s", &|c| {
                    c.ratio_within(&geo("split", 0.0), &geo("TCP", 0.0), (1.0, 1.1))
                }),
                claim(
                    "b",
                    "Over a geostationary satellite, 0.1 % of loss costs TCP and QUIC two thirds, 1 % costs 95 %",
                    &|c| {
                        ["TCP", "QUIC"].into_iter().try_for_each(|line| {
                            c.above(&geo(line, 0.0), 3.0, &geo(line, 0.1))?;
                            c.above(&geo(line, 0.0), 20.0, &geo(line, 1.0))
                        })
                    },
                ),
                claim("c", "A proxy with a loss-based control gains less than 2 at 1 % of loss", &|c| {
                    c.ratio_within(&geo("split", 1.0), &geo("TCP", 1.0), (0.0, 2.0))
                }),
                claim("f", "Snoop keeps two thirds of the goodput at 1 % of loss (lasthop's addition)", &|c| {
                    c.above(&geo("snoop", 1.0), 2.0 / 3.0, &geo("TCP", 0.0))
                }),
            ]
        } else {
            [
                claim("d", "A low orbit beats a geostationary one at every loss without a proxy", &|c| {
                    ["TCP", "QUIC"].into_iter().try_for_each(|line| {
                        LOSSES.into_iter().try_for_each(|loss| c.above(&leo(line, loss), 1.0, &geo(line, loss)))
                    })
                }),
                claim("e", "At 0.1 % of loss, a proxy gains more in a low orbit than in a geostationary one", &|c| {
                    let cells = [leo("split", 0.1), leo("TCP", 0.1), geo("split", 0.1), geo("TCP", 0.1)];
                    let [a, b, x, y] = cells.each_ref().map(String::as_str);
                    let difference = c.results.by_run([a, b, x, y], |[a, b, x, y]| a / b - x / y)?;
                    c.judge(&difference, format!("gains differ by {}", claims::show(&difference)));
                    Some(())
                }),
                None,
                None,
            ]
        };
        found.into_iter().flatten().collect()
    }

    fn orders_lines(&self) -> bool {
        true
    }

    fn note(&self) -> Option<&'static str> {
        let geo = "Misses over the geostationary satellite: QUIC at 0.01 and 0.1 % of loss is a third to a half slower here. quinn is \
                   not quicly. Losses were of satellite frames, of which one may carry several packets, or a part of one.";
        let leo = "Misses over the low orbit: at 0.1 and 1 % of loss, the simulator is up to three times as fast, with the proxy two to \
                   ten times, which is not explained.";
        Some(if self.id == "geo" { geo } else { leo })
    }
}

fn cell(orbit: &str, line: &str, loss: f64) -> String {
    format!("{orbit}/{line}/{}", loss_name(loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_belong_to_cells() {
        let points: Vec<Point> = KOSEK.topics.iter().flat_map(|topic| topic.points()).collect();
        assert_eq!((points.len(), points.iter().filter(|point| point.published.len() == 1).count()), (32, 24));
        let of = |name: &str| points.iter().find(|point| point.name == name).unwrap().published.clone();
        assert_eq!(of("geo/split/0%"), [("throughput", 16.34)]);
    }
}
