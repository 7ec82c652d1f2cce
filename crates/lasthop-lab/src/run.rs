//! One run: creates everything that it needs, and removes it afterwards.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::random::Root;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Instant;
use lasthop_scenario::LabSpec;
use lasthop_sim::endpoint_index;
use lasthop_sim::measure::{FlowReport, Report};
use lasthop_sim::network::{FlowSpec, Network, NodeId};
use lasthop_sys::clock::Clock;
use lasthop_sys::ethtool::switch_offloads_off;
use lasthop_sys::packet_socket::PacketSocket;

use super::air::{Air, Carried, Crossed};
use super::capture::{Capture, Captures};
use super::emulator::{Emulated, Emulator, void};
use super::ends::{Devices, Ends, join};
use super::error::LabError;
use super::kernel_tcp::{Counters, counters, recoveries, retransmitted, unsent};
use super::lateness::Lateness;
use super::monitor::Monitor;
use super::namespace::{Namespace, Namespaces, require_root};
use super::offloads;
use super::own_tcp;
use super::plan::{HostTcp, Plan, Point};
use super::quic::{self, register::Register};
use super::routes::{Change, Switchboard};
use super::scheduling::Scheduling;
use super::station::{Running, Site, StationCounts, start_base_station};
use super::transfer::{Accepted, Received, Run, Sent, Transfer};
use super::udp;

/// Maximum number of attempts if runs are void.
const ATTEMPTS: u32 = 3;
/// Time for receivers to read the remaining data after all senders have ended.
const GRACE: lasthop_proto::time::Duration = lasthop_proto::time::Duration::from_secs(2);
/// Interval of progress reports.
const STEP: Duration = Duration::from_millis(20);

/// An experiment to run.
pub struct Experiment<'n> {
    /// Network to emulate.
    pub network: &'n Network,
    /// Scheme from which the network was built.
    pub scheme: &'n Scheme,
    /// Settings of the lab.
    pub lab: &'n LabSpec,
    /// Seed of the run, as in the simulator.
    pub seed: u64,
    /// Setting for captures.
    pub captures: Captures,
}

/// Observer of a run.
pub trait Watch {
    /// Returns whether to stop.
    fn stopped(&self) -> bool;
    /// Reports that `received` of `total` bytes have arrived.
    fn progress(&self, received: u64, total: u64);
    /// Reports that an attempt is void.
    fn void(&self, reason: &str);
}

/// Outcome of a run.
pub struct Outcome {
    /// Metrics, as the simulator reports them.
    pub report: Report,
    /// TCP implementations of the hosts with flows, and of the relays, by the node's name.
    pub ends: Vec<(String, HostTcp)>,
    /// Delays of frames after their due time.
    pub lateness: Lateness,
    /// Scheduling of the emulator's thread.
    pub scheduling: Scheduling,
    /// Indicates whether the kernel counts timeouts.
    pub counts_timeouts: bool,
    /// Counters of the kernels of hosts that ran their TCP, by the host's name.
    pub kernels: Vec<(String, Counters)>,
    /// Number of void attempts.
    pub voided: u32,
    /// Capture at the links' ends, if requested.
    pub capture: Option<Capture>,
    /// Decisions of the gateway at the base station, if requested and if it decides on packets: a file in the format of
    /// [`lasthop_gateway::engine::recording`].
    pub recording: Option<Vec<u8>>,
}

/// Runs an experiment once. Repeats it up to twice if the links were late or packets passed the base station untreated.
///
/// # Errors
///
/// Returns an error if the lab cannot run the experiment, if a step fails, if every attempt was void, or if `watch`
/// stops it. The lab is removed in any case.
pub fn run(experiment: &Experiment<'_>, watch: &dyn Watch) -> Result<Outcome, LabError> {
    let plan = Plan::new(experiment.network, experiment.scheme, experiment.lab)?;
    require_root()?;
    let mut reason = String::new();
    for voided in 0..ATTEMPTS {
        let mut bench = Bench::build(&plan, experiment, watch)?;
        let Attempt { report, emulated, station, counts_timeouts, kernels } = bench.run(&plan, experiment, watch)?;
        let Some(why) = void(&emulated, plan.lab.lateness).or_else(|| station.void()) else {
            let Emulated { carried, lateness, scheduling, .. } = emulated;
            let capture = carried.capture;
            let recording = take(&mut bench.base_stations).into_iter().find_map(|station| station.end());
            let kernels = plan.network.nodes.iter().zip(kernels);
            let kernels = kernels.filter_map(|(node, counters)| Some((node.name.clone(), counters?))).collect();
            return Ok(Outcome {
                report,
                ends: plan.ends(),
                lateness,
                scheduling,
                counts_timeouts,
                kernels,
                voided,
                capture,
                recording,
            });
        };
        watch.void(&why);
        reason = why;
    }
    Err(LabError::Void { reason, bound: plan.lab.lateness, attempts: ATTEMPTS })
}

/// Environment of the flows. Fields are dropped in order: the base stations before the namespaces.
pub(super) struct Bench {
    /// Base stations: one, or with a moving host one at each of its stations.
    base_stations: Vec<Box<dyn Running>>,
    /// Namespaces by node.
    pub(super) nodes: Vec<Namespace>,
    devices: Devices,
    quic: Arc<Register>,
    links: Namespace,
    _namespaces: Namespaces,
}

struct Attempt {
    report: Report,
    emulated: Emulated,
    station: StationCounts,
    counts_timeouts: bool,
    /// Counters by node, for nodes that ran the kernel's TCP.
    kernels: Vec<Option<Counters>>,
}

impl Bench {
    pub(super) fn build(plan: &Plan<'_>, experiment: &Experiment<'_>, watch: &dyn Watch) -> Result<Self, LabError> {
        Self::build_in(Namespaces::default(), plan, experiment, watch)
    }

    /// Builds the environment in these namespaces.
    pub(super) fn build_in(
        mut namespaces: Namespaces,
        plan: &Plan<'_>,
        experiment: &Experiment<'_>,
        watch: &dyn Watch,
    ) -> Result<Self, LabError> {
        let (seed, captures) = (experiment.seed, experiment.captures);
        let links = namespaces.add("links")?;
        links.sysctls(&plan.quiet())?;
        let mut nodes = Vec::new();
        for (index, spec) in plan.network.nodes.iter().enumerate() {
            if watch.stopped() {
                return Err(LabError::Stopped);
            }
            let node = namespaces.add(&format!("node-{}", spec.name))?;
            // Before devices exist, so that the kernel sends no unsolicited packets.
            node.sysctls(&plan.sysctls(NodeId(index)))?;
            nodes.push(node);
        }
        let names: Vec<&str> = nodes.iter().map(Namespace::name).collect();
        links.ip(&plan.devices(&names))?;
        let mut devices = Devices::new();
        for (index, node) in nodes.iter().enumerate() {
            if plan.is_own(NodeId(index)) {
                devices.insert(index, node.within(|| own_tcp::open_device(plan, NodeId(index), seed))?);
            }
            node.ip(&plan.addresses(NodeId(index)))?;
            node.tc(&plan.host_queues(NodeId(index)))?;
            offloads::set(node, plan, NodeId(index))?;
        }
        offloads_off(&links, &(0..plan.ports()).map(Plan::far_device).collect::<Vec<_>>())?;
        let gateways = plan.gateways();
        // A recording shows the decisions of a single gateway.
        let captures = if gateways.len() == 1 { captures } else { Captures::Off };
        let base_stations = gateways.into_iter().map(|(point, element)| {
            let router = plan.node(point);
            let wired = plan.points_of(router).filter(|&other| plan.is_routed(other) && other != point);
            let wired = wired.map(Plan::device).collect();
            let name = &plan.network.nodes[router.0].name;
            let wireless = Plan::device(point);
            let beyond = plan.hosts_beyond(point);
            let site = Site { namespace: &nodes[router.0], router: name, wireless, wired, beyond, element, captures };
            start_base_station(&site, plan.scheme)
        });
        let base_stations = base_stations.collect::<Result<_, _>>()?;
        let quic = Arc::new(Register::new(plan));
        Ok(Self { base_stations, nodes, devices, quic, links, _namespaces: namespaces })
    }

    fn run(&mut self, plan: &Plan<'_>, experiment: &Experiment<'_>, watch: &dyn Watch) -> Result<Attempt, LabError> {
        let run = Run::begin();
        let root = Root(experiment.seed);
        let mut ends = Ends::open(&self.nodes, take(&mut self.devices), plan, &run, &self.quic, root)?;
        let _hosts = take(&mut ends.hosts);
        let emulator = self.emulator(plan, experiment, run.clock, None)?;
        let (flows, emulated) = thread::scope(|scope| {
            let over = Over(&run.over);
            let emulator = scope.spawn(|| emulator.run(&run.over));
            let flows = Flows::start(ends, scope, &run, plan);
            let outcome = flows.watch(&run, plan, &emulator, watch);
            drop(over);
            let flows = flows.join();
            let emulated = join(emulator)?;
            outcome?;
            Ok::<_, LabError>((flows?, emulated))
        })?;
        let counts_timeouts = flows.iter().all(|(sent, _)| sent.timeouts.is_some());
        let unsent = self.nodes.iter().map(|node| node.within(|| Ok(unsent()? + udp::refused()?)));
        let unsent = unsent.sum::<Result<u64, _>>()?;
        let emulated = Emulated { dropped: emulated.dropped + unsent, ..emulated };
        let counts = self.base_stations.iter().map(|station| station.counts()).collect::<Result<Vec<_>, _>>()?;
        let station = counts.into_iter().fold(StationCounts::default(), StationCounts::and);
        let is_kernel = |node: NodeId| plan.host_tcp(node).is_some_and(|tcp| tcp != HostTcp::Own);
        let kernels = self.nodes.iter().enumerate();
        let kernels = kernels.map(|(index, node)| is_kernel(NodeId(index)).then(|| node.within(counters)).transpose());
        let kernels = kernels.collect::<Result<Vec<_>, _>>()?;
        let report = report(plan, &flows, &emulated, station, &kernels, &self.quic)?;
        Ok(Attempt { report, emulated, station, counts_timeouts, kernels })
    }

    /// Creates the links, without any traffic so far.
    pub(super) fn emulator(
        &self,
        plan: &Plan<'_>,
        experiment: &Experiment<'_>,
        clock: Clock,
        monitor: Option<Monitor>,
    ) -> Result<Emulator, LabError> {
        let points = (0..plan.points()).map(|point| plan.point_name(point)).collect();
        let capture = (experiment.captures == Captures::On).then(|| Capture::new(points));
        let mut air = Air::new(plan, Root(experiment.seed), capture).with_quic(self.quic.clone());
        if let Some(monitor) = monitor {
            air = air.with_monitor(monitor);
        }
        if plan.mobility().is_some() {
            let mut switchboard = Switchboard::open(plan, &self.nodes)?;
            let set = Box::new(move |change: &Change| switchboard.set(change));
            air = air.with_routes(set).map_err(LabError::system("cannot set the routes to the mobile host"))?;
        }
        let offloaded = plan.offloaded();
        let sockets = self.links.within(|| {
            let open = |point| {
                let device = Plan::far_device(point);
                let socket = match offloaded[point] {
                    true => PacketSocket::open_offloaded(&device),
                    false => PacketSocket::open(&device, plan.mtu()),
                };
                socket.map_err(LabError::system(format!("cannot capture at {device}")))
            };
            (0..plan.ports()).map(open).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(Emulator::new(air, sockets, clock))
    }
}

/// Returns the metrics of a run; `kernels` is indexed by node.
fn report(
    plan: &Plan<'_>,
    ends: &[(Sent, Received)],
    emulated: &Emulated,
    station: StationCounts,
    kernels: &[Option<Counters>],
    quic: &Register,
) -> Result<Report, LabError> {
    let mut flows = emulated.carried.flows.clone();
    let mut links = emulated.carried.links.clone();
    for (index, ((flow, spec), (sent, received))) in flows.iter_mut().zip(&plan.network.flows).zip(ends).enumerate() {
        let received = &quic::counted(spec, sent, received);
        if let Some(at) = received.altered {
            return Err(LabError::Altered { flow: spec.name.clone(), at });
        }
        settle(flow, sent, received);
        if let Some(tally) = quic.tally(index) {
            let totals = tally.totals();
            flow.sender.source_retransmissions = totals.retransmissions;
            flow.sender.quic_resent_bytes = totals.resent_bytes;
            flow.sender.recoveries += totals.reductions;
        }
        for (point, bytes) in crossed(plan, &emulated.carried, index, received.bytes) {
            links[point / 2][point % 2].useful += bytes;
        }
    }
    if plan.is_mptcp() {
        // A socket reports on its first subflow only; the kernel counts all of them per namespace.
        let over_tcp = flows.iter_mut().zip(&plan.network.flows).filter(|(_, spec)| spec.app.quic().is_none());
        over_tcp.for_each(|(flow, _)| flow.sender.source_retransmissions = 0);
    }
    // The kernel counts recoveries per namespace. They are attributed to the first flow from there.
    for (index, counters) in kernels.iter().enumerate() {
        let by_kernel =
            |(spec, (sent, _)): (&FlowSpec, &(Sent, Received))| spec.from == NodeId(index) && sent.recoveries.is_none();
        if let Some(counters) = counters
            && let Some(first) = plan.network.flows.iter().zip(ends).position(by_kernel)
        {
            flows[first].sender.recoveries += recoveries(counters);
            if plan.is_mptcp() {
                flows[first].sender.source_retransmissions = retransmitted(counters);
            }
        }
    }
    // The base station's counts are attributed to the first flow of all.
    if let Some(first) = flows.first_mut() {
        first.sender.relay_timeouts += station.relay_timeouts;
        first.dupacks_suppressed += station.dupacks_suppressed;
    }
    let end = flows.iter().map(|flow| flow.end).max().unwrap_or_default();
    let mobility = emulated.carried.moves.as_ref().map(|moves| moves.report);
    let (frames, sessions) = (emulated.carried.frames, Vec::new());
    Ok(Report { flows, sessions, links, mobility, end, ended: end, frames, overflow: None, delays: None })
}

/// Returns the points that a flow's delivered bytes passed, with the number of bytes. With a moving host, the bytes are
/// distributed in proportion to the data that arrived at each station.
fn crossed(plan: &Plan<'_>, carried: &Carried, flow: usize, bytes: u64) -> Vec<(Point, u64)> {
    let spec = &plan.network.flows[flow];
    let counted_at = spec.app.counted_at();
    let end = endpoint_index(FlowId(flow as u32), counted_at);
    let moves = carried.moves.iter().flat_map(|moves| &moves.crossed);
    let by_station: Vec<_> = moves.filter(|crossed| crossed.end == end).collect();
    let units: u64 = by_station.iter().map(|crossed| crossed.units).sum();
    if units == 0 {
        // The direction in which the flow is counted.
        let turned = |point: Point| if counted_at == Side::Acceptor { point } else { point ^ 1 };
        return plan.path(spec).into_iter().map(|point| (turned(point), bytes)).collect();
    }
    let share = |crossed: &&Crossed| (u128::from(bytes) * u128::from(crossed.units) / u128::from(units)) as u64;
    let points = by_station.iter().flat_map(|crossed| crossed.path.iter().map(move |point| (*point, share(crossed))));
    points.collect()
}

fn settle(flow: &mut FlowReport, sent: &Sent, received: &Received) {
    flow.received = received.bytes;
    flow.start = sent.start;
    flow.end = received.end.max(sent.start);
    flow.complete = sent.complete && received.complete;
    flow.aborted = sent.aborted || received.aborted;
    flow.sender.timeouts = sent.timeouts.unwrap_or_default();
    // In addition to a relay's.
    flow.sender.recoveries += sent.recoveries.unwrap_or_default();
    flow.sender.source_retransmissions = sent.retransmissions;
    flow.call.clone_from(&received.call);
    flow.tcp_info.clone_from(&sent.tcp_info);
}

fn offloads_off(namespace: &Namespace, devices: &[String]) -> Result<(), LabError> {
    namespace.within(|| {
        devices.iter().try_for_each(|device| {
            switch_offloads_off(device).map_err(LabError::system(format!("cannot disable the offloads of {device}")))
        })
    })
}

/// Ends all threads of a run when this value is dropped, even by a panic, since the scope waits for them.
pub(super) struct Over<'r>(pub(super) &'r AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads of all flows. Each is marked if its flows end.
struct Flows<'s> {
    senders: Vec<(bool, ScopedJoinHandle<'s, Sent>)>,
    acceptors: Vec<(bool, ScopedJoinHandle<'s, std::io::Result<Accepted>>)>,
}

impl Flows<'_> {
    fn start<'s>(ends: Ends, scope: &'s Scope<'s, '_>, run: &'s Run, plan: &Plan<'_>) -> Flows<'s> {
        let specs = &plan.network.flows;
        let transfers: Vec<Transfer> = specs.iter().map(Transfer::of).collect();
        let ends_itself = |flow: usize| !specs[flow].app.is_endless();
        let acceptors = ends.acceptors.into_iter().map(|(acceptor, flows)| {
            let mine: Vec<_> = flows.iter().map(|&flow| (flow, port(plan, flow), transfers[flow])).collect();
            let ends = flows.iter().any(|&flow| ends_itself(flow));
            (ends, scope.spawn(move || acceptor.accept_all(run, &mine)))
        });
        let acceptors = acceptors.collect();
        let senders = ends.initiators.into_iter().zip(&transfers).enumerate();
        let senders = senders.map(|(flow, (initiator, &transfer))| {
            (ends_itself(flow), scope.spawn(move || initiator.send(run, transfer)))
        });
        Flows { senders: senders.collect(), acceptors }
    }
}

/// Returns whether all threads whose flows end have ended, of which there must be one.
fn are_over<T>(threads: &[(bool, ScopedJoinHandle<'_, T>)]) -> bool {
    let mut ending = threads.iter().filter(|(ends, _)| *ends).map(|(_, thread)| thread).peekable();
    ending.peek().is_some() && ending.all(|thread| thread.is_finished())
}

fn port(plan: &Plan<'_>, flow: usize) -> u16 {
    plan.flow_sockets(FlowId(flow as u32), &plan.network.flows[flow])[0].port()
}

impl Flows<'_> {
    /// Waits until all flows have ended, or until the run ends for another reason.
    fn watch<T>(
        &self,
        run: &Run,
        plan: &Plan<'_>,
        emulator: &ScopedJoinHandle<'_, T>,
        watch: &dyn Watch,
    ) -> Result<(), LabError> {
        let total = plan.network.flows.iter().map(|spec| Transfer::of(spec).bytes).sum();
        let limit = plan.network.limit;
        let mut sent_since = None;
        loop {
            let all_sent = are_over(&self.senders);
            // Without links no more data can arrive.
            if all_sent && are_over(&self.acceptors) || emulator.is_finished() || run.clock.now() > limit {
                run.end();
                return Ok(());
            }
            // No connection will arrive at an acceptor whose initiator gave up.
            if all_sent {
                let since = *sent_since.get_or_insert_with(|| run.clock.now());
                if run.clock.now() > since + GRACE {
                    run.end();
                    return Ok(());
                }
            }
            if watch.stopped() {
                return Err(LabError::Stopped);
            }
            watch.progress(run.received.load(Ordering::Relaxed), total);
            thread::sleep(STEP);
        }
    }

    fn join(self) -> Result<Vec<(Sent, Received)>, LabError> {
        let sent: Vec<Sent> = self.senders.into_iter().map(|(_, sender)| join(sender)).collect();
        let mut received = vec![Received { end: Instant::ZERO, ..Received::default() }; sent.len()];
        for (_, acceptor) in self.acceptors {
            for (flow, one) in join(acceptor).map_err(LabError::system("cannot accept connections"))? {
                received[flow] = one;
            }
        }
        Ok(sent.into_iter().zip(received).collect())
    }
}
