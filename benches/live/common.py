"""Shared parts of the benchmarks: namespaces, programs in them, the gateway, tables."""
import argparse
import contextlib
import ctypes
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


def note(message):
    print(message, file=sys.stderr, flush=True)


def skipped(what):
    note(f"!!! SKIPPED: {what}")


def die_with_parent():
    # A benchmark that is killed leaves no program behind.
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def arguments(about):
    """Returns an argument parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lasthop", default=os.environ.get("LASTHOP", os.path.join(ROOT, "target", "release", "lasthop")),
                        help="lasthop's command (default target/release/lasthop, or $LASTHOP)")
    return parser


def goal_arguments(parser):
    """Adds the options of every benchmark with goals."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--require", action="store_true", help="exit 1 when a goal is missed")


def example_argument(parser, option, what):
    """Adds an option for a program among the examples of lasthop's crates, with the program's name."""
    name = option.removeprefix("--").replace("-", "_")
    parser.add_argument(option, default=os.path.join(ROOT, "target", "release", "examples", name), help=f"{what} (default target/release/examples/{name})")


def chosen(parser, given, known):
    """Returns the names in `given`, separated by commas, or all; each must be in `known`."""
    names = list(known) if given == "all" else given.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def check_built(*programs):
    """Exits with a message if an example is missing."""
    for program in programs:
        if not os.access(program, os.X_OK):
            fail(f"{program} not found; build it with cargo build --release -p lasthop-gateway -p lasthop-tunneld --examples")


def end_with(main):
    """Exits with the status that `main` returns, and with a line if something failed."""
    try:
        sys.exit(main())
    except RuntimeError as error:
        fail(error)
    except KeyboardInterrupt:
        sys.exit(130)


def check_machine(args):
    """Exits with a message if this machine cannot run a benchmark."""
    if sys.platform != "linux" or os.geteuid() != 0:
        fail("network namespaces take root on Linux; run it with sudo")
    if shutil.which(args.lasthop) is None:
        fail(f"{args.lasthop} not found; build it with cargo build --release")
    for command in ("ip", "iptables"):
        if shutil.which(command) is None:
            fail(f"{command} not found; on Debian: apt-get install iproute2 iptables")
    # Exits through `with` blocks, which clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def go_first():
    """Raises the priority of this process and its children: a gateway or end that waits for the processor would be
    slow, which the lab cannot detect (docs/lab.md)."""
    os.nice(-15)


def run(*command, namespace=None, text=None):
    """Runs a command to its end and returns its output."""
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    done = subprocess.run([*inside, *command], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"'{shlex.join(command)}' ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Program:
    """Program in a namespace, which ends with its `with` block."""

    def __init__(self, namespace, *command, log=None):
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        self.command = command
        self.log = log or tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*inside, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, start_new_session=True, preexec_fn=die_with_parent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self.process.pid

    def said(self):
        """Returns its output on standard error."""
        self.log.seek(0)
        return self.log.read().strip()

    def until(self, text):
        """Waits until it prints `text` on standard error."""
        for _ in range(200):
            if text in self.said():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"'{shlex.join(self.command)}' did not say '{text}': {self.said()}")

    def line(self):
        """Returns the next line of its output."""
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"'{shlex.join(self.command)}' ended with status {self.process.returncode}: {self.said()}")
        return line

    def result(self, timeout):
        """Returns the rest of its output, once it has ended, as JSON."""
        try:
            out, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"'{shlex.join(self.command)}' did not end within {timeout} s") from error
        if self.process.returncode != 0:
            raise RuntimeError(f"'{shlex.join(self.command)}' ended with status {self.process.returncode}: {self.said()}")
        return json.loads(out)

    def stop(self):
        """Stops it in order; returns the rest of its output."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[0]
        except ValueError:
            # Its output was read to the end before.
            return ""


def end(namespace, *arguments):
    """Starts one of the roles of ends.py."""
    return Program(namespace, sys.executable, os.path.join(HERE, "ends.py"), *map(str, arguments))


def probed(args, folder, text, *options, beside=None):
    """Measures the link of a scenario in the lab with `lasthop probe`, while the context `beside(nodes)` is active, if there is one. Returns
    the folder of the results, the probe's report and the lab's."""
    link, key, out = (os.path.join(folder, name) for name in ("link.toml", "key", "found"))
    with open(link, "w", encoding="utf-8") as file:
        file.write(text)
    run(args.lasthop, "probe", "keygen", key)
    with Program(None, getattr(args, "lab", None) or args.lasthop, "lab", "hold", link, "--json", "--scheme", "E2E") as lab:
        nodes = json.loads(lab.line())["nodes"]
        far, near = nodes["far"], nodes["near"]
        with Program(far["namespace"], args.lasthop, "probe", "serve", "--key", key) as server:
            server.until("listening at")
            with beside(nodes) if beside else contextlib.nullcontext():
                run(args.lasthop, "probe", far["address"], "--key", key, *options, "--out", out, "--json", namespace=near["namespace"])
        lab.process.send_signal(signal.SIGINT)
        left = lab.process.communicate(timeout=60)[0]
    with open(os.path.join(out, "probe.json"), encoding="utf-8") as file:
        return out, json.load(file), json.loads(left.strip().splitlines()[-1])


class Gateway:
    """`lasthop gateway` in a namespace, with a configuration of one rule."""

    def __init__(self, args, namespace, rule, limits="", options=()):
        self.args = args
        self.folder = tempfile.TemporaryDirectory(prefix="lasthop-bench-")
        self.control = os.path.join(self.folder.name, "gateway.sock")
        file = os.path.join(self.folder.name, "gateway.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(f'control = "{self.control}"\nlog = "warn"\n{limits}\n[[rule]]\nname = "bench"\n{rule}\n')
        self.program = Program(namespace, args.lasthop, "gateway", "run", file, *options)

    def __enter__(self):
        for _ in range(200):
            try:
                self.status()
                return self
            except RuntimeError:
                if self.program.process.poll() is not None:
                    break
                time.sleep(0.05)
        self.__exit__()
        raise RuntimeError(f"the gateway did not start: {self.program.said()}")

    def __exit__(self, *_):
        self.program.stop()
        self.folder.cleanup()

    def status(self):
        return json.loads(run(self.args.lasthop, "gateway", "status", "--json", "--control", self.control))

    def worker(self):
        """Returns the process that handles packets."""
        with open(f"/proc/{self.program.pid}/task/{self.program.pid}/children", encoding="ascii") as children:
            return int(children.read().split()[0])


BARE_QUEUE = "27000"


@contextlib.contextmanager
def bare_forwarder(accept_all, namespace, iptables):
    """Runs the minimal program behind a netfilter queue (crates/lasthop-gateway/examples/accept_all.rs) on all TCP
    packets that a namespace forwards."""
    rule = ["FORWARD", "-p", "tcp", "-j", "NFQUEUE", "--queue-num", BARE_QUEUE, "--queue-bypass"]
    with Program(namespace, accept_all, BARE_QUEUE) as program:
        program.line()
        run(iptables, "-w", "-t", "mangle", "-A", *rule, namespace=namespace)
        try:
            yield program.pid
        finally:
            run(iptables, "-w", "-t", "mangle", "-D", *rule, namespace=namespace)


def counters(namespace, protocol):
    """Returns a namespace's kernel counters of a protocol, `Tcp` or `Udp`, by name (/proc/net/snmp)."""
    names, values = (line.split() for line in run("cat", "/proc/net/snmp", namespace=namespace).splitlines() if line.startswith(f"{protocol}:"))
    return dict(zip(names[1:], map(int, values[1:])))


class Kept:
    """Results of a benchmark's steps, one file each in a folder: existing ones need not be repeated."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def get(self, name):
        """Returns a result; `None` if the step was not run."""
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def keep(self, name, value):
        """Saves a result atomically."""
        with open(self.path(name + ".part"), "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(self.path(name + ".part"), self.path(name))


def percentile(values, percent):
    """Returns the smallest of `values` that `percent` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


def table(heads, rows):
    """Prints columns; the first is aligned to the left, the others to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    for row in [heads, *rows]:
        print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))))
