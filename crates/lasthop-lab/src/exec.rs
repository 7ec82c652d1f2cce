//! A lab for one command, which runs at a host of the scenario. The lab ends with the command.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::AtomicBool;
use std::{thread, time};

use lasthop_sim::network::{NodeId, NodeKind};
use lasthop_sys::clock::Clock;
use lasthop_sys::signals::{Signal, Signals};
use rustix::process::{Pid, kill_process};

use super::emulator::{Emulated, void};
use super::ends::join;
use super::error::LabError;
use super::guest::{self, Ended, Files, PATIENCE, Server};
use super::hold::{Place, check_hosts, places, prepare_hosts};
use super::monitor::Monitor;
use super::namespace::{Name, Namespace, Namespaces, require_root};
use super::outside::Outside;
use super::plan::Plan;
use super::run::{Bench, Experiment, Over, Watch};

/// Programs to run in the lab.
#[derive(Clone, Copy, Debug)]
pub struct Guests<'a> {
    /// Command and its arguments.
    pub command: &'a [OsString],
    /// Host for the command; by default one beyond the lossy hop.
    pub at: Option<&'a str>,
    /// Command lines of servers, each with its host. They start before the command and end with it.
    pub servers: &'a [(String, String)],
    /// Host with a route to the outside. `Some(None)` selects the host at the other end; `None` means no route.
    pub outside: Option<Option<&'a str>>,
    /// Name of the lab, which determines the names of its namespaces; by default the first free one of `lab`, `lab2`,
    /// ...
    pub name: Option<&'a str>,
}

/// A lab that is open.
#[derive(Debug)]
pub struct Opened<'a> {
    /// Nodes of the lab.
    pub places: &'a [Place],
    /// Node for the command.
    pub at: &'a Place,
}

/// Result of [`exec`].
pub struct Executed {
    /// End of the command, or the error that prevented its start.
    pub ended: io::Result<Ended>,
    /// Host where the command ran.
    pub at: String,
    /// Traffic of the links, and the scheduling delay of their frames.
    pub emulated: Emulated,
    /// Reason why measurements in the lab are void, if they are.
    pub void: Option<String>,
}

/// Signals that are passed on to the command, and SIGCHLD, which reports its end.
const SIGNALS: [i32; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCHLD];

/// Interval of checks whether the links still work.
const LOOK: time::Duration = time::Duration::from_millis(100);

/// Builds the namespaces, the links and the scheme's base station, runs the command, and removes all of it. The
/// scenario's flows do not run. Signals sent to this process are passed on to the command; those of a terminal reach
/// the command directly.
///
/// Must be called from the process's first thread before others exist, since those would receive the signals.
///
/// # Errors
///
/// Returns an error if the network contains an element that the lab cannot emulate, or if a step fails. The lab is
/// removed in any case.
pub fn exec(
    experiment: &Experiment<'_>,
    guests: &Guests<'_>,
    opened: impl FnOnce(&Opened<'_>),
) -> Result<Executed, LabError> {
    let plan = Plan::for_others(experiment.network, experiment.scheme, experiment.lab)?;
    check_hosts(&plan)?;
    let at = match guests.at {
        Some(name) => find(&plan, "--at", name)?,
        None => usual_host(&plan),
    };
    let servers = guests.servers.iter().map(|(host, line)| Ok((find(&plan, "--serve", host)?, line)));
    let servers = servers.collect::<Result<Vec<_>, LabError>>()?;
    let through = match guests.outside {
        Some(Some(name)) => Some(find(&plan, "--nat", name)?),
        Some(None) => Some(other_end(&plan, at)),
        None => None,
    };
    require_root()?;
    let signals = Signals::hold(&SIGNALS).map_err(LabError::system("cannot block signals"))?;
    let name = Name::take(guests.name)?;
    let bench = Bench::build_in(Namespaces::named(&name)?, &plan, experiment, &Until(&signals))?;
    prepare_hosts(&plan, &bench)?;
    let places = places(&bench, &plan);
    let files = Files::write(Path::new("/run/lasthop-lab").join(name.as_str()), &places, through.is_some())?;
    let _outside = through.map(|through| Outside::open(&name, &plan, &bench.nodes, through)).transpose()?;
    let emulator = bench.emulator(&plan, experiment, Clock::start(), Some(Monitor::new(plan.points())))?;
    opened(&Opened { places: &places, at: &places[at.0] });
    let stop = AtomicBool::new(false);
    let (ended, emulated) = thread::scope(|scope| {
        let over = Over(&stop);
        let links = scope.spawn(|| emulator.run(&stop));
        let ended = with_servers(&servers, &plan, &bench, &files, || {
            run(guests.command, &bench.nodes[at.0], &files, &signals, || links.is_finished())
        });
        let hosts = bench.nodes.iter().zip(&plan.network.nodes).filter(|(_, node)| node.kind == NodeKind::Host);
        guest::end_all(&hosts.map(|(namespace, _)| namespace).collect::<Vec<_>>());
        drop(over);
        Ok::<_, LabError>((ended?, join(links)?))
    })?;
    let void = void(&emulated, plan.lab.lateness);
    Ok(Executed { ended, at: plan.network.nodes[at.0].name.clone(), emulated, void })
}

/// Returns the host of that name.
fn find(plan: &Plan<'_>, option: &'static str, name: &str) -> Result<NodeId, LabError> {
    let hosts = || plan.network.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Host);
    let found = hosts().find(|(_, node)| node.name == name).map(|(index, _)| NodeId(index));
    found.ok_or_else(|| LabError::NoHost {
        option,
        given: name.to_owned(),
        known: hosts().map(|(_, node)| node.name.clone()).collect(),
    })
}

/// Returns the host at which the first flow ends, which receives data.
fn usual_host(plan: &Plan<'_>) -> NodeId {
    plan.network.flows.first().map_or(NodeId(0), |flow| flow.to)
}

/// Returns the host at the other end of the first flow of `host`, or else the first other host.
fn other_end(plan: &Plan<'_>, host: NodeId) -> NodeId {
    let flows = plan.network.flows.iter().map(|flow| [flow.from, flow.to]);
    let other = flows.filter(|ends| ends.contains(&host)).flatten().find(|end| *end != host);
    let first = || (0..plan.network.nodes.len()).map(NodeId).find(|node| *node != host);
    other.or_else(first).unwrap_or(host)
}

/// Runs `work` while the servers run.
fn with_servers<T>(
    servers: &[(NodeId, &String)],
    plan: &Plan<'_>,
    bench: &Bench,
    files: &Files,
    work: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    let start = |(host, line): &(NodeId, &String)| {
        Server::start(&plan.network.nodes[host.0].name, line, &bench.nodes[host.0], files)
    };
    let _running = servers.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    work()
}

/// Runs the command to its end. The inner error is the reason why it was not started.
fn run(
    words: &[OsString],
    namespace: &Namespace,
    files: &Files,
    signals: &Signals,
    links_ended: impl Fn() -> bool,
) -> Result<io::Result<Ended>, LabError> {
    let mut child = match guest::start(guest::command(words), namespace, files) {
        Ok(child) => child,
        Err(error) => return Ok(Err(error)),
    };
    let fail = |what: &'static str| LabError::system(what);
    let mut asked: Option<time::Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(fail("cannot wait for the command"))? {
            return Ok(Ok(Ended::of(status)));
        }
        if links_ended() || asked.is_some_and(|asked| asked.elapsed() > PATIENCE) {
            let _ = child.kill();
        }
        let Some(signal) = signals.next(LOOK).map_err(fail("cannot wait for signals"))? else { continue };
        pass_on(signal, &child);
        if matches!(signal.number, libc::SIGTERM | libc::SIGHUP) {
            asked.get_or_insert_with(time::Instant::now);
        }
    }
}

/// Passes a signal that reached only this process on to the command.
fn pass_on(signal: Signal, child: &Child) {
    if signal.by_kernel || signal.number == libc::SIGCHLD {
        return;
    }
    let pid = Pid::from_raw(child.id() as i32);
    if let Some((pid, signal)) = pid.zip(rustix::process::Signal::from_named_raw(signal.number)) {
        let _ = kill_process(pid, signal);
    }
}

/// Stops building at a signal.
struct Until<'s>(&'s Signals);

impl Watch for Until<'_> {
    fn stopped(&self) -> bool {
        // The commands that build the lab end as well.
        let next = || self.0.next(time::Duration::ZERO).ok().flatten();
        std::iter::from_fn(next)
            .any(|signal| matches!(signal.number, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM))
    }

    fn progress(&self, _: u64, _: u64) {}

    fn void(&self, _: &str) {}
}

impl Executed {
    /// Returns the traffic on the links over time.
    pub fn monitor(&self) -> &Monitor {
        // [`exec`] always adds a monitor.
        self.emulated.carried.monitor.as_ref().expect("the links were watched")
    }
}
