//! The uses: traffic of an application, the same over all links.

use super::lines::{Line, Transport};
use super::links::Link;
use super::metrics::Metric;
use crate::topics::{Base, Point};

/// A use of the link, with a table and a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A download for 30 s.
    Bulk,
    /// Three visits to a web page.
    Page,
    /// A call beside a download for 30 s.
    Call,
    /// Live video beside visits to a web page.
    Video,
}

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!("../../data/lasthop2026/", $file, ".toml"))
    };
}

impl Use {
    /// Returns the name, the first part of the names of cells.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Page => "page",
            Self::Call => "call",
            Self::Video => "video",
        }
    }

    /// Returns the name of a cell.
    pub fn cell(self, link: &str, line: &str) -> String {
        format!("{}/{link}/{line}", self.name())
    }

    /// Returns the metrics, of which the first is the one that figures and most claims use.
    pub const fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Bulk => &[Metric::Throughput, Metric::Gain, Metric::Overhead],
            Self::Page => &[Metric::PageTime],
            Self::Call => &[Metric::Opinion, Metric::CallDelay, Metric::CallMissed, Metric::Throughput],
            Self::Video => &[Metric::FramesMissed, Metric::PageTime],
        }
    }

    /// Returns the flows of downloads and pages, and those beside them.
    const fn traffic(self, transport: Transport) -> [&'static str; 2] {
        let quic = matches!(transport, Transport::Quic);
        let main = match (self, quic) {
            (Self::Bulk | Self::Call, false) => text!("bulk-tcp"),
            (Self::Bulk | Self::Call, true) => text!("bulk-quic"),
            (Self::Page | Self::Video, false) => text!("page-tcp"),
            (Self::Page | Self::Video, true) => text!("page-quic"),
        };
        let beside = match self {
            Self::Bulk | Self::Page => "",
            Self::Call => text!("call"),
            Self::Video => text!("video"),
        };
        [main, beside]
    }

    /// Returns the time after which a run ends, if its transfers have not.
    const fn limit(self) -> &'static str {
        match self {
            Self::Bulk | Self::Call => "30 s",
            Self::Page | Self::Video => "60 s",
        }
    }

    /// Returns the cell of a line over a link.
    pub fn point(self, link: &'static Link, line: &'static Line) -> Point {
        let [main, beside] = self.traffic(line.transport);
        let base = Base::Parts(link.name, [link.text, main, beside]);
        let mut point = Point::drawn(self.cell(link.name, line.name), base, line.scheme, (line.name, 0.0))
            .with("limit", self.limit());
        point.place = point.place.filter(|_| line.drawn);
        if line.transport == Transport::Prague {
            point = point.with("tcp.congestion", "prague").with("tcp.ecn_echo", "per-packet");
        }
        if let Some(queue) = line.queue {
            point = point.with("links.hop.queue", queue);
        }
        point
    }
}
