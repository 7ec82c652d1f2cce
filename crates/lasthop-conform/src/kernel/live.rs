//! Cases through the kernel: real sockets in a network namespace, whose segments arrive at a TUN device.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::time::Duration as Span;
use lasthop_sys::namespace;
use lasthop_sys::poll;
use lasthop_sys::process::go_real_time;
use lasthop_wire::{Route, build_with_ecn, parse};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::differential::{Case, Kind, Numbers, Observed, Opens, Stimulus};
use crate::lasthop::{from_packet, to_packet};

/// Address of the kernel's sockets.
const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

/// Address of the script.
const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 1);

/// Port of the script.
const REMOTE_PORT: u16 = 20_001;

/// Ports of the kernel's sockets: one for each case.
const LOCAL_PORTS: std::ops::Range<u16> = 2000..60_000;

/// Length of the queue of the device.
const QUEUE: u32 = 100_000;

/// Real-time priority of the calling thread.
const PRIORITY: i32 = 10;

/// Scheduling delay of a stimulus that invalidates a run.
const LATE: Duration = Duration::from_millis(3);

/// Result of a case on the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelRun {
    /// Segments of the kernel.
    pub sent: Vec<Observed>,
    /// True if a stimulus was late, so that the run says nothing.
    pub is_late: bool,
}

/// Runs cases of one kind through the kernel, up to `jobs` at the same time, with a congestion control. `progress` is
/// called after each. The calling thread enters a new network namespace.
///
/// # Errors
///
/// Returns an error if the namespace, the device or a socket cannot be made.
pub fn run(
    kind: Kind,
    cases: &[Case],
    jobs: usize,
    congestion: &str,
    progress: &mut dyn FnMut(),
) -> io::Result<Vec<KernelRun>> {
    namespace::enter_new()?;
    // Without the permission, more stimuli are late, and their runs repeated.
    let _ = go_real_time(PRIORITY);
    for (name, value) in kind.settings() {
        set(name, value)?;
    }
    set("net.ipv4.tcp_no_metrics_save", "1")?;
    set("net.ipv4.ip_local_port_range", "61000 65000")?;
    let device = DeviceBuilder::new()
        .name("conform0")
        .mtu(1500)
        .tx_queue_len(QUEUE)
        .ipv4(LOCAL, 16_u8, None::<Ipv4Addr>)
        .build_sync()?;
    device.set_nonblocking(true)?;
    let driver = Driver {
        device,
        cases,
        congestion,
        runs: cases.iter().map(|_| KernelRun { sent: Vec::new(), is_late: false }).collect(),
        live: BTreeMap::new(),
        due: BinaryHeap::new(),
        next: 0,
    };
    driver.run(jobs.max(1), progress)
}

fn set(name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/{}", name.replace('.', "/")), value)
}

/// A case in progress.
struct Live {
    case: usize,
    begun: Instant,
    numbers: Numbers,
    first: Socket,
    connection: Option<Socket>,
    is_closed: bool,
    next_step: usize,
}

struct Driver<'a> {
    device: SyncDevice,
    cases: &'a [Case],
    congestion: &'a str,
    runs: Vec<KernelRun>,
    /// Cases in progress by local port.
    live: BTreeMap<u16, Live>,
    /// Times of the next steps with their ports.
    due: BinaryHeap<Reverse<(Instant, u16)>>,
    next: usize,
}

fn span(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

impl Driver<'_> {
    fn run(mut self, jobs: usize, progress: &mut dyn FnMut()) -> io::Result<Vec<KernelRun>> {
        loop {
            // Starts are spread, so that the steps of many cases do not fall due together.
            if self.live.len() < jobs && self.next < self.cases.len() {
                self.start()?;
            }
            if self.live.is_empty() {
                return Ok(self.runs);
            }
            while let Some(Reverse((at, port))) = self.due.peek().copied()
                && at <= Instant::now()
            {
                self.due.pop();
                if self.step(port, at)? {
                    progress();
                }
                self.receive();
            }
            self.receive();
            let now = Instant::now();
            let until = self.due.peek().map_or(Duration::ZERO, |Reverse((at, _))| at.saturating_duration_since(now));
            let until = if self.live.len() < jobs { until.min(Duration::from_millis(2)) } else { until };
            poll::wait(&mut [PollFd::new(&self.device.as_fd(), PollFlags::IN)], until)?;
        }
    }

    fn start(&mut self) -> io::Result<()> {
        let index = self.next;
        self.next += 1;
        let ports = LOCAL_PORTS.len();
        let port = LOCAL_PORTS.start + (index % ports) as u16;
        let local = SocketAddr::V4(SocketAddrV4::new(LOCAL, port));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_congestion(self.congestion.as_bytes())?;
        socket.bind(&local.into())?;
        let case = &self.cases[index];
        let begun = Instant::now();
        match case.opens {
            Opens::Script => socket.listen(8)?,
            Opens::Stack => {
                let remote = SocketAddr::V4(SocketAddrV4::new(REMOTE, REMOTE_PORT));
                // In progress.
                let _ = socket.connect(&remote.into());
            }
        }
        let live = Live {
            case: index,
            begun,
            numbers: Numbers::default(),
            first: socket,
            connection: None,
            is_closed: false,
            next_step: 0,
        };
        self.live.insert(port, live);
        // The numbers of a SYN are those of the first step.
        self.receive();
        let at = case.steps.first().map_or(Span::ZERO, |step| step.after);
        self.due.push(Reverse((begun + span(at), port)));
        Ok(())
    }

    /// Applies the next stimulus of a case, or ends it. Returns whether it has ended.
    fn step(&mut self, port: u16, at: Instant) -> io::Result<bool> {
        let Some(live) = self.live.get_mut(&port) else { return Ok(false) };
        let case = &self.cases[live.case];
        let Some(step) = case.steps.get(live.next_step) else {
            if let Some(live) = self.live.remove(&port) {
                end(live);
            }
            return Ok(true);
        };
        if at.elapsed() > LATE {
            self.runs[live.case].is_late = true;
        }
        live.next_step += 1;
        match &step.what {
            Stimulus::Segment(spec) => {
                let segment = live.numbers.to_stack(spec, (port, REMOTE_PORT));
                let packet = to_packet(&segment, FlowId(0), Side::Initiator);
                let route = Route {
                    source: SocketAddr::V4(SocketAddrV4::new(REMOTE, REMOTE_PORT)),
                    destination: SocketAddr::V4(SocketAddrV4::new(LOCAL, port)),
                };
                let payload = vec![0; segment.len as usize];
                let header = packet.tcp().copied().unwrap_or_default();
                if let Some(bytes) = build_with_ecn(route, segment.ecn, &header, &payload) {
                    self.device.send(&bytes)?;
                }
            }
            what => call(live, case.opens, what),
        }
        let next = match case.steps.get(live.next_step) {
            Some(step) => span(step.after),
            None => span(Case::TAIL),
        };
        self.due.push(Reverse((at + next, port)));
        Ok(false)
    }

    /// Takes the segments that the kernel has sent.
    fn receive(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok(len) = self.device.recv(&mut buffer) {
            let now = Instant::now();
            let Some(view) = parse(&buffer[..len]) else { continue };
            let Some(live) = self.live.get_mut(&view.route.source.port()) else { continue };
            let packet = Packet {
                ecn: view.ecn,
                len: view.payload_len as u32,
                body: lasthop_proto::packet::Body::Tcp(view.segment),
                ..Packet::default()
            };
            let ports = (view.route.source.port(), REMOTE_PORT);
            let Some(segment) = from_packet(&packet, ports) else { continue };
            let at = Span::from_nanos(now.saturating_duration_since(live.begun).as_nanos() as u64);
            let segment = live.numbers.to_script(&segment);
            self.runs[live.case].sent.push(Observed { at, steps: live.next_step, segment });
        }
    }
}

/// Makes a socket call. Errors are of no interest: the same call fails on the other stack, or the segments differ.
fn call(live: &mut Live, opens: Opens, what: &Stimulus) {
    if opens == Opens::Script && live.connection.is_none() && !live.is_closed {
        live.connection = live.first.accept().ok().map(|(socket, _)| socket);
        if let Some(socket) = &live.connection {
            let _ = socket.set_nonblocking(true);
        }
    }
    let Some(mut socket) = (if opens == Opens::Script { live.connection.as_ref() } else { Some(&live.first) }) else {
        return;
    };
    match what {
        Stimulus::Segment(_) => {}
        Stimulus::Write(bytes) => {
            let _ = socket.write(&vec![0; *bytes as usize]);
        }
        Stimulus::Read(bytes) => {
            let _ = socket.read(&mut vec![0; *bytes as usize]);
        }
        Stimulus::Shutdown => {
            let _ = socket.shutdown(Shutdown::Write);
        }
        Stimulus::SetOption(name, value) => {
            if *name == "TCP_NODELAY" {
                let _ = socket.set_tcp_nodelay(*value != 0);
            }
        }
        Stimulus::Close => {
            live.is_closed = true;
            live.connection = None;
            if opens == Opens::Stack {
                // Its descriptor is replaced by one that is not connected.
                if let Ok(other) = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)) {
                    live.first = other;
                }
            }
        }
    }
}

/// Ends the sockets of a case at once.
fn end(live: Live) {
    for socket in [Some(live.first), live.connection].into_iter().flatten() {
        let _ = socket.set_linger(Some(Duration::ZERO));
    }
}
