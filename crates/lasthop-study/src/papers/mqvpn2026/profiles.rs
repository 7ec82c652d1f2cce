//! The 16 profiles of two paths.

use crate::papers::{records, uniform};
use crate::topics::Point;

/// A path in one direction; the other one is equal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Path {
    /// Delay in ms.
    delay: u32,
    /// Standard deviation of the delay in ms.
    deviation: u32,
    /// Loss in percent.
    pub loss: f64,
    /// Rate in Mbps.
    pub rate: u32,
}

const fn path(delay: u32, deviation: u32, loss: f64, rate: u32) -> Path {
    Path { delay, deviation, loss, rate }
}

impl Path {
    /// Returns `point` with its link of that name, `a` or `b`, as this path, whose rate is `share` of the report's.
    pub fn of(self, point: Point, link: Link, share: f64) -> Point {
        let [rate, delay, variation, errors] = link.keys();
        let Self { delay: ms, deviation, loss, .. } = self;
        let point = point.with(rate, format!("{:.3} Mbps", f64::from(self.rate) * share));
        let point = if deviation == 0 {
            point.with(delay, format!("{ms} ms"))
        } else {
            let model = format!("{{ model = \"normal\", mean = \"{ms} ms\", deviation = \"{deviation} ms\" }}");
            point.with(delay, "0 ms").with(variation, model)
        };
        if loss > 0.0 { point.with(errors, uniform(loss)) } else { point }
    }
}

/// Link of the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    A,
    B,
}

impl Link {
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Returns the link's name in the scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// Returns the keys of rate, delay, variation of the delay, and errors.
    const fn keys(self) -> [&'static str; 4] {
        match self {
            Self::A => ["links.a.rate", "links.a.delay", "links.a.delay_variation", "links.a.errors"],
            Self::B => ["links.b.rate", "links.b.delay", "links.b.delay_variation", "links.b.errors"],
        }
    }
}

/// A profile.
pub struct Profile {
    pub name: &'static str,
    pub paths: [Path; 2],
}

const NEAR: Path = path(20, 0, 0.0, 50);

/// All profiles, in the order of the report (benchmarks/bench_env_setup.sh).
pub static PROFILES: [Profile; 16] = [
    Profile { name: "baseline", paths: [NEAR, NEAR] },
    Profile { name: "rtt_40", paths: [NEAR, path(40, 0, 0.0, 50)] },
    Profile { name: "rtt_70", paths: [NEAR, path(70, 0, 0.0, 50)] },
    Profile { name: "rtt_120", paths: [NEAR, path(120, 0, 0.0, 50)] },
    Profile { name: "rtt_320", paths: [NEAR, path(320, 0, 0.0, 50)] },
    Profile { name: "jit_5", paths: [path(20, 5, 0.0, 50); 2] },
    Profile { name: "jit_20", paths: [path(20, 20, 0.0, 50); 2] },
    Profile { name: "loss_05", paths: [path(20, 0, 0.5, 50); 2] },
    Profile { name: "loss_2", paths: [path(20, 0, 2.0, 50); 2] },
    Profile { name: "bw_4to1", paths: [NEAR, path(20, 0, 0.0, 12)] },
    Profile { name: "bw_10to1", paths: [path(20, 0, 0.0, 100), path(20, 0, 0.0, 10)] },
    Profile { name: "dual_lte", paths: [path(30, 5, 0.5, 40), path(45, 8, 0.5, 25)] },
    Profile { name: "fiber_lte", paths: [path(8, 0, 0.0, 300), path(40, 8, 0.5, 30)] },
    Profile { name: "lte_starlink", paths: [path(35, 8, 0.0, 40), path(50, 25, 1.0, 100)] },
    Profile { name: "lte_geo", paths: [path(35, 0, 0.0, 40), path(320, 20, 0.5, 20)] },
    Profile { name: "congested", paths: [path(50, 20, 2.0, 20), path(60, 25, 2.0, 15)] },
];

/// Column of the published values.
#[derive(Clone, Copy)]
pub enum Column {
    Single(Link),
    BestOfWlb,
    BestOfMinrtt,
}

/// Returns a published value in Mbps.
pub fn published(profile: &str, column: Column) -> Option<f64> {
    let at = match column {
        Column::Single(Link::A) => 1,
        Column::Single(Link::B) => 2,
        Column::BestOfWlb => 3,
        Column::BestOfMinrtt => 4,
    };
    let row = records(include_str!("../../../data/mqvpn2026.csv")).find(|row| &row[0] == profile)?;
    row[at].parse().ok()
}
