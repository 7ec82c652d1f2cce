//! Tables of queues: `{ kind = "pie", target = "15 ms" }`.

use lasthop_proto::queue::{
    AckAwareConfig, CakeConfig, CoDelConfig, DualPi2Config, FqCoDelConfig, Isolation, Overload, PieConfig, QueueLimit,
    QueueSpec, Tins,
};
use lasthop_proto::rate::Rate;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;

use super::FIFO;
use crate::key::Named;
use crate::reader::{Reader, Value};
use crate::values::{Count, Positive, QueueKind, Whole, Window};
use crate::{Error, Problem};

/// Default of Linux for CoDel.
const CODEL: QueueLimit = QueueLimit::Packets(1000);

keys! {
    /// Keys of a queue.
    pub(crate) Keys {
        /// required | `"fifo"`; `"codel"` (RFC 8289); `"fq-codel"` (RFC 8290), a queue per flow and direction;
        /// `"ack-aware"`: for slow return links ([asymmetry](models/asymmetry.md)); `"pie"` (RFC 8033), `"dualpi2"`
        /// (RFC 9332), `"cake"`: [queues](models/aqm.md)
        kind;
        /// `"50 packets"`, `"1000 packets"`, `"10240 packets"`, `"50 packets"`, `"1000 packets"`, `"10000 packets"`,
        /// 4 · `rate` · `interval` | capacity by kind; packets or bytes (`"fq-codel"`: packets; `"cake"`: bytes)
        limit;
        /// {} | `"ack-aware"`: new acknowledgments replace redundant ones (RFC 3449 §5.2.1); acknowledgments go first
        /// (§5.4.2)
        filter: Switch = Switch::On, first: Switch = Switch::Off;
        /// `"5 ms"`, of `"pie"` and `"dualpi2"` `"15 ms"` | delay that the queue aims at; at most 60 s
        target;
        /// {} | CoDel's and CAKE's: time for which the delay may exceed the target; at most 60 s
        interval: Positive<Duration> = Positive(CoDelConfig::default().interval);
        /// `"off"`, for `"fq-codel"` `"on"` | mark ECN-capable packets instead of dropping ([ecn](models/ecn.md));
        /// `"dualpi2"` and `"cake"` always do
        ecn;
        /// {} | `"fq-codel"`: queues; bytes per round; bytes in all queues; maximum packets dropped at once
        flows: Whole<1, 65_536> = Whole(FqCoDelConfig::default().flows),
        quantum: Window = Window(FqCoDelConfig::default().quantum),
        memory_limit: Window = Window(FqCoDelConfig::default().memory_limit as u32),
        drop_batch: Count = Whole(FqCoDelConfig::default().drop_batch);
        /// `"15 ms"`, of `"dualpi2"` `"16 ms"` | `"pie"`, `"dualpi2"`: interval between updates of the probability, 1 ms
        /// to 1 s
        update;
        /// 2, of `"dualpi2"` 41 | gain for the distance from the target, in 1/16 Hz, for `"dualpi2"` in 1/256 Hz
        alpha;
        /// 20, of `"dualpi2"` 819 | gain for the change of the delay, in the same units
        beta;
        /// {} | `"dualpi2"`: ratio of the scalable queue's marks to the controller's probability; delay in that queue
        /// beyond which all packets are marked; percentage of the capacity granted to the classic queue
        coupling: Whole<1, 255> = Whole(DualPi2Config::default().coupling),
        step: Duration = DualPi2Config::default().step,
        classic_share: Whole<0, 100> = Whole(DualPi2Config::default().classic_share);
        /// {} | `"dualpi2"`: packets that must be in the scalable queue at a packet's arrival for the step to apply to it;
        /// 2 in the L4S team's kernels of 2021
        step_queue: Whole<0, 1000> = Whole(DualPi2Config::default().step_queue);
        /// {} | `"dualpi2"`, if marks do not suffice: `"drop"` as in the classic queue, or `"overflow"`
        overload: Overload = DualPi2Config::default().overload;
        /// none | `"cake"`: rate of its shaper, below that of the link
        rate;
        /// {} | `"cake"`: priorities by DSCP: `"besteffort"`, `"diffserv3"`, `"diffserv4"`; sharing among flows:
        /// `"flows"`, `"sources"`, `"destinations"`, `"triple"` (flows and hosts)
        tins: Tins = CakeConfig::default().tins, isolation: Isolation = CakeConfig::default().isolation;
        /// {} | `"cake"`: removes redundant acknowledgments
        ack_filter: Switch = CakeConfig::default().ack_filter;
    }
}

/// All kinds.
const KINDS: [QueueKind; 7] = [
    QueueKind::Fifo,
    QueueKind::CoDel,
    QueueKind::FqCoDel,
    QueueKind::AckAware,
    QueueKind::Pie,
    QueueKind::DualPi2,
    QueueKind::Cake,
];

fn keys(kind: QueueKind) -> &'static [&'static str] {
    match kind {
        QueueKind::Fifo => key_names!(Keys: kind, limit),
        QueueKind::CoDel => key_names!(Keys: kind, limit, target, interval, ecn),
        QueueKind::FqCoDel => {
            key_names!(Keys: kind, limit, target, interval, ecn, flows, quantum, memory_limit, drop_batch)
        }
        QueueKind::AckAware => key_names!(Keys: kind, limit, filter, first),
        QueueKind::Pie => key_names!(Keys: kind, limit, target, update, alpha, beta, ecn),
        QueueKind::DualPi2 => {
            key_names!(Keys: kind, limit, target, update, alpha, beta, coupling, step, step_queue, classic_share, overload)
        }
        QueueKind::Cake => key_names!(Keys: kind, limit, rate, target, interval, tins, isolation, ack_filter),
    }
}

pub(super) fn table(reader: &Reader<'_>) -> Result<QueueSpec, Error> {
    // Checked before a missing kind is reported: the key may be misspelt.
    reader.allow(&KINDS.into_iter().flat_map(keys).copied().collect::<Vec<_>>())?;
    let kind = reader.required(Keys::kind)?;
    let other = |key: &&&str| !keys(kind).contains(*key) && reader.has(key);
    if let Some(key) = KINDS.into_iter().flat_map(keys).find(other) {
        let message = format!("kind = {} does not take this key; it takes {}", kind.show(), keys(kind)[1..].join(", "));
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok(match kind {
        QueueKind::Fifo => QueueSpec::Fifo(reader.or(Keys::limit, FIFO, "default")?),
        QueueKind::CoDel => {
            let limit = reader.or(Keys::limit, CODEL, "default")?;
            QueueSpec::CoDel(limit, codel(reader, CoDelConfig::default().ecn)?)
        }
        QueueKind::AckAware => QueueSpec::AckAware(AckAwareConfig {
            limit: reader.or(Keys::limit, FIFO, "default")?,
            filter: reader.value(Keys::filter)?,
            first: reader.value(Keys::first)?,
        }),
        QueueKind::FqCoDel => {
            let FqCoDelConfig { codel: base, limit, .. } = FqCoDelConfig::default();
            let limit = match reader.or(Keys::limit, QueueLimit::Packets(limit), "default")? {
                QueueLimit::Packets(packets) => packets,
                QueueLimit::Bytes(_) => {
                    let message =
                        "this kind's limit is in packets, e.g. \"1000 packets\"; memory_limit bounds the bytes";
                    return Err(reader.fail(Keys::limit, Problem::Conflict(message.to_owned())));
                }
            };
            let codel = codel(reader, base.ecn)?;
            let Whole(flows) = reader.value(Keys::flows)?;
            let Window(quantum) = reader.value(Keys::quantum)?;
            let Window(memory) = reader.value(Keys::memory_limit)?;
            let Whole(drop_batch) = reader.value(Keys::drop_batch)?;
            QueueSpec::FqCoDel(FqCoDelConfig { codel, flows, quantum, limit, memory_limit: memory.into(), drop_batch })
        }
        QueueKind::Pie => QueueSpec::Pie(pie(reader)?),
        QueueKind::DualPi2 => QueueSpec::DualPi2(dual_pi2(reader)?),
        QueueKind::Cake => QueueSpec::Cake(cake(reader)?),
    })
}

fn pie(reader: &Reader<'_>) -> Result<PieConfig, Error> {
    let base = PieConfig::default();
    let Whole(alpha) = reader.or(Keys::alpha, Whole::<1, 1024>(base.alpha), "default")?;
    let Whole(beta) = reader.or(Keys::beta, Whole::<1, 1024>(base.beta), "default")?;
    Ok(PieConfig {
        limit: reader.or(Keys::limit, base.limit, "default")?,
        target: target(reader, base.target)?,
        update: update(reader, base.update)?,
        alpha,
        beta,
        ecn: reader.or(Keys::ecn, base.ecn, "default")?,
    })
}

fn dual_pi2(reader: &Reader<'_>) -> Result<DualPi2Config, Error> {
    let base = DualPi2Config::default();
    let Whole(alpha) = reader.or(Keys::alpha, Whole::<1, 8_388_607>(base.alpha), "default")?;
    let Whole(beta) = reader.or(Keys::beta, Whole::<1, 8_388_607>(base.beta), "default")?;
    let Whole(coupling) = reader.value(Keys::coupling)?;
    let Whole(step_queue) = reader.value(Keys::step_queue)?;
    let Whole(classic_share) = reader.value(Keys::classic_share)?;
    Ok(DualPi2Config {
        limit: reader.or(Keys::limit, base.limit, "default")?,
        target: target(reader, base.target)?,
        update: update(reader, base.update)?,
        alpha,
        beta,
        coupling,
        step: short(reader, Keys::step, reader.value(Keys::step)?)?,
        step_queue,
        classic_share,
        overload: reader.value(Keys::overload)?,
    })
}

fn cake(reader: &Reader<'_>) -> Result<CakeConfig, Error> {
    let rate = reader.get::<Rate>(Keys::rate)?.map(|Rate(bits)| bits);
    let (target, interval) = target_and_interval(reader)?;
    let base = CakeConfig { rate, target, interval, ..CakeConfig::default() };
    let default = QueueLimit::Bytes(base.memory());
    let memory = match reader.or(Keys::limit, default, "default: 4 times the rate times the interval, in bounds")? {
        QueueLimit::Bytes(bytes) => Some(bytes),
        QueueLimit::Packets(_) => {
            let message = "this kind's limit is in bytes, e.g. \"4 MiB\"";
            return Err(reader.fail(Keys::limit, Problem::Conflict(message.to_owned())));
        }
    };
    let (tins, isolation) = (reader.value(Keys::tins)?, reader.value(Keys::isolation)?);
    Ok(CakeConfig { memory, tins, isolation, ack_filter: reader.value(Keys::ack_filter)?, ..base })
}

/// Maximum time. Linux's 32-bit clock could mistake a longer one for a time in the past.
const LONGEST: Duration = Duration::from_secs(60);

fn short(reader: &Reader<'_>, key: impl Named, span: Duration) -> Result<Duration, Error> {
    if span > LONGEST { Err(reader.refuse(key, "a time of at most 60 s", "")) } else { Ok(span) }
}

fn target(reader: &Reader<'_>, default: Duration) -> Result<Duration, Error> {
    let Positive(target) = reader.or(Keys::target, Positive(default), "default")?;
    short(reader, Keys::target, target)
}

fn update(reader: &Reader<'_>, default: Duration) -> Result<Duration, Error> {
    let update = reader.or(Keys::update, default, "default")?;
    if (Duration::from_millis(1)..=Duration::from_secs(1)).contains(&update) {
        return Ok(update);
    }
    Err(reader.refuse(Keys::update, "a time of 1 ms to 1 s", ""))
}

fn target_and_interval(reader: &Reader<'_>) -> Result<(Duration, Duration), Error> {
    let Positive(interval) = reader.value(Keys::interval)?;
    let target = target(reader, CoDelConfig::default().target)?;
    let interval = short(reader, Keys::interval, interval)?;
    if target > interval {
        let message = format!(
            "target = {} is above interval = {}; RFC 8289 §4.3 recommends 5 to 10 % of it",
            target.show(),
            interval.show()
        );
        let key = if reader.has(Keys::target) { Keys::target.name() } else { Keys::interval.name() };
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok((target, interval))
}

fn codel(reader: &Reader<'_>, ecn: Switch) -> Result<CoDelConfig, Error> {
    let (target, interval) = target_and_interval(reader)?;
    Ok(CoDelConfig { target, interval, ecn: reader.or(Keys::ecn, ecn, "default")? })
}
