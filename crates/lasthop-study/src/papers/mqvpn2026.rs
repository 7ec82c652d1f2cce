//! mqvpn, report of 18 June 2026: a download through a multipath QUIC tunnel, over each path alone and over both.

mod bundles;
mod profiles;
mod singles;

use self::bundles::{Bundles, Failover};
use self::singles::Singles;
use crate::topics::{Base, Topics};

/// The study.
pub static MQVPN: Topics = Topics {
    name: "mqvpn2026",
    title: "mqvpn: a tunnel over two paths",
    citation: "mp0rta and contributors: mqvpn. Repository mp0rta/mqvpn, commit 81dc060, report of 18 June 2026 with raw data, and \
               docs/benchmarks_netns.md. Not peer-reviewed; medians of 3 runs.",
    doi: None,
    introduction: &[
        "A tunnel over several paths should be faster than the better path alone. The report measures 16 profiles of two emulated \
         paths: a download of 20 MiB by picoquic inside of a MASQUE tunnel, over each path alone and over both, with two schedulers \
         (wlb, minrtt) and with or without a buffer that restores the order.",
        "Single paths are simulated as in the report: packets of 1182 bytes, which the tunnel carries in datagrams of 1258 bytes on \
         Ethernet, and BBR version 3, which picoquic implements, as TCP of Linux. Delays vary as netem varies them at a given rate, \
         without reordering. Two paths are simulated with lasthop's own tunnel (LINK-MULTI) under TCP with CUBIC; mqvpn's best values \
         stand beside, and are those of the best setting for each profile.",
    ],
    topics: &[&Singles, &Bundles, &Failover],
};

static BASE: Base = Base::Text("mqvpn2026.toml", include_str!("../../data/mqvpn2026.toml"));
