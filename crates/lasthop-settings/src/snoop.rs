//! Keys of local repair, for the base station, elements and the gateway's rules.

use lasthop_proto::pep::snoop::{HopControl, SnoopConfig};
use lasthop_proto::scheme::TcpAwareness;
use lasthop_proto::time::Duration;

use crate::error::{Error, Problem};
use crate::reader::{Reader, Value};
use crate::units::TimeSpan;
use crate::values::{Count, FlowControlName, Positive, Whole, Window};

/// Keys read by [`kind`], which a scheme determines if it is active.
pub const KIND_KEYS: [&str; 2] = ["detection", "awareness"];

/// Keys read by [`repair`].
pub const REPAIR_KEYS: [&str; 7] =
    ["dupack_threshold", "timer_min", "timer_max", "max_local_retries", "flow_control", "backlog", "held"];

/// Reads the gateway's configuration.
pub fn of_gateway(reader: &Reader<'_>) -> Result<SnoopConfig, Error> {
    reader.allow(&[&KIND_KEYS[..], &REPAIR_KEYS[..]].concat())?;
    repair(reader, kind(reader, SnoopConfig::gateway())?)
}

/// Formats a table that [`of_gateway`] reads as the same configuration.
pub fn to_gateway(config: &SnoopConfig) -> String {
    let mut lines = vec![
        ("detection", config.detection.show()),
        ("awareness", config.awareness.show()),
        ("dupack_threshold", config.dupack_threshold.to_string()),
        ("timer_min", config.timer_min.show()),
        ("timer_max", config.timer_max.show()),
        ("max_local_retries", config.max_local_retries.to_string()),
    ];
    match config.hop {
        None => lines.push(("flow_control", FlowControlName::None.show())),
        Some(HopControl { backlog, held }) => lines.extend([
            ("flow_control", FlowControlName::Fast.show()),
            ("backlog", backlog.to_string()),
            ("held", Window(held).show()),
        ]),
    }
    lines.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Reads the detection of losses and the awareness of TCP, with defaults from `default`.
pub fn kind(reader: &Reader<'_>, default: SnoopConfig) -> Result<SnoopConfig, Error> {
    let detection = reader.or("detection", default.detection, "default")?;
    let awareness = reader.or("awareness", default.awareness, "default")?;
    Ok(SnoopConfig { detection, awareness, ..default })
}

/// Reads the repair of losses, with defaults from `default`.
pub fn repair(reader: &Reader<'_>, default: SnoopConfig) -> Result<SnoopConfig, Error> {
    let span =
        |key, default| reader.or(key, Positive(default), "default").map(|Positive(span): Positive<Duration>| span);
    let Whole(dupack_threshold) = reader.or::<Count>("dupack_threshold", Whole(default.dupack_threshold), "default")?;
    let (timer_min, timer_max) = (span("timer_min", default.timer_min)?, span("timer_max", default.timer_max)?);
    if timer_min > timer_max {
        let key = if reader.has("timer_min") { "timer_min" } else { "timer_max" };
        let (min, max) = (TimeSpan(timer_min), TimeSpan(timer_max));
        return Err(reader.fail(key, Problem::Conflict(format!("timer_min = {min} is above timer_max = {max}"))));
    }
    let Whole(max_local_retries) =
        reader.or::<Whole<0, { u32::MAX - 1 }>>("max_local_retries", Whole(default.max_local_retries), "default")?;
    let hop = flow_control(reader, &default)?;
    Ok(SnoopConfig { dupack_threshold, timer_min, timer_max, max_local_retries, hop, ..default })
}

fn flow_control(reader: &Reader<'_>, default: &SnoopConfig) -> Result<Option<HopControl>, Error> {
    let aware = default.awareness == TcpAwareness::Aware;
    let name = if default.hop.is_some() && aware { FlowControlName::Fast } else { FlowControlName::None };
    match reader.or("flow_control", name, "default")? {
        FlowControlName::None => {
            for key in ["backlog", "held"] {
                if reader.has(key) {
                    let message = format!("{key} requires flow_control = \"fast\"");
                    return Err(reader.fail(key, Problem::Conflict(message)));
                }
            }
            Ok(None)
        }
        FlowControlName::Fast if !aware => {
            let message = "flow_control = \"fast\" limits senders, which requires awareness = \"aware\"".to_owned();
            Err(reader.fail("flow_control", Problem::Conflict(message)))
        }
        FlowControlName::Fast => {
            let HopControl { backlog, held } = default.hop.unwrap_or(HopControl::DEFAULT);
            let Whole(backlog) = reader.or::<Count>("backlog", Whole(backlog), "default")?;
            let Window(held) = reader.or("held", Window(held), "default")?;
            Ok(Some(HopControl { backlog, held }))
        }
    }
}
