//! Flows, and the copies that a flow can have.

use lasthop_proto::packet::FlowId;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::network::App;

use crate::error::{Error, Problem};
use crate::nodes::Nodes;
use crate::reader::{Reader, Value};
use crate::units::{ByteSize, TimeSpan};
use crate::values::{AppName, Text, Whole};

/// Most flows of a scenario, copies included.
pub(crate) const MOST_FLOWS: u32 = 100_000;
/// Most bytes of a transfer: 1 TiB, far beyond any run.
const LARGEST_TRANSFER: u64 = 1 << 40;

/// A flow and its copies.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Flow {
    pub name: String,
    /// Index of the host that opens it.
    pub from: usize,
    /// Index of the host that accepts it.
    pub to: usize,
    pub app: App,
    pub start: Instant,
    pub count: u32,
    /// Between the starts of one copy and the next.
    pub spacing: Duration,
}

/// The names of all flows, copies included: `bulk`, or `bulk#1` to `bulk#N`. A flow's position is its [`FlowId`].
#[derive(Clone, Default, Debug)]
pub(crate) struct FlowNames(Vec<(String, u32)>);

impl FlowNames {
    /// Reads only names and counts: links refer to flows, and come before them.
    pub(crate) fn read(root: &Reader<'_>) -> Result<Self, Error> {
        let mut names = Vec::new();
        let mut total = 0;
        for (name, flow) in root.named("flows")? {
            let count = flow.peek::<Copies>("count")?.map_or(1, |Whole(count)| count);
            total += count;
            if total > MOST_FLOWS {
                let message = format!("more than {MOST_FLOWS} flows, copies included");
                return Err(flow.fail_here(Problem::Conflict(message)));
            }
            names.push((name, count));
        }
        Ok(Self(names))
    }

    /// The name of copy `copy` (from 0) of the flow `name`, which has `count`.
    pub(crate) fn copy_name(name: &str, copy: u32, count: u32) -> String {
        if count == 1 { name.to_owned() } else { format!("{name}#{}", copy + 1) }
    }

    /// The flow of that name.
    pub(crate) fn find(&self, wanted: &str) -> Option<FlowId> {
        let (base, copy) = match wanted.split_once('#') {
            Some((base, copy)) => (base, Some(copy)),
            None => (wanted, None),
        };
        let mut first = 0;
        for (name, count) in &self.0 {
            if name == base {
                let copy = match copy {
                    None if *count == 1 => 0,
                    None => return None,
                    Some(copy) => copy.parse::<u32>().ok()?.checked_sub(1)?,
                };
                return (copy < *count && wanted == Self::copy_name(name, copy, *count))
                    .then_some(FlowId(first + copy));
            }
            first += count;
        }
        None
    }

    /// The name of a flow.
    pub(crate) fn name(&self, flow: FlowId) -> Option<String> {
        let mut copy = flow.0;
        for (name, count) in &self.0 {
            if copy < *count {
                return Some(Self::copy_name(name, copy, *count));
            }
            copy -= count;
        }
        None
    }

    /// One name of each flow: what a message can offer.
    pub(crate) fn examples(&self) -> Vec<String> {
        self.0.iter().map(|(name, count)| Self::copy_name(name, 0, *count)).collect()
    }
}

type Copies = Whole<1, MOST_FLOWS>;

/// Reads all flows.
pub(crate) fn read(root: &Reader<'_>, nodes: &Nodes, limit: Instant) -> Result<Vec<Flow>, Error> {
    let flows: Vec<_> =
        root.named("flows")?.iter().map(|(name, reader)| flow(name, reader, nodes, limit)).collect::<Result<_, _>>()?;
    if flows.is_empty() {
        let expected = "a flow, as [flows.bulk] with from, to and size".to_owned();
        return Err(root.fail("flows", Problem::Missing { expected }));
    }
    Ok(flows)
}

fn flow(name: &str, reader: &Reader<'_>, nodes: &Nodes, limit: Instant) -> Result<Flow, Error> {
    reader.allow(&["from", "to", "app", "size", "close", "start", "count", "spacing"])?;
    let end = |key: &'static str| -> Result<usize, Error> {
        let Text(host) = reader.required(key)?;
        nodes.host(&host).ok_or_else(|| match nodes.find(&host) {
            Some(_) => reader.refuse(key, "a host", "it is a router; flows begin and end at hosts"),
            None => reader.unknown_name(key, "host", &host, nodes.hosts.iter().map(|host| host.name.as_str())),
        })
    };
    let (from, to) = (end("from")?, end("to")?);
    if from == to {
        return Err(reader.refuse("to", "another host than from", ""));
    }
    let app = match reader.or("app", AppName::Transfer, "default")? {
        AppName::Idle if reader.has("size") => {
            let message = "app = \"idle\" sends nothing; drop this key, or app".to_owned();
            return Err(reader.fail("size", Problem::Conflict(message)));
        }
        AppName::Idle if reader.has("close") => {
            let message = "app = \"idle\" stays open; drop this key, or app".to_owned();
            return Err(reader.fail("close", Problem::Conflict(message)));
        }
        AppName::Idle => App::Idle,
        AppName::Transfer => {
            let bytes = match reader.required("size")? {
                ByteSize(bytes @ 1..=LARGEST_TRANSFER) => bytes,
                _ => return Err(reader.refuse("size", ByteSize::expected(), "it is not in 1 B to 1024 GiB")),
            };
            App::Transfer { bytes, close: reader.or("close", Switch::On, "default")? }
        }
    };
    let start: Instant = reader.or("start", Instant::ZERO, "default")?;
    let Whole(count): Copies = reader.or("count", Whole(1), "default")?;
    let spacing: Duration = reader.or("spacing", Duration::ZERO, "default")?;
    let last = start + spacing * u64::from(count - 1);
    if last >= limit {
        let (last, limit) = (TimeSpan(last.since(Instant::ZERO)), TimeSpan(limit.since(Instant::ZERO)));
        let key = if reader.has("spacing") { "spacing" } else { "start" };
        let message = format!("its last copy would start at {last}, but the run ends at limit = {limit}");
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok(Flow { name: name.to_owned(), from, to, app, start, count, spacing })
}
