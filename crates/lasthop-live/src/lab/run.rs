//! One run: everything is made afresh, and gone when it is over.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use lasthop_proto::packet::FlowId;
use lasthop_proto::random::Root;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Instant;
use lasthop_scenario::LabSpec;
use lasthop_sim::measure::{FlowReport, Report};
use lasthop_sim::network::{App, FlowSpec, Network, NodeId};
use socket2::{SockAddr, Socket};

use super::air::Air;
use super::capture::Capture;
use super::emulator::{Emulated, Emulator, Scheduling, void};
use super::error::LabError;
use super::kernel_tcp::{recoveries, socket};
use super::lateness::Lateness;
use super::namespace::{Namespace, Namespaces, require_root};
use super::packet_socket::{PacketSocket, switch_offloads_off};
use super::plan::Plan;
use super::station::{Running, Site, start_base_station};
use super::transfer::{End, Received, Run, Sent, Transfer};
use crate::clock::Clock;

/// How often a run is tried whose links were late.
const ATTEMPTS: u32 = 3;
/// How often the watcher is told.
const STEP: Duration = Duration::from_millis(20);

/// Whether a run keeps what passed the links' ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Captures {
    /// No.
    Off,
    /// Yes.
    On,
}

/// What to run.
pub struct Experiment<'n> {
    /// The network.
    pub network: &'n Network,
    /// The scheme that made it.
    pub scheme: &'n Scheme,
    /// How the lab runs it.
    pub lab: &'n LabSpec,
    /// The run's seed, as the simulator takes it.
    pub seed: u64,
    /// What to keep.
    pub captures: Captures,
}

/// Told how a run goes.
pub trait Watch {
    /// Whether to stop.
    fn stopped(&self) -> bool;
    /// So many bytes of all that are to come have come.
    fn progress(&self, received: u64, total: u64);
    /// An attempt does not count.
    fn void(&self, reason: &str);
}

/// What a run came to.
pub struct Outcome {
    /// The measures, as the simulator reports them.
    pub report: Report,
    /// How late frames left the links.
    pub lateness: Lateness,
    /// How the emulator's thread was scheduled.
    pub scheduling: Scheduling,
    /// Whether the kernel counts timeouts.
    pub counts_timeouts: bool,
    /// Attempts that did not count.
    pub voided: u32,
    /// What passed the links' ends, if that was asked for.
    pub capture: Option<Capture>,
}

/// Runs an experiment once; again, up to twice, when the links were late.
///
/// # Errors
///
/// When the lab cannot run it, something fails, every attempt was void, or `watch` wants to stop. Nothing is left behind.
pub fn run(experiment: &Experiment<'_>, watch: &dyn Watch) -> Result<Outcome, LabError> {
    let plan = Plan::new(experiment.network, experiment.scheme, experiment.lab)?;
    require_root()?;
    let mut reason = String::new();
    for voided in 0..ATTEMPTS {
        let bench = Bench::build(&plan, watch)?;
        let Attempt { report, emulated, counts_timeouts } = bench.run(&plan, experiment, watch)?;
        let Some(why) = void(&emulated, plan.lab.lateness) else {
            let Emulated { carried, lateness, scheduling, .. } = emulated;
            let capture = carried.capture;
            return Ok(Outcome { report, lateness, scheduling, counts_timeouts, voided, capture });
        };
        watch.void(&why);
        reason = why;
    }
    Err(LabError::Void { reason, bound: plan.lab.lateness, attempts: ATTEMPTS })
}

/// Everything that stands around the flows. Fields go in order: the base station before the namespaces.
struct Bench {
    _base_station: Option<Box<dyn Running>>,
    /// By node.
    nodes: Vec<Namespace>,
    links: Namespace,
    _namespaces: Namespaces,
}

struct Attempt {
    report: Report,
    emulated: Emulated,
    counts_timeouts: bool,
}

impl Bench {
    fn build(plan: &Plan<'_>, watch: &dyn Watch) -> Result<Self, LabError> {
        let mut namespaces = Namespaces::default();
        let links = namespaces.add("links")?;
        links.sysctls(&plan.quiet())?;
        let mut nodes = Vec::new();
        for (index, spec) in plan.network.nodes.iter().enumerate() {
            if watch.stopped() {
                return Err(LabError::Stopped);
            }
            let node = namespaces.add(&format!("node-{}", spec.name))?;
            // Before there is a device, so that none has time to say anything.
            node.sysctls(&plan.sysctls(NodeId(index)))?;
            nodes.push(node);
        }
        let names: Vec<&str> = nodes.iter().map(Namespace::name).collect();
        links.ip(&plan.devices(&names))?;
        for (index, node) in nodes.iter().enumerate() {
            node.ip(&plan.addresses(NodeId(index)))?;
            let devices: Vec<String> = plan.points_of(NodeId(index)).map(Plan::device).collect();
            offloads_off(node, &devices)?;
        }
        offloads_off(&links, &(0..plan.points()).map(Plan::far_device).collect::<Vec<_>>())?;
        let base_station = plan.element().map(|(point, element)| {
            let router = plan.node(point);
            let wired = plan.points_of(router).filter(|&other| other != point).map(Plan::device).collect();
            let name = &plan.network.nodes[router.0].name;
            let wireless = Plan::device(point);
            let site = Site { namespace: &nodes[router.0], router: name, wireless, wired, element };
            start_base_station(&site, plan.scheme)
        });
        Ok(Self { _base_station: base_station.transpose()?, nodes, links, _namespaces: namespaces })
    }

    fn run(&self, plan: &Plan<'_>, experiment: &Experiment<'_>, watch: &dyn Watch) -> Result<Attempt, LabError> {
        let points = (0..plan.points()).map(|point| plan.point_name(point)).collect();
        let capture = (experiment.captures == Captures::On).then(|| Capture::new(points));
        let air = Air::new(plan, Root(experiment.seed), capture);
        let sockets = self.links.within(|| {
            let open = |point| {
                let device = Plan::far_device(point);
                PacketSocket::open(&device, plan.mtu()).map_err(LabError::system(format!("cannot listen at {device}")))
            };
            (0..plan.points()).map(open).collect::<Result<Vec<_>, _>>()
        })?;
        let ends = Ends::open(self, plan)?;
        let run = Run { clock: Clock::start(), over: AtomicBool::new(false), received: AtomicU64::new(0) };
        let scheduling = Scheduling::for_network(plan.network);
        let (flows, emulated) = thread::scope(|scope| {
            let over = Over(&run.over);
            let emulator = Emulator::new(air, sockets, run.clock);
            let emulator = scope.spawn(|| emulator.run(scheduling, &run.over));
            let flows = ends.start(scope, &run, plan);
            let outcome = flows.watch(&run, plan, &emulator, watch);
            drop(over);
            let flows = flows.join();
            let emulated = join(emulator)?;
            outcome?;
            Ok::<_, LabError>((flows?, emulated))
        })?;
        let counts_timeouts = flows.iter().all(|(sent, _)| sent.info.timeouts.is_some());
        let report = self.report(plan, &flows, &emulated)?;
        Ok(Attempt { report, emulated, counts_timeouts })
    }

    fn report(&self, plan: &Plan<'_>, ends: &[(Sent, Received)], emulated: &Emulated) -> Result<Report, LabError> {
        let mut flows = emulated.carried.flows.clone();
        let mut links = emulated.carried.links.clone();
        for ((flow, spec), (sent, received)) in flows.iter_mut().zip(&plan.network.flows).zip(ends) {
            if let Some(at) = received.altered {
                return Err(LabError::Altered { flow: spec.name.clone(), at });
            }
            settle(flow, sent, received);
            for point in plan.path(spec) {
                links[point / 2][point % 2].useful += received.bytes;
            }
        }
        // The kernel counts recoveries per namespace: they are booked with the first flow from there.
        for (index, node) in self.nodes.iter().enumerate() {
            let from_here = |spec: &FlowSpec| spec.from == NodeId(index);
            if let Some(first) = plan.network.flows.iter().position(from_here) {
                flows[first].sender.recoveries = node.within(recoveries)?;
            }
        }
        let end = flows.iter().map(|flow| flow.end).max().unwrap_or_default();
        Ok(Report { flows, sessions: Vec::new(), links, end, frames: emulated.carried.frames })
    }
}

fn settle(flow: &mut FlowReport, sent: &Sent, received: &Received) {
    flow.received = received.bytes;
    flow.start = sent.start;
    flow.end = received.end.max(sent.start);
    flow.complete = sent.complete && received.complete;
    flow.aborted = sent.aborted || received.aborted;
    flow.sender.timeouts = sent.info.timeouts.unwrap_or_default();
    flow.sender.source_retransmissions = sent.info.retransmissions;
}

fn offloads_off(namespace: &Namespace, devices: &[String]) -> Result<(), LabError> {
    namespace.within(|| {
        devices.iter().try_for_each(|device| {
            switch_offloads_off(device).map_err(LabError::system(format!("cannot switch off the offloads of {device}")))
        })
    })
}

/// Ends everyone's work when it goes, also in a panic: the scope waits for them.
struct Over<'r>(&'r AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The sockets of all flows.
struct Ends {
    /// By flow: the initiator's socket, and whom it is to call.
    initiators: Vec<(Socket, SockAddr)>,
    /// Per accepting host: its listener, and the flows that come to it.
    acceptors: Vec<(Socket, Vec<usize>)>,
}

type Accepted = Vec<(usize, Received)>;

/// The threads of all flows.
struct Flows<'s> {
    senders: Vec<ScopedJoinHandle<'s, Sent>>,
    acceptors: Vec<ScopedJoinHandle<'s, std::io::Result<Accepted>>>,
}

impl Ends {
    fn open(bench: &Bench, plan: &Plan<'_>) -> Result<Self, LabError> {
        let specs = &plan.network.flows;
        let mut acceptors = Vec::new();
        let mut initiators: Vec<Option<(Socket, SockAddr)>> = specs.iter().map(|_| None).collect();
        for (index, namespace) in bench.nodes.iter().enumerate() {
            let at = |node: NodeId| node == NodeId(index);
            let flows_to: Vec<usize> = (0..specs.len()).filter(|&flow| at(specs[flow].to)).collect();
            let flows_from: Vec<usize> = (0..specs.len()).filter(|&flow| at(specs[flow].from)).collect();
            let sockets = |flow: usize| Plan::sockets(FlowId(flow as u32), &specs[flow]);
            namespace.within(|| {
                if let Some(&first) = flows_to.first() {
                    let listener = socket(plan, &specs[first].tcp[1], sockets(first)[1])?;
                    let backlog = flows_to.len().try_into().unwrap_or(i32::MAX);
                    listener.listen(backlog).map_err(LabError::system("cannot listen"))?;
                    acceptors.push((listener, flows_to));
                }
                for flow in flows_from {
                    let [own, peer] = sockets(flow);
                    initiators[flow] = Some((socket(plan, &specs[flow].tcp[0], own)?, peer.into()));
                }
                Ok(())
            })?;
        }
        Ok(Self { initiators: initiators.into_iter().flatten().collect(), acceptors })
    }

    fn start<'s>(self, scope: &'s Scope<'s, '_>, run: &'s Run, plan: &Plan<'_>) -> Flows<'s> {
        let transfers: Vec<Transfer> = plan.network.flows.iter().map(transfer).collect();
        let acceptors = self.acceptors.into_iter().map(|(listener, flows)| {
            let mine: Vec<_> = flows.iter().map(|&flow| (flow, port(plan, flow), transfers[flow])).collect();
            scope.spawn(move || accept_all(run, &listener, &mine))
        });
        let acceptors = acceptors.collect();
        let senders = self
            .initiators
            .into_iter()
            .zip(transfers)
            .map(|((socket, peer), transfer)| scope.spawn(move || run.send(&socket, &peer, transfer)));
        Flows { senders: senders.collect(), acceptors }
    }
}

fn transfer(spec: &FlowSpec) -> Transfer {
    // The plan let only transfers pass.
    let (bytes, end) = match spec.app {
        App::Transfer { bytes, close } if close.is_on() => (bytes, End::Close),
        App::Transfer { bytes, .. } => (bytes, End::Acknowledged),
        App::Idle | App::OnOff(_) | App::Web => (0, End::Close),
    };
    Transfer { bytes, end, start: spec.start, window: spec.tcp[1].receive_buffer }
}

fn port(plan: &Plan<'_>, flow: usize) -> u16 {
    Plan::sockets(FlowId(flow as u32), &plan.network.flows[flow])[0].port()
}

/// Takes one connection for each flow, known by the port that it comes from, and receives what it brings.
fn accept_all(run: &Run, listener: &Socket, flows: &[(usize, u16, Transfer)]) -> std::io::Result<Accepted> {
    thread::scope(|scope| {
        let mut receivers = Vec::new();
        while receivers.len() < flows.len()
            && let Some((socket, from)) = run.accept(listener)?
        {
            if let Some(&(flow, _, transfer)) = flows.iter().find(|(_, port, _)| *port == from) {
                receivers.push((flow, scope.spawn(move || run.receive(&socket, transfer))));
            }
        }
        Ok(receivers.into_iter().map(|(flow, receiver)| (flow, join(receiver))).collect())
    })
}

impl Flows<'_> {
    /// Waits for the end of all flows, or whatever comes first.
    fn watch<T>(
        &self,
        run: &Run,
        plan: &Plan<'_>,
        emulator: &ScopedJoinHandle<'_, T>,
        watch: &dyn Watch,
    ) -> Result<(), LabError> {
        let total = plan.network.flows.iter().map(|spec| transfer(spec).bytes).sum();
        let limit = plan.network.limit;
        loop {
            let done = self.senders.iter().all(ScopedJoinHandle::is_finished)
                && self.acceptors.iter().all(ScopedJoinHandle::is_finished);
            // Without links nothing more can come.
            if done || emulator.is_finished() || run.clock.now() > limit {
                return Ok(());
            }
            // An initiator that gave up before it was accepted leaves its acceptor waiting.
            if self.senders.iter().all(ScopedJoinHandle::is_finished) && run.received.load(Ordering::Relaxed) == 0 {
                return Ok(());
            }
            if watch.stopped() {
                return Err(LabError::Stopped);
            }
            watch.progress(run.received.load(Ordering::Relaxed), total);
            thread::sleep(STEP);
        }
    }

    fn join(self) -> Result<Vec<(Sent, Received)>, LabError> {
        let sent: Vec<Sent> = self.senders.into_iter().map(join).collect();
        let mut received = vec![Received { end: Instant::ZERO, ..Received::default() }; sent.len()];
        for acceptor in self.acceptors {
            for (flow, one) in join(acceptor).map_err(LabError::system("cannot take connections"))? {
                received[flow] = one;
            }
        }
        Ok(sent.into_iter().zip(received).collect())
    }
}

/// Its outcome, or its panic.
fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| resume_unwind(panic))
}
