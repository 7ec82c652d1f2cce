//! The keys of a two-ended link.

use lasthop_proto::link::hybrid::{HopConfig, RateRule, Repair, Share};
use lasthop_proto::scheme::LinkRepair;
use lasthop_proto::time::Duration;
use lasthop_sim::network::Rate;

use crate::error::Error;
use crate::reader::Reader;
use crate::values::{Or, Positive, SameAsLink, Whole};

/// All keys of a two-ended link.
pub(crate) const TWO_ENDED_KEYS: [&str; 6] = ["rate", "header", "queue", "share_data", "share_coded", "share_wait"];

/// What a scenario says of a two-ended link, whatever it does against losses.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TwoEndedKeys {
    /// Bits per second of each end; none: the link's in that direction.
    rate: Option<u64>,
    header: u16,
    queue: u32,
    share: Share,
}

impl TwoEndedKeys {
    /// What an end does. Its rate is 0 where it is to be the link's.
    pub fn config(&self, repair: LinkRepair) -> HopConfig {
        let repair = match repair {
            LinkRepair::Repeat => Repair::Repeat,
            LinkRepair::Adaptive => Repair::Adaptive,
            LinkRepair::Share => Repair::Share(self.share),
        };
        HopConfig { rate: RateRule::Fixed(self.rate.unwrap_or(0)), repair, header: self.header, queue: self.queue }
    }
}

/// Reads `[base_station.two_ended]`, which may be absent.
pub(crate) fn read_section(reader: &Reader<'_>) -> Result<TwoEndedKeys, Error> {
    reader.allow(&TWO_ENDED_KEYS)?;
    read(reader)
}

/// Reads the keys from a table, which may be absent.
pub(crate) fn read(reader: &Reader<'_>) -> Result<TwoEndedKeys, Error> {
    let rate = Or(None, SameAsLink);
    let Or(rate, _) = reader.or::<Or<SameAsLink, Rate>>("rate", rate, "default")?;
    // IPv4, UDP, the number, the tag, and what a data frame says (docs/models/two-ended-link.md).
    let Whole(header) = reader.or::<Whole<0, 256>>("header", Whole(58), "default")?;
    let Whole(queue) = reader.or::<Whole<1, 100_000>>("queue", Whole(1000), "default")?;
    // What kcptun and UDPspeeder are often run with.
    let Whole(data) = reader.or::<Whole<1, 128>>("share_data", Whole(20), "default")?;
    let Whole(coded) = reader.or::<Whole<1, 128>>("share_coded", Whole(3), "default")?;
    let Positive(wait) = reader.or("share_wait", Positive(Duration::from_millis(8)), "default")?;
    Ok(TwoEndedKeys {
        rate: rate.map(|Rate(rate)| rate),
        header: header as u16,
        queue,
        share: Share { data: data as u8, coded: coded as u8, wait },
    })
}
