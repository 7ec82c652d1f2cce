//! `kind = "two-ended"`: repair of a link by both its ends.

mod octets;

use lasthop_proto::link::hybrid::node;
use lasthop_proto::link::hybrid::{Bundle, HopConfig, Medium, Multipath, RateRule, Repair, Reports, Share};
use lasthop_proto::node::Node;
use lasthop_proto::packet::FlowId;
use lasthop_proto::scheme::{LinkRepair, Scheme};
use lasthop_proto::time::Duration;
use lasthop_sim::Bytes;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site, StateAtHandoff};
use lasthop_sim::network::{self, Rate};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::Error;
use crate::reader::Reader;
use crate::units::{BitRate, ByteSize};
use crate::values::{Auto, Or, Positive, SameAsLink, Whole};

pub(super) static KIND: Kind = Kind {
    name: "two-ended",
    keys: &[RepairKeys::NAMES, Keys::NAMES],
    rows: &[],
    ends: Ends::Both,
    read: |reader, _| {
        let repair = reader.value(RepairKeys::repair)?;
        Ok(AnyPart::new(read(reader)?.with(repair)))
    },
};

/// One end of a two-ended link.
#[derive(Clone, PartialEq, Debug)]
pub struct TwoEnded {
    /// Sending rate of an end.
    pub rate: SendingRate,
    /// Repair of losses.
    pub repair: Repair,
    /// Use of all links of a bundle; `None` if it uses one.
    pub multipath: Option<Multipath>,
    /// Bytes added to each packet.
    pub header: u16,
    /// Maximum number of packets in its entry queue; `None`: follows the hop.
    pub queue: Option<u32>,
    /// Memory for packets, in bytes.
    pub memory: u64,
    /// Maximum queueing delay that may persist for `interval`.
    pub target: Duration,
    /// Interval for `target`.
    pub interval: Duration,
    /// Flows that bypass the element.
    pub past: Vec<FlowId>,
}

/// Sending rate of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendingRate {
    /// Rate of the link in its direction.
    SameAsLink,
    /// Configured rate, in bits per second.
    Given(u64),
    /// Estimated rate of the hop.
    Auto,
}

impl TwoEnded {
    /// Returns the configuration of an end for a link of rate `link` on that medium.
    pub fn config(&self, link: Rate, medium: &network::Medium) -> HopConfig {
        let rate = self.rate_rule(link);
        let medium = match medium {
            network::Medium::Duplex | network::Medium::Cell { .. } => Medium::Own,
            network::Medium::HalfDuplex { .. } | network::Medium::Shared { .. } | network::Medium::Wifi { .. } => {
                Medium::Shared
            }
        };
        HopConfig {
            medium,
            rate,
            repair: self.repair,
            header: self.header,
            queue: self.queue,
            memory: self.memory,
            target: self.target,
            interval: self.interval,
        }
    }

    /// Returns the other links that an end at `site` uses.
    fn bundle(&self, site: &Site<'_>) -> Bundle {
        let more = site.more.iter().map(|rate| (self.rate_rule(*rate), self.header)).collect();
        Bundle { multipath: self.multipath.unwrap_or_default(), more, terms: site.terms.to_vec() }
    }

    fn rate_rule(&self, link: Rate) -> RateRule {
        match self.rate {
            SendingRate::SameAsLink => RateRule::Fixed(link.0),
            SendingRate::Given(rate) => RateRule::Fixed(rate),
            SendingRate::Auto => RateRule::Auto,
        }
    }
}

impl Part for TwoEnded {
    fn place(&self, _: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        AnyElement::new(self.clone())
    }
}

impl Element for TwoEnded {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::LinkEnd
    }

    fn at_handoff(&self) -> StateAtHandoff {
        StateAtHandoff::Session
    }

    fn uses_bundle(&self) -> bool {
        self.multipath.is_some()
    }

    fn marks(&self) -> bool {
        true
    }

    /// Returns the other end for AIRMAIL: the base station reports periodically, the other end on events.
    fn at_other_end(&self) -> Option<AnyElement> {
        let repair = match self.repair {
            Repair::Airmail(Reports::Periodic) => Repair::Airmail(Reports::OnEvent),
            _ => return None,
        };
        Some(AnyElement::new(Self { repair, ..self.clone() }))
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Node<()>> {
        node::TwoEnded::boxed(self.config(site.rate, site.medium), &self.bundle(site), self.past.clone())
    }

    fn build_on_bytes(&self, site: &Site<'_>) -> Option<Box<dyn Node<Bytes> + Send>> {
        let config = self.config(site.rate, site.medium);
        Some(Box::new(octets::OnBytes::new(config, &self.bundle(site), self.past.clone())))
    }

    fn describe(&self) -> String {
        let repair = match self.repair {
            Repair::Repeat => "retransmits lost packets".to_owned(),
            Repair::Adaptive if let Some(multipath) = self.multipath => {
                let uses = match multipath {
                    Multipath::Bond => {
                        "uses all links of its bundle; retransmits lost packets, and copies those of calls"
                    }
                    Multipath::Redundant => "sends each packet on two links of its bundle; retransmits lost packets",
                    Multipath::Failover => "uses the first link of its bundle that works; retransmits lost packets",
                };
                uses.to_owned()
            }
            Repair::Adaptive => "retransmits lost packets; copies and codes where that is too late".to_owned(),
            Repair::Airmail(_) => "codes blocks, retransmits what they cannot recover".to_owned(),
            Repair::Share(Share { data, coded, .. }) => format!("{coded} coded frames per {data} packets"),
        };
        let rate = match self.rate {
            SendingRate::SameAsLink => "the link's rate".to_owned(),
            SendingRate::Given(rate) => BitRate(rate).to_string(),
            SendingRate::Auto => "a measured rate".to_owned(),
        };
        format!("end of a two-ended link: {repair}; sends at {rate}")
    }
}

keys! {
    /// Key of the element, besides those of all two-ended links.
    pub(crate) RepairKeys {
        /// {} | element: `"repeat"` (`LINK-ARQ`), `"share"` (`LINK-FEC`), `"adaptive"` (`LINK-HYBRID`), `"airmail"`
        /// (`AIRMAIL`, the router is its base station), `"multipath"` (`LINK-MULTI`, over all links of its bundle)
        repair: LinkRepair = LinkRepair::Adaptive;
    }

    /// Keys of a two-ended link.
    pub(crate) Keys {
        /// {} | sending rate including the header: the link's, or `"auto"`: estimated
        rate: Or<Auto, Or<SameAsLink, Rate>> = Or(Some(Or(None, SameAsLink)), Auto);
        // IPv4, UDP, the number, the tag, and the fields of a data frame (docs/models/two-ended-link.md).
        /// {} | bytes added to each packet, 0 to 256
        header: Whole<0, 256> = Whole(58);
        /// {} | packets, under FQ-CoDel; `"auto"`: three round trips of the hop, at least 1000
        queue: Or<Auto, Whole<1, 100_000>> = Or(None, Auto);
        /// {} | for packets: a third each for those in flight, those held for an earlier one, and the queue if `"auto"`; at
        /// least 1 MiB
        memory: ByteSize = ByteSize(64 << 20);
        /// {} | FQ-CoDel's above the hop's round trip (at least 1.5 frames); interval at least ten times the target
        target: Positive<Duration> = Positive(Duration::from_millis(40)),
        interval: Positive<Duration> = Positive(Duration::from_millis(100));
        // Common settings of kcptun and UDPspeeder.
        /// {} | `"share"`: packets and coded frames per block, 1 to 128
        share_data: Whole<1, 128> = Whole(20), share_coded: Whole<1, 128> = Whole(3);
        /// {} | `"share"`: an incomplete block closes this long after its last packet
        share_wait: Positive<Duration> = Positive(Duration::from_millis(8));
        /// {} | `LINK-MULTI`: packets are spread over all links; `"redundant"`: each is sent on two; `"failover"`: the first
        /// link that works, in the order of the bundle, carries all
        multipath: Multipath = Multipath::Bond;
    }
}

/// Minimum memory: some 230 packets in flight.
const LEAST_MEMORY: u64 = 1 << 20;

/// Settings of a two-ended link in a scenario, independent of the repair.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TwoEndedSettings {
    /// Settings of an end, without the keys of [`Repair::Share`].
    end: TwoEnded,
    share: Share,
    multipath: Multipath,
}

impl TwoEndedSettings {
    /// Sets the flows that bypass the element.
    pub fn passing(mut self, past: Vec<FlowId>) -> Self {
        self.end.past = past;
        self
    }

    /// Returns an end with this repair.
    pub fn with(&self, repair: LinkRepair) -> TwoEnded {
        let multipath = (repair == LinkRepair::Multipath).then_some(self.multipath);
        let repair = match repair {
            LinkRepair::Repeat => Repair::Repeat,
            LinkRepair::Adaptive | LinkRepair::Multipath => Repair::Adaptive,
            LinkRepair::Share => Repair::Share(self.share),
            LinkRepair::Airmail => Repair::Airmail(Reports::Periodic),
        };
        TwoEnded { repair, multipath, ..self.end.clone() }
    }
}

/// Reads the keys from a table, which may be absent.
pub(crate) fn read(reader: &Reader<'_>) -> Result<TwoEndedSettings, Error> {
    let rate = match reader.value(Keys::rate)? {
        Or(None, Auto) => SendingRate::Auto,
        Or(Some(Or(None, SameAsLink)), Auto) => SendingRate::SameAsLink,
        Or(Some(Or(Some(Rate(rate)), SameAsLink)), Auto) => SendingRate::Given(rate),
    };
    let Whole(header) = reader.value(Keys::header)?;
    let Or(queue, Auto) = reader.value(Keys::queue)?;
    let queue = queue.map(|Whole(packets)| packets);
    let ByteSize(memory) = reader.value(Keys::memory)?;
    if memory < LEAST_MEMORY {
        return Err(reader.refuse(Keys::memory, "at least 1 MiB, e.g. \"64 MiB\"", ""));
    }
    let Positive(target) = reader.value(Keys::target)?;
    let Positive(interval) = reader.value(Keys::interval)?;
    let Whole(data) = reader.value(Keys::share_data)?;
    let Whole(coded) = reader.value(Keys::share_coded)?;
    let Positive(wait) = reader.value(Keys::share_wait)?;
    let end = TwoEnded {
        rate,
        repair: Repair::Adaptive,
        multipath: None,
        header: header as u16,
        queue,
        memory,
        target,
        interval,
        past: Vec::new(),
    };
    let multipath = reader.value(Keys::multipath)?;
    Ok(TwoEndedSettings { end, share: Share { data: data as u8, coded: coded as u8, wait }, multipath })
}
