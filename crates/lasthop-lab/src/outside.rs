//! A route from a lab to the outside: through a pair of devices to this machine, and on with its addresses (NAT).
//!
//! All nodes send packets for destinations outside of the lab to one host, which forwards them to this machine's
//! namespace. Addresses are translated twice: in the host's namespace, since this machine may have routes to other
//! networks with the lab's addresses, and at this machine.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lasthop_sim::network::NodeId;

use super::error::LabError;
use super::namespace::{Name, Namespace};
use super::plan::Plan;

/// Host's end of the pair.
const INSIDE: &str = "outside";
/// Kernel parameter for forwarding on this machine.
const FORWARDS: &str = "/proc/sys/net/ipv4/ip_forward";

/// The route, which is removed when this is dropped.
#[derive(Debug)]
pub struct Outside {
    /// Commands that revert the changes, last one first.
    undo: Vec<Vec<String>>,
    /// Indicates whether this machine forwarded before.
    forwarded: bool,
}

impl Outside {
    /// Creates the route through the host `through`.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel rejects a part of it, or if both nft and iptables are missing. Changes are
    /// reverted.
    pub fn open(name: &Name, plan: &Plan<'_>, nodes: &[Namespace], through: NodeId) -> Result<Self, LabError> {
        let mut outside = Self { undo: Vec::new(), forwarded: true };
        let (device, host) = (format!("lh-{}", name.as_str()), &nodes[through.0]);
        let subnet = free_subnet()?;
        let (near, far) = (format!("{subnet}.1"), format!("{subnet}.2"));
        // The pair is removed with the host's namespace.
        host.ip(&[
            format!("link add {INSIDE} type veth peer name {device} netns {}", std::process::id()),
            format!("addr add {far}/30 dev {INSIDE}"),
            format!("link set {INSIDE} up"),
            format!("route add default via {near} dev {INSIDE}"),
        ])?;
        host.sysctls(&[("net/ipv4/ip_forward", "1".to_owned()), ("net/ipv4/conf/all/send_redirects", "0".to_owned())])?;
        call("ip", &["addr", "add", &format!("{near}/30"), "dev", &device])?;
        call("ip", &["link", "set", &device, "up"])?;
        for (index, node) in nodes.iter().enumerate().filter(|(index, _)| *index != through.0) {
            if let Some(point) = plan.next_hops(NodeId(index)).get(&through.0) {
                let via = Plan::address(plan.node(point ^ 1));
                node.ip(&[format!("route add default via {via} dev {} onlink", Plan::device(*point))])?;
            }
        }
        // In the host's namespace, whose rules are removed with it.
        host.within(|| translate("lasthop", &format!("oifname \"{INSIDE}\""), &["-o", INSIDE]).map(drop))?;
        let (network, table) = (format!("{subnet}.0/30"), format!("lasthop_{}", name.as_str()));
        let wanted = format!("ip saddr {network} oifname != \"{device}\"");
        let undo = translate(&table, &wanted, &["-s", &network, "!", "-o", &device])?;
        outside.undo.push(undo);
        outside.let_through(&device)?;
        outside.forwarded = fs::read_to_string(FORWARDS).is_ok_and(|text| text.trim() == "1");
        if !outside.forwarded {
            fs::write(FORWARDS, "1").map_err(|error| LabError::File { path: FORWARDS.into(), error })?;
        }
        Ok(outside)
    }

    /// Accepts packets in an iptables firewall that drops forwarded ones by default, such as Docker's.
    fn let_through(&mut self, device: &str) -> Result<(), LabError> {
        let Some(rules) = answer("iptables", &["-w", "-S", "FORWARD"]) else { return Ok(()) };
        if !rules.starts_with("-P FORWARD DROP") {
            return Ok(());
        }
        for direction in ["-i", "-o"] {
            let rule = ["FORWARD", direction, device, "-j", "ACCEPT"];
            call("iptables", &[&["-w", "-I"][..], &rule].concat())?;
            let undo = [&["iptables", "-w", "-D"][..], &rule].concat();
            self.undo.push(undo.into_iter().map(str::to_owned).collect());
        }
        Ok(())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        for command in self.undo.iter().rev() {
            let words: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
            if let Err(error) = call(&command[0], &words) {
                tracing::warn!("{error}");
            }
        }
        // Another lab may need forwarding as well; disabling it would cut that lab off.
        if !self.forwarded && !others_are_open() {
            let _ = fs::write(FORWARDS, "0");
        }
    }
}

/// Returns whether the machine has devices of other labs' routes.
fn others_are_open() -> bool {
    let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    devices.lines().filter(|line| line.trim_start().starts_with("lh-")).count() > 1
}

/// Translates the source addresses of packets that match `nft`, or with iptables `iptables`. Returns the command that
/// reverts it.
fn translate(table: &str, nft: &str, iptables: &[&str]) -> Result<Vec<String>, LabError> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    // An existing table of that name is left from a lab that was killed.
    let rules = format!(
        "add table ip {table}\ndelete table ip {table}\nadd table ip {table}\n\
         add chain ip {table} postrouting {{ type nat hook postrouting priority 100; }}\n\
         add rule ip {table} postrouting {nft} masquerade\n"
    );
    match feed("nft", &["-f", "-"], &rules) {
        Ok(()) => return Ok(owned(&["nft", "delete", "table", "ip", table])),
        Err(LabError::NoCommand { .. }) => {}
        Err(error) => return Err(error),
    }
    let rule = [&["-t", "nat"][..], &["POSTROUTING"], iptables, &["-j", "MASQUERADE"]].concat();
    let with = |verb: &'static str| [&["-w", "-t", "nat", verb][..], &rule[2..]].concat();
    call("iptables", &with("-A"))?;
    Ok(owned(&[&["iptables"][..], &with("-D")].concat()))
}

/// Returns the first three numbers of a subnet that no device of this machine has, from the range for benchmarks
/// between networks (RFC 2544).
fn free_subnet() -> Result<String, LabError> {
    let addresses = answer("ip", &["-4", "-o", "addr", "show"]).unwrap_or_default();
    let subnets = (0..=255).map(|number| format!("198.18.{number}"));
    let free = subnets.into_iter().find(|subnet| !addresses.contains(&format!(" {subnet}.")));
    free.ok_or_else(|| LabError::Command {
        command: "--nat".to_owned(),
        message: "all subnets of 198.18.0.0/16 are in use".to_owned(),
    })
}

/// Returns a command's output, if it succeeds.
fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn call(program: &str, arguments: &[&str]) -> Result<(), LabError> {
    feed(program, arguments, "")
}

/// Runs a command with `input`.
fn feed(program: &str, arguments: &[&str], input: &str) -> Result<(), LabError> {
    let command = || format!("{program} {}", arguments.join(" "));
    let missing = |error| LabError::NoCommand { command: command(), error };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that failed early does not read all of it; its status reports the failure.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(LabError::Command { command: command(), message: said.lines().next().unwrap_or("no error message").to_owned() })
}
