//! G. Yuan, M. Sotoudeh, D. K. Zhang, M. Welzl, D. Mazières, K. Winstein: Sidekick: In-Network Assistance for Secure
//! End-to-End Transport Protocols. USENIX NSDI 2024. Figures 5 and 6: goodput of uploads over a lossy hop.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use super::{loss_name, read_loss, records, uniform};
use crate::claims::{self, Claimant};
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Base, Point, Topic, Topics};

/// The study.
pub static SIDEKICK: Topics = Topics {
    name: "sidekick2024",
    title: "Sidekick: help from a proxy for TCP and QUIC",
    citation: "G. Yuan, M. Sotoudeh, D. K. Zhang, M. Welzl, D. Mazières, K. Winstein: Sidekick: In-Network Assistance for Secure \
               End-to-End Transport Protocols. 21st USENIX Symposium on Networked Systems Design and Implementation (NSDI), April 2024, \
               Figures 5 and 6. Values from the authors' raw data.",
    doi: None,
    introduction: &[
        "A proxy that splits TCP connections hides a lossy hop from the sender, but cannot split QUIC, which it cannot read. The \
         paper asks how much of that benefit QUIC can have: the proxy tells the client which of its packets have crossed the lossy hop. A \
         client uploads over a hop of 100 Mbps and 1 ms that loses packets, and a wired path of 10 Mbps and 25 ms.",
        "lasthop simulates TCP (CUBIC of Linux 6.18), QUIC (quinn, CUBIC; the authors used quiche), the splitting proxy \
         (SPLIT-BBR), and repair of the hop by its two ends (LINK-ARQ) as a bound for Sidekick, which it does not have. The \
         authors' TCP senders pass several packets at a time to the device (TSO), and the emulated link in front of it lost \
         them together: rows with \"TSO\" have both. Goodputs are computed as in the paper: of a \
         file of 10 MiB, 80 Mbit over the time with the TLS handshake, whose 115 ms are added to TCP's time.",
    ],
    topics: &[&LOSSES_FIGURE, &SIZES_FIGURE],
};

static BASE: Base = Base::Text("sidekick2024.toml", include_str!("../../data/sidekick2024.toml"));
const VALUES: &str = include_str!("../../data/sidekick2024.csv");

/// Loss ratios of Figure 6, in percent.
const LOSSES: [f64; 12] = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
/// Sizes of the files in Figure 5, in MiB, and loss ratios.
const SIZES: [u32; 3] = [1, 10, 50];
const SIZES_LOSSES: [f64; 2] = [0.0, 1.0];

/// Name of the metric: [`goodput`].
const GOODPUT: &str = "median_goodput";

/// Datagrams of the authors' curl and quiche (`QUIC_MAX_SEND_UDP_PAYLOAD_SIZE`), and the window per stream of their server
/// (`http3_initial_max_stream_data`).
const QUICHE_DATAGRAM: &str = "1200 B";
const QUICHE_WINDOW: &str = "100 MB";

/// Transport of the upload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Quic,
}

/// Unit of losses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Losing {
    Packets,
    /// Super-segments of the client, which has segmentation offload.
    SuperSegments,
}

/// A line of the figures.
struct Line {
    name: &'static str,
    scheme: &'static str,
    transport: Transport,
    losing: Losing,
    /// Scheme in the published values.
    published: &'static str,
}

static LINES: [Line; 6] = [
    Line { name: "TCP", scheme: "E2E-CUBIC", transport: Transport::Tcp, losing: Losing::Packets, published: "tcp" },
    Line {
        name: "TCP-TSO",
        scheme: "E2E-CUBIC",
        transport: Transport::Tcp,
        losing: Losing::SuperSegments,
        published: "tcp",
    },
    Line { name: "split", scheme: "SPLIT-BBR", transport: Transport::Tcp, losing: Losing::Packets, published: "pep" },
    Line {
        name: "split-TSO",
        scheme: "SPLIT-BBR",
        transport: Transport::Tcp,
        losing: Losing::SuperSegments,
        published: "pep",
    },
    Line { name: "QUIC", scheme: "E2E", transport: Transport::Quic, losing: Losing::Packets, published: "quic" },
    Line {
        name: "QUIC-repaired-hop",
        scheme: "LINK-ARQ",
        transport: Transport::Quic,
        losing: Losing::Packets,
        published: "none",
    },
];

impl Line {
    /// Returns the cell of a figure with that frame loss in percent and that size in MiB.
    fn point(&self, figure: &str, loss: f64, size: u32, x: f64) -> Point {
        let name = format!("{}/{size}MB", cell(figure, self.name, loss));
        let mut point = Point::drawn(name, BASE, self.scheme, (self.name, x))
            .with("flows.upload.size", format!("{size} MiB"))
            .with("links.radio.errors", self.errors(loss));
        if self.transport == Transport::Quic {
            point = point
                .with("flows.upload.app", "quic")
                .with("flows.upload.udp_payload", QUICHE_DATAGRAM)
                .with("flows.upload.stream_window", QUICHE_WINDOW);
        }
        if self.losing == Losing::SuperSegments {
            point = point.with("hosts.client.tcp", "{ tso = \"on\" }");
        }
        let is_own = |row: &csv::StringRecord| {
            &row[0] == figure && &row[1] == self.published && row[2].parse() == Ok(loss) && row[3].parse() == Ok(size)
        };
        let value = records(VALUES).find(is_own).and_then(|row| row[4].parse().ok());
        let point = point.published(GOODPUT, value);
        // The authors' TCP did not send single packets.
        if self.transport == Transport::Tcp && self.losing == Losing::Packets { point.beside() } else { point }
    }

    /// Returns the errors of the hop.
    fn errors(&self, loss: f64) -> String {
        match self.losing {
            Losing::Packets => uniform(loss),
            Losing::SuperSegments => {
                format!("{{ model = \"uniform\", frame_loss = \"{loss} %\", unit = \"super-segment\" }}")
            }
        }
    }
}

/// Returns the median goodput of a cell as the paper computes it: decimal megabytes over the time with handshakes.
fn goodput(point: &Point, results: &Results) -> Option<(Estimate, &'static str)> {
    let size: f64 = point.name.rsplit('/').next()?.strip_suffix("MB")?.parse().ok()?;
    let handshake = if point.set.iter().any(|(key, _)| *key == "flows.upload.app") { 0.0 } else { 0.115 };
    let bits = size * 8.0 * 1.048_576;
    let of = |[throughput]: [f64; 1]| 8.0 * size / (bits / throughput + handshake);
    let values = results.values_by_run("throughput", [&point.name], of)?;
    Some((Estimate::median_of(&values)?, "Mbps"))
}

/// Figure 6.
const LOSSES_FIGURE: Uploads = Uploads {
    id: "6",
    title: "Goodput of an upload of 10 MB over the hop's loss rate",
    along: Along::Number("frame loss rate (%)", Scale::Linear),
    points: || LINES.iter().flat_map(|line| LOSSES.map(|loss| line.point("6", loss, 10, loss))).collect(),
    claims: claims_on_losses,
    note: Some(
        "With TSO and losses of whole super-segments, TCP and the proxy follow at all losses. Misses: quinn is not quiche. The \
         authors' link has RED queues, which cost 5 % without loss. Sidekick itself declines from 2.5 % on, when its summaries \
         cannot name all lost packets; the repaired hop is the bound of such help.",
    ),
};

/// Figure 5.
const SIZES_FIGURE: Uploads = Uploads {
    id: "5",
    title: "Goodput of uploads of 1, 10 and 50 MB, without loss and at 1 %",
    along: Along::Number("size at 1 % of loss (MB)", Scale::Log),
    points: size_points,
    claims: claims_on_sizes,
    note: None,
};

/// A figure of uploads.
struct Uploads {
    id: &'static str,
    title: &'static str,
    along: Along,
    points: fn() -> Vec<Point>,
    claims: fn(&Results) -> Vec<Claim>,
    note: Option<&'static str>,
}

impl Topic for Uploads {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn points(&self) -> Vec<Point> {
        (self.points)()
    }

    fn measures(&self) -> &'static [&'static str] {
        &[GOODPUT]
    }

    fn estimate(&self, point: &Point, _: &str, results: &Results) -> Option<(Estimate, &'static str)> {
        goodput(point, results)
    }

    fn in_lab(&self, point: &Point) -> bool {
        let losses = ["0%", "0.5%", "1%", "2%"];
        let names = losses.iter().flat_map(|loss| ["TCP", "QUIC"].map(|line| format!("figure-6/{line}/{loss}/10MB")));
        names.into_iter().any(|name| point.name == name)
    }

    fn reads(&self, part: &str) -> Option<String> {
        read_loss(part).or_else(|| part.strip_suffix("MB").map(|size| format!("{size} MB")))
    }

    fn axes(&self) -> Axes {
        Axes { along: self.along, measure: GOODPUT, y: "goodput (Mbps)" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        (self.claims)(results)
    }

    fn orders_lines(&self) -> bool {
        true
    }

    fn note(&self) -> Option<&'static str> {
        self.note
    }
}

fn claims_on_losses(results: &Results) -> Vec<Claim> {
    let claim =
        |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| claims::claim(results, id, text, gather);
    let at = |line: &str, loss: f64| format!("{}/10MB", cell("6", line, loss));
    let found = [
        claim(
            "b",
            "At 1 % of loss, splitting TCP brings at least 2.2 times, and 95 % of its value without loss",
            &|c| {
                c.above(&at("split-TSO", 1.0), 2.2, &at("TCP-TSO", 1.0))?;
                c.above(&at("split-TSO", 1.0), 0.95, &at("split-TSO", 0.0))
            },
        ),
        claim("c", "TCP beats QUIC at 0.25 to 2 % of loss", &|c| {
            [0.25, 0.5, 1.0, 2.0].into_iter().try_for_each(|loss| c.above(&at("TCP-TSO", loss), 1.0, &at("QUIC", loss)))
        }),
        claim("d", "QUIC falls at least threefold from 0 to 1 % of loss", &|c| {
            c.above(&at("QUIC", 0.0), 3.0, &at("QUIC", 1.0))
        }),
        claim("e", "Splitting holds 95 % of its best up to 4 % of loss, and loses two thirds at 8 %", &|c| {
            [0.5, 1.0, 2.0, 3.0, 4.0]
                .into_iter()
                .try_for_each(|loss| c.above(&at("split-TSO", loss), 0.95, &at("split-TSO", 0.0)))?;
            c.above(&at("split-TSO", 0.0), 3.0, &at("split-TSO", 8.0))
        }),
        claim("g", "Repair of the hop keeps QUIC within 5 % of its goodput without loss at 1 %", &|c| {
            c.above(&at("QUIC-repaired-hop", 1.0), 0.95, &at("QUIC", 0.0))
        }),
    ];
    found.into_iter().flatten().collect()
}

fn size_points() -> Vec<Point> {
    let points = |line: &'static Line| {
        SIZES_LOSSES.into_iter().flat_map(move |loss| {
            SIZES.map(|size| {
                let mut point = line.point("5", loss, size, size.into());
                // The figure shows the uploads with losses.
                point.place = point.place.filter(|_| loss > 0.0);
                point
            })
        })
    };
    LINES.iter().flat_map(points).collect()
}

fn claims_on_sizes(results: &Results) -> Vec<Claim> {
    let at = |line: &str, loss: f64, size: u32| format!("{}/{size}MB", cell("5", line, loss));
    let equal = claims::claim(results, "a", "Without loss all are within 6 % of each other at 10 and 50 MB", &|c| {
        [10, 50].into_iter().try_for_each(|size| {
            ["split", "QUIC"]
                .into_iter()
                .try_for_each(|line| c.ratio_within(&at(line, 0.0, size), &at("TCP", 0.0, size), (0.94, 1.06)))
        })
    });
    let small =
        claims::claim(results, "f", "A loss of 1 % costs less of an upload of 1 MB than of one of 10 MB", &|c| {
            ["TCP-TSO", "QUIC"].into_iter().try_for_each(|line| {
                let cells = [at(line, 1.0, 1), at(line, 0.0, 1), at(line, 1.0, 10), at(line, 0.0, 10)];
                let [a, b, x, y] = cells.each_ref().map(String::as_str);
                let difference = c.results.by_run([a, b, x, y], |[a, b, x, y]| a / b - x / y)?;
                let text = format!("{line}: the kept share is larger by {}", claims::show(&difference));
                c.judge(&difference, text);
                Some(())
            })
        });
    [equal, small].into_iter().flatten().collect()
}

fn cell(figure: &str, line: &str, loss: f64) -> String {
    format!("figure-{figure}/{line}/{}", loss_name(loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Figure 6: 12 of TCP and 9 of QUIC; of the proxy those at our loss rates; of Figure 5 six of each.
    #[test]
    fn published_values_belong_to_cells() {
        let count = |points: &[Point], line: &str| {
            let of_line = points.iter().filter(|point| point.name.split('/').nth(1) == Some(line));
            of_line.filter(|point| !point.published.is_empty()).count()
        };
        let (losses, sizes) = (LOSSES_FIGURE.points(), SIZES_FIGURE.points());
        let lines = ["TCP-TSO", "split-TSO", "QUIC", "QUIC-repaired-hop"];
        assert_eq!(lines.map(|line| count(&losses, line)), [12, 11, 9, 0]);
        assert_eq!(lines.map(|line| count(&sizes, line)), [6, 6, 6, 0]);
    }

    #[test]
    fn offload_and_its_losses_go_together() {
        for line in &LINES {
            let point = line.point("6", 1.0, 10, 1.0);
            let value = |key: &str| point.set.iter().find(|(set, _)| *set == key).map(|(_, value)| value.as_str());
            let whole = value("links.radio.errors").is_some_and(|errors| errors.contains("unit = \"super-segment\""));
            assert_eq!(
                (value("hosts.client.tcp").is_some(), whole),
                (line.name.ends_with("TSO"), line.name.ends_with("TSO"))
            );
        }
    }
}
