//! Queues in front of links: `queue = "50 packets"`, or `queue = { kind = "fq-codel", limit = "1000 packets" }`.

use lasthop_proto::queue::{AckAwareConfig, CoDelConfig, FqCoDelConfig, QueueLimit, QueueSpec};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;
use lasthop_sim::network::Medium;

use crate::cell::CellQueue;
use crate::key::Key;
use crate::reader::{Reader, Standing, Value};
use crate::shared_keys::LinkKeys;
use crate::units::ByteSize;
use crate::values::{Count, Positive, QueueKind, Whole, Window};
use crate::wifi;
use crate::{Error, Problem};

/// Default of ns-2 and of the second study.
pub(crate) const FIFO: QueueLimit = QueueLimit::Packets(50);
/// Queue of a Linux host in front of its own link (`DEFAULT_TX_QUEUE_LEN`).
const MODERN_HOST: QueueLimit = QueueLimit::Packets(1000);
/// Default of Linux for CoDel.
const CODEL: QueueLimit = QueueLimit::Packets(1000);

/// Sender in one direction of a link, which determines the queue's default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    /// A host with a modern TCP.
    ModernHost,
    /// A router, or a host with an older TCP.
    Other,
}

impl Sender {
    /// Returns the default queue, and its source.
    fn default(self) -> (QueueLimit, &'static str) {
        match self {
            Self::ModernHost => (MODERN_HOST, "default: queue of a modern host in front of its own link"),
            Self::Other => (FIFO, "default"),
        }
    }
}

/// Reads the queues of the two directions of a link: `queue`, and `queue_up` if given. `senders` are the senders of the
/// down and the up direction. Wi-Fi and cells have defaults of their own; `cell` is that of the link's cell.
pub(crate) fn both(
    reader: &Reader<'_>,
    senders: [Sender; 2],
    medium: &Medium,
    cell: Option<CellQueue>,
) -> Result<[QueueSpec; 2], Error> {
    let given = match one(reader, LinkKeys::queue)? {
        None if matches!(medium, Medium::Wifi { .. }) => {
            let queue = wifi::queue();
            reader.note(LinkKeys::queue, show(&queue), "default of Wi-Fi, as in Linux", Standing::Value);
            Some(queue)
        }
        given => given,
    };
    let defaults = match cell {
        Some(cell) => [cell.down, if senders[1] == Sender::ModernHost { senders[1].default() } else { cell.up }],
        None => senders.map(Sender::default),
    };
    let queue = match given {
        Some(queue) => queue,
        None => {
            let (limit, source) = defaults[0];
            reader.or(LinkKeys::queue, limit, source)?.into()
        }
    };
    let queue_up = match one(reader, LinkKeys::queue_up)? {
        Some(queue) => queue,
        None if given.is_none() && defaults[0].0 != defaults[1].0 => {
            let (limit, source) = defaults[1];
            reader.or(LinkKeys::queue_up, limit, source)?.into()
        }
        None => {
            reader.note(LinkKeys::queue_up, show(&queue), "as queue", Standing::Remark);
            queue
        }
    };
    Ok([queue, queue_up])
}

/// Reads the queue in `key`, a size or a table.
fn one(reader: &Reader<'_>, key: Key) -> Result<Option<QueueSpec>, Error> {
    if reader.is_table(key) {
        return table(&reader.section(key)?).map(Some);
    }
    Ok(reader.get::<QueueLimit>(key)?.map(QueueSpec::Fifo))
}

keys! {
    /// Keys of a queue.
    pub(crate) Keys {
        /// required | `"fifo"`; `"codel"` (RFC 8289); `"fq-codel"` (RFC 8290), a queue per flow and direction;
        /// `"ack-aware"`: for slow return links ([asymmetry](models/asymmetry.md))
        kind;
        /// `"50 packets"`, `"1000 packets"`, `"10240 packets"`, `"50 packets"` | capacity by kind; packets or bytes
        /// (`"fq-codel"`: packets)
        limit;
        /// {} | `"ack-aware"`: new acknowledgments replace redundant ones (RFC 3449 §5.2.1); acknowledgments go first
        /// (§5.4.2)
        filter: Switch = Switch::On, first: Switch = Switch::Off;
        /// {} | CoDel's; interval at most 60 s
        target: Positive<Duration> = Positive(CoDelConfig::default().target),
        interval: Positive<Duration> = Positive(CoDelConfig::default().interval);
        /// `"off"`, for `"fq-codel"` `"on"` | mark ECN-capable packets instead of dropping ([ecn](models/ecn.md))
        ecn;
        /// {} | `"fq-codel"`: queues; bytes per round; bytes in all queues; maximum packets dropped at once
        flows: Whole<1, 65_536> = Whole(FqCoDelConfig::default().flows),
        quantum: Window = Window(FqCoDelConfig::default().quantum),
        memory_limit: Window = Window(FqCoDelConfig::default().memory_limit as u32),
        drop_batch: Count = Whole(FqCoDelConfig::default().drop_batch);
    }
}

/// All kinds.
const KINDS: [QueueKind; 4] = [QueueKind::Fifo, QueueKind::CoDel, QueueKind::FqCoDel, QueueKind::AckAware];

fn keys(kind: QueueKind) -> &'static [&'static str] {
    match kind {
        QueueKind::Fifo => key_names!(Keys: kind, limit),
        QueueKind::CoDel => key_names!(Keys: kind, limit, target, interval, ecn),
        QueueKind::FqCoDel => {
            key_names!(Keys: kind, limit, target, interval, ecn, flows, quantum, memory_limit, drop_batch)
        }
        QueueKind::AckAware => key_names!(Keys: kind, limit, filter, first),
    }
}

fn table(reader: &Reader<'_>) -> Result<QueueSpec, Error> {
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
    })
}

/// Maximum time. Linux's 32-bit clock could mistake a longer one for a time in the past.
const LONGEST: Duration = Duration::from_secs(60);

fn codel(reader: &Reader<'_>, ecn: Switch) -> Result<CoDelConfig, Error> {
    let span = |key: Key<Positive<Duration>>| -> Result<Duration, Error> {
        let Positive(span) = reader.value(key)?;
        if span > LONGEST { Err(reader.refuse(key, "a time of at most 60 s", "")) } else { Ok(span) }
    };
    let config = CoDelConfig {
        target: span(Keys::target)?,
        interval: span(Keys::interval)?,
        ecn: reader.or(Keys::ecn, ecn, "default")?,
    };
    if config.target > config.interval {
        let message = format!(
            "target = {} is above interval = {}; RFC 8289 §4.3 recommends 5 to 10 % of it",
            config.target.show(),
            config.interval.show()
        );
        let key = if reader.has(Keys::target) { Keys::target } else { Keys::interval };
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok(config)
}

/// Formats the queue as TOML.
fn show(queue: &QueueSpec) -> String {
    let codel = |config: &CoDelConfig| {
        let CoDelConfig { target, interval, ecn } = config;
        format!("target = {}, interval = {}, ecn = {}", target.show(), interval.show(), ecn.show())
    };
    match queue {
        QueueSpec::Fifo(limit) => limit.show(),
        QueueSpec::CoDel(limit, config) => {
            format!("{{ kind = {}, limit = {}, {} }}", QueueKind::CoDel.show(), limit.show(), codel(config))
        }
        QueueSpec::AckAware(AckAwareConfig { limit, filter, first }) => format!(
            "{{ kind = {}, limit = {}, filter = {}, first = {} }}",
            QueueKind::AckAware.show(),
            limit.show(),
            filter.show(),
            first.show()
        ),
        QueueSpec::FqCoDel(config) => format!(
            "{{ kind = {}, limit = {}, {}, flows = {}, quantum = {}, memory_limit = {}, drop_batch = {} }}",
            QueueKind::FqCoDel.show(),
            QueueLimit::Packets(config.limit).show(),
            codel(&config.codel),
            config.flows,
            Window(config.quantum).show(),
            ByteSize(config.memory_limit).show(),
            config.drop_batch
        ),
    }
}

/// Rejects a queue that cannot hold a packet of `largest` bytes: it would drop all of them.
pub(crate) fn check(reader: &Reader<'_>, key: Key, queue: &QueueSpec, largest: u64) -> Result<(), Error> {
    let (inner, bytes) = match queue {
        QueueSpec::Fifo(QueueLimit::Bytes(bytes)) | QueueSpec::CoDel(QueueLimit::Bytes(bytes), _) => {
            (Keys::limit.name(), *bytes)
        }
        QueueSpec::AckAware(AckAwareConfig { limit: QueueLimit::Bytes(bytes), .. }) => (Keys::limit.name(), *bytes),
        QueueSpec::FqCoDel(config) => (Keys::memory_limit.name(), config.memory_limit),
        QueueSpec::Fifo(_) | QueueSpec::CoDel(..) | QueueSpec::AckAware(_) => return Ok(()),
    };
    if bytes >= largest {
        return Ok(());
    }
    let message = format!("a queue of {} is smaller than a full packet ({})", ByteSize(bytes), ByteSize(largest));
    let problem = Problem::Conflict(message);
    Err(if reader.is_table(key) { reader.section(key)?.fail(inner, problem) } else { reader.fail(key, problem) })
}
