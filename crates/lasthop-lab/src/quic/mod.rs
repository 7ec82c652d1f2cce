//! Flows over QUIC: real endpoints of [quinn](https://github.com/quinn-rs/quinn), including TLS, on UDP sockets in the
//! hosts' namespaces.
//!
//! | module | contents |
//! |---|---|
//! | `work` | applications at both ends |
//! | `tls` | certificate and configurations |
//! | `tally` | contents of each end's packets, and number of window reductions |
//! | `register` | tallies of all flows |
//! | `datagram` | UDP datagrams as the links see them |

pub mod datagram;
pub mod register;
pub mod tally;
pub mod tls;
mod work;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::time::Instant;
use lasthop_sim::network::{FlowSpec, NodeId, QuicConfig, Task};
use quinn::{Connection, ConnectionError, Endpoint, TokioRuntime, VarInt};

use self::register::Register;
use self::tally::Tally;
use self::tls::Tls;
use self::work::Meter;
use crate::error::LabError;
use crate::namespace::Namespace;
use crate::plan::Plan;
use crate::transfer::{Accepted, Acceptor, Initiator, Received, Run, STEP, Sent, Transfer};
use crate::udp;

/// Purpose of the sockets, for errors.
const PURPOSE: &str = "QUIC";
/// Maximum UDP payload that quinn accepts by default.
const USUAL_UDP_PAYLOAD: u16 = 1472;

/// Ends of QUIC flows at one host.
pub struct HostEnds {
    /// Initiators with their flows.
    pub initiators: Vec<(usize, Box<dyn Initiator>)>,
    /// Acceptor, with the flows that it accepts.
    pub acceptor: Option<(Box<dyn Acceptor>, Vec<usize>)>,
}

impl HostEnds {
    /// Creates the sockets of `node` in its namespace. Their ends start later.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a socket.
    pub fn open(node: NodeId, namespace: &Namespace, plan: &Plan<'_>, register: &Register) -> Result<Self, LabError> {
        let flow = |(flow, spec): (usize, &FlowSpec)| {
            Some(Flow { flow, quic: *spec.app.quic()?, tally: register.tally(flow)?, tls: register.tls()? })
        };
        let flows_at = |end: fn(&FlowSpec) -> NodeId| {
            let flows = plan.network.flows.iter().enumerate().filter(move |(_, spec)| end(spec) == node);
            flows.filter_map(flow).collect::<Vec<_>>()
        };
        let (from, to) = (flows_at(|spec| spec.from), flows_at(|spec| spec.to));
        let sockets = |flow: &Flow| plan.flow_sockets(FlowId(flow.flow as u32), &plan.network.flows[flow.flow]);
        let mut ends = Self { initiators: Vec::new(), acceptor: None };
        for flow in from {
            let [own, peer] = sockets(&flow);
            let socket = namespace.within(|| udp::socket(own, PURPOSE))?;
            ends.initiators.push((flow.flow, Box::new(QuicInitiator { socket, peer: peer.into(), flow })));
        }
        if let Some(first) = to.first() {
            let [_, own] = sockets(first);
            let socket = namespace.within(|| udp::socket(own, PURPOSE))?;
            let flows = to.iter().map(|flow| flow.flow).collect();
            ends.acceptor = Some((Box::new(QuicAcceptor { socket, flows: to }), flows));
        }
        Ok(ends)
    }
}

/// A flow over QUIC.
#[derive(Clone)]
struct Flow {
    flow: usize,
    quic: QuicConfig,
    tally: Arc<Tally>,
    tls: Arc<Tls>,
}

/// Runs `work` on a runtime of the calling thread; `None` if the run ends first.
fn on_runtime<T>(run: &Run, work: impl Future<Output = io::Result<T>>) -> io::Result<Option<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(unless_over(run, work));
    // Tasks of other connections need not end first.
    runtime.shutdown_background();
    done.transpose()
}

/// Runs `work`, and checks at intervals whether the run has ended.
async fn unless_over<T>(run: &Run, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    loop {
        match tokio::time::timeout(STEP, work.as_mut()).await {
            Ok(done) => return Some(done),
            Err(_) if run.over.load(Ordering::Relaxed) => return None,
            Err(_) => {}
        }
    }
}

/// Returns whether one of the ends closed the connection after it had finished.
fn is_orderly(reason: &ConnectionError) -> bool {
    matches!(reason, ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_))
}

/// The client.
struct QuicInitiator {
    socket: UdpSocket,
    peer: SocketAddr,
    flow: Flow,
}

/// End of a connection at its initiator.
enum Ended {
    Complete,
    Broken,
}

impl QuicInitiator {
    async fn connect(&self, socket: UdpSocket, meter: &Arc<Meter>) -> io::Result<Ended> {
        let Flow { quic, tally, tls, .. } = &self.flow;
        let config = tls.endpoint(quic.udp_payload.max(USUAL_UDP_PAYLOAD));
        let endpoint = Endpoint::new(config, None, socket, Arc::new(TokioRuntime))?;
        let client = tls.client(quic, tally).map_err(io::Error::other)?;
        let connecting = endpoint.connect_with(client, self.peer, tls::SERVER).map_err(io::Error::other)?;
        let ended = match connecting.await {
            Ok(connection) => self.transfer(connection, meter).await,
            Err(_) => Ended::Broken,
        };
        // Sends the final packets before the endpoint is dropped.
        endpoint.wait_idle().await;
        Ok(ended)
    }

    async fn transfer(&self, connection: Connection, meter: &Arc<Meter>) -> Ended {
        let done = match self.flow.quic.task {
            Task::Bulk { bytes } => work::send_bulk(&connection, bytes, &self.flow.tally).await,
            Task::Exchange(exchange) => work::ask(&connection, exchange, meter, &self.flow.tally).await,
        };
        connection.close(VarInt::from_u32(0), b"");
        if done.is_ok() { Ended::Complete } else { Ended::Broken }
    }
}

impl Initiator for QuicInitiator {
    fn send(self: Box<Self>, run: &Run, transfer: Transfer) -> Sent {
        run.wait_until(transfer.start);
        let start = run.clock.now().max(transfer.start);
        let counts = match self.flow.quic.task {
            Task::Bulk { .. } => None,
            Task::Exchange(_) => Some(run.received.clone()),
        };
        let meter = Arc::new(Meter::new(run.clock, counts.clone(), start));
        let outcome = self.socket.try_clone().and_then(|socket| on_runtime(run, self.connect(socket, &meter)));
        if let Err(error) = &outcome {
            tracing::warn!(%error, "cannot start a QUIC flow");
        }
        let complete = matches!(outcome, Ok(Some(Ended::Complete)));
        let aborted = matches!(outcome, Ok(Some(Ended::Broken)) | Err(_));
        let received = Received { complete, ..meter.received() };
        Sent {
            start,
            // The flow's tally has the retransmissions and reductions of both ends.
            retransmissions: 0,
            timeouts: Some(0),
            recoveries: Some(0),
            complete,
            aborted,
            received: counts.map(|_| received),
            tcp_info: None,
        }
    }
}

/// The server of all QUIC flows to a host.
struct QuicAcceptor {
    socket: UdpSocket,
    flows: Vec<Flow>,
}

impl QuicAcceptor {
    async fn serve(&self, socket: UdpSocket, expected: &[Expected]) -> io::Result<()> {
        let largest = self.flows.iter().map(|flow| flow.quic.udp_payload).max().unwrap_or_default();
        let mut servers = BTreeMap::new();
        for flow in &self.flows {
            servers.insert(flow.flow, Arc::new(flow.tls.server(&flow.quic, &flow.tally).map_err(io::Error::other)?));
        }
        let Some((first, flow)) = servers.values().next().zip(self.flows.first()) else { return Ok(()) };
        let config = flow.tls.endpoint(largest.max(USUAL_UDP_PAYLOAD));
        let endpoint = Endpoint::new(config, Some((**first).clone()), socket, Arc::new(TokioRuntime))?;
        let mut left: BTreeMap<u16, &Expected> = expected.iter().map(|expected| (expected.port, expected)).collect();
        let mut under_way = tokio::task::JoinSet::new();
        while !left.is_empty() {
            let Some(incoming) = endpoint.accept().await else { break };
            // Each flow has one connection.
            let Some(expected) = left.remove(&incoming.remote_address().port()) else {
                incoming.refuse();
                continue;
            };
            let Some(server) = servers.get(&expected.flow) else { continue };
            let connecting = incoming.accept_with(server.clone()).map_err(io::Error::other)?;
            let (meter, task, tally) = (expected.meter.clone(), expected.task, expected.tally.clone());
            under_way.spawn(async move {
                let reason = match connecting.await {
                    Ok(connection) => work::serve(&connection, task, &meter, &tally).await,
                    Err(reason) => reason,
                };
                meter.end(is_orderly(&reason));
            });
        }
        while under_way.join_next().await.is_some() {}
        endpoint.wait_idle().await;
        Ok(())
    }
}

/// An expected connection.
struct Expected {
    flow: usize,
    port: u16,
    task: Task,
    meter: Arc<Meter>,
    tally: Arc<Tally>,
    /// Bytes that the flow is to deliver.
    bytes: u64,
}

impl Acceptor for QuicAcceptor {
    fn accept_all(self: Box<Self>, run: &Run, flows: &[(usize, u16, Transfer)]) -> io::Result<Accepted> {
        let expected = |flow: &Flow| {
            let &(_, port, transfer) = flows.iter().find(|(index, ..)| *index == flow.flow)?;
            let (task, tally) = (flow.quic.task, flow.tally.clone());
            let counts = matches!(task, Task::Bulk { .. }).then(|| run.received.clone());
            let meter = Arc::new(Meter::new(run.clock, counts, transfer.start));
            Some(Expected { flow: flow.flow, port, task, meter, tally, bytes: transfer.bytes })
        };
        let expected: Vec<Expected> = self.flows.iter().filter_map(expected).collect();
        let socket = self.socket.try_clone()?;
        on_runtime(run, self.serve(socket, &expected))?;
        let received = |one: &Expected| {
            let received = one.meter.received();
            (one.flow, Received { complete: received.bytes == one.bytes, ..received })
        };
        Ok(expected.iter().map(received).collect())
    }
}

/// Returns the data received at the side where the flow is counted.
pub fn counted(spec: &FlowSpec, sent: &Sent, received: &Received) -> Received {
    match spec.app.counted_at() {
        Side::Acceptor => received.clone(),
        Side::Initiator => {
            let own = sent.received.clone().unwrap_or(Received { end: Instant::ZERO, ..Received::default() });
            Received { altered: own.altered.or(received.altered), aborted: own.aborted || received.aborted, ..own }
        }
    }
}
