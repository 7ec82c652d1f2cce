//! Queues in front of links: `queue = "50 packets"`, or `queue = { kind = "fq-codel", limit = "1000 packets" }`.

mod kinds;
mod shown;

use lasthop_proto::queue::{QueueLimit, QueueSpec};
use lasthop_sim::network::Medium;

use crate::cell::CellQueue;
use crate::key::Key;
use crate::reader::{Reader, Standing};
use crate::shared_keys::LinkKeys;
use crate::units::ByteSize;
use crate::wifi;
use crate::{Error, Problem};
pub(crate) use kinds::Keys;
use shown::show;

/// Default of ns-2 and of the second study.
pub(crate) const FIFO: QueueLimit = QueueLimit::Packets(50);
/// Queue of a Linux host in front of its own link (`DEFAULT_TX_QUEUE_LEN`).
const MODERN_HOST: QueueLimit = QueueLimit::Packets(1000);

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
    let shared = !matches!(medium, Medium::Duplex);
    let given = match one(reader, LinkKeys::queue, shared)? {
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
    let queue_up = match one(reader, LinkKeys::queue_up, shared)? {
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

/// Reads the queue in `key`, a size or a table. `shared` tells whether several stations share the medium.
fn one(reader: &Reader<'_>, key: Key, shared: bool) -> Result<Option<QueueSpec>, Error> {
    if reader.is_table(key) {
        let reader = &reader.section(key)?;
        let queue = kinds::table(reader)?;
        if shared && matches!(queue, QueueSpec::Cake(config) if config.rate.is_some()) {
            let message =
                "a queue shapes on links with medium = \"duplex\" only; remove this key, or give the link a shaper";
            return Err(reader.fail(Keys::rate, Problem::Conflict(message.to_owned())));
        }
        return Ok(Some(queue));
    }
    Ok(reader.get::<QueueLimit>(key)?.map(QueueSpec::Fifo))
}

/// Rejects a queue that cannot hold a packet of `largest` bytes: it would drop all of them.
pub(crate) fn check(reader: &Reader<'_>, key: Key, queue: &QueueSpec, largest: u64) -> Result<(), Error> {
    let (inner, bytes) = match (queue, queue.limit()) {
        (QueueSpec::FqCoDel(config), _) => (Keys::memory_limit.name(), config.memory_limit),
        (_, QueueLimit::Bytes(bytes)) => (Keys::limit.name(), bytes),
        (_, QueueLimit::Packets(_)) => return Ok(()),
    };
    if bytes >= largest {
        return Ok(());
    }
    let message = format!("a queue of {} is smaller than a full packet ({})", ByteSize(bytes), ByteSize(largest));
    let problem = Problem::Conflict(message);
    Err(if reader.is_table(key) { reader.section(key)?.fail(inner, problem) } else { reader.fail(key, problem) })
}
