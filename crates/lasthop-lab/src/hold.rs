//! A lab without flows of its own: namespaces and links stand for other programs, until someone says that it is enough.

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

/// A node of a lab that is held open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The scenario's name for it.
    pub node: String,
    /// Its network namespace, for `ip netns exec`.
    pub namespace: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The links that end at it, each with the device there.
    pub devices: Vec<(String, String)>,
}

/// What came of it.
pub struct Held {
    /// What the links carried, and how late.
    pub emulated: Emulated,
    /// Why measurements taken in it do not count, if they do not.
    pub void: Option<String>,
}

/// Builds the namespaces, the links and the scheme's base station, tells `opened` where they are, and carries whatever other
/// programs send, until `stop` is set. The scenario's flows do not run.
///
/// # Errors
///
/// When the lab has not what is between the scenario's hosts, or something fails. Nothing is left behind.
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
    opened(&places(&bench, &plan)).map_err(LabError::system("cannot say where the lab is"))?;
    // On a thread of its own: the priority is the links' alone.
    let emulated = thread::scope(|scope| join(scope.spawn(|| emulator.run(stop))))?;
    let void = void(&emulated, plan.lab.lateness);
    Ok(Held { emulated, void })
}

/// Checks that other programs can use the hosts' TCP.
pub(super) fn check_hosts(plan: &Plan<'_>) -> Result<(), LabError> {
    let Some((name, _)) = plan.ends().into_iter().find(|(_, tcp)| *tcp == HostTcp::Own) else { return Ok(()) };
    let instead = "other programs use the kernel's; give lab.endpoints = \"kernel\", or take another scheme";
    Err(LabError::Unsupported { what: "lasthop's own TCP in a lab for other programs", name, instead })
}

/// Gives hosts the scenario's congestion control: other programs' sockets ask for none, and would get this machine's.
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
