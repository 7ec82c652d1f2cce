//! Both paths together, by lasthop's tunnel.

use lasthop_report::figures::Scale;
use lasthop_report::study::Claim;

use super::BASE;
use super::profiles::{Column, Link, PROFILES, Profile, published};
use crate::claims::{self, Claimant};
use crate::papers::median_throughput;
use crate::stats::Estimate;
use crate::study::Results;
use crate::topics::{Along, Axes, Base, Point, Topic};

/// Names of the metrics: the same goodput beside the best value of either of mqvpn's schedulers.
const BESIDE_WLB: &str = "median_goodput_beside_wlb";
const BESIDE_MINRTT: &str = "median_goodput_beside_minrtt";

/// Both paths, and each alone with the same tunnel.
pub struct Bundles;

/// A way to use the paths.
#[derive(Clone, Copy)]
enum Use {
    Both,
    Only(Link),
}

impl Use {
    const ALL: [Self; 3] = [Self::Both, Self::Only(Link::A), Self::Only(Link::B)];

    const fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Only(Link::A) => "only-A",
            Self::Only(Link::B) => "only-B",
        }
    }

    const fn scheme(self) -> &'static str {
        match self {
            Self::Both => "LINK-MULTI",
            Self::Only(_) => "LINK-HYBRID",
        }
    }
}

fn cell(profile: &str, used: Use) -> String {
    format!("bundle/{profile}/{}", used.name())
}

fn point(at: usize, profile: &Profile, used: Use) -> Point {
    let mut point = Point::drawn(cell(profile.name, used), BASE, used.scheme(), (used.name(), (at + 1) as f64));
    if let Use::Only(link) = used {
        point = point.with("base_station.link", format!("\"{}\"", link.name()));
    }
    for (link, path) in Link::BOTH.into_iter().zip(profile.paths) {
        point = path.of(point, link, 1.0);
    }
    if matches!(used, Use::Both) {
        point = point
            .published(BESIDE_WLB, published(profile.name, Column::BestOfWlb))
            .published(BESIDE_MINRTT, published(profile.name, Column::BestOfMinrtt));
    }
    point.beside()
}

impl Topic for Bundles {
    fn id(&self) -> &'static str {
        "bundle"
    }

    fn title(&self) -> &'static str {
        "Goodput of a download of 20 MiB over both paths with LINK-MULTI, and over one of them with LINK-HYBRID"
    }

    fn points(&self) -> Vec<Point> {
        let of = |(at, profile)| Use::ALL.map(|used| point(at, profile, used));
        PROFILES.iter().enumerate().flat_map(of).collect()
    }

    fn measures(&self) -> &'static [&'static str] {
        &[BESIDE_WLB, BESIDE_MINRTT]
    }

    fn shows(&self, point: &Point, measure: &str) -> bool {
        measure == BESIDE_WLB || point.name.ends_with("/both")
    }

    fn estimate(&self, point: &Point, _: &str, results: &Results) -> Option<(Estimate, &'static str)> {
        median_throughput(point, results)
    }

    fn axes(&self) -> Axes {
        Axes {
            along: Along::Number("profile, in the order of the table", Scale::Linear),
            measure: BESIDE_WLB,
            y: "goodput (Mbps)",
        }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let claim = |id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>| {
            claims::claim(results, id, text, gather)
        };
        let both = |profile: &str| cell(profile, Use::Both);
        let only = |profile: &str, link: Link| cell(profile, Use::Only(link));
        let found = [
            claim(
                "c",
                "Repair in the tunnel doubles the published goodput of a single path with 2 % of loss (16.3 Mbps)",
                &|c| c.exceeds(&only("loss_2", Link::A), 2.0 * 16.31),
            ),
            claim("d", "On symmetric profiles, both paths carry at least 85 % of the sum of each alone", &|c| {
                ["baseline", "loss_05", "loss_2"].into_iter().try_for_each(|profile| {
                    let cells = [both(profile), only(profile, Link::A), only(profile, Link::B)];
                    let [sum, a, b] = cells.each_ref().map(String::as_str);
                    let excess = c.results.by_run([sum, a, b], |[sum, a, b]| sum - 0.85 * (a + b))?;
                    c.judge(&excess, format!("{sum}: exceeds 85 % of the sum by {}", claims::show(&excess)));
                    Some(())
                })
            }),
            claim("e", "On no profile, both paths carry less than 95 % of the better one alone", &|c| {
                PROFILES.iter().try_for_each(|profile| {
                    Link::BOTH
                        .into_iter()
                        .try_for_each(|link| c.above(&both(profile.name), 0.95, &only(profile.name, link)))
                })
            }),
        ];
        found.into_iter().flatten().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Goodputs over both paths are not a reproduction: mqvpn's tunnel has no counterpart. Its values are the best over the \
             report's settings of the reorder buffer; the inner transport is QUIC with BBR there, TCP with CUBIC here.",
        )
    }
}

/// Paths of the fault test: 300 Mbps and 10 ms, 80 Mbps and 30 ms, of which the first one carries nothing from 10 to 20
/// s.
pub struct Failover;

static FAULT: Base = Base::Text("mqvpn2026-failover.toml", include_str!("../../../data/mqvpn2026-failover.toml"));

const FAILOVER: &str = "failover/cut-A/LINK-MULTI";

impl Topic for Failover {
    fn id(&self) -> &'static str {
        "failover"
    }

    fn title(&self) -> &'static str {
        "A call beside a download over 300 and 80 Mbps, of which the faster path fails from 10 to 20 s"
    }

    fn points(&self) -> Vec<Point> {
        vec![Point::drawn(FAILOVER.to_owned(), FAULT, "LINK-MULTI", ("LINK-MULTI", 1.0))]
    }

    fn measures(&self) -> &'static [&'static str] {
        &["throughput", "call_sent", "call_lost", "call_late"]
    }

    fn axes(&self) -> Axes {
        Axes { along: Along::Schemes, measure: "call_lost", y: "packets of the call lost" }
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let lost = claims::claim(results, "g", "No packet of a call is lost when a path fails", &|c| {
            let lost = *c.results.get(FAILOVER, "call_lost")?;
            let sent = *c.results.get(FAILOVER, "call_sent")?;
            let text = format!("{} of {:.0} packets lost", claims::show(&lost), sent.mean);
            c.check(lost.mean == 0.0, text);
            Some(())
        });
        lost.into_iter().collect()
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Not judged: claim (f), that no interval of 0.5 s stays below 1 Mbps when a path fails, needs rates over time, which are no \
             metric of a run. Measured on two kernels, the longest gap of a stream at such a cut is 16 to 158 ms \
             (docs/models/multipath.md).",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_report::study::Relation;

    #[test]
    fn values_of_mqvpn_stand_beside() {
        let points = Bundles.points();
        assert_eq!(points.len(), 48);
        assert!(points.iter().all(|point| point.relation == Relation::Beside));
        let point = points.iter().find(|point| point.name == "bundle/jit_5/both").unwrap();
        assert_eq!(point.published, [(BESIDE_WLB, 61.43), (BESIDE_MINRTT, 51.09)]);
        assert!(points.iter().filter(|point| !point.name.ends_with("/both")).all(|point| point.published.is_empty()));
    }
}
