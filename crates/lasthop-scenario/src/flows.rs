//! Flows and their copies.

use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::apps::OnOffConfig;
use lasthop_sim::network::{App, Rate};

use crate::call::{self, Keys as CallKeys};
use crate::key::Key;
use crate::nodes::Nodes;
use crate::quic::{self, Keys as QuicKeys};
use crate::reader::{Reader, Value};
use crate::shared_keys::{CopyKeys, FlowKeys, OnOffKeys, RootKeys};
use crate::units::{ByteSize, TimeSpan};
use crate::values::{AppName, Positive, Text, Transferred, Whole};
use crate::{Error, Problem};

/// A flow and its copies.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Flow {
    pub name: String,
    /// Index of the host that opens the flow.
    pub from: usize,
    /// Index of the host that accepts the flow; a router is also possible for datagrams.
    pub to: usize,
    pub app: App,
    pub start: Instant,
    pub count: u32,
    /// Interval between the starts of copies.
    pub spacing: Duration,
    pub dscp: u8,
}

/// Reads all flows. A scenario may have sessions instead.
pub(crate) fn read(root: &Reader<'_>, nodes: &Nodes, limit: Instant) -> Result<Vec<Flow>, Error> {
    let flows: Vec<_> = root
        .named(RootKeys::flows)?
        .iter()
        .map(|(name, reader)| flow(name, reader, nodes, limit))
        .collect::<Result<_, _>>()?;
    if flows.is_empty() && root.named(RootKeys::sessions)?.is_empty() {
        let expected = "a flow, e.g. [flows.bulk] with from, to and size, or a session".to_owned();
        return Err(root.fail(RootKeys::flows, Problem::Missing { expected }));
    }
    Ok(flows)
}

fn flow(name: &str, reader: &Reader<'_>, nodes: &Nodes, limit: Instant) -> Result<Flow, Error> {
    reader.allow(&[FlowKeys::NAMES, CopyKeys::NAMES, OnOffKeys::NAMES, QuicKeys::NAMES, CallKeys::NAMES].concat())?;
    let name_of_app = reader.value(FlowKeys::app)?;
    let from = host(reader, FlowKeys::from, nodes)?;
    let to = if name_of_app == AppName::OnOff {
        node(reader, FlowKeys::to, nodes)?
    } else {
        host(reader, FlowKeys::to, nodes)?
    };
    if from == to {
        return Err(reader.refuse(FlowKeys::to, "a host other than from", ""));
    }
    let not_for = |keys: &[&str], why: &str| match keys.iter().find(|key| reader.has(key)) {
        Some(key) => Err(reader.fail(key, Problem::Conflict(format!("{why}; remove this key, or app")))),
        None => Ok(()),
    };
    if name_of_app != AppName::Quic {
        not_for(QuicKeys::NAMES, "only app = \"quic\" supports it")?;
    }
    if name_of_app != AppName::Call {
        not_for(CallKeys::NAMES, "only app = \"call\" supports it")?;
    }
    let app = match name_of_app {
        AppName::Idle => {
            not_for(key_names!(FlowKeys: size), "app = \"idle\" sends nothing")?;
            not_for(key_names!(FlowKeys: close), "app = \"idle\" stays open")?;
            not_for(OnOffKeys::NAMES, "app = \"idle\" sends nothing")?;
            App::Idle
        }
        AppName::OnOff => {
            not_for(key_names!(FlowKeys: size, close), "app = \"on-off\" never ends")?;
            App::OnOff(on_off(reader)?)
        }
        AppName::Call => {
            not_for(key_names!(FlowKeys: size, close), "app = \"call\" never ends")?;
            not_for(key_names!(OnOffKeys: on, off, rate), "app = \"call\" sends all the time")?;
            App::Call(call::read(reader, limit)?)
        }
        AppName::Transfer => {
            not_for(OnOffKeys::NAMES, "app = \"transfer\" sends as fast as TCP allows")?;
            let Transferred(bytes) = reader.required(FlowKeys::size)?;
            App::Transfer { bytes, close: reader.value(FlowKeys::close)? }
        }
        AppName::Quic => {
            not_for(OnOffKeys::NAMES, "app = \"quic\" sends as fast as QUIC allows")?;
            not_for(key_names!(FlowKeys: close), "app = \"quic\" closes once everything has arrived")?;
            App::Quic(quic::read(reader, [&nodes.hosts[from], &nodes.hosts[to]])?)
        }
    };
    let (start, count, spacing) = copies(reader, limit)?;
    let default = Whole::<0, 63>(default_dscp(&app).into());
    let Whole(dscp) = reader.or(FlowKeys::dscp, default, "default")?;
    Ok(Flow { name: name.to_owned(), from, to, app, start, count, spacing, dscp: dscp as u8 })
}

/// Returns the DSCP of an application's packets: expedited forwarding (RFC 3246) for calls.
pub fn default_dscp(app: &App) -> u8 {
    if matches!(app, App::Call(_)) { 46 } else { 0 }
}

/// Reads the keys of an on-off source.
fn on_off(reader: &Reader<'_>) -> Result<OnOffConfig, Error> {
    let Positive(on) = reader.required(OnOffKeys::on)?;
    let off = reader.required(OnOffKeys::off)?;
    let rate = reader.required(OnOffKeys::rate)?;
    let bytes = match reader.required(OnOffKeys::packet)? {
        ByteSize(bytes @ 1..=65_507) => bytes as u32,
        _ => {
            return Err(reader.refuse(
                OnOffKeys::packet,
                "a number of bytes from 1 to 65507, the maximum of a datagram",
                "",
            ));
        }
    };
    let Rate(bits) = rate;
    if u64::from(bytes) * 8_000_000_000 < bits {
        let most = Rate(u64::from(bytes) * 8_000_000_000).show();
        let reason = "packets would be less than a nanosecond apart";
        return Err(reader.refuse(
            OnOffKeys::rate,
            format!("at most {} with packets of {bytes} bytes", most.trim_matches('"')),
            reason,
        ));
    }
    Ok(OnOffConfig { start: Instant::ZERO, on, off, bytes, rate })
}

/// Returns the host or router in `key`: datagrams may end at either.
fn node(reader: &Reader<'_>, key: Key, nodes: &Nodes) -> Result<usize, Error> {
    let Text(name) = reader.required(key)?;
    nodes.find(&name).ok_or_else(|| reader.unknown_name(key, "host or router", &name, nodes.names()))
}

/// Returns the host in `key`.
pub(crate) fn host(reader: &Reader<'_>, key: Key, nodes: &Nodes) -> Result<usize, Error> {
    let Text(host) = reader.required(key)?;
    nodes.host(&host).ok_or_else(|| match nodes.find(&host) {
        Some(_) => reader.refuse(key, "a host", "it is a router; flows begin and end at hosts"),
        None => reader.unknown_name(key, "host", &host, nodes.hosts.iter().map(|host| host.name.as_str())),
    })
}

/// Reads the start of the first copy, the number of copies, and the interval between them.
pub(crate) fn copies(reader: &Reader<'_>, limit: Instant) -> Result<(Instant, u32, Duration), Error> {
    let start: Instant = reader.value(CopyKeys::start)?;
    let Whole(count) = reader.value(CopyKeys::count)?;
    let spacing: Duration = reader.value(CopyKeys::spacing)?;
    let last = start + spacing * u64::from(count - 1);
    if last >= limit {
        let (last, limit) = (TimeSpan(last.since(Instant::ZERO)), TimeSpan(limit.since(Instant::ZERO)));
        let key = if reader.has(CopyKeys::spacing) { CopyKeys::spacing.plain() } else { CopyKeys::start.plain() };
        let message = format!("its last copy would start at {last}, but the run ends at limit = {limit}");
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok((start, count, spacing))
}
