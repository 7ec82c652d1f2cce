//! The ends of all flows: kernel TCP, and the place for any other.

use std::io;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use lasthop_proto::packet::FlowId;
use lasthop_proto::tcp::config::TcpConfig;
use lasthop_sim::network::NodeId;
use socket2::{SockAddr, Socket};

use super::error::LabError;
use super::kernel_tcp::socket;
use super::namespace::Namespace;
use super::plan::Plan;
use super::transfer::{Received, Run, Sent, Transfer};

/// What an accepting host received: flows by index.
pub type Accepted = Vec<(usize, Received)>;

/// The end of a flow that sends, ready to open it.
pub trait Initiator: Send {
    /// Transfers; comes back when all is acknowledged, the connection broke, or the run is over.
    fn send(self: Box<Self>, run: &Run, transfer: Transfer) -> Sent;
}

/// A host that listens.
pub trait Acceptor: Send {
    /// Takes a connection for each of `flows` (its index, the port that it comes from, what it is to bring) and receives
    /// what it brings; comes back when all have ended or the run is over.
    ///
    /// # Errors
    ///
    /// When it cannot take connections.
    fn accept_all(self: Box<Self>, run: &Run, flows: &[(usize, u16, Transfer)]) -> io::Result<Accepted>;
}

/// The ends of all flows of a network.
pub struct Ends {
    /// By flow.
    pub initiators: Vec<Box<dyn Initiator>>,
    /// Per accepting host, with the flows that come to it.
    pub acceptors: Vec<(Box<dyn Acceptor>, Vec<usize>)>,
}

impl Ends {
    /// Makes them in the namespaces of their nodes; acceptors listen.
    ///
    /// # Errors
    ///
    /// When a kernel cannot be such an end, or refuses.
    pub fn open(nodes: &[Namespace], plan: &Plan<'_>) -> Result<Self, LabError> {
        let specs = &plan.network.flows;
        let mut acceptors: Vec<(Box<dyn Acceptor>, Vec<usize>)> = Vec::new();
        let mut initiators: Vec<Option<Box<dyn Initiator>>> = specs.iter().map(|_| None).collect();
        for (index, namespace) in nodes.iter().enumerate() {
            let node = NodeId(index);
            let flows_to: Vec<usize> = (0..specs.len()).filter(|&flow| specs[flow].to == node).collect();
            let flows_from: Vec<usize> = (0..specs.len()).filter(|&flow| specs[flow].from == node).collect();
            let sockets = |flow: usize| Plan::sockets(FlowId(flow as u32), &specs[flow]);
            // The kernel's, unless the scheme or the scenario asks for another TCP at this host.
            let kernel = |config: &TcpConfig| plan.kernel_will_do(config, node);
            namespace.within(|| {
                if let Some(&first) = flows_to.first() {
                    let config = &specs[first].tcp[1];
                    kernel(config)?;
                    let listener = socket(plan, config, sockets(first)[1])?;
                    let backlog = flows_to.len().try_into().unwrap_or(i32::MAX);
                    listener.listen(backlog).map_err(LabError::system("cannot listen"))?;
                    acceptors.push((Box::new(KernelAcceptor(listener)), flows_to));
                }
                for flow in flows_from {
                    let config = &specs[flow].tcp[0];
                    kernel(config)?;
                    let [own, peer] = sockets(flow);
                    let initiator = KernelInitiator { socket: socket(plan, config, own)?, peer: peer.into() };
                    initiators[flow] = Some(Box::new(initiator));
                }
                Ok(())
            })?;
        }
        Ok(Self { initiators: initiators.into_iter().flatten().collect(), acceptors })
    }
}

struct KernelInitiator {
    socket: Socket,
    peer: SockAddr,
}

impl Initiator for KernelInitiator {
    fn send(self: Box<Self>, run: &Run, transfer: Transfer) -> Sent {
        run.send(&self.socket, &self.peer, transfer)
    }
}

struct KernelAcceptor(Socket);

impl Acceptor for KernelAcceptor {
    fn accept_all(self: Box<Self>, run: &Run, flows: &[(usize, u16, Transfer)]) -> io::Result<Accepted> {
        thread::scope(|scope| {
            let mut receivers = Vec::new();
            while receivers.len() < flows.len()
                && let Some((socket, from)) = run.accept(&self.0)?
            {
                if let Some(&(flow, _, transfer)) = flows.iter().find(|(_, port, _)| *port == from) {
                    receivers.push((flow, scope.spawn(move || run.receive(&socket, transfer))));
                }
            }
            Ok(receivers.into_iter().map(|(flow, receiver)| (flow, join(receiver))).collect())
        })
    }
}

/// Its outcome, or its panic.
pub fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| resume_unwind(panic))
}
