//! Claims about calls and live video.

use lasthop_report::study::Claim;

use super::{CURES, Of, above, below, claim, exceeds, lossy, missed, opinion};
use crate::lasthop2026::lines::{CUBIC, HYBRID, LINES};
use crate::lasthop2026::links::{Losses, links};
use crate::lasthop2026::metrics::Metric;
use crate::study::Results;

/// Score below which G.107 expects many users to be dissatisfied (rating 60).
const DISSATISFIED: f64 = 3.1;

/// Returns the claims about calls.
pub fn call(results: &Results) -> Vec<Claim> {
    let cellular = ["lte", "5g"];
    let found = [
        claim(
            results,
            "call-a",
            "Beside a download with CUBIC, a call scores below 3.1 (many users dissatisfied) over LTE, 5G and the geostationary \
             satellite, whose queues are deep",
            &|c| ["lte", "5g", "geo"].into_iter().try_for_each(|link| below(c, &opinion(link, CUBIC), DISSATISFIED)),
        ),
        claim(
            results,
            "call-b",
            "Over LTE and 5G, BBR at the sender, snoop and split each raise the score by more than 0.5 over CUBIC",
            &|c| {
                cellular.into_iter().try_for_each(|link| {
                    ["BBR", "SNOOP", "SPLIT-BBR"]
                        .into_iter()
                        .try_for_each(|line| exceeds(c, &opinion(link, line), (1.0, 0.5), &opinion(link, CUBIC)))
                })
            },
        ),
        claim(
            results,
            "call-c",
            "Over LTE, 5G, Starlink and the geostationary satellite, FQ-CoDel in front of the hop scores at most 0.1 below BBR at the \
             sender",
            &|c| {
                ["lte", "5g", "starlink", "geo"]
                    .into_iter()
                    .try_for_each(|link| exceeds(c, &opinion(link, "FQ-CoDel"), (1.0, -0.1), &opinion(link, "BBR")))
            },
        ),
        claim(
            results,
            "call-d",
            "Over each hop that loses frames for good, the hybrid tunnel scores higher than snoop and split",
            &|c| {
                lossy().try_for_each(|link| {
                    ["SNOOP", "SPLIT-BBR"].into_iter().try_for_each(|line| {
                        exceeds(c, &opinion(link.name, HYBRID), (1.0, 0.0), &opinion(link.name, line))
                    })
                })
            },
        ),
        claim(
            results,
            "call-e",
            "Over home Wi-Fi, no line scores more than 0.1 above CUBIC, or more than 0.1 below",
            &|c| {
                let others = LINES.iter().filter(|line| line.name != CUBIC && line.name != "FQ-CoDel");
                others.map(|line| line.name).try_for_each(|line| {
                    exceeds(c, &opinion("wifi", line), (1.0, -0.1), &opinion("wifi", CUBIC))?;
                    exceeds(c, &opinion("wifi", CUBIC), (1.0, -0.1), &opinion("wifi", line))
                })
            },
        ),
        claim(
            results,
            "call-f",
            "Over LTE, 5G and Starlink, the 95th percentile of the call's delay is lower beside Prague with an L4S queue than beside \
             CUBIC with FQ-CoDel",
            &|c| {
                ["lte", "5g", "starlink"].into_iter().try_for_each(|link| {
                    let delay = |line| Of { metric: Metric::CallDelay, ..opinion(link, line) };
                    exceeds(c, &delay("FQ-CoDel"), (1.0, 0.0), &delay("L4S"))
                })
            },
        ),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the claims about live video.
pub fn video(results: &Results) -> Vec<Claim> {
    let even = || links(|link| link.losses == Losses::Even);
    let found = [
        claim(
            results,
            "video-a",
            "Over lossy Wi-Fi, the mesh and the farm radio, more than 3 % of the frames are missed beside CUBIC, BBR, snoop and split",
            &|c| {
                even().try_for_each(|link| {
                    [CUBIC, "BBR", "SNOOP", "SPLIT-BBR"]
                        .into_iter()
                        .try_for_each(|line| above(c, &missed(link.name, line), 3.0))
                })
            },
        ),
        claim(
            results,
            "video-b",
            "Over these, the hybrid tunnel leaves less than a tenth of the frames missed beside CUBIC",
            &|c| {
                even()
                    .try_for_each(|link| exceeds(c, &missed(link.name, CUBIC), (10.0, 0.0), &missed(link.name, HYBRID)))
            },
        ),
        claim(
            results,
            "video-c",
            "Over the geostationary satellite, where a retransmission comes too late, coded frames (LINK-FEC) miss fewer frames than \
             retransmission (LINK-ARQ); over lossy Wi-Fi, the mesh and the farm radio, retransmission misses fewer",
            &|c| {
                exceeds(c, &missed("geo", "LINK-ARQ"), (1.0, 0.0), &missed("geo", "LINK-FEC"))?;
                even().try_for_each(|link| {
                    exceeds(c, &missed(link.name, "LINK-FEC"), (1.0, 0.0), &missed(link.name, "LINK-ARQ"))
                })
            },
        ),
        claim(
            results,
            "video-d",
            "Over each hop that loses frames for good, snoop and split change the share of frames missed by less than 1 percentage \
             point",
            &|c| {
                lossy().try_for_each(|link| {
                    ["SNOOP", "SPLIT-BBR"].into_iter().try_for_each(|line| {
                        exceeds(c, &missed(link.name, line), (1.0, -1.0), &missed(link.name, CUBIC))?;
                        exceeds(c, &missed(link.name, CUBIC), (1.0, -1.0), &missed(link.name, line))
                    })
                })
            },
        ),
        claim(
            results,
            "video-e",
            "Over LTE on a train, more than 1 % of the frames are missed with CUBIC, BBR, and every cure on the path",
            &|c| [CUBIC, "BBR"].into_iter().chain(CURES).try_for_each(|line| above(c, &missed("lte", line), 1.0)),
        ),
    ];
    found.into_iter().flatten().collect()
}
