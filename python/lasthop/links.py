"""From a measurement to a cure: what a capture says, which model a link's losses follow, and what helps on it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from . import _html, _lasthop
from ._tables import metadata, table
from ._types import Progress
from .scenario import JOBS, RUNS, SEEDS, Scenario, ScenarioLike, count

#: What stands for a file.
PathLike = str | os.PathLike[str]


class Diagnosis:
    """What a packet capture says of its flows (docs/models/diagnose.md)."""

    def __init__(self, core: _lasthop.Diagnosis, name: str) -> None:
        """Not for users: call :func:`diagnose`."""
        self._core = core
        self._name = name

    @cached_property
    def flows(self) -> pa.Table:
        """A row a direction that carries data: ``flow``, ``from``, ``to``, ``vantage``, what it carried, its round trips and its longest
        queue; ``limit``, what limited it for most of the time, and the share of the time of each limit (``limit_bottleneck``, from 0 to
        1); ``lost``, the packets lost, and of these ``corruption``, ``congestion`` and ``unknown`` (all others; ``policed`` and ``path_mtu`` of them)."""
        return table(self._core.flows(), metadata(capture=self._name))

    @cached_property
    def losses(self) -> pa.Table:
        """A row a loss, and a retransmission that needed none (``needless`` says why): ``flow``, the ``packet`` by its number in the capture,
        ``time_s``, ``cause`` (``corruption``, ``congestion``, ``policed``, ``path-mtu``, ``unknown``), ``confidence`` from 0.5 to 1, and
        what the verdict rests on."""
        return table(self._core.losses(), metadata(capture=self._name))

    @cached_property
    def report(self) -> dict[str, Any]:
        """What ``lasthop diagnose --json`` has under ``captures``."""
        report: dict[str, Any] = json.loads(self._core.json())
        return report

    @property
    def missing(self) -> list[str]:
        """What the capture lacks, each a clause."""
        return self._core.missing

    def annotate(self, path: PathLike) -> None:
        """Writes the capture as pcapng with the verdicts as comments, for Wireshark. A file that is there is replaced.

        Raises:
            OSError: the file cannot be written.
            ValueError: it is the capture itself, or the capture cannot be read any more.
        """
        self._core.annotate(path)

    def loss_trace(self, path: PathLike, *, flow: int | None = None) -> None:
        """Writes what the link lost to corruption, packet by packet, for :func:`fit`. A file that is there is replaced.

        Args:
            path: the file, a CSV.
            flow: its number; the flow with most data unless given.

        Raises:
            OSError: the file cannot be written.
            ValueError: there is no such flow, or it sends no data.
        """
        self._core.loss_trace(path, flow)

    def __str__(self) -> str:
        return "\n".join([*self.missing, *self._core.words])

    def _repr_html_(self) -> str:
        return _html.diagnosis(self)

    def __repr__(self) -> str:
        return f"<lasthop.Diagnosis of {self._name}: {len(self.flows)} directions>"


def diagnose(capture: PathLike, *, at: str | None = None, interface: str | None = None) -> Diagnosis:
    """Reads a packet capture and says of each TCP flow what limits it, and of each lost packet why it was lost: what ``lasthop diagnose``
    does.

    Args:
        capture: a pcap or pcapng file.
        at: where it was taken, seen from whoever sends data: ``sender``, ``receiver``, ``gateway``; found from the capture unless given.
        interface: only what this interface saw, by its name in a pcapng file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no capture, has no interface of that name, or ``at`` is none of these.
    """
    return Diagnosis(_lasthop.Diagnosis(capture, at, interface), os.fspath(capture))


#: Columns of :attr:`Between.flows` and :attr:`Between.losses`.
_CROSSINGS = pa.schema(
    [("from", pa.string()), ("to", pa.string()), ("near", pa.uint64())]
    + [(name, pa.uint64()) for name in ("packets", "unseen", "reordered", "corruption", "congestion", "unknown")]
    + [("longest_queue_ms", pa.float64()), ("bottleneck_bps", pa.float64())]
)
_LOST = pa.schema(
    [("from", pa.string()), ("to", pa.string())]
    + [(name, pa.uint64()) for name in ("packet", "seq", "bytes", "transmission")]
    + [("time_s", pa.float64()), ("cause", pa.string())]
    + [(name, pa.float64()) for name in ("confidence", "queue_ms", "full_ms", "air")]
)


class Between:
    """What two captures of the same connections say together (docs/models/diagnose.md)."""

    def __init__(self, report: dict[str, Any]) -> None:
        """Not for users: call :func:`diagnose_between`."""
        self._report = report

    @property
    def report(self) -> dict[str, Any]:
        """What ``lasthop diagnose --between --json`` prints."""
        return self._report

    @cached_property
    def flows(self) -> pa.Table:
        """A row a direction that is in both captures: ``from``, ``to``, ``near``, the capture nearer to the sender (1 or 2), the ``packets`` with
        data that passed there, those lost between the two places by cause, the longest queue and the bottleneck's rate between them."""
        return pa.Table.from_pylist(self._report["between"]["flows"], schema=_CROSSINGS)

    @cached_property
    def losses(self) -> pa.Table:
        """A row a packet that was lost between the two places: ``from``, ``to``, the ``packet`` by its number in the capture nearer to the sender,
        ``time_s``, ``cause`` (``corruption``, ``congestion``, ``unknown``), ``confidence`` from 0.5 to 1, and what the verdict rests on."""
        flows = self._report["between"]["flows"]
        rows = [{**loss, "from": flow["from"], "to": flow["to"]} for flow in flows for loss in flow["losses"]]
        return pa.Table.from_pylist(rows, schema=_LOST)

    def __repr__(self) -> str:
        one, other = self._report["files"]
        return f"<lasthop.Between of {one} and {other}: {len(self.flows)} directions>"


def diagnose_between(one: PathLike, other: PathLike) -> Between:
    """Matches the packets of two captures of the same connections, taken at two places, and says of each that was lost between them why:
    what ``lasthop diagnose --between`` does. Which place is nearer to a sender shows in the captures.

    Args:
        one: a pcap or pcapng file.
        other: another.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is no capture, or no packet with data is in both.
    """
    return Between(json.loads(_lasthop.diagnose_between(one, other)))


class Fit:
    """The models that a link's losses follow (docs/models/fit.md), and the link."""

    def __init__(self, core: _lasthop.Fit) -> None:
        """Not for users: call :func:`fit`."""
        self._core = core

    @cached_property
    def models(self) -> pa.Table:
        """A row a model: ``direction`` (``down``, ``up``), ``model``, ``rank`` (the one with 1 is chosen), ``free``, how many parameters were
        fitted, ``log_likelihood``, ``aic``."""
        return table(self._core.models(), metadata(measurement=self._core.name))

    @cached_property
    def parameters(self) -> pa.Table:
        """A row a parameter of a model: ``direction``, ``model``, ``parameter`` as scenarios call it, its ``unit`` (``share``, ``seconds``,
        ``bytes``, ``packets``), ``value``, and the 95 % interval ``low`` to ``high``, null where it was not fitted."""
        return table(self._core.parameters(), metadata(measurement=self._core.name))

    @cached_property
    def beside(self) -> pa.Table:
        """The chosen model beside the data, a row a number: ``direction``, ``what`` (``runs``, ``autocorrelation``), ``at``, a length in
        packets, ``seen``, ``model``."""
        return table(self._core.beside(), metadata(measurement=self._core.name))

    @cached_property
    def over_time(self) -> pa.Table:
        """Losses over time: ``direction``, ``at``, in seconds, or in packets where times are not known, and the share ``lost`` in the span
        that begins there."""
        return table(self._core.over_time(), metadata(measurement=self._core.name))

    @cached_property
    def report(self) -> dict[str, Any]:
        """What ``lasthop fit --json`` prints."""
        report: dict[str, Any] = json.loads(self._core.json())
        return report

    @cached_property
    def scenario(self) -> Scenario:
        """The link as a scenario, for :func:`compare` and :func:`advise`.

        Raises:
            ValueError: its rate or its delay is neither measured nor given.
        """
        return Scenario.parse(self.toml, self._core.name)

    @cached_property
    def toml(self) -> str:
        """The same as a text, each value with its origin: what ``lasthop fit --out`` writes.

        Raises:
            ValueError: its rate or its delay is neither measured nor given.
        """
        return self._core.scenario()

    @property
    def words(self) -> str:
        """The link in a line: rate, delay, queue, and what it loses."""
        return self._core.words

    @cached_property
    def statement(self) -> pa.Table:
        """What the scenario does of the measurement, a row an aspect: ``direction``, ``aspect`` (``rate``, ``delay``, ``order``,
        ``duplication``, ``loss``), ``verdict`` (``fits``, ``does-not-fit``, ``unknown``), and ``why``."""
        names = ("direction", "aspect", "verdict", "why")
        rows = [dict(zip(names, row, strict=True)) for row in self._core.statements]
        return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))

    @property
    def remark(self) -> str | None:
        """What to mind: what of a larger measurement was taken, or that its rate is a lower bound."""
        return self._core.remark

    def __str__(self) -> str:
        lines = [f"{self._core.name}: {self.words}"]
        for direction, said in self._core.verdicts:
            lines += [f"{direction}: {said[0]}", *said[1:]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html.fit(self)

    def __repr__(self) -> str:
        return f"<lasthop.Fit of {self._core.name}>"


def fit(
    trace: PathLike,
    up: PathLike | None = None,
    *,
    rate: str | None = None,
    delay: str | None = None,
    wire_delay: str | None = None,
    queue: str | None = None,
    interval: str | None = None,
    at: str | None = None,
) -> Fit:
    """Fits channel models to a link's losses: what ``lasthop fit`` does.

    Args:
        trace: losses on the way to the client: 0 (arrives) and 1 (lost), a CSV with the columns ``sent_s`` and ``lost``, the output of
            ping (best ``ping -D -O``) or fping, the JSON of irtt or of ``iperf3 -u``, a packet capture, or the folder (or its
            ``probe.json``) that ``lasthop probe --out`` wrote.
        up: losses on the way from the client.
        rate: the link's rate, as ``"10 Mbps"``; a probe has measured it, a capture may have.
        delay: its delay one way, as ``"20 ms"``; as ``rate``.
        wire_delay: the delay one way of the path behind the base station; 20 ms where nothing tells.
        queue: the queue before the link, as ``"100 packets"``.
        interval: the time between packets, as ``"1 s"``, where a list of losses or the output of ping has no times.
        at: where a capture was taken, seen from the sender of the data: ``sender``, ``gateway``, ``receiver``; found unless given.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is no measurement, or a value is wrong.
    """
    given = {"rate": rate, "delay": delay, "wire-delay": wire_delay, "queue": queue, "interval": interval, "at": at}
    return Fit(_lasthop.Fit(trace, up, _given(given)))


def _given(values: dict[str, str | None]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in values.items() if value is not None]


@dataclass(frozen=True)
class TunnelEnd:
    """An end of the two-ended link, for :meth:`Advice.files`.

    Attributes:
        public_key: its public key in base64, which ``lasthop tunnel keygen FILE`` prints there.
        host: where the other end reaches it, with the port if it is not 51900. One of the ends is enough.
        key_file: the file of its private key, there.
        behind: the networks behind it, whose packets take the tunnel, as ``10.20.0.0/16``.
    """

    public_key: str
    host: str | None = None
    key_file: str = "/etc/lasthop/tunnel.key"
    behind: tuple[str, ...] = ()


class Advice:
    """Which cures help on a link, and how much (docs/advise.md).

    Attributes:
        scenario, seed: what was simulated.
        fit: the models, where a measurement was given.
    """

    def __init__(self, core: _lasthop.Advice, scenario: Scenario, seed: int, fit: Fit | None) -> None:
        """Not for users: call :func:`advise`."""
        self._core = core
        self.scenario = scenario
        self.seed = seed
        self.fit = fit

    @cached_property
    def table(self) -> pa.Table:
        """A row a cure and use: ``cure``, ``needs``, ``use``, ``unit``, ``value``, the mean of the runs, with half of its 95 % interval
        (``ci95``), and ``ratio``, how many times what there is without a cure, with its interval ``ratio_low`` to ``ratio_high``."""
        about = metadata(
            scenario=self.scenario.title, file=self.scenario.file, seed=self.seed, toml=self.scenario.to_toml()
        )
        return table(self._core.columns(), about)

    @cached_property
    def report(self) -> dict[str, Any]:
        """What ``lasthop advise --json`` prints: for each of ``cures`` also ``gain``, ``helps``, ``harms``, what it ``does``, what ``happened``."""
        report: dict[str, Any] = json.loads(self._core.json())
        return report

    @property
    def winner(self) -> str | None:
        """The cure to have; ``None`` where none helps."""
        winner: str | None = self.report["advice"]
        return winner

    @property
    def best_with(self) -> dict[str, str | None]:
        """The same for whoever can change less: by ``sender``, ``box``, ``boxes``."""
        best: dict[str, str | None] = self.report["best_with"]
        return best

    @property
    def promise(self) -> dict[str, Any]:
        """What is promised: as JSON in a file, ``lasthop gateway report --promise`` sets it beside what the gateway measures."""
        promise: dict[str, Any] = self.report["promise"]
        return promise

    def files(
        self,
        cure: str | None = None,
        *,
        interface: str | None = None,
        near: TunnelEnd | None = None,
        far: TunnelEnd | None = None,
    ) -> dict[str, str]:
        """The texts of the files that a cure takes, by their names, and of its promise: what ``lasthop advise --out FOLDER/`` writes, but for
        private keys, which are made where they stay.

        Args:
            cure: its name; the winner unless given.
            interface: the gateway's interface towards the hop, as ``"wlan0"``, where the cure is a box.
            near, far: the ends of the two-ended link, in front of the hop and behind it, where the cure is one.

        Raises:
            ValueError: nothing helps, or something is missing or wrong.
        """
        files, _ = self._installed(cure, interface, near, far)
        name = files[0][0].rpartition(".")[0]
        promise = json.dumps(self.promise, indent=2, ensure_ascii=False) + "\n"
        return {**dict(files), f"{name}.promise.json": promise}

    def _installed(
        self, cure: str | None, interface: str | None, near: TunnelEnd | None, far: TunnelEnd | None
    ) -> tuple[list[tuple[str, str]], list[str]]:
        cure = cure or self.winner
        if cure is None:
            raise ValueError("no cure helps on this link: there is nothing to install")
        ends = [end or TunnelEnd("") for end in (near, far)]
        given = [(end.host, end.key_file, end.public_key, list(end.behind)) for end in ends]
        return self._core.files(cure, interface, given[0], given[1])

    def __str__(self) -> str:
        return "\n".join([self.scenario.title, *self._core.words])

    def _repr_html_(self) -> str:
        return _html.advice(self)

    def __repr__(self) -> str:
        return f"<lasthop.Advice for {self.scenario.title}: {self.winner or 'leave it as it is'}>"


def advise(
    source: ScenarioLike | Fit,
    *,
    control: str | Iterable[str] | None = None,
    uses: str | Iterable[str] | None = None,
    rate: str | None = None,
    delay: str | None = None,
    wire_delay: str | None = None,
    queue: str | None = None,
    interval: str | None = None,
    at: str | None = None,
    runs: int = 10,
    seed: int | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Simulates the cures that one can have on a link, and says which one helps: what ``lasthop advise`` does.

    Args:
        source: a measurement, as :func:`fit` takes it (a CSV, a capture, a probe's folder or report) or has fitted it, or a scenario: one,
            the path of a file, or the name of a ready-made one.
        control: what can be changed: ``sender``, ``box``, ``boxes``; all of them unless given.
        uses: what the link is for: ``bulk``, ``pages``, ``call``; all of them unless given.
        rate, delay, wire_delay, queue, interval, at: of a measurement, as :func:`fit` takes them.
        runs: runs of each cure and use.
        seed: the scenario's unless given.
        jobs: threads; one per core unless given.
        progress: called now and then with the numbers of runs done and to do; what it raises ends the runs.

    Raises:
        OSError: a file cannot be read.
        ScenarioError: the scenario is wrong, or lacks the base station.
        ValueError: the measurement is none or says too little, or a value is wrong.
    """
    known = {"rate": rate, "delay": delay, "wire-delay": wire_delay, "queue": queue, "interval": interval, "at": at}
    given = _given(known)
    fitted: Fit | None = None
    if isinstance(source, Fit):
        fitted = source
    elif not isinstance(source, Scenario) and _lasthop.is_measurement(source):
        fitted = Fit(_lasthop.Fit(source, None, given))
        given = []
    if given:
        name = given[0][0].replace("-", "_")
        what = "what was fitted has its own" if fitted else "a scenario has its own"
        raise ValueError(f"{name}: {what}; give it with a measurement only")
    scenario = fitted.scenario if fitted else Scenario.open(source)  # type: ignore[arg-type]
    runs = count("runs", runs, 10, RUNS)
    seed = count("seed", seed, scenario.seed, SEEDS)
    jobs = count("jobs", jobs, 0, JOBS)
    names = [_names(control, ("sender", "box", "boxes")), _names(uses, ("bulk", "pages", "call"))]
    core = _lasthop.Advice(scenario._core, names[0], names[1], seed, runs, jobs, progress)
    return Advice(core, scenario, seed, fitted)


def _names(given: str | Iterable[str] | None, default: tuple[str, ...]) -> list[str]:
    if given is None:
        return list(default)
    return [given] if isinstance(given, str) else list(given)
