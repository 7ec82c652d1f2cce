//! The lines: a transport, and what helps it.

use super::links::{Link, Queue};

/// Scheme with the settings that make it a line of the study.
#[derive(Debug)]
pub struct Line {
    /// Name, a part of the names of cells.
    pub name: &'static str,
    /// Scheme.
    pub scheme: &'static str,
    /// Transport of downloads and pages.
    pub transport: Transport,
    /// Queue discipline in front of the hop; `None` leaves the link's own.
    pub queue: Option<&'static str>,
    /// Indicates whether figures show the line.
    pub drawn: bool,
}

/// Transport of downloads and pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// TCP of Linux 6.18 with the congestion control of the scheme.
    Tcp,
    /// TCP with Prague, and the echo per packet that it needs.
    Prague,
    /// QUIC of quinn with CUBIC.
    Quic,
}

/// Line of TCP.
const fn tcp(name: &'static str, scheme: &'static str) -> Line {
    Line { name, scheme, transport: Transport::Tcp, queue: None, drawn: false }
}

/// All lines, in the order of tables: end to end, a managed queue, one device, a device at each end.
pub static LINES: [Line; 14] = [
    Line { drawn: true, ..tcp(CUBIC, "E2E-CUBIC") },
    Line { drawn: true, ..tcp("BBR", "E2E-BBR") },
    tcp("BBR3", "E2E-BBR3"),
    Line { transport: Transport::Prague, ..tcp("Prague", "E2E-CUBIC") },
    Line { transport: Transport::Quic, drawn: true, ..tcp("QUIC", "E2E") },
    Line { queue: Some("{ kind = \"fq-codel\" }"), ..tcp("FQ-CoDel", "E2E-CUBIC") },
    Line { transport: Transport::Prague, queue: Some("{ kind = \"dualpi2\" }"), ..tcp("L4S", "E2E-CUBIC") },
    Line { drawn: true, ..tcp("SNOOP", "SNOOP") },
    Line { drawn: true, ..tcp("SPLIT-BBR", "SPLIT-BBR") },
    tcp("LINK-ARQ", "LINK-ARQ"),
    tcp("LINK-FEC", "LINK-FEC"),
    Line { drawn: true, ..tcp(HYBRID, "LINK-HYBRID") },
    tcp("AIRMAIL", "AIRMAIL"),
    Line { transport: Transport::Quic, ..tcp("QUIC-HYBRID", "LINK-HYBRID") },
];

/// The default of Linux without a cure, with which the others are compared.
pub const CUBIC: &str = "CUBIC";
/// The tunnel with both retransmission and codes.
pub const HYBRID: &str = "LINK-HYBRID";

impl Line {
    /// Returns whether the line differs from others over a link: FQ-CoDel is what a managed queue already is.
    pub fn runs_over(&self, link: &Link) -> bool {
        self.name != "FQ-CoDel" || link.queue == Queue::Unmanaged
    }
}

/// Combinations without cells, with the reason: a note of the study.
pub const WITHOUT_CELLS: &str = "Combinations without cells. FQ-CoDel over home Wi-Fi, lossy Wi-Fi and mesh: their queue is FQ-CoDel already, so the cell would \
     equal CUBIC's. QUIC with SNOOP or SPLIT-BBR: both forward QUIC unchanged, so the cells would equal QUIC's. Prague with SPLIT-BBR: \
     the relay's receiver has no echo per packet or accurate ECN, without which Prague takes every echo for a round trip of marks. QUIC \
     with BBR: quinn's BBR is not simulated. LINK-MULTI: it needs a second link. SPLIT-SRP: it needs a changed receiver, which \
     exists only in the simulator. The lab runs CUBIC, BBR, SNOOP and LINK-HYBRID in all uses, and QUIC and SPLIT-BBR in two.";
