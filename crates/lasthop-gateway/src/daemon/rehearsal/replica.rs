//! Copy of this machine's network in a separate namespace: interfaces with the same names and indices, addresses,
//! routes, settings and rules.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use lasthop_sys::namespace;
use serde_json::Value;

use crate::configuration::Rule;
use crate::family::Family;

/// Reason why there is no rehearsal.
#[derive(Debug)]
pub(super) enum ReplicaError {
    /// The IP version is not in use on the hop.
    Unused,
    /// A prerequisite of the copy is missing.
    Other(String),
}

impl ReplicaError {
    pub fn from_io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Other(format!("{what}: {error}"))
    }
}

/// Offset from an interface's index to that of its far end, so that all indices of the machine stay free.
const PEERS: u64 = 1 << 20;
/// Maximum number of interfaces to copy.
const MOST_LINKS: usize = 32;
/// Kernel settings that affect packets, under `/proc/sys/net`; `*` stands for each interface.
const SETTINGS: [&str; 13] = [
    "ipv4/ip_forward",
    "ipv4/conf/all/rp_filter",
    "ipv4/conf/*/rp_filter",
    "ipv4/conf/*/src_valid_mark",
    "ipv4/conf/all/src_valid_mark",
    "ipv4/tcp_syncookies",
    "ipv4/tcp_fwmark_accept",
    "ipv4/fwmark_reflect",
    "ipv6/conf/all/forwarding",
    "ipv6/fwmark_reflect",
    "netfilter/nf_conntrack_tcp_loose",
    "netfilter/nf_conntrack_tcp_be_liberal",
    "netfilter/nf_conntrack_checksum",
];
/// Names of iptables' tables in nf_tables.
const IPTABLES: [&str; 5] = ["raw", "mangle", "nat", "filter", "security"];

/// The copy. The thread that created it is in its namespace.
pub(super) struct Replica {
    folder: PathBuf,
    /// Namespaces of the two hosts: behind the hop, and on the wired side.
    pub hosts: [File; 2],
    /// Interface towards each of the two hosts, named as on this machine.
    pub devices: [String; 2],
    /// Addresses of the two hosts.
    pub addresses: [IpAddr; 2],
    left_out: Vec<String>,
}

/// Returns the output of a program, or an error if it does not run or fails.
pub(super) fn output(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = text(&output.stderr);
    Err(format!("{program}: {}", said.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed").trim()))
}

/// Runs `ip` with one line of arguments.
pub(super) fn ip(line: &str) -> Result<String, String> {
    output("ip", &line.split_whitespace().collect::<Vec<_>>(), "")
}

/// Returns the calling thread's namespace as an open file, which keeps it alive.
pub(super) fn own_namespace() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// Returns a new, empty namespace.
fn empty_namespace() -> Result<File, ReplicaError> {
    let made = std::thread::spawn(|| {
        namespace::enter_new()?;
        own_namespace()
    });
    let file = made.join().unwrap_or_else(|_| Err(io::Error::other("thread")));
    file.map_err(ReplicaError::from_io("network namespace"))
}

/// Runs `work` in a namespace.
pub(super) fn within<T: Send>(space: &File, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            namespace::enter(space)?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("thread")))
    })
}

/// Interface of this machine.
struct Link {
    name: String,
    number: u64,
    mtu: u64,
    /// Addresses in the syntax of `ip addr add`.
    addresses: Vec<String>,
}

/// State to copy, as text.
struct Original {
    links: Vec<Link>,
    routes: Vec<String>,
    rules: Vec<String>,
    settings: Vec<(String, String)>,
    nft: Vec<String>,
    iptables: Vec<(String, String)>,
    ipsets: String,
    left_out: Vec<String>,
}

impl Replica {
    /// Copies everything that concerns connections of `rule` over this IP version. The calling thread enters the copy.
    pub fn new(rule: &Rule, family: Family) -> Result<Self, ReplicaError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let original = Original::read(family)?;
        let (addresses, wired) = choose(rule, family, &original.links)?;
        let devices = [rule.interface.clone(), wired];
        let hops = [next_hop(addresses[0]), next_hop(addresses[1])];
        let hosts = [empty_namespace()?, empty_namespace()?];
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lasthop-check-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).map_err(ReplicaError::from_io("temporary folder"))?;
        let mut replica = Self { folder, hosts, devices, addresses, left_out: Vec::new() };
        namespace::enter_new().map_err(ReplicaError::from_io("network namespace"))?;
        let fail = ReplicaError::Other;
        ip("link set lo up").map_err(fail)?;
        replica.left_out = original.left_out.clone();
        replica.connect(&original, family, hops)?;
        replica.install(&original);
        Ok(replica)
    }

    /// Returns the folder for the files of a rehearsal.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a note on the parts that could not be copied, to be appended to a finding.
    pub fn left_out(&self) -> String {
        match &self.left_out[..] {
            [] => String::new(),
            all => format!(" (not copied: {})", all.join("; ")),
        }
    }

    /// Runs a command that changes rules in the copy. Returns whether it succeeded.
    pub fn apply(&self, command: &str) -> bool {
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or_default();
        output(program, &words.collect::<Vec<_>>(), "").is_ok()
    }

    /// Creates interfaces, addresses and routes, and the two hosts.
    fn connect(&mut self, original: &Original, family: Family, hops: [IpAddr; 2]) -> Result<(), ReplicaError> {
        let fail = ReplicaError::Other;
        for link in original.links.iter().filter(|link| link.name != "lo") {
            let place = self.devices.iter().position(|device| *device == link.name);
            let name = if place.is_some() { "eth0".to_owned() } else { format!("lhp{}", link.number) };
            // The far ends of interfaces that carry no packets may be in any host.
            let host = &self.hosts[place.unwrap_or(0)];
            make_pair(link, &name, host).map_err(fail)?;
            for address in &link.addresses {
                // The address may exist, such as an automatic IPv6 address.
                let _ = ip(&format!("{} addr add {address} dev {}", flag(family), link.name));
            }
        }
        // The second pass adds routes that depend on others.
        for _ in 0..2 {
            for route in &original.routes {
                let _ = ip(&format!("{} route replace {route}", flag(family)));
            }
        }
        for rule in &original.rules {
            let _ = ip(&format!("{} rule add {rule}", flag(family)));
        }
        for (path, value) in &original.settings {
            let _ = std::fs::write(format!("/proc/sys/net/{path}"), value);
        }
        for (index, hop) in hops.into_iter().enumerate() {
            let (device, host, address) = (&self.devices[index], &self.hosts[index], self.addresses[index]);
            let own = hardware_address(device).map_err(fail)?;
            let theirs = within(host, || set_host(address, family, &own))
                .map_err(ReplicaError::from_io("network namespace"))?
                .map_err(fail)?;
            ip(&format!("neigh replace {hop} lladdr {theirs} dev {device} nud permanent")).map_err(fail)?;
        }
        Ok(())
    }

    /// Installs the rules.
    fn install(&mut self, original: &Original) {
        let mut note = |outcome: Result<String, String>, what: &str| {
            if let Err(error) = outcome {
                self.left_out.push(format!("{what} ({error})"));
            }
        };
        if !original.ipsets.is_empty() {
            note(output("ipset", &["restore"], &original.ipsets), "ipsets");
        }
        for (program, text) in &original.iptables {
            note(output(&format!("{program}-restore"), &[], text), program);
        }
        for table in &original.nft {
            let name = table.lines().next().unwrap_or_default().trim_end_matches(" {").to_owned();
            note(output("nft", &["-f", "-"], table), &name);
        }
        // Rules of a running gateway.
        let _ = crate::firewall::clean();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn flag(family: Family) -> &'static str {
    match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

/// Creates an interface whose far end `far` is in a host's namespace.
fn make_pair(link: &Link, far: &str, host: &File) -> Result<(), String> {
    let Link { name, number, mtu, .. } = link;
    let peer = format!("lhp{number}");
    ip(&format!("link add name {name} index {number} mtu {mtu} type veth peer name {peer} index {}", number + PEERS))?;
    // The namespace is named by the id of a thread in it.
    let (ready, told) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            namespace::enter(host).map_err(|error| error.to_string())?;
            let _ = ready.send(rustix::thread::gettid().as_raw_nonzero().get());
            let _ = wait.recv();
            Ok::<_, String>(())
        });
        let moved = match told.recv() {
            Ok(number) => ip(&format!("link set {peer} netns {number} name {far}")),
            Err(_) => Err("cannot enter a network namespace".to_owned()),
        };
        drop(done);
        thread.join().unwrap_or_else(|_| Err("thread".to_owned()))?;
        moved.map(drop)
    })?;
    ip(&format!("link set {name} up")).map(drop)
}

fn hardware_address(device: &str) -> Result<String, String> {
    let text = ip(&format!("-j link show dev {device}"))?;
    let list: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    list.pointer("/0/address")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| format!("{device}: no link-layer address"))
}

/// Sets up the host whose namespace the calling thread is in. Returns its hardware address.
fn set_host(address: IpAddr, family: Family, gateway: &str) -> Result<String, String> {
    let (width, via) = match family {
        Family::V4 => (32, "169.254.77.1"),
        Family::V6 => (128, "fe80::77:1"),
    };
    let nodad = if family == Family::V6 { " nodad" } else { "" };
    ip("link set lo up")?;
    ip("link set eth0 up")?;
    ip(&format!("addr add {address}/{width} dev eth0{nodad}"))?;
    ip(&format!("neigh replace {via} lladdr {gateway} dev eth0 nud permanent"))?;
    ip(&format!("{} route replace default via {via} dev eth0 onlink", flag(family)))?;
    hardware_address("eth0")
}

/// Returns the next hop towards an address: a router, or the host itself.
fn next_hop(address: IpAddr) -> IpAddr {
    let text = ip(&format!("-j route get {address}")).unwrap_or_default();
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    let via = list.pointer("/0/gateway").or_else(|| list.pointer("/0/via/host"));
    via.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(address)
}

/// Returns the interface by which packets to an address leave.
fn device_to(address: IpAddr) -> Option<String> {
    let list: Value = serde_json::from_str(&ip(&format!("-j route get {address}")).ok()?).ok()?;
    // The machine's own addresses are not beyond the interface.
    let kind = list.pointer("/0/type").and_then(Value::as_str).unwrap_or("unicast");
    (kind == "unicast").then(|| list.pointer("/0/dev").and_then(Value::as_str).map(str::to_owned)).flatten()
}

/// Returns addresses of a host behind the hop and of one on the wired side, and the interface towards the latter.
fn choose(rule: &Rule, family: Family, links: &[Link]) -> Result<([IpAddr; 2], String), ReplicaError> {
    let hop = links.iter().find(|link| link.name == rule.interface);
    let hop = hop.ok_or_else(|| ReplicaError::Other(format!("interface {} does not exist", rule.interface)))?;
    let named = |address: &IpAddr| rule.addresses.is_empty() || rule.addresses.iter().any(|net| net.contains(*address));
    let beyond = |address: &IpAddr| device_to(*address).is_some_and(|device| device == rule.interface);
    let near = hop.addresses.iter().flat_map(|network| hosts_in(network));
    let of_rule = rule.addresses.iter().filter(|net| family.has(net)).flat_map(|net| hosts_in(&net.to_string()));
    let candidates: Vec<_> = near.chain(of_rule).filter(named).take(64).collect();
    let Some(client) = candidates.into_iter().find(beyond) else {
        if hop.addresses.is_empty() && rule.addresses.iter().all(|net| !family.has(net)) {
            return Err(ReplicaError::Unused);
        }
        return Err(ReplicaError::Other(format!("no route to a host behind {}", rule.interface)));
    };
    let far: &[&str] = match family {
        Family::V4 => &["198.51.100.80", "203.0.113.80"],
        Family::V6 => &["2001:db8:77::80", "3fff::80"],
    };
    let far = far.iter().filter_map(|text| text.parse().ok());
    let others = links.iter().filter(|link| link.name != rule.interface && link.name != "lo");
    let others = others.flat_map(|link| link.addresses.iter().flat_map(|network| hosts_in(network)));
    for server in far.chain(others).take(256) {
        if let Some(device) = device_to(server).filter(|device| *device != rule.interface && device != "lo") {
            return Ok(([client, server], device));
        }
    }
    if family == Family::V6 {
        // Many machines have IPv6 on one side only.
        return Err(ReplicaError::Unused);
    }
    Err(ReplicaError::Other("no route to the wired side".to_owned()))
}

/// Returns some hosts of a network in the form `10.1.0.1/24`, except the given address itself.
fn hosts_in(network: &str) -> Vec<IpAddr> {
    let whole = if network.contains(':') { "128" } else { "32" };
    let (text, length) = network.split_once('/').unwrap_or((network, whole));
    // `10.0.0.1 peer 10.0.0.2/32`: the far end of a point-to-point link.
    let text = text.rsplit(' ').next().unwrap_or(text);
    let words: Vec<&str> = length.split_whitespace().collect();
    let (Ok(address), Some(Ok(length))) = (text.parse::<IpAddr>(), words.first().map(|word| word.parse::<u32>()))
    else {
        return Vec::new();
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let free = width - length.min(width);
    if free < 2 {
        // A network with one or two addresses.
        let other = if free == 1 { bits ^ 1 } else { bits };
        return vec![of_bits(width, other)];
    }
    let base = bits.checked_shr(free).and_then(|bits| bits.checked_shl(free)).unwrap_or(0);
    let mine = bits - base;
    let count = 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
    [2_u128, 3, 10, 77, 100]
        .into_iter()
        .filter(|host| *host < count && *host != mine)
        .map(|host| of_bits(width, base + host))
        .collect()
}

fn of_bits(width: u32, bits: u128) -> IpAddr {
    if width == 32 {
        std::net::Ipv4Addr::from_bits(bits as u32).into()
    } else {
        std::net::Ipv6Addr::from_bits(bits).into()
    }
}

impl Original {
    /// Reads the state to copy from the calling thread's network namespace.
    fn read(family: Family) -> Result<Self, ReplicaError> {
        let fail = ReplicaError::Other;
        let links = links(family).map_err(fail)?;
        let mut left_out = Vec::new();
        let usable = |line: &&str| {
            !["table local", "table 255", "broadcast ", "multicast ", "anycast ", "local "]
                .iter()
                .any(|no| line.contains(no))
                && !line.starts_with("fe80::/")
        };
        let routes = ip(&format!("{} route show table all", flag(family))).map_err(fail)?;
        let routes = routes.lines().filter(usable).map(|line| plain_route(line.trim())).collect();
        let rules = ip(&format!("{} rule show", flag(family))).map_err(fail)?;
        let rules = rules.lines().filter_map(rule_to_add).collect();
        let mut settings = Vec::new();
        for setting in SETTINGS {
            let names: Vec<String> = match setting.contains('*') {
                true => links.iter().map(|link| setting.replace('*', &link.name)).collect(),
                false => vec![setting.to_owned()],
            };
            for name in names {
                if let Ok(value) = std::fs::read_to_string(format!("/proc/sys/net/{name}")) {
                    settings.push((name, value.trim().to_owned()));
                }
            }
        }
        let (iptables, taken) = iptables_tables();
        let nft = nft_tables(&taken, &mut left_out);
        let ipsets = output("ipset", &["save"], "").unwrap_or_default();
        Ok(Self { links, routes, rules, settings, nft, iptables, ipsets, left_out })
    }
}

/// Removes words printed by `ip route show` that `ip route add` rejects, or that have no meaning in a copy.
fn plain_route(line: &str) -> String {
    line.split_whitespace()
        .filter(|word| !matches!(*word, "linkdown" | "dead" | "offload" | "trap" | "pervasive"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Converts `32000: from all fwmark 0x1 lookup 100` to the syntax of `ip rule add`. `None` for the default rules of
/// every namespace, and for the gateway's own.
fn rule_to_add(line: &str) -> Option<String> {
    let (preference, rest) = line.split_once(':')?;
    let own = preference.trim() == crate::firewall::preference().to_string();
    if matches!(preference.trim(), "0" | "32766" | "32767") || own {
        return None;
    }
    let rest = rest.trim().replace("[detached]", "");
    Some(format!("preference {} {}", preference.trim(), rest.trim()))
}

fn links(family: Family) -> Result<Vec<Link>, String> {
    let text = ip("-j addr show")?;
    let list: Vec<Value> = serde_json::from_str(&text).map_err(|error| format!("ip: {error}"))?;
    let wanted = match family {
        Family::V4 => "inet",
        Family::V6 => "inet6",
    };
    let nodad = if family == Family::V6 { " nodad" } else { "" };
    let link = |value: &Value| {
        let addresses = value.get("addr_info").and_then(Value::as_array).into_iter().flatten();
        let addresses = addresses
            .filter(|one| one.get("family").and_then(Value::as_str) == Some(wanted))
            .filter(|one| one.get("scope").and_then(Value::as_str) == Some("global"))
            .filter_map(|one| {
                let (local, length) = (one.get("local")?.as_str()?, one.get("prefixlen")?.as_u64()?);
                let peer = one.get("address").and_then(Value::as_str).map(|peer| format!(" peer {peer}/{length}"));
                Some(match peer {
                    Some(peer) => format!("{local}{peer}{nodad}"),
                    None => format!("{local}/{length}{nodad}"),
                })
            })
            .collect();
        Some(Link {
            name: value.get("ifname")?.as_str()?.to_owned(),
            number: value.get("ifindex")?.as_u64()?,
            mtu: value.get("mtu").and_then(Value::as_u64).unwrap_or(1500).clamp(1280, 65_535),
            addresses,
        })
    };
    Ok(list.iter().filter_map(link).take(MOST_LINKS).collect())
}

/// Programs with their output, or families with names of tables.
type Pairs = Vec<(String, String)>;

/// Returns iptables' rules as saved by each of its programs, and the nf_tables tables that these represent.
fn iptables_tables() -> (Pairs, Pairs) {
    let (mut all, mut taken) = (Vec::new(), Vec::new());
    for (base, family) in [("iptables", "ip"), ("ip6tables", "ip6")] {
        for kind in ["-legacy", "-nft"] {
            let Ok(text) = output(&format!("{base}{kind}-save"), &[], "") else { continue };
            let tables: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix('*')).collect();
            if tables.is_empty() {
                continue;
            }
            if kind == "-nft" {
                taken.extend(tables.iter().map(|table| (family.to_owned(), (*table).to_owned())));
            }
            all.push((format!("{base}{kind}"), text));
        }
    }
    if all.is_empty() {
        // There is only one program, of either kind.
        for (base, family) in [("iptables", "ip"), ("ip6tables", "ip6")] {
            if let Ok(text) = output(&format!("{base}-save"), &[], "")
                && text.contains('*')
            {
                taken.extend(IPTABLES.map(|table| (family.to_owned(), table.to_owned())));
                all.push((base.to_owned(), text));
            }
        }
    }
    (all, taken)
}

/// Returns the nf_tables tables, except those copied through iptables.
fn nft_tables(taken: &[(String, String)], left_out: &mut Vec<String>) -> Vec<String> {
    let Ok(list) = output("nft", &["list", "tables"], "") else { return Vec::new() };
    let mut texts = Vec::new();
    for line in list.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (Some(family), Some(name)) = (words.next(), words.next()) else { continue };
        let is_taken = taken.iter().any(|(of, table)| of == family && table == name);
        if is_taken || matches!(family, "bridge" | "arp") || name == "lasthop" {
            continue;
        }
        match output("nft", &["-s", "list", "table", family, name], "") {
            Ok(text) => texts.push(text),
            Err(error) => left_out.push(format!("table {family} {name} ({error})")),
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_network_are_others_than_the_machine() {
        let text = |network: &str| hosts_in(network).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(text("10.1.0.2/24"), ["10.1.0.3", "10.1.0.10", "10.1.0.77", "10.1.0.100"]);
        assert_eq!(text("10.1.0.1/30"), ["10.1.0.2"]);
        assert_eq!(text("10.1.0.6/31"), ["10.1.0.7"]);
        assert_eq!(text("192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(text("fd02::1/64 nodad").first().map(String::as_str), Some("fd02::2"));
        assert!(text("nonsense/x").is_empty());
    }

    #[test]
    fn a_routing_rule_is_read_as_it_is_printed() {
        let to_add = rule_to_add("100:\tfrom all fwmark 0x1 lookup 100");
        assert_eq!(to_add.as_deref(), Some("preference 100 from all fwmark 0x1 lookup 100"));
        assert_eq!(rule_to_add("32766:\tfrom all lookup main"), None);
        assert_eq!(rule_to_add("32000:\tfrom all fwmark 0x10000000/0x10000000 lookup 7411"), None);
    }
}
