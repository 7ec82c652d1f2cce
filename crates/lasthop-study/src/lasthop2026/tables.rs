//! Tables, figures, claims and notes of the uses.

use lasthop_report::study::Claim;

use super::claims;
use super::lines::{LINES, WITHOUT_CELLS};
use super::links::{LINKS, Link};
use super::uses::Use;
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Point, Topic};

impl Topic for Use {
    fn id(&self) -> &'static str {
        self.name()
    }

    fn title(&self) -> &'static str {
        match self {
            Self::Bulk => "A download for 30 s, beside CUBIC",
            Self::Page => "A web page of 2.4 MB: time until it is complete",
            Self::Call => "A call beside a download: opinion score, delay, packets missed, throughput of the download",
            Self::Video => "Live video beside web pages: frames missed, time of a page",
        }
    }

    fn points(&self) -> Vec<Point> {
        let of = |link: &'static Link| {
            LINES.iter().filter(|line| line.runs_over(link)).map(move |line| self.point(link, line))
        };
        LINKS.iter().flat_map(of).collect()
    }

    fn has_durations(&self) -> bool {
        true
    }

    fn in_lab(&self, point: &Point) -> bool {
        let line = point.name.rsplit('/').next().unwrap_or_default();
        match line {
            "CUBIC" | "BBR" | "SNOOP" | "LINK-HYBRID" => true,
            "QUIC" | "SPLIT-BBR" => matches!(self, Self::Bulk | Self::Page),
            _ => false,
        }
    }

    fn measures(&self) -> &'static [&'static str] {
        match self {
            Self::Bulk => &["throughput", "gain", "overhead"],
            Self::Page => &["page_time"],
            Self::Call => &["opinion", "call_delay", "call_missed", "throughput"],
            Self::Video => &["frames_missed", "page_time"],
        }
    }

    fn estimate(&self, point: &Point, measure: &str, results: &Results) -> Option<(Estimate, &'static str)> {
        let metric = self.metrics().iter().find(|metric| metric.name() == measure)?;
        let values: Vec<f64> = metric.of(results, &point.name)?.into_iter().flatten().collect();
        Some((Estimate::of(&values)?, metric.unit()))
    }

    fn reads(&self, part: &str) -> Option<String> {
        LINKS.iter().find(|link| link.name == part).map(|link| link.reads.to_owned()).or_else(|| {
            // Names of lines are unchanged.
            LINES.iter().any(|line| line.name == part).then(|| part.to_owned())
        })
    }

    fn axes(&self) -> Axes {
        let (measure, y) = match self {
            Self::Bulk => ("gain", "throughput over that of CUBIC"),
            Self::Page => ("page_time", "time of a page (s)"),
            Self::Call => ("opinion", "mean opinion score of the call"),
            Self::Video => ("frames_missed", "video frames missed (%)"),
        };
        Axes { along: Along::Seconds, measure, y }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        match self {
            Self::Bulk => claims::bulk(results),
            Self::Page => claims::page(results),
            Self::Call => claims::call(results),
            Self::Video => claims::video(results),
        }
    }

    fn note(&self) -> Option<&'static str> {
        match self {
            Self::Bulk => Some(WITHOUT_CELLS),
            Self::Page => Some(
                "A page is complete when the last of its six connections is; the time is the mean of three visits, and at most the 60 s \
                 of a run. TCP's server opens the connection and sends at once, while QUIC's client sends a request after the \
                 handshake: pages over TCP lack half a round trip for the request, and one for TLS.",
            ),
            Self::Call => Some(
                "The opinion score is that of ITU-T G.107 for a receiver that plays at the 99th percentile of the delay, of both \
                 directions together: packets that were lost or later are missed, as independent losses.",
            ),
            Self::Video => Some(
                "A frame is missed if one of its five packets is lost or more than 400 ms late. Applications with retransmission or \
                 codes of their own miss fewer.",
            ),
        }
    }
}
