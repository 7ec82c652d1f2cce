//! Queues as TOML.

use lasthop_proto::queue::{CoDelConfig, QueueLimit, QueueSpec};
use lasthop_proto::rate::Rate;

use crate::reader::Value;
use crate::units::ByteSize;
use crate::values::{QueueKind, Window};

/// Formats the queue as TOML.
pub(super) fn show(queue: &QueueSpec) -> String {
    let codel = |config: &CoDelConfig| {
        let CoDelConfig { target, interval, ecn } = config;
        format!("target = {}, interval = {}, ecn = {}", target.show(), interval.show(), ecn.show())
    };
    let (kind, keys) = match queue {
        QueueSpec::Fifo(limit) => return limit.show(),
        QueueSpec::CoDel(_, config) => (QueueKind::CoDel, codel(config)),
        QueueSpec::AckAware(config) => {
            (QueueKind::AckAware, format!("filter = {}, first = {}", config.filter.show(), config.first.show()))
        }
        QueueSpec::FqCoDel(config) => (
            QueueKind::FqCoDel,
            format!(
                "{}, flows = {}, quantum = {}, memory_limit = {}, drop_batch = {}",
                codel(&config.codel),
                config.flows,
                Window(config.quantum).show(),
                ByteSize(config.memory_limit).show(),
                config.drop_batch
            ),
        ),
        QueueSpec::Pie(config) => (
            QueueKind::Pie,
            format!(
                "target = {}, update = {}, alpha = {}, beta = {}, ecn = {}",
                config.target.show(),
                config.update.show(),
                config.alpha,
                config.beta,
                config.ecn.show()
            ),
        ),
        QueueSpec::DualPi2(config) => (
            QueueKind::DualPi2,
            format!(
                "target = {}, update = {}, alpha = {}, beta = {}, coupling = {}, step = {}, step_queue = {}, classic_share = {}, overload = {}",
                config.target.show(),
                config.update.show(),
                config.alpha,
                config.beta,
                config.coupling,
                config.step.show(),
                config.step_queue,
                config.classic_share,
                config.overload.show()
            ),
        ),
        QueueSpec::Cake(config) => {
            let rate = config.rate.map(|rate| format!("rate = {}, ", Rate(rate).show())).unwrap_or_default();
            (
                QueueKind::Cake,
                format!(
                    "{rate}target = {}, interval = {}, tins = {}, isolation = {}, ack_filter = {}",
                    config.target.show(),
                    config.interval.show(),
                    config.tins.show(),
                    config.isolation.show(),
                    config.ack_filter.show()
                ),
            )
        }
    };
    let limit: QueueLimit = queue.limit();
    format!("{{ kind = {}, limit = {}, {keys} }}", kind.show(), limit.show())
}
