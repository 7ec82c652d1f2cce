//! Client, gateway and server in separate network namespaces, and a gateway daemon between them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::skipping;

#[allow(unused_imports, reason = "each test file uses a part")]
pub use skipping::{is_skipped_without, skip, without_root};

/// Maximum wait for events that must happen: on a busy machine, a kernel's timers back off for long.
const PATIENCE: Duration = Duration::from_secs(150);

/// Returns whether a test cannot run here, and reports the skip.
pub fn is_skipped(test: &str) -> bool {
    is_skipped_without(test, "the kernel's netfilter queues", Path::new("/proc/net/netfilter/nfnetlink_queue").exists())
}

/// Topology in network namespaces.
///
/// Routed: client (10.2.0.2, fd02::2) -- wl0 gateway wired -- server (10.1.0.2, fd01::2)
///
/// Bridged: client (10.1.0.3, fd01::3) -- wl0 gateway (10.1.0.1) wired -- server (10.1.0.2, fd01::2), and a third host
/// (10.1.0.4, fd01::4) -- lan
///
/// Two bridges: client (10.1.0.3, fd01::3) -- lan `g` hop -- near `h` far -- hop `t` lan -- server (10.1.0.2, fd01::2).
/// The test determines what happens between near and far.
pub struct Network {
    prefix: String,
}

/// Names of all possible namespaces.
const NAMES: [&str; 5] = ["c", "g", "s", "t", "h"];

impl Network {
    /// Creates namespaces without connections.
    fn apart(names: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let network = Self { prefix: format!("lh{}n{number}", std::process::id()) };
        for name in names.iter().map(|name| network.namespace(name)) {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
            // An IPv6 host sends no neighbour solicitation until duplicate address detection has finished.
            let accept = "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad";
            let _ = Command::new("ip").args(["netns", "exec", &name, "sh", "-c", accept]).output();
        }
        network
    }

    /// Creates a network whose gateway is a bridge.
    pub fn bridged() -> Self {
        let network = Self::apart(&["c", "g", "s", "t"]);
        let gateway = network.namespace("g");
        // Skips the seconds of the listening state.
        ip(&format!("-n {gateway} link add br0 type bridge forward_delay 0"));
        for (name, port, host) in [("s", "wired", 2), ("c", "wl0", 3), ("t", "lan", 4)] {
            let far = network.namespace(name);
            ip(&format!("-n {gateway} link add {port} type veth peer name eth0 netns {far}"));
            ip(&format!("-n {gateway} link set {port} master br0 up"));
            ip(&format!("-n {far} addr add 10.1.0.{host}/24 dev eth0"));
            ip(&format!("-n {far} addr add fd01::{host}/64 dev eth0 nodad"));
            ip(&format!("-n {far} link set eth0 up"));
        }
        ip(&format!("-n {gateway} addr add 10.1.0.1/24 dev br0"));
        ip(&format!("-n {gateway} link set br0 up"));
        network
    }

    /// Creates two bridges without addresses, and nothing between them yet.
    pub fn two_bridges() -> Self {
        let network = Self::apart(&NAMES);
        // The bridges themselves have no IPv6.
        for name in ["g", "t", "h"] {
            network.must(name, "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6");
        }
        for (bridge, host, number, side) in [("g", "c", 3, "near"), ("t", "s", 2, "far")] {
            let [bridge, host, hop] = [bridge, host, "h"].map(|name| network.namespace(name));
            ip(&format!("-n {bridge} link add br0 type bridge forward_delay 0"));
            ip(&format!("-n {bridge} link add lan type veth peer name eth0 netns {host}"));
            ip(&format!("-n {bridge} link add hop type veth peer name {side} netns {hop}"));
            for port in ["lan", "hop"] {
                ip(&format!("-n {bridge} link set {port} master br0 up"));
            }
            ip(&format!("-n {bridge} link set br0 up"));
            ip(&format!("-n {hop} link set {side} up"));
            ip(&format!("-n {host} addr add 10.1.0.{number}/24 dev eth0"));
            ip(&format!("-n {host} addr add fd01::{number}/64 dev eth0 nodad"));
            ip(&format!("-n {host} link set eth0 up"));
        }
        network
    }

    /// Adds a line `hop2` -- near2 `h` far2 -- `hop2` between two bridges, which is no port of theirs.
    pub fn add_second_line(&self) {
        for (bridge, side) in [("g", "near2"), ("t", "far2")] {
            self.attach_second_line(bridge, side);
        }
    }

    /// Adds one end of that line.
    pub fn attach_second_line(&self, bridge: &str, side: &str) {
        let [bridge, hop] = [bridge, "h"].map(|name| self.namespace(name));
        ip(&format!("-n {bridge} link add hop2 type veth peer name {side} netns {hop}"));
        ip(&format!("-n {bridge} link set hop2 up"));
        ip(&format!("-n {hop} link set {side} up"));
    }

    /// Creates a network whose gateway is a router.
    pub fn new() -> Self {
        let network = Self::apart(&["c", "g", "s"]);
        network.attach_client();
        network.attach("wired", "s", 1);
        network.sh("g", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding");
        network
    }

    /// Connects the client to the gateway by an interface `wl0`.
    pub fn attach_client(&self) {
        self.attach("wl0", "c", 2);
    }

    fn attach(&self, near: &str, far: &str, subnet: u8) {
        let (gateway, far) = (self.namespace("g"), self.namespace(far));
        ip(&format!("-n {gateway} link add {near} type veth peer name eth0 netns {far}"));
        for (name, device, host) in [(&gateway, near, 1), (&far, "eth0", 2)] {
            ip(&format!("-n {name} addr add 10.{subnet}.0.{host}/24 dev {device}"));
            ip(&format!("-n {name} addr add fd0{subnet}::{host}/64 dev {device} nodad"));
            ip(&format!("-n {name} link set {device} up"));
        }
        ip(&format!("-n {far} route add default via 10.{subnet}.0.1"));
        ip(&format!("-n {far} route add default via fd0{subnet}::1"));
    }

    /// Returns the full name of a namespace.
    pub fn namespace(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns the output of a shell command in a namespace.
    pub fn sh(&self, name: &str, command: &str) -> String {
        let output = Command::new("ip").args(["netns", "exec", &self.namespace(name), "sh", "-c", command]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// Runs a shell command in a namespace, which must succeed.
    pub fn must(&self, name: &str, command: &str) {
        let output = Command::new("ip").args(["netns", "exec", &self.namespace(name), "sh", "-c", command]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes the hop drop this share of the packets to the client, independently.
    pub fn lose(&self, share: f64) {
        // Without GSO, a packet on the wire is a packet on the hop.
        self.must("s", "ip link set eth0 gso_max_segs 1");
        let rule = "PREROUTING -i eth0 -m statistic --mode random --probability";
        self.must("c", &format!("iptables -w -t raw -F PREROUTING && iptables -w -t raw -A {rule} {share} -j DROP"));
    }

    /// Gives the hop a rate in Mbit/s and a queue of one megabyte; reports a skip if the kernel cannot.
    pub fn is_slowed(&self, rate: u32) -> bool {
        self.must("s", "ip link set eth0 gso_max_segs 1");
        let qdisc = format!("tc qdisc add dev wl0 root tbf rate {rate}mbit burst 16k limit 1m && echo done");
        let slowed = self.sh("g", &qdisc).contains("done");
        if !slowed {
            skip("a hop of limited rate: it takes the kernel's tbf queueing discipline");
        }
        slowed
    }

    /// Returns the number of segments that the server's kernel has retransmitted.
    pub fn retransmissions(&self) -> u64 {
        let text = self.sh("s", "grep ^Tcp: /proc/net/snmp");
        let columns: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let column = columns[0].iter().position(|name| *name == "RetransSegs").unwrap();
        columns[1][column].parse().unwrap()
    }

    /// Creates a command in a namespace.
    pub fn command(&self, name: &str, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(name)]).arg(program.as_ref());
        command
    }

    /// Runs `work` in a thread whose sockets are in a namespace.
    pub fn within<T: Send + 'static>(&self, name: &str, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let file = File::open(format!("/run/netns/{}", self.namespace(name))).unwrap();
        std::thread::spawn(move || {
            let network = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(file.as_fd(), network).unwrap();
            work()
        })
    }

    /// Returns the answer of an HTTP server in a namespace.
    pub fn get(&self, name: &str, address: &str, path: &str) -> String {
        let (address, request) = (address.to_owned(), format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let exchange = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        self.within(name, exchange).join().unwrap()
    }

    /// Returns the kernels' socket statistics.
    pub fn sockets(&self) -> String {
        ["s", "c"].map(|name| format!("{name}:\n{}", self.sh(name, "ss -tinom"))).concat()
    }

    /// Returns the lines of the gateway's rules in all tables.
    pub fn rules(&self) -> String {
        let list = ["iptables", "ip6tables"].map(|program| {
            ["raw", "mangle", "filter"].map(|table| format!("{program} -t {table} -S 2>/dev/null; ")).concat()
        });
        let all = self.sh("g", &(list.concat() + "ip rule; ip route show table all type local"));
        all.lines()
            .filter(|line| line.contains("LASTHOP") || line.contains("fwmark"))
            .map(|l| format!("{l}\n"))
            .collect()
    }

    /// Sends `seconds` of data from server to client at 200 Mbit/s, and checks every byte. The result has the longest
    /// gap between two receptions.
    pub fn transfer(&self, server: &str, seconds: u32) -> Transfer {
        self.transfer_chunks(server, seconds as usize * 1000, Pace::Steady)
    }

    /// Like [`Network::transfer`], with this number of chunks of 25,000 bytes.
    pub fn transfer_chunks(&self, server: &str, chunks: usize, pace: Pace) -> Transfer {
        self.transfer_under("cubic", server, chunks, pace)
    }

    /// Like [`Network::transfer_chunks`], with this congestion control.
    pub fn transfer_under(&self, congestion: &str, server: &str, chunks: usize, pace: Pace) -> Transfer {
        const CHUNK: usize = 25_000;
        let address: SocketAddr = server.parse().unwrap();
        let listener = self.within("s", move || TcpListener::bind(address).unwrap()).join().unwrap();
        // Independent of this machine's default.
        rustix::net::sockopt::set_tcp_congestion(&listener, congestion).unwrap();
        let sender = std::thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
            let start = Instant::now();
            let mut random = Bytes(1);
            let mut chunk = vec![0; CHUNK];
            for index in 0..chunks {
                random.fill(&mut chunk);
                stream.write_all(&chunk).unwrap();
                if pace == Pace::Steady {
                    let next = start + Duration::from_millis(index as u64);
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            }
            peer
        });
        let receiver = self.within("c", move || {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut random = Bytes(1);
            let (mut received, mut expected) = (vec![0; 65_536], vec![0; 65_536]);
            let (mut total, mut gap, mut last) = (0, Duration::ZERO, Instant::now());
            loop {
                let len = stream.read(&mut received).unwrap();
                gap = gap.max(last.elapsed());
                last = Instant::now();
                if len == 0 {
                    return Received { total, gap };
                }
                random.fill(&mut expected[..len]);
                assert!(received[..len] == expected[..len], "bytes differ near {total}");
                total += len;
            }
        });
        Transfer { sender, receiver, expected: chunks * CHUNK }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in NAMES {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(name)]).output();
        }
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Generator of identical bytes for sender and receiver (xorshift).
pub struct Bytes(pub u64);

impl Bytes {
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            *byte = self.0 as u8;
        }
    }
}

/// Pace of a sender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One chunk per millisecond.
    Steady,
    /// As fast as TCP accepts data.
    Full,
}

/// Transfer in progress.
pub struct Transfer {
    sender: JoinHandle<SocketAddr>,
    receiver: JoinHandle<Received>,
    expected: usize,
}

struct Received {
    total: usize,
    gap: Duration,
}

impl Transfer {
    /// Waits until both ends are done, for as long as a busy machine may take; returns whether they are.
    pub fn is_over(&self) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.sender.is_finished() && self.receiver.is_finished() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Waits until all has arrived; returns the longest gap, and the client's address as the server sees it.
    pub fn end(self) -> (Duration, SocketAddr) {
        let peer = self.sender.join().unwrap();
        let Received { total, gap } = self.receiver.join().unwrap();
        assert_eq!(total, self.expected);
        (gap, peer)
    }
}

/// Running gateway.
pub struct Daemon {
    child: Child,
    folder: TempDir,
}

impl Daemon {
    /// Starts a gateway with these rules, and waits until it answers.
    pub fn start(network: &Network, rules: &str) -> Self {
        Self::start_with(network, rules, &[])
    }

    /// Starts a gateway with these rules and arguments.
    pub fn start_with(network: &Network, rules: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = network.command("g", lasthop());
        command.arg("gateway").arg(folder.path().join("gateway.toml")).args(arguments).stdin(Stdio::null()).stderr(log);
        configure(folder.path(), rules);
        let mut daemon = Self { child: command.spawn().unwrap(), folder };
        let end = Instant::now() + Duration::from_secs(10);
        let is_ready = |status: Value| {
            let is_led_here = status["bridge"].is_object() || !network.rules().is_empty();
            is_led_here && !status["packets"].is_null()
        };
        while !daemon.ask("status").is_some_and(is_ready) {
            assert!(Instant::now() < end && daemon.child.try_wait().unwrap().is_none(), "no gateway: {}", daemon.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("gateway.toml")
    }

    pub fn control(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    pub fn configure(&self, rules: &str) {
        configure(self.folder.path(), rules);
    }

    /// Creates the command `lasthop gateway WHAT --control ...`.
    pub fn command(&self, what: &str) -> Command {
        let mut command = Command::new(lasthop());
        command.args(["gateway", what, "--control"]).arg(self.control());
        command
    }

    /// Returns the answer to `status` or `report`, if the gateway answers.
    pub fn ask(&self, what: &str) -> Option<Value> {
        let output = self.command(what).arg("--json").output().unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Returns the control socket's answer to `bytes`.
    pub fn tell(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.control()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // The gateway may close the connection before all is written.
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_line(&mut answer);
        answer
    }

    /// Returns the status once it is as wanted.
    pub fn await_status(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let status = self.ask("status").unwrap_or_default();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < end, "{status:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn signal_worker(&self, signal: Signal) {
        let status = self.await_status(|status| status["worker"]["pid"].is_u64());
        let worker = Pid::from_raw(status["worker"]["pid"].as_i64().unwrap() as i32).unwrap();
        rustix::process::kill_process(worker, signal).unwrap();
    }

    /// Signals the worker of a gateway that does not answer.
    pub fn signal_worker_of_stopped(&self, signal: Signal) {
        let gateway = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{gateway}/task/{gateway}/children")).unwrap();
        let worker = Pid::from_raw(children.split_whitespace().next().unwrap().parse().unwrap()).unwrap();
        rustix::process::kill_process(worker, signal).unwrap();
    }

    /// Returns the worker's memory in bytes as the kernel counts it: now (`VmRSS`) or at most so far (`VmHWM`).
    pub fn worker_memory(&self, key: &str) -> u64 {
        let status = self.await_status(|status| status["worker"]["pid"].is_u64());
        let text = std::fs::read_to_string(format!("/proc/{}/status", status["worker"]["pid"])).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the gateway does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn lasthop() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lasthop"))
}

fn configure(folder: &Path, rules: &str) {
    let control = folder.join("control.sock");
    let text = format!("control = \"{}\"\nmetrics = \"127.0.0.1:9469\"\n{rules}", control.display());
    std::fs::write(folder.join("gateway.toml"), text).unwrap();
}
