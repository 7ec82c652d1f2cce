"""Sender, gateway and receiver in namespaces, with links between them that lose, damage, duplicate and reorder frames
(crates/lasthop-gateway/examples/hop.rs), over IPv4 and IPv6."""
import contextlib
import os
import sys

from common import HERE, Program, run

# sender s0 -- w0 (air) w1 -- wired (gateway) wireless -- l0 (air) l1 -- r0 receiver
PAIRS = [("sender", "s0", "w0"), ("gateway", "wired", "w1"), ("gateway", "wireless", "l0"), ("receiver", "r0", "l1")]
MAC = {name: f"02:00:00:00:0a:{number:02x}" for number, name in enumerate(("s0", "wired", "wireless", "r0"))}
NODES = ("sender", "gateway", "receiver", "air")
OF_ENDS = {
    # Metrics of a path from an earlier run must not affect the next.
    "net.ipv4.tcp_no_metrics_save": 1,
}
OF_GATEWAY = {"net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 1, "net.ipv4.conf.all.rp_filter": 0, "net.ipv4.conf.wired.rp_filter": 0,
              "net.ipv4.conf.wireless.rp_filter": 0}


class Arena:
    """Namespaces and links that exist in its `with` block. `path`: `routed` or `bridge`; `wire` and `lossy`: settings
    of the links for hop.rs."""

    NUMBER = 0

    def __init__(self, args, path, seed, wire, lossy):
        self.args, self.path, self.seed = args, path, seed
        self.links = [f"w0,w1,{wire}", f"l0,l1,{lossy}"]
        # Named like a lab's, so that `lasthop lab clean` finds what a killed benchmark left.
        self.prefix = f"lh-{os.getpid()}-{Arena.NUMBER}-"
        Arena.NUMBER += 1
        self.hop = None
        # What an attack has changed outside the namespaces.
        self.resources = contextlib.ExitStack()
        self.any_port = False
        # Disk for the gateway's recordings.
        self.record = ""

    def namespace(self, node):
        return self.prefix + node

    def address(self, node, family):
        """Returns the address of the sender or the receiver."""
        subnet, host = {"sender": (1, 2), "receiver": (1, 3) if self.path == "bridge" else (2, 2)}[node]
        return f"10.{subnet}.0.{host}" if family == 4 else f"fd0{subnet}::{host}"

    def __enter__(self):
        try:
            self.build()
            self.hop = Program(self.namespace("air"), *real_time(), self.args.hop, str(self.seed), *self.links)
            self.hop.line()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.resources.close()
        if self.hop:
            self.hop.stop()
        for node in NODES:
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "delete", self.namespace(node))
        if self.record:
            with contextlib.suppress(RuntimeError):
                run("umount", self.record)
            os.rmdir(self.record)

    def build(self):
        for node in NODES:
            run("ip", "netns", "add", self.namespace(node))
        # One call each: a batch for `ip`, and commands that it does not support.
        air = ["link set lo up"] + [f"link set {far} up" for _, _, far in PAIRS]
        for node, near, far in PAIRS:
            run("ip", "link", "add", near, "address", MAC[near], "type", "veth", "peer", "name", far, "netns", self.namespace("air"), namespace=self.namespace(node))
        self.parameters("air", {"net.ipv6.conf.all.disable_ipv6": 1, "net.ipv6.conf.default.disable_ipv6": 1})
        self.batch("air", air)
        (self.bridge if self.path == "bridge" else self.route)()
        for node, devices in (("sender", ["s0"]), ("receiver", ["r0"]), ("gateway", [] if self.args.offloads else ["wired", "wireless"])):
            if devices:
                run(sys.executable, os.path.join(HERE, "transfers.py"), "plain", *devices, namespace=self.namespace(node))
        if self.args.offloads:
            # Packets to the hop are not segmented by the device; arriving ones are joined to super-segments.
            run("ethtool", "-K", "wireless", "tx", "off", "tso", "off", "gso", "off", namespace=self.namespace("gateway"))
            run("ethtool", "-K", "wired", "tx", "off", "tso", "off", "gso", "off", "gro", "on", namespace=self.namespace("gateway"))
        for node in ("sender", "receiver"):
            self.parameters(node, OF_ENDS)

    def batch(self, node, commands):
        run("ip", "-n", self.namespace(node), "-batch", "-", text="\n".join(commands) + "\n")

    def parameters(self, node, values):
        commands = [f"echo {value} > /proc/sys/{name.replace('.', '/')}" for name, value in values.items()]
        run("sh", "-ec", "\n".join(commands), namespace=self.namespace(node))

    def end(self, node, device, peers, gateways=()):
        """Sets addresses, static neighbours (which need no lookup over a bad link), and routes."""
        commands = ["link set lo up", f"link set {device} up"]
        for family in (4, 6):
            length = 24 if family == 4 else 64
            commands.append(f"addr add {self.address(node, family)}/{length} dev {device}" + (" nodad" if family == 6 else ""))
        commands += [f"neigh replace {address} lladdr {mac} dev {device} nud permanent" for address, mac in peers]
        commands += [f"route add default via {address} dev {device}" for address in gateways]
        self.batch(node, commands)

    def route(self):
        self.parameters("gateway", OF_GATEWAY)
        commands = ["link set lo up"]
        for subnet, near, node, device in ((1, "wired", "sender", "s0"), (2, "wireless", "receiver", "r0")):
            own = (f"10.{subnet}.0.1", f"fd0{subnet}::1")
            commands += [f"link set {near} up", f"addr add {own[0]}/24 dev {near}", f"addr add {own[1]}/64 dev {near} nodad"]
            commands += [f"neigh replace {self.address(node, family)} lladdr {MAC[device]} dev {near} nud permanent" for family in (4, 6)]
            self.end(node, device, [(address, MAC[near]) for address in own], own)
        self.batch("gateway", commands)

    def bridge(self):
        # Skips the seconds of the listening state.
        self.batch("gateway", ["link set lo up", "link add br0 type bridge forward_delay 0", "link set wired master br0", "link set wireless master br0",
                               "link set wired up", "link set wireless up", "link set br0 up"])
        both = (("sender", "s0"), ("receiver", "r0"))
        for (node, device), (peer, other) in (both, both[::-1]):
            self.end(node, device, [(self.address(peer, family), MAC[other]) for family in (4, 6)])


def real_time():
    """Gives the links real-time priority if the kernel permits it."""
    try:
        os.sched_getscheduler(0)
        return ["chrt", "-f", "10"]
    except OSError:
        return []
