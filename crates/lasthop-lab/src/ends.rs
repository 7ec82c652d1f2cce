//! Ends of all flows: TCP of the kernel or of lasthop, QUIC, and datagrams.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use lasthop_proto::packet::FlowId;
use lasthop_proto::random::Root;
use lasthop_sim::network::{App, FlowSpec, NodeId};
use socket2::{SockAddr, Socket};

use super::datagrams;
use super::error::LabError;
use super::kernel_tcp::socket;
use super::namespace::Namespace;
use super::own_tcp::{self, OwnAcceptor, OwnInitiator};
use super::plan::Plan;
use super::quic;
use super::quic::register::Register;
use super::transfer::{Accepted, Acceptor, Initiator, Run, Sent, Transfer};
use crate::host::{Device, Host, HostError};

/// The ends of all flows of a network.
pub struct Ends {
    /// Initiators by flow.
    pub initiators: Vec<Box<dyn Initiator>>,
    /// Acceptors per accepting host, with the flows to it.
    pub acceptors: Vec<(Box<dyn Acceptor>, Vec<usize>)>,
    /// Hosts with lasthop's TCP. They must exist until all flows have ended: dropping a host resets its connections.
    pub hosts: Vec<Arc<Host>>,
}

/// Devices for hosts with lasthop's TCP, by node.
pub type Devices = BTreeMap<usize, Device>;

impl Ends {
    /// Creates the ends in the namespaces of their nodes, or on `devices` for lasthop's TCP. Acceptors listen.
    ///
    /// # Errors
    ///
    /// Returns errors of the kernel.
    pub fn open(
        nodes: &[Namespace],
        mut devices: Devices,
        plan: &Plan<'_>,
        run: &Run,
        register: &Register,
        root: Root,
    ) -> Result<Self, LabError> {
        let specs = &plan.network.flows;
        let mut ends = Self { initiators: Vec::new(), acceptors: Vec::new(), hosts: Vec::new() };
        let mut initiators: Vec<Option<Box<dyn Initiator>>> = specs.iter().map(|_| None).collect();
        for (index, namespace) in nodes.iter().enumerate() {
            let node = NodeId(index);
            let is_tcp = |flow: usize| matches!(specs[flow].app, App::Transfer { .. });
            let flows = |end: fn(&FlowSpec) -> NodeId| {
                (0..specs.len()).filter(move |&flow| is_tcp(flow) && end(&specs[flow]) == node)
            };
            let (flows_to, flows_from) = (flows(|spec| spec.to).collect::<Vec<_>>(), flows(|spec| spec.from));
            let make: Made = match devices.remove(&index) {
                Some(device) => {
                    let host = Host::start(device, run.clock).map_err(own_tcp::failed(plan, node))?;
                    let host = Arc::new(host);
                    ends.hosts.push(host.clone());
                    own_ends(&host, &flows_to, flows_from, plan, run).map_err(own_tcp::failed(plan, node))?
                }
                None => namespace.within(|| kernel_ends(&flows_to, flows_from, plan))?,
            };
            ends.acceptors.extend(make.acceptor.map(|acceptor| (acceptor, flows_to)));
            let quic = quic::HostEnds::open(node, namespace, plan, register)?;
            let datagrams = datagrams::HostEnds::open(node, namespace, plan, root)?;
            ends.acceptors.extend(quic.acceptor.into_iter().chain(datagrams.acceptor));
            let over_udp = quic.initiators.into_iter().chain(datagrams.initiators);
            for (flow, initiator) in make.initiators.into_iter().chain(over_udp) {
                initiators[flow] = Some(initiator);
            }
        }
        ends.initiators = initiators.into_iter().flatten().collect();
        Ok(ends)
    }
}

/// Ends at a host.
struct Made {
    acceptor: Option<Box<dyn Acceptor>>,
    /// Initiators with their flows.
    initiators: Vec<(usize, Box<dyn Initiator>)>,
}

/// Creates ends with the kernel's TCP: sockets in the calling thread's namespace.
fn kernel_ends(flows_to: &[usize], flows_from: impl Iterator<Item = usize>, plan: &Plan<'_>) -> Result<Made, LabError> {
    let specs = &plan.network.flows;
    let mut made = Made { acceptor: None, initiators: Vec::new() };
    if let Some(&first) = flows_to.first() {
        let listener = socket(plan, &specs[first].tcp[1], sockets(plan, first)[1])?;
        let backlog = flows_to.len().try_into().unwrap_or(i32::MAX);
        listener.listen(backlog).map_err(LabError::system("cannot listen"))?;
        made.acceptor = Some(Box::new(KernelAcceptor(listener)));
    }
    for flow in flows_from {
        let [own, peer] = sockets(plan, flow);
        let initiator = KernelInitiator { socket: socket(plan, &specs[flow].tcp[0], own)?, peer: peer.into() };
        made.initiators.push((flow, Box::new(initiator)));
    }
    Ok(made)
}

/// Creates ends with lasthop's TCP.
fn own_ends(
    host: &Arc<Host>,
    flows_to: &[usize],
    flows_from: impl Iterator<Item = usize>,
    plan: &Plan<'_>,
    run: &Run,
) -> Result<Made, HostError> {
    let specs = &plan.network.flows;
    let mut made = Made { acceptor: None, initiators: Vec::new() };
    if !flows_to.is_empty() {
        let flows = flows_to.iter().map(|&flow| {
            let [peer, own] = sockets(plan, flow).map(SocketAddr::V4);
            (flow, [own, peer], specs[flow].tcp[1].clone(), Transfer::of(&specs[flow]))
        });
        made.acceptor = Some(Box::new(OwnAcceptor::listen(host, run, flows)?));
    }
    for flow in flows_from {
        let sockets = sockets(plan, flow).map(SocketAddr::V4);
        let initiator = OwnInitiator { host: host.clone(), config: specs[flow].tcp[0].clone(), sockets };
        made.initiators.push((flow, Box::new(initiator)));
    }
    Ok(made)
}

fn sockets(plan: &Plan<'_>, flow: usize) -> [SocketAddrV4; 2] {
    plan.flow_sockets(FlowId(flow as u32), &plan.network.flows[flow])
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

/// Returns the result of a thread, or propagates its panic.
pub fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| resume_unwind(panic))
}
