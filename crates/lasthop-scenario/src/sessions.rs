//! Web sessions and their copies.

use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::apps::WebConfig;

use crate::flows;
use crate::nodes::Nodes;
use crate::reader::Reader;
use crate::shared_keys::{CopyKeys, MOST_FLOWS, RootKeys};
use crate::units::ByteSize;
use crate::values::Whole;
use crate::{Error, Problem};

/// A session and its copies.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Session {
    pub name: String,
    /// Index of the client's host.
    pub client: usize,
    /// Index of the server's host.
    pub server: usize,
    pub web: WebConfig,
    pub syn_loss_memory: Switch,
    pub start: Instant,
    pub count: u32,
    /// Interval between the starts of copies.
    pub spacing: Duration,
}

/// Maximum number of concurrent connections of a browser.
const MOST_PARALLEL: u32 = 64;

keys! {
    /// Keys of a session, besides those of its copies.
    pub(crate) Keys {
        /// required | hosts
        client, server;
        /// {} | objects fetched at once
        parallel: Whole<1, MOST_PARALLEL> = Whole(4);
        /// as the server's `mss` | requests and replies are whole packets of this size
        packet;
        /// {} | as in ns-2: after a lost SYN, later transfers on the connection start with one segment
        syn_loss_memory: Switch = Switch::Off;
    }
}

/// Reads all sessions. `flows` is the number of flows already used.
pub(crate) fn read(root: &Reader<'_>, nodes: &Nodes, limit: Instant, flows: u32) -> Result<Vec<Session>, Error> {
    let mut sessions = Vec::new();
    let mut total = flows;
    for (name, reader) in root.named(RootKeys::sessions)? {
        let session = session(&name, &reader, nodes, limit)?;
        total = total.saturating_add(session.count.saturating_mul(2 * session.web.parallel as u32));
        if total > MOST_FLOWS {
            let message = format!("more than {MOST_FLOWS} flows with those of its sessions, copies included");
            return Err(reader.fail_here(Problem::Conflict(message)));
        }
        sessions.push(session);
    }
    Ok(sessions)
}

fn session(name: &str, reader: &Reader<'_>, nodes: &Nodes, limit: Instant) -> Result<Session, Error> {
    reader.allow(&[Keys::NAMES, CopyKeys::NAMES].concat())?;
    let client = flows::host(reader, Keys::client, nodes)?;
    let server = flows::host(reader, Keys::server, nodes)?;
    if client == server {
        return Err(reader.refuse(Keys::server, "a host other than client", ""));
    }
    let Whole(parallel) = reader.value(Keys::parallel)?;
    let packet = nodes.hosts[server].tcp.mss();
    let ByteSize(packet) = reader.or_derived(Keys::packet, ByteSize(packet.into()), "as the server's mss")?;
    let packet = u32::try_from(packet).ok().filter(|packet| (1..=1 << 20).contains(packet));
    let packet = packet.ok_or_else(|| reader.refuse(Keys::packet, "a number of bytes from 1 to 1 MiB", ""))?;
    let syn_loss_memory = reader.value(Keys::syn_loss_memory)?;
    let (start, count, spacing) = flows::copies(reader, limit)?;
    let web = WebConfig { parallel: parallel as usize, packet };
    Ok(Session { name: name.to_owned(), client, server, web, syn_loss_memory, start, count, spacing })
}
