//! Keys of local repair, for the base station, elements and the gateway's rules.

use lasthop_proto::pep::snoop::{Begin, HopControl, SnoopConfig};
use lasthop_proto::scheme::TcpAwareness;
use lasthop_proto::time::Duration;

use crate::error::{Error, Problem};
use crate::key::Key;
use crate::reader::{Reader, Value};
use crate::units::TimeSpan;
use crate::values::{Count, FlowControlName, Positive, Whole, Window};

keys! {
    /// Keys read by [`kind`], which a scheme determines if it is active.
    pub KindKeys {
        /// `"smart"`; of elements `"duplicate-acks"` | SACK blocks or SMART numbers, otherwise duplicates; elements: SMART
        /// numbers, which endpoints beyond the link then send; `"duplicate-acks"`: duplicates only
        detection;
        /// `"aware"` | suppress duplicate acknowledgments for losses under repair; `"unaware"`: forward, without
        /// `flow_control`
        awareness;
    }

    /// Keys read by [`repair`].
    pub RepairKeys {
        /// 1 | duplicates that trigger a local retransmission
        dupack_threshold;
        /// `"50 ms"`, `"1 s"`; of the studies' schemes and elements `"200 ms"`, `"3 s"` | of the local retransmission timer
        timer_min, timer_max;
        /// 10 | timer-driven retransmissions of a packet
        max_local_retries;
        /// `"losses"`; under `SNOOP`, if the hop is Wi-Fi, `"silences"` | `"losses"`: all; `"silences"`: for 10 s after nothing
        /// arrived for the local timer, before that losses are the sender's; excludes `flow_control`
        repairs;
        /// `"fast"`; of the studies' schemes `"none"`, unless `[tcp]` recovers with RACK; of elements `"none"` | `"fast"`:
        /// hold data back that would queue before the hop ([snoop](models/snoop.md)); requires `"aware"`
        flow_control;
        /// 10 | target of that queue, in packets of all active connections to a host (at least two each)
        backlog;
        /// `"256 KiB"` | unit of the window granted to a sender: a quarter at first, up to 16 times as much
        held;
    }
}

/// Reads the gateway's configuration, with defaults from `default`.
pub fn of_gateway(reader: &Reader<'_>, default: SnoopConfig) -> Result<SnoopConfig, Error> {
    reader.allow(&[KindKeys::NAMES, RepairKeys::NAMES].concat())?;
    repair(reader, kind(reader, default)?)
}

/// Formats a table that [`of_gateway`] reads as the same configuration.
pub fn to_gateway(config: &SnoopConfig) -> String {
    let mut lines = vec![
        (KindKeys::detection, config.detection.show()),
        (KindKeys::awareness, config.awareness.show()),
        (RepairKeys::dupack_threshold, config.dupack_threshold.to_string()),
        (RepairKeys::timer_min, config.timer_min.show()),
        (RepairKeys::timer_max, config.timer_max.show()),
        (RepairKeys::max_local_retries, config.max_local_retries.to_string()),
    ];
    if config.begin != SnoopConfig::gateway().begin {
        lines.push((RepairKeys::repairs, config.begin.show()));
    }
    match config.hop {
        None => lines.push((RepairKeys::flow_control, FlowControlName::None.show())),
        Some(HopControl { backlog, held }) => lines.extend([
            (RepairKeys::flow_control, FlowControlName::Fast.show()),
            (RepairKeys::backlog, backlog.to_string()),
            (RepairKeys::held, Window(held).show()),
        ]),
    }
    lines.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Reads the detection of losses and the awareness of TCP, with defaults from `default`.
pub fn kind(reader: &Reader<'_>, default: SnoopConfig) -> Result<SnoopConfig, Error> {
    let detection = reader.or(KindKeys::detection, default.detection, "default")?;
    let awareness = reader.or(KindKeys::awareness, default.awareness, "default")?;
    Ok(SnoopConfig { detection, awareness, ..default })
}

/// Reads the repair of losses, with defaults from `default`.
pub fn repair(reader: &Reader<'_>, default: SnoopConfig) -> Result<SnoopConfig, Error> {
    let span =
        |key: Key, default| reader.or(key, Positive(default), "default").map(|Positive(span): Positive<Duration>| span);
    let Whole(dupack_threshold) =
        reader.or::<Count>(RepairKeys::dupack_threshold, Whole(default.dupack_threshold), "default")?;
    let (timer_min, timer_max) =
        (span(RepairKeys::timer_min, default.timer_min)?, span(RepairKeys::timer_max, default.timer_max)?);
    if timer_min > timer_max {
        let key = if reader.has(RepairKeys::timer_min) { RepairKeys::timer_min } else { RepairKeys::timer_max };
        let (min, max) = (TimeSpan(timer_min), TimeSpan(timer_max));
        return Err(reader.fail(key, Problem::Conflict(format!("timer_min = {min} is above timer_max = {max}"))));
    }
    let Whole(max_local_retries) = reader.or::<Whole<0, { u32::MAX - 1 }>>(
        RepairKeys::max_local_retries,
        Whole(default.max_local_retries),
        "default",
    )?;
    let begin = reader.or(RepairKeys::repairs, default.begin, "default")?;
    let hop = flow_control(reader, &default, begin)?;
    Ok(SnoopConfig { dupack_threshold, timer_min, timer_max, max_local_retries, begin, hop, ..default })
}

fn flow_control(reader: &Reader<'_>, default: &SnoopConfig, begin: Begin) -> Result<Option<HopControl>, Error> {
    let aware = default.awareness == TcpAwareness::Aware;
    let name = if default.hop.is_some() && aware && begin == Begin::AtOnce {
        FlowControlName::Fast
    } else {
        FlowControlName::None
    };
    match reader.or(RepairKeys::flow_control, name, "default")? {
        FlowControlName::None => {
            for key in [RepairKeys::backlog, RepairKeys::held] {
                if reader.has(key) {
                    let message = format!("{key} requires flow_control = \"fast\"");
                    return Err(reader.fail(key, Problem::Conflict(message)));
                }
            }
            Ok(None)
        }
        FlowControlName::Fast if !aware => {
            let message = "flow_control = \"fast\" limits senders, which requires awareness = \"aware\"".to_owned();
            Err(reader.fail(RepairKeys::flow_control, Problem::Conflict(message)))
        }
        FlowControlName::Fast if begin == Begin::AfterSilence => {
            let message = "flow_control = \"fast\" requires repairs = \"losses\"".to_owned();
            Err(reader.fail(RepairKeys::flow_control, Problem::Conflict(message)))
        }
        FlowControlName::Fast => {
            let HopControl { backlog, held } = default.hop.unwrap_or(HopControl::DEFAULT);
            let Whole(backlog) = reader.or::<Count>(RepairKeys::backlog, Whole(backlog), "default")?;
            let Window(held) = reader.or(RepairKeys::held, Window(held), "default")?;
            Ok(Some(HopControl { backlog, held }))
        }
    }
}
