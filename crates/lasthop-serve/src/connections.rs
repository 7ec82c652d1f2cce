//! Open connections, and the choice of the one to close if there are too many.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;

/// All connections. A connection beyond the limit closes an open one, so that a new one is always answered: one of the
/// peer that has the most, preferably one that waits for a request rather than one that is being answered, the oldest
/// first.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default, Debug)]
struct State {
    /// Logical clock, incremented by every event.
    clock: u64,
    open: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    /// Time at which the connection was opened, or at which its last answer ended.
    since: u64,
    answers: bool,
    task: AbortHandle,
}

impl Connections {
    /// Creates a set of at most `most` connections.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default() })
    }

    /// Adds a connection from `peer`; `serve` starts to serve it.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr, serve: impl FnOnce(Arc<Place>) -> AbortHandle) {
        let mut state = self.state();
        let since = state.tick();
        let place = Arc::new(Place { connections: Arc::clone(self), id: since });
        let connection = Connection { peer: share(peer), since, answers: false, task: serve(place) };
        state.open.insert(since, connection);
        let surplus = if state.open.len() > self.most { state.evict(since) } else { None };
        drop(state);
        if let Some(task) = surplus {
            task.abort();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Closes a connection in favour of `new`.
    fn evict(&mut self, new: u64) -> Option<AbortHandle> {
        let mut of_peer = HashMap::<IpAddr, usize>::new();
        for connection in self.open.values() {
            *of_peer.entry(connection.peer).or_default() += 1;
        }
        let worth = |(_, connection): &(&u64, &Connection)| {
            let Connection { peer, since, answers, .. } = connection;
            (std::cmp::Reverse(of_peer[peer]), *answers, *since)
        };
        let (&id, _) = self.open.iter().filter(|(id, _)| **id != new).min_by_key(worth)?;
        self.open.remove(&id).map(|connection| connection.task)
    }
}

/// Returns the peer that an address belongs to: a host on an IPv6 network has all the addresses of a /64.
fn share(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// Place of one connection, which is freed on drop.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    id: u64,
}

impl Place {
    /// Marks the connection as being answered until the returned guard is dropped.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        self.set(true);
        Answering(Arc::clone(self))
    }

    fn set(&self, answers: bool) {
        let mut state = self.connections.state();
        let now = state.tick();
        if let Some(connection) = state.open.get_mut(&self.id) {
            connection.answers = answers;
            connection.since = now;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.state().open.remove(&self.id);
    }
}

/// Guard for a request that is being answered.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Place>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Body of an answer, with the guard of its connection.
pub(crate) struct Answer<B> {
    pub body: B,
    pub _answering: Answering,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens connections from these addresses with a limit of `most`; returns the indices of those that remain open.
    fn left(most: usize, peers: &[&str], answered: &[usize]) -> Vec<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let connections = Connections::new(most);
            let mut places = Vec::new();
            for (number, peer) in peers.iter().enumerate() {
                connections.admit(peer.parse().unwrap(), |place| {
                    places.push(place);
                    tokio::spawn(std::future::pending::<()>()).abort_handle()
                });
                if answered.contains(&number) {
                    std::mem::forget(places[number].answer());
                }
            }
            (0..peers.len()).filter(|number| connections.state().open.contains_key(&places[*number].id)).collect()
        })
    }

    #[test]
    fn the_peer_with_the_most_gives_way_and_its_oldest_first() {
        let (one, two) = ("192.0.2.1", "192.0.2.2");
        assert_eq!(left(3, &[two, one, one], &[]), [0, 1, 2]);
        assert_eq!(left(3, &[two, one, one, one], &[]), [0, 2, 3]);
        // Connections at work are spared, unless all are.
        assert_eq!(left(3, &[two, one, one, one], &[1]), [0, 1, 3]);
        assert_eq!(left(3, &[two, one, one, one], &[1, 2, 3]), [0, 2, 3]);
        // All addresses of a /64 are one peer; an IPv4 address is the same when mapped to IPv6.
        assert_eq!(left(3, &[two, "2001:db8::1", "2001:db8::2", one], &[]), [0, 2, 3]);
        assert_eq!(left(3, &[two, one, "::ffff:192.0.2.1", "2001:db8::1"], &[]), [0, 2, 3]);
    }
}
