//! Keys that several modules read.

use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::network::DamagedFrames;

use crate::values::{AppName, Auto, ElnSource, MediumName, Or, Positive, Whole};

/// Maximum number of runs of a scenario in one call.
const MOST_RUNS: u32 = 1_000_000;

/// Maximum number of flows in a scenario, including copies.
pub(crate) const MOST_FLOWS: u32 = 100_000;

/// Number of copies of a flow.
pub(crate) type Copies = Whole<1, MOST_FLOWS>;

keys! {
    /// Keys of a scenario.
    pub(crate) RootKeys {
        /// the file's name, none | one line; longer text
        title, description;
        /// `"E2E"` | scheme if the command names none
        scheme;
        /// {} | runs per cell
        runs: Whole<1, MOST_RUNS> = Whole(30);
        /// {} | root of all randomness
        seed: u64 = 1;
        /// {} | maximum simulated time
        limit: Positive<Duration> = Positive(Duration::from_secs(1000));
        /// {} | source of Explicit Loss Notifications: `"receiver"` (corrupted packets with intact headers),
        /// `"base-station"` (duplicate acknowledgments), `"radios"` ([chain](models/wireless-chain.md))
        eln_source: ElnSource = ElnSource::Receiver;
        tcp, hosts, routers, links, bundles, cells, flows, sessions, mobility, base_station, elements, lab, measurement;
    }

    /// Keys of a link, besides those of `impairments`.
    pub(crate) LinkKeys {
        /// required | the two ends, e.g. `["source", "base"]`; *downlink* is from first to second, *uplink* the reverse
        between;
        /// {} | `"half-duplex"`: one frame at a time, ends alternate; `"shared"`: half-duplex on a channel with other
        /// links ([chain](models/wireless-chain.md)); `"wifi"`: [802.11](#wi-fi); `"cell"`:
        /// [LTE and 5G](#lte-and-5g)
        medium: MediumName = MediumName::Duplex;
        wifi, cell;
        /// `"radio"`, `"wifi"`, `"cell"` | name of the channel or cell. Shared: two of its links cannot send
        /// simultaneously if a node or another of its links connects them
        channel;
        /// {} | half-duplex, shared: time per frame beside its bytes
        frame_overhead: Duration = Duration::ZERO;
        /// `"0 s"` | half-duplex: delay before a frame after one of the other direction
        turnaround;
        /// required | transmission rate
        rate;
        /// as `rate` | rate of the uplink
        rate_up;
        /// required | one-way propagation delay
        delay;
        /// none | [varying delay](#varying-delay)
        delay_variation;
        delay_variation_down, delay_variation_up;
        /// none | recorded rates, delays and losses in step: [link trace](#link-traces)
        trace;
        /// `"50 packets"`; `"1000 packets"` if a host with modern TCP sends into it | drop-tail limit beside the frame in
        /// transmission, or a [table](#queues). Modern hosts do not overrun it ([host-queue](models/host-queue.md))
        queue;
        /// as `queue` if that is set, otherwise its own default | of the uplink
        queue_up;
        /// {} | corrupted frames with intact headers: `"drop"`, `"deliver"` (marked), `"auto"`: deliver if endpoints use
        /// ELN and `eln_source` is the receiver
        damaged: Or<Auto, DamagedFrames> = None.into();
        /// none | [error model](#error-models), an independent process per direction
        errors;
        /// as `errors` | of one direction
        errors_down, errors_up;
    }

    /// Keys of a flow, besides those of its application and its copies.
    pub(crate) FlowKeys {
        /// required | host that opens the flow; host that accepts it (of `"on-off"` or a router)
        from, to;
        /// {} | `"transfer"` of `size`; `"idle"`: no data; `"on-off"`: datagrams in bursts; `"call"`; `"quic"`. On-off
        /// flows and calls last until the run ends and do not prolong it
        app: AppName = AppName::Transfer;
        /// required | bytes to transfer
        size;
        /// {} | FIN in each direction; `"off"`: the transfer ends with the last acknowledgment, and the connection stays
        /// open
        close: Switch = Switch::On;
        /// 0, of a call 46 (EF) | DSCP of the packets in both directions, 0 to 63, by which CAKE chooses a tin
        /// ([queues](models/aqm.md#cake)). The lab supports the defaults only
        dscp;
    }

    /// Keys of the copies of a flow or session.
    pub(crate) CopyKeys {
        /// {} | start time
        start: Instant = Instant::ZERO;
        /// {} | copies, named `NAME#1`, …, and time between their starts; at most 100,000 flows in total
        count: Copies = Whole(1), spacing: Duration = Duration::ZERO;
    }

    /// Keys of an on-off source.
    pub(crate) OnOffKeys {
        /// required for `"on-off"` | mean durations, exponential; off first
        on, off;
        /// required for `"on-off"` | rate while on
        rate;
        /// required for `"on-off"`; of a call `"1200 B"` | packet size with headers; maximum bytes of a video frame per
        /// packet
        packet;
    }

    /// Keys of an entry in the lists of frames.
    pub(crate) EntryKeys {
        byte, data, transmission, ack, syn, flow, by, behind;
    }
}
