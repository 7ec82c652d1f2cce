//! Client, gateway and server in separate network namespaces, and a relay on the gateway.

#[path = "../../../lasthop-sys/tests/skip/mod.rs"]
mod skipping;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lasthop_gateway::firewall::{Firewall, FirewallError};
use lasthop_gateway::split::{SplitConfig, SplitCounters, SplitError, SplitProxy, SplitSnapshot};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
pub use skipping::skip;
use skipping::without_root;

/// Names of the gateway's interfaces.
pub const WIRELESS: &str = "wl0";
pub const WIRED: &str = "wd0";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    Client,
    Gateway,
    Server,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    V4,
    V6,
}

/// Client and server with a gateway between them; dropping it removes the namespaces.
pub struct Lab {
    tag: String,
}

/// Returns the lab; `None`, with a message, if namespaces cannot be created.
pub fn lab(test: &str) -> Option<Lab> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if without_root(test) {
        return None;
    }
    let lab = Lab { tag: format!("lhsplit{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)) };
    if !succeeds(&["ip", "netns", "add", &lab.namespace(Host::Gateway)]) {
        skip(&format!("{test}: network namespaces can't be made here"));
        return None;
    }
    for probe in ["-t mangle -A PREROUTING -p tcp -j TPROXY --on-port 1", "-t raw -A PREROUTING -p tcp -j CT --notrack"]
    {
        for iptables in ["iptables", "ip6tables"] {
            let words: Vec<&str> = std::iter::once(iptables).chain(["-w"]).chain(probe.split(' ')).collect();
            if !lab.try_run(Host::Gateway, &words) {
                skip(&format!("{test}: the kernel can't do `{}`", words.join(" ")));
                return None;
            }
            let undo: Vec<&str> = words.iter().map(|&word| if word == "-A" { "-D" } else { word }).collect();
            lab.run(Host::Gateway, &undo.join(" "));
        }
    }
    lab.build();
    Some(lab)
}

impl Lab {
    pub fn namespace(&self, host: Host) -> String {
        format!(
            "{}{}",
            self.tag,
            match host {
                Host::Client => "c",
                Host::Gateway => "g",
                Host::Server => "s",
            }
        )
    }

    fn build(&self) {
        let gateway = self.namespace(Host::Gateway);
        for (host, net, name) in [(Host::Client, 1, WIRELESS), (Host::Server, 2, WIRED)] {
            let namespace = self.namespace(host);
            assert!(succeeds(&["ip", "netns", "add", &namespace]));
            let veth =
                ["ip", "-n", &gateway, "link", "add", name, "type", "veth", "peer", "name", "e0", "netns", &namespace];
            assert!(succeeds(&veth), "veth {name}");
            for (at, device, number) in [(Host::Gateway, name, 1), (host, "e0", 2)] {
                self.run(at, &format!("ip addr add 10.77.{net}.{number}/24 dev {device}"));
                self.run(at, &format!("ip addr add fd77:{net}::{number}/64 dev {device} nodad"));
                self.run(at, &format!("ip link set {device} up"));
                self.run(at, "ip link set lo up");
            }
            self.run(host, &format!("ip route add default via 10.77.{net}.1"));
            self.run(host, &format!("ip route add default via fd77:{net}::1"));
        }
        self.run(Host::Gateway, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    }

    fn try_run(&self, host: Host, words: &[&str]) -> bool {
        let namespace = self.namespace(host);
        succeeds(&[&["ip", "netns", "exec", &namespace], words].concat())
    }

    /// Runs a command, which must succeed, and returns its output.
    pub fn run(&self, host: Host, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        self.run_words(host, &words)
    }

    pub fn run_words(&self, host: Host, words: &[&str]) -> String {
        let output = Command::new("ip").args(["netns", "exec", &self.namespace(host)]).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a closure on a host.
    pub fn on<T: Send + 'static>(&self, host: Host, what: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.namespace(host));
        thread::spawn(move || {
            let namespace = std::fs::File::open(path).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            what()
        })
    }

    /// Returns the address of a host; a port of 0 is for binding.
    pub fn address(&self, host: Host, family: Family, port: u16) -> SocketAddr {
        let net = if host == Host::Client { 1 } else { 2 };
        let address: IpAddr = match family {
            Family::V4 => format!("10.77.{net}.2"),
            Family::V6 => format!("fd77:{net}::2"),
        }
        .parse()
        .unwrap();
        SocketAddr::new(address, port)
    }

    /// Installs the rules of a relay as the daemon does.
    pub fn install(&self, config: &SplitConfig) {
        self.with_rules(config, |firewall| firewall.install());
    }

    pub fn remove(&self, config: &SplitConfig) {
        self.with_rules(config, |firewall| firewall.remove());
    }

    /// Returns the programs that install the rules of a relay here, one for each IP version.
    pub fn programs(&self, config: &SplitConfig) -> Vec<&'static str> {
        self.with_rules(config, |firewall| Ok(firewall.programs()))
    }

    fn with_rules<T: Send + 'static>(
        &self,
        config: &SplitConfig,
        act: impl FnOnce(&mut Firewall) -> Result<T, FirewallError> + Send + 'static,
    ) -> T {
        let config = config.clone();
        let act = move || Firewall::choose_for_relay(&config).and_then(|mut firewall| act(&mut firewall));
        self.on(Host::Gateway, act).join().unwrap().unwrap()
    }

    /// Returns all state that the rules may change.
    pub fn rules(&self) -> String {
        let mut all = String::new();
        for iptables in ["iptables", "ip6tables"] {
            for table in ["raw", "mangle", "filter", "nat"] {
                all += &self.run(Host::Gateway, &format!("{iptables} -w -t {table} -S"));
            }
        }
        if self.try_run(Host::Gateway, &["nft", "list", "tables"]) {
            all += &self.run(Host::Gateway, "nft --stateless list ruleset");
        }
        for ip in ["ip", "ip -6"] {
            all += &self.run(Host::Gateway, &format!("{ip} rule"));
            // Without changes made by the kernel, such as duplicate address detection.
            let routes = self.run(Host::Gateway, &format!("{ip} route show table all"));
            all.extend(
                routes
                    .lines()
                    .filter(|line| !line.contains("proto kernel") && !line.contains("table local"))
                    .map(|line| format!("{line}\n")),
            );
        }
        all
    }

    /// Starts a relay on the gateway, and installs the rules.
    pub fn start(&self, config: SplitConfig) -> Relay {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = {
            let (stop, config) = (Arc::clone(&stop), config.clone());
            self.on(Host::Gateway, move || {
                let mut proxy = once_free(|| SplitProxy::bind(config.clone()), is_taken);
                sender.send(proxy.counters()).unwrap();
                proxy.run(&stop).unwrap();
                let time = clock_gettime(ClockId::ThreadCPUTime);
                Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
            })
        };
        let counters = receiver.recv().unwrap();
        self.install(&config);
        Relay { counters, stop, thread: Some(thread) }
    }
}

/// Returns whether the port is in use.
pub fn is_taken(error: &SplitError) -> bool {
    matches!(error, SplitError::System { source, .. } if source.kind() == ErrorKind::AddrInUse)
}

/// Retries for some time until a port is free: a process started by another test holds copies of all sockets, including
/// closed ones, until it executes its program.
pub fn once_free<T, E: std::fmt::Debug>(mut bind: impl FnMut() -> Result<T, E>, is_taken: impl Fn(&E) -> bool) -> T {
    let start = Instant::now();
    loop {
        match bind() {
            Err(error) if is_taken(&error) && start.elapsed() < Duration::from_secs(5) => {
                thread::sleep(Duration::from_millis(5))
            }
            result => return result.unwrap(),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in [Host::Client, Host::Gateway, Host::Server] {
            succeeds(&["ip", "netns", "del", &self.namespace(host)]);
        }
    }
}

/// Relay that runs until it is dropped.
pub struct Relay {
    counters: Arc<SplitCounters>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Duration>>,
}

impl Relay {
    pub fn snapshot(&self) -> SplitSnapshot {
        self.counters.snapshot()
    }

    /// Waits for some time until the counters satisfy the condition.
    pub fn wait_for(&self, what: &str, condition: impl Fn(&SplitSnapshot) -> bool) -> SplitSnapshot {
        let start = Instant::now();
        loop {
            let snapshot = self.snapshot();
            if condition(&snapshot) {
                return snapshot;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{what}: {snapshot:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops the relay and waits for its end. Returns its CPU time.
    pub fn stop(&mut self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let result = self.thread.take().map(JoinHandle::join).transpose();
        assert!(result.is_ok() || thread::panicking(), "the relay panicked");
        result.ok().flatten().unwrap_or_default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

fn succeeds(words: &[&str]) -> bool {
    Command::new(words[0])
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
