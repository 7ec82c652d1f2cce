//! Traffic over a scenario's links that replaces its own transfers: a download, web pages, a call.

use lasthop_proto::time::Duration;

use crate::document::{Data, Item, Table};
use crate::units::TimeSpan;
use crate::{Error, Place, Problem, Spot};

/// Number of objects that a browser fetches concurrently from one server over HTTP/1.1.
const AT_ONCE: i128 = 6;

/// Size of a download that no run completes.
const ENDLESS: &str = "1024 GiB";

/// Traffic between the hosts of a scenario's first transfer, for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// One transfer for the duration of the run.
    Bulk(Duration),
    /// One transfer in the opposite direction for the duration of the run.
    Opposite(Duration),
    /// Web pages, one after another, for the duration of the run.
    Pages(Duration),
    /// A call in both directions, in G.711 with loss concealment.
    Call {
        /// Duration.
        time: Duration,
        /// Maximum delay of a packet that is still played.
        deadline: Duration,
    },
}

/// Sender and receiver of a flow or session, and its name.
struct Ends {
    name: String,
    server: Item,
    client: Item,
}

/// Replaces all transfers and web sessions in `root` by `traffic`. On-off sources (`on-off`) remain.
pub(crate) fn replace(file: &str, root: &mut Table, traffic: Traffic) -> Result<(), Error> {
    let Ends { name, server, client } = ends(root).ok_or_else(|| {
        let expected = "a transfer, e.g. [flows.download] with from, to and size".to_owned();
        let place = Place { file: file.to_owned(), spot: Spot::Whole };
        Error::new(place, Some("flows".to_owned()), Problem::Missing { expected })
    })?;
    if let Some(flows) = root.table_mut("flows") {
        flows.retain(|_, flow| is_on_off(flow));
    }
    root.remove("sessions");
    let time = match traffic {
        Traffic::Bulk(time) => {
            let flow = [("from", server), ("to", client), ("size", text(ENDLESS))];
            put(root, "flows", &name, table(flow));
            time
        }
        Traffic::Opposite(time) => {
            let flow = [("from", client), ("to", server), ("size", text(ENDLESS))];
            put(root, "flows", &name, table(flow));
            time
        }
        Traffic::Pages(time) => {
            let session = [("client", client), ("server", server), ("parallel", item(Data::Integer(AT_ONCE)))];
            put(root, "sessions", &name, table(session));
            time
        }
        Traffic::Call { time, deadline } => {
            let speech = |from: &Item, to: &Item| {
                let deadline = text(&TimeSpan(deadline).to_string());
                table([("from", from.clone()), ("to", to.clone()), ("app", text("call")), ("deadline", deadline)])
            };
            put(root, "flows", &format!("{name}-in"), speech(&server, &client));
            put(root, "flows", &format!("{name}-out"), speech(&client, &server));
            time
        }
    };
    root.set("limit", text(&TimeSpan(time).to_string()));
    Ok(())
}

/// Returns the ends of the first transfer, or without one, of the first web session.
fn ends(root: &Table) -> Option<Ends> {
    let named = |group: &str, server: &str, client: &str| {
        let Some(Item { data: Data::Table(table), .. }) = root.get(group) else { return None };
        table.iter().filter(|(_, flow)| !is_on_off(flow)).find_map(|(name, flow)| {
            let Data::Table(keys) = &flow.data else { return None };
            let (server, client) = (keys.get(server)?.clone(), keys.get(client)?.clone());
            Some(Ends { name: name.to_owned(), server, client })
        })
    };
    named("flows", "from", "to").or_else(|| named("sessions", "server", "client"))
}

fn is_on_off(flow: &Item) -> bool {
    let Data::Table(keys) = &flow.data else { return false };
    matches!(keys.get("app"), Some(Item { data: Data::String(app), .. }) if app == "on-off")
}

/// Inserts `what` under its name into `group`, which may not exist yet.
pub(crate) fn put(root: &mut Table, group: &str, name: &str, what: Item) {
    match root.table_mut(group) {
        Some(table) => table.set(name, what),
        None => root.set(group, table([(name, what)])),
    }
}

pub(crate) fn item(data: Data) -> Item {
    Item { data, spot: Spot::Override }
}

pub(crate) fn text(text: &str) -> Item {
    item(Data::String(text.to_owned()))
}

pub(crate) fn table<const N: usize>(entries: [(&str, Item); N]) -> Item {
    let mut keys = Table::default();
    entries.into_iter().for_each(|(key, value)| keys.push(key, value));
    item(Data::Table(keys))
}
