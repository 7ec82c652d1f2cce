//! A lab without flows of its own: namespaces and links for other programs, until it is stopped.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lasthop_sim::network::NodeId;
use lasthop_sys::clock::Clock;

use super::emulator::{Emulated, void};
use super::ends::join;
use super::error::LabError;
use super::kernel_tcp::set_default_congestion;
use super::namespace::{Namespace, require_root};
use super::plan::{HostTcp, Plan};
use super::run::{Bench, Experiment, Watch};

/// A node of a lab that stays open for other programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Name in the scenario.
    pub node: String,
    /// Network namespace, for `ip netns exec`.
    pub namespace: String,
    /// Address of the node.
    pub address: Ipv4Addr,
    /// Links that end at the node, each with its device.
    pub devices: Vec<(String, String)>,
}

/// Result of [`hold`].
pub struct Held {
    /// Traffic of the links, and the scheduling delay of their frames.
    pub emulated: Emulated,
    /// Reason why measurements in the lab are void, if they are.
    pub void: Option<String>,
}

/// Builds the namespaces, the links and the scheme's base station, reports them to `opened`, and carries the packets of
/// other programs until `stop` is set. The scenario's flows do not run.
///
/// # Errors
///
/// Returns an error if the network contains an element that the lab cannot emulate, or if a step fails. The lab is
/// removed in any case.
pub fn hold(
    experiment: &Experiment<'_>,
    stop: &AtomicBool,
    opened: impl FnOnce(&[Place]) -> io::Result<()>,
) -> Result<Held, LabError> {
    let plan = Plan::for_others(experiment.network, experiment.scheme, experiment.lab)?;
    check_hosts(&plan)?;
    require_root()?;
    let bench = Bench::build(&plan, experiment, &Until(stop))?;
    prepare_hosts(&plan, &bench)?;
    let emulator = bench.emulator(&plan, experiment, Clock::start(), None)?;
    opened(&places(&bench, &plan)).map_err(LabError::system("cannot print the lab's namespaces"))?;
    // On a thread of its own: only the links get priority.
    let emulated = thread::scope(|scope| join(scope.spawn(|| emulator.run(stop))))?;
    let void = void(&emulated, plan.lab.lateness);
    Ok(Held { emulated, void })
}

/// Checks that other programs can use the hosts' TCP.
pub(super) fn check_hosts(plan: &Plan<'_>) -> Result<(), LabError> {
    let Some((name, _)) = plan.ends().into_iter().find(|(_, tcp)| *tcp == HostTcp::Own) else { return Ok(()) };
    let instead = "other programs use the kernel's TCP; set lab.endpoints = \"kernel\", or use another scheme";
    Err(LabError::Unsupported { what: "lasthop's own TCP in a lab for other programs", name, instead })
}

/// Sets the scenario's congestion control as the default of hosts: sockets of other programs do not request one, and
/// would use this machine's.
pub(super) fn prepare_hosts(plan: &Plan<'_>, bench: &Bench) -> Result<(), LabError> {
    for (index, node) in bench.nodes.iter().enumerate() {
        if let Some(config) = plan.tcp(NodeId(index)) {
            let name = plan.congestion(config)?;
            node.within(|| set_default_congestion(name))?;
        }
    }
    Ok(())
}

pub(super) fn places(bench: &Bench, plan: &Plan<'_>) -> Vec<Place> {
    let place = |(index, namespace): (usize, &Namespace)| {
        let node = NodeId(index);
        let link = |point: usize| plan.network.links[point / 2].name.clone();
        Place {
            node: plan.network.nodes[index].name.clone(),
            namespace: namespace.name().to_owned(),
            address: Plan::address(node),
            devices: plan.points_of(node).map(|point| (link(point), Plan::device(point))).collect(),
        }
    };
    bench.nodes.iter().enumerate().map(place).collect()
}

struct Until<'s>(&'s AtomicBool);

impl Watch for Until<'_> {
    fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn progress(&self, _: u64, _: u64) {}

    fn void(&self, _: &str) {}
}
