//! Claims about downloads and web pages.

use lasthop_report::study::Claim;

use super::{CURES, Of, below, claim, exceeds, lossy, page_time, throughput, times_exceeds};
use crate::claims::show;
use crate::lasthop2026::lines::{CUBIC, HYBRID};
use crate::lasthop2026::links::{LINKS, Losses, links};
use crate::lasthop2026::metrics::Metric;
use crate::stats::Estimate;
use crate::study::Results;

/// Returns the claims about downloads.
pub fn bulk(results: &Results) -> Vec<Claim> {
    let found = [
        claim(
            results,
            "bulk-a",
            "Over each hop that loses frames for good, BBR at the sender is more than twice as fast as CUBIC",
            &|c| {
                lossy().try_for_each(|link| {
                    exceeds(c, &throughput(link.name, "BBR"), (2.0, 0.0), &throughput(link.name, CUBIC))
                })
            },
        ),
        claim(
            results,
            "bulk-b",
            "Over each hop that repairs its own losses, snoop, split and the hybrid tunnel change the throughput of CUBIC by less \
             than 10 %",
            &|c| {
                links(|link| link.losses == Losses::Repaired).try_for_each(|link| {
                    CURES.into_iter().try_for_each(|cure| {
                        let (cure, plain) = (throughput(link.name, cure), throughput(link.name, CUBIC));
                        exceeds(c, &cure, (0.9, 0.0), &plain)?;
                        times_exceeds(c, &plain, 1.1, &cure)
                    })
                })
            },
        ),
        claim(
            results,
            "bulk-c",
            "Snoop, one device, gets more than 90 % of the throughput of the hybrid tunnel, two devices, over every hop",
            &|c| {
                LINKS.iter().try_for_each(|link| {
                    exceeds(c, &throughput(link.name, "SNOOP"), (0.9, 0.0), &throughput(link.name, HYBRID))
                })
            },
        ),
        claim(
            results,
            "bulk-d",
            "BBR at the sender gets more than 90 % of the throughput of snoop, split and the hybrid tunnel, over every hop",
            &|c| {
                LINKS.iter().try_for_each(|link| {
                    CURES.into_iter().try_for_each(|cure| {
                        exceeds(c, &throughput(link.name, "BBR"), (0.9, 0.0), &throughput(link.name, cure))
                    })
                })
            },
        ),
        claim(
            results,
            "bulk-e",
            "BBR version 3 gets more than 90 % of the throughput of version 1 over every hop",
            &|c| {
                LINKS.iter().try_for_each(|link| {
                    exceeds(c, &throughput(link.name, "BBR3"), (0.9, 0.0), &throughput(link.name, "BBR"))
                })
            },
        ),
        claim(
            results,
            "bulk-f",
            "Over each hop that loses frames for good, the hybrid tunnel more than doubles the throughput of QUIC",
            &|c| {
                lossy().try_for_each(|link| {
                    exceeds(c, &throughput(link.name, "QUIC-HYBRID"), (2.0, 0.0), &throughput(link.name, "QUIC"))
                })
            },
        ),
        claim(
            results,
            "bulk-g",
            "Over the geostationary satellite, split is faster than snoop, the hybrid tunnel, and BBR at the sender",
            &|c| {
                ["SNOOP", HYBRID, "BBR"].into_iter().try_for_each(|other| {
                    exceeds(c, &throughput("geo", "SPLIT-BBR"), (1.0, 0.0), &throughput("geo", other))
                })
            },
        ),
        claim(
            results,
            "bulk-h",
            "Over each hop that loses frames for good, the hybrid tunnel is faster than a fixed share of coded frames",
            &|c| {
                lossy().try_for_each(|link| {
                    exceeds(c, &throughput(link.name, HYBRID), (1.0, 0.0), &throughput(link.name, "LINK-FEC"))
                })
            },
        ),
        claim(
            results,
            "bulk-i",
            "Over each hop that loses frames for good, Prague without a queue that marks is slower than CUBIC",
            &|c| {
                lossy().try_for_each(|link| {
                    exceeds(c, &throughput(link.name, CUBIC), (1.0, 0.0), &throughput(link.name, "Prague"))
                })
            },
        ),
        claim(
            results,
            "bulk-j",
            "With the hybrid tunnel, the hop carries less than 15 % more bytes than a download delivers, over every hop",
            &|c| {
                LINKS.iter().try_for_each(|link| {
                    let overhead = Of { metric: Metric::Overhead, ..throughput(link.name, HYBRID) };
                    below(c, &overhead, 15.0)
                })
            },
        ),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the claims about web pages.
pub fn page(results: &Results) -> Vec<Claim> {
    let found = [
        claim(
            results,
            "page-a",
            "Over each hop that loses frames for good, pages take less than 80 % of CUBIC's time with the hybrid tunnel",
            &|c| {
                lossy().try_for_each(|link| {
                    times_exceeds(c, &page_time(link.name, CUBIC), 0.8, &page_time(link.name, HYBRID))
                })
            },
        ),
        claim(
            results,
            "page-b",
            "Over each hop that repairs its own losses, and over Starlink, snoop, split and the hybrid tunnel save less than 20 % of \
             the time of a page",
            &|c| {
                links(|link| !link.loses()).try_for_each(|link| {
                    CURES.into_iter().try_for_each(|cure| {
                        exceeds(c, &page_time(link.name, cure), (0.8, 0.0), &page_time(link.name, CUBIC))
                    })
                })
            },
        ),
        claim(
            results,
            "page-c",
            "Over each hop that loses frames for good, BBR speeds pages up by a smaller factor than downloads",
            &|c| {
                lossy().try_for_each(|link| {
                    let [fast, slow] = ["BBR", CUBIC].map(|line| throughput(link.name, line).values(c.results));
                    let [short, long] = ["BBR", CUBIC].map(|line| page_time(link.name, line).values(c.results));
                    let (downloads, pages) = (fast?.into_iter().zip(slow?), long?.into_iter().zip(short?));
                    let ratios: Vec<(f64, f64)> = downloads
                        .zip(pages)
                        .filter_map(|((fast, slow), (long, short))| Some((fast? / slow?, long? / short?)))
                        .collect();
                    let [download, page, less] = [
                        ratios.iter().map(|ratio| ratio.0).collect::<Vec<_>>(),
                        ratios.iter().map(|ratio| ratio.1).collect(),
                        ratios.iter().map(|ratio| ratio.0 - ratio.1).collect(),
                    ]
                    .map(|values| Estimate::of(&values));
                    let text = format!("{}: downloads {} > pages {}", link.name, show(&download?), show(&page?));
                    c.judge(&less?, text);
                    Some(())
                })
            },
        ),
        claim(
            results,
            "page-d",
            "Over each hop that loses frames for good, snoop in front of CUBIC loads pages faster than CUBIC, BBR and QUIC alone",
            &|c| {
                lossy().try_for_each(|link| {
                    [CUBIC, "BBR", "QUIC"].into_iter().try_for_each(|line| {
                        exceeds(c, &page_time(link.name, line), (1.0, 0.0), &page_time(link.name, "SNOOP"))
                    })
                })
            },
        ),
        claim(
            results,
            "page-e",
            "Over the geostationary satellite, pages take less than 70 % of CUBIC's time with split",
            &|c| times_exceeds(c, &page_time("geo", CUBIC), 0.7, &page_time("geo", "SPLIT-BBR")),
        ),
        claim(
            results,
            "page-f",
            "With the hybrid tunnel, pages take at most 10 % longer than with CUBIC, BBR, snoop and split, over every hop",
            &|c| {
                LINKS.iter().try_for_each(|link| {
                    [CUBIC, "BBR", "SNOOP", "SPLIT-BBR"].into_iter().try_for_each(|other| {
                        times_exceeds(c, &page_time(link.name, other), 1.1, &page_time(link.name, HYBRID))
                    })
                })
            },
        ),
    ];
    found.into_iter().flatten().collect()
}
