"""Processor time and instructions of child processes, and the statistics of several turns."""
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

# valgrind counts a string instruction once for each byte, which triples the count of ns-2. With these thresholds glibc
# copies and clears memory without them.
NO_STRINGS = "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"
INSTRUCTIONS = re.compile(r"I +refs: +([\d,]+)")


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


class Turn(NamedTuple):
    """Seconds of a program for the smaller and the larger number of transfers."""
    small: float
    large: float


class Cost(NamedTuple):
    """Seconds of one transfer: from the fastest runs of all turns, and in the cheapest, median and dearest turn."""
    best: float
    low: float
    median: float
    high: float


def cost(turns, sizes):
    """Returns the cost of one transfer: a slope over the number of transfers, without start-up."""
    few, many = sizes
    slopes = sorted((turn.large - turn.small) / (many - few) for turn in turns)
    best = (min(turn.large for turn in turns) - min(turn.small for turn in turns)) / (many - few)
    return Cost(best, slopes[0], statistics.median(slopes), slopes[-1])


class Ratio(NamedTuple):
    """Ratio of two costs: of the best, and the lowest and highest of a turn."""
    best: float
    low: float
    high: float


def ratio(ours, theirs):
    """Returns the ratio of two programs' costs of a frame. Each is a pair: slopes of all turns in the same order, and
    the best."""
    turns = [one / other for one, other in zip(ours[0], theirs[0]) if other > 0]
    best = ours[1] / theirs[1]
    return Ratio(best, min(turns, default=best), max(turns, default=best))


def slopes(turns, sizes):
    """Returns the seconds of one transfer in each turn."""
    return [(turn.large - turn.small) / (sizes[1] - sizes[0]) for turn in turns]


# Two-sided quantiles of Student's t for 95 %, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00}


def mean_interval(values):
    """Returns the mean and half the width of its 95 % interval, which is nothing for a single value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    # The next smaller number of degrees of freedom in the table has the wider interval.
    student = STUDENT[max(degrees for degrees in STUDENT if degrees <= len(values) - 1)]
    return mean, student * statistics.stdev(values) / len(values) ** 0.5


def resources(command):
    """Returns the resource usage of one child process, whose output is discarded."""
    null = os.open(os.devnull, os.O_RDWR)
    with tempfile.TemporaryFile() as errors:
        try:
            pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
            ])
        except OSError as error:
            fail(f"cannot start {command[0]}: {error.strerror}")
        finally:
            os.close(null)
        _, status, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            errors.seek(0)
            fail(f"'{shlex.join(command)}' ended with status {code}\n{errors.read().decode(errors='replace')}")
    return usage


def cpu_seconds(command):
    """Returns user plus system time of one child process, whose output is discarded."""
    usage = resources(command)
    return usage.ru_utime + usage.ru_stime


def output(command):
    """Returns what a command prints; a failure ends this program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        fail(f"cannot start {command[0]}: {error.strerror}")
    if done.returncode != 0:
        fail(f"'{shlex.join(command)}' ended with status {done.returncode}\n{done.stderr}")
    return done.stdout


def perf_instructions(text):
    """Returns the count in the output of `perf stat -x, -e instructions:u`, or nothing if the processor has no counter
    for it."""
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[2].startswith("instructions") and fields[0].isdecimal():
            return int(fields[0])
    return None


def valgrind_instructions(text):
    """Returns the count in valgrind's summary, or nothing if there is none."""
    found = INSTRUCTIONS.search(text)
    return int(found[1].replace(",", "")) if found else None


class Counter:
    """Counts a program's instructions, with the first tool that works here."""

    # cachegrind without its caches takes a third of callgrind's time and counts the same instructions.
    TOOLS = {
        "perf stat": (["perf", "stat", "-x,", "-e", "instructions:u", "--"], perf_instructions),
        "valgrind": (["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", "--"], valgrind_instructions),
    }

    def __init__(self):
        self.name = next((name for name in self.TOOLS if self._count(name, ["true"]) is not None), None)

    def _count(self, name, command):
        prefix, read = self.TOOLS[name]
        if shutil.which(prefix[0]) is None:
            return None
        environment = os.environ | ({"GLIBC_TUNABLES": NO_STRINGS} if name == "valgrind" else {})
        done = subprocess.run(prefix + command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        return read(done.stderr) if done.returncode == 0 else None

    def instructions(self, command):
        """Returns the number of instructions that a command executes."""
        count = self._count(self.name, command)
        if count is None:
            fail(f"{self.name} cannot count the instructions of '{shlex.join(command)}'")
        return count


def machine(cpuinfo="/proc/cpuinfo"):
    """Returns the processor's name, the number of processors that this process may use, and the load average."""
    try:
        with open(cpuinfo, encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": names[0] if names else platform.processor() or platform.machine(), "processors": count, "load": round(os.getloadavg()[0], 2)}
