"""The simulators that speed.py measures: how each runs a number of transfers, and how it reports their work."""
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
from typing import NamedTuple

from measure import fail, output

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCENARIOS = os.path.join(ROOT, "scenarios")
# Packets of a transfer of 8 MiB in segments of 1400 bytes.
PACKETS = 5992


class Link(NamedTuple):
    """A lossy last hop, behind a link of `wired` Mbps and 0.2 ms."""
    name: str
    mbps: float
    delay_ms: float
    loss: float
    burst: float
    queue: int
    wired: int

    def describe(self):
        losses = "no losses" if self.loss == 0 else f"{100 * self.loss:g} %" + (f" in bursts of {self.burst:g}" if self.burst > 1 else "")
        return f"{self.mbps:g} Mbps, {self.delay_ms:g} ms, {losses}, {self.queue} packets"


# The hop of peer-transfer.toml and ns2_speed.tcl.
SLOW = Link("slow", 1.5, 1, 0.0225, 1, 50, 10)
# Each has more of one thing.
LINKS = [
    Link("rate", 50, 10, 0.005, 1, 200, 1000),
    Link("delay", 10, 100, 0.001, 1, 200, 1000),
    Link("loss", 10, 10, 0.03, 1, 100, 1000),
    Link("bursts", 10, 10, 0.01, 4, 100, 1000),
    Link("queue", 10, 10, 0, 1, 15, 1000),
]


class Case(NamedTuple):
    """A scheme, with its name in each program: `ns2` or `ns3` is empty if that program is not compared."""
    name: str
    title: str
    lasthop: str
    ns2: str = ""
    ns3: str = ""


CASES = [
    Case("Reno", "Reno, ns-2's endpoints", "E2E", ns2="Reno"),
    Case("SACK", "Sack1, ns-2's endpoints", "E2E-IETF-SACK", ns2="Sack1"),
    Case("web", "2000 s of web browsing, Reno", "Reno/Raw", ns2="Reno"),
    Case("NewReno", "NewReno with SACK", "E2E-IETF-SACK", ns3="newreno"),
    Case("CUBIC", "CUBIC", "E2E-CUBIC", ns3="cubic"),
    Case("BBR", "BBR", "E2E-BBR", ns3="bbr"),
]


class Frames(NamedTuple):
    """Frames that the lossy hop transmitted, downlink and uplink."""
    down: float
    up: float

    def total(self):
        return self.down + self.up

    def __sub__(self, other):
        return Frames(self.down - other.down, self.up - other.up)


class Program:
    """A simulator. `sizes` are the numbers of transfers whose processor time is measured, `counted` those whose
    instructions are."""
    name = ""

    def missing(self):
        """Returns why the program cannot be measured here, or nothing."""
        raise NotImplementedError

    def about(self):
        """Returns its version and build, as the page quotes them."""
        return ""

    def supports(self, case):
        raise NotImplementedError

    def sizes(self, case):
        raise NotImplementedError

    def counted(self, case):
        raise NotImplementedError

    def command(self, case, transfers, count=False):
        """Returns the command that runs some transfers; with `count`, one whose output has the frames of the hop."""
        raise NotImplementedError

    def transmissions(self, text, case, transfers):
        """Returns the frames in the output of the command with `count`. A transfer that did not finish ends this
        program."""
        raise NotImplementedError

    def frames(self, case, sizes):
        """Returns the frames of a transfer, those between the smaller and the larger number."""
        few, many = (self.transmissions(output(self.command(case, size, count=True)), case, size) for size in sizes)
        more = many - few
        return Frames(*(value / (sizes[1] - sizes[0]) for value in more))


class Lasthop(Program):
    name = "lasthop"

    def __init__(self, command):
        self.program = shlex.split(command)

    def missing(self):
        if shutil.which(self.program[0]) is None:
            return f"{self.program[0]} not found; build it with cargo build --release"
        return None

    def about(self):
        return output([*self.program, "--version"]).strip()

    def supports(self, case):
        return True

    def sizes(self, case):
        return (5, 105) if case.name == "web" else (50, 550)

    def counted(self, case):
        return (1, 6) if case.name == "web" else (2, 22)

    def settings(self, case, link):
        """Returns the scenario and its settings for a link."""
        if case.ns2:
            return [os.path.join(SCENARIOS, "multilayer-web-lan.toml" if case.name == "web" else "peer-transfer.toml")]
        keys = {
            "links.wired.rate": f'"{link.wired} Mbps"', "links.hop.rate": f'"{link.mbps} Mbps"', "links.hop.delay": f'"{link.delay_ms} ms"',
            "links.hop.queue": f'"{link.queue} packets"', "links.hop.errors_down": errors(link),
        }
        return [os.path.join(HERE, "transfer.toml"), *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]

    def command(self, case, transfers, count=False, link=SLOW):
        return [*self.program, "run", *self.settings(case, link), "--scheme", case.lasthop, "--runs", str(transfers), "--jobs", "1", "--json"]

    def transmissions(self, text, case, transfers):
        told = json.loads(text)
        if told["measures"].get("incomplete", {"mean": 0})["mean"] > 0:
            fail(f"lasthop did not finish every transfer of the case {case.name}")
        ends = {link["from"]: link["measures"]["frames"]["mean"] for link in told["links"] if link["link"] in ("wireless", "hop")}
        return Frames(ends["base"] * transfers, ends["mobile"] * transfers)

    def throughput(self, case, link, transfers):
        """Returns the mean throughput in Mbps and half its 95 % interval."""
        measure = json.loads(output(self.command(case, transfers, link=link)))["measures"]["throughput"]
        return measure["mean"], measure["ci95"]


def errors(link):
    """Returns the error model of a link as a TOML value."""
    if link.loss == 0:
        return '{ model = "none" }'
    if link.burst == 1:
        return f'{{ model = "uniform", frame_loss = {link.loss!r}, frames = "data" }}'
    good_to_bad = link.loss / (link.burst * (1 - link.loss))
    return f'{{ model = "two-state-packet", good_to_bad = {good_to_bad!r}, bad_to_good = {1 / link.burst!r}, frames = "data" }}'


class Ns2(Program):
    name = "ns-2"

    def __init__(self, command):
        self.program = shlex.split(command)

    def missing(self):
        if shutil.which(self.program[0]) is None:
            return "not installed (Debian, Ubuntu: apt-get install ns2)"
        return None

    def about(self):
        return "2.35, package ns2"

    def supports(self, case):
        return bool(case.ns2)

    def sizes(self, case):
        return (5, 35) if case.name == "web" else (20, 220)

    def counted(self, case):
        return (1, 3) if case.name == "web" else (2, 12)

    def command(self, case, transfers, count=False):
        script, number = ("ns2_web.tcl", "runs") if case.name == "web" else ("ns2_speed.tcl", "transfers")
        return [*self.program, os.path.join(HERE, script), f"variant={case.ns2}", f"{number}={transfers}", f"quiet={int(not count)}", f"count={int(count)}"]

    def transmissions(self, text, case, transfers):
        found = re.search(r"^(\d+) frames down, (\d+) up$", text, re.MULTILINE)
        if not found:
            fail(f"ns-2 did not finish every transfer of the case {case.name}")
        return Frames(int(found[1]), int(found[2]))


def version(library):
    """Returns ns-3's version from the name of its library: libns3.44-core.so, or libns3-core.so.37."""
    found = re.search(r"^libns3\.(\d+(?:\.\d+)?)-|\.so\.(\d+)$", library)
    return f"3.{found[1] or found[2]}" if found else "of unknown version"


class Ns3(Program):
    """A build of ns-3: the PyPI wheel, Debian's package, or one's own."""
    # Strings that only a build with logs or assertions has, in the library of the module internet.
    LOGS, ASSERTS = (b"ESTABLISHED -> FIN_WAIT_1",), (b"NS_ASSERT failed, cond=", b"assert failed. cond=")
    MODULES = ("internet", "point-to-point", "traffic-control", "network", "core")
    NAME = re.compile(r"lib(ns3(?:\.[\d.]+)?-)core(-\w+)?\.so")

    def __init__(self, kind, hint, include=None, lib=None):
        self.kind, self.hint, self.include, self.lib = kind, hint, include, lib
        self.name = f"ns-3 {kind}"
        self.binary = None
        names = sorted(os.listdir(lib)) if lib and os.path.isdir(lib) else []
        self.found = next((match for name in names if (match := self.NAME.fullmatch(name))), None)

    def missing(self):
        if self.lib is None:
            return self.hint
        if self.found is None:
            return f"{self.lib} has no libns3*-core.so ({self.hint})"
        if shutil.which("g++") is None:
            return "needs g++"
        return None

    def library(self, module):
        return f"{self.found[1]}{module}{self.found[2] or ''}"

    def version(self):
        """Returns the version in the name of the library."""
        return version(os.path.basename(os.path.realpath(os.path.join(self.lib, self.found[0]))))

    def about(self):
        with open(os.path.join(self.lib, f"lib{self.library('internet')}.so"), "rb") as file:
            content = file.read()
        parts = [f"{'with' if any(mark in content for mark in marks) else 'without'} {name}"
                 for name, marks in (("logs", self.LOGS), ("assertions", self.ASSERTS))]
        return f"{self.version()}, {' and '.join(parts)}"

    def build(self, folder):
        """Compiles ns3_transfer.cc against this build."""
        self.binary = os.path.join(folder, f"ns3-transfer-{self.kind.replace(' ', '-')}")
        include = ["-I", self.include] if self.include else []
        command = ["g++", "-std=c++20", "-O2", *include, os.path.join(HERE, "ns3_transfer.cc"), "-o", self.binary,
                   "-L", self.lib, f"-Wl,-rpath,{os.path.abspath(self.lib)}", *(f"-l{self.library(module)}" for module in self.MODULES)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"ns3_transfer.cc does not compile against {self.name} in {self.lib}\n{done.stderr}")

    def supports(self, case):
        return bool(case.ns3)

    def sizes(self, case):
        return 2, 10

    def counted(self, case):
        return 1, 2

    def command(self, case, transfers, count=False, link=SLOW):
        return [self.binary, f"--scheme={case.ns3}", f"--wired-rate={link.wired}Mbps", f"--rate={link.mbps}Mbps", f"--delay={link.delay_ms}",
                f"--loss={link.loss}", f"--burst={link.burst}", f"--queue={link.queue}", f"--transfers={transfers}", f"--count={int(count)}"]

    def transmissions(self, text, case, transfers):
        told = json.loads(text)
        if told["failed"]:
            fail(f"{self.name} did not finish every transfer of the case {case.name}")
        return Frames(told["down"], told["up"])

    def throughputs(self, case, link, transfers):
        """Returns the throughput in Mbps of each transfer that was completed, and the number of the others, whose
        connection broke."""
        told = json.loads(output(self.command(case, transfers, link=link)))
        return [8 * (8 << 20) / 1e6 / one for one in told["seconds"]], told["failed"]


class Bare(Program):
    """The event loop without endpoints."""
    name = "bare event loop"

    def __init__(self, path):
        self.path = path

    def missing(self):
        if not os.access(self.path, os.X_OK):
            return f"{self.path} not found; build it with cargo build --release -p lasthop-sim --example bare_loop"
        return None

    def supports(self, case):
        return case.name == "Reno"

    def sizes(self, case):
        return 50, 1050

    def counted(self, case):
        return 2, 102

    def command(self, case, transfers, count=False):
        return [self.path, str(PACKETS * transfers)]

    def transmissions(self, text, case, transfers):
        return Frames(json.loads(text)["transmissions"], 0)


def wheel():
    """Returns the folders of the headers and libraries of an installed wheel, or nothing."""
    try:
        spec = importlib.util.find_spec("ns3")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if os.path.isdir(os.path.join(folder, "lib64")):
            return os.path.join(folder, "include"), os.path.join(folder, "lib64")
    return None, None


def debian():
    """Returns the folder of the libraries of Debian's package, or nothing."""
    for folder in (*(os.path.join("/usr/lib", name) for name in sorted(os.listdir("/usr/lib")) if name.endswith("-linux-gnu")), "/usr/lib"):
        if os.path.exists(os.path.join(folder, "libns3-core.so")):
            return folder
    return None


def own(prefix):
    """Returns the folders of the headers and libraries of a build that was installed into `prefix`."""
    for name in ("lib", "lib64"):
        folder = os.path.join(prefix, name)
        if os.path.isdir(folder) and any(Ns3.NAME.fullmatch(file) for file in os.listdir(folder)):
            return os.path.join(prefix, "include"), folder
    fail(f"--ns3-build: {prefix} has no lib/libns3*-core.so; give the folder into which ns-3 was installed (ninja install)")
