"""From a measurement to a cure: diagnosis of captures, models of losses, and advice."""

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

#: Path of a file.
PathLike = str | os.PathLike[str]


class Diagnosis:
    """Diagnosis of the flows in a packet capture (docs/models/diagnose.md)."""

    def __init__(self, core: _lasthop.Diagnosis, name: str) -> None:
        """Internal; use :func:`diagnose`."""
        self._core = core
        self._name = name

    @cached_property
    def flows(self) -> pa.Table:
        """Table with a row per direction that carries data.

        Columns: ``flow``, ``from``, ``to``, ``vantage``, volume, round-trip times, longest queue; ``limit``, the limit
        for most of the time, and the share of the time of each limit (``limit_bottleneck``, from 0 to 1); ``lost``, the
        number of packets lost, and of these ``corruption``, ``congestion`` and ``unknown`` (all others, including
        ``policed`` and ``path_mtu``)."""
        return table(self._core.flows(), metadata(capture=self._name))

    @cached_property
    def losses(self) -> pa.Table:
        """Table with a row per loss, and per spurious retransmission (``needless`` has the reason).

        Columns: ``flow``, ``packet`` (its number in the capture), ``time_s``, ``cause`` (``corruption``,
        ``congestion``, ``policed``, ``path-mtu``, ``unknown``), ``confidence`` from 0.5 to 1, and the evidence."""
        return table(self._core.losses(), metadata(capture=self._name))

    @cached_property
    def report(self) -> dict[str, Any]:
        """Contents of ``captures`` in the output of ``lasthop diagnose --json``."""
        report: dict[str, Any] = json.loads(self._core.json())
        return report

    @property
    def missing(self) -> list[str]:
        """Deficiencies of the capture, each a clause."""
        return self._core.missing

    def annotate(self, path: PathLike) -> None:
        """Writes the capture as pcapng with the verdicts as comments, for Wireshark. An existing file is replaced.

        Raises:
            OSError: the file cannot be written.
            ValueError: the file is the capture itself, or the capture cannot be read any more.
        """
        self._core.annotate(path)

    def loss_trace(self, path: PathLike, *, flow: int | None = None) -> None:
        """Writes the losses to corruption, packet by packet, for :func:`fit`. An existing file is replaced.

        Args:
            path: CSV file.
            flow: number of the flow; default: the flow with most data.

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
    """Determines what limits each TCP flow of a packet capture, and why each lost packet was lost, like
    ``lasthop diagnose``.

    Args:
        capture: pcap or pcapng file.
        at: place of the capture, seen from the sender of data: ``sender``, ``receiver``, ``gateway``; default: found
            from the capture.
        interface: name of an interface in a pcapng file; only its packets are read.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a capture, has no interface of that name, or ``at`` is invalid.
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
    """Joint diagnosis of two captures of the same connections (docs/models/diagnose.md)."""

    def __init__(self, report: dict[str, Any]) -> None:
        """Internal; use :func:`diagnose_between`."""
        self._report = report

    @property
    def report(self) -> dict[str, Any]:
        """Output of ``lasthop diagnose --between --json``."""
        return self._report

    @cached_property
    def flows(self) -> pa.Table:
        """Table with a row per direction that is in both captures.

        Columns: ``from``, ``to``, ``near`` (the capture nearer to the sender, 1 or 2), ``packets`` with data that
        passed there, those lost between the two places by cause, the longest queue and the bottleneck's rate between
        them."""
        return pa.Table.from_pylist(self._report["between"]["flows"], schema=_CROSSINGS)

    @cached_property
    def losses(self) -> pa.Table:
        """Table with a row per packet that was lost between the two places.

        Columns: ``from``, ``to``, ``packet`` (its number in the capture nearer to the sender), ``time_s``, ``cause``
        (``corruption``, ``congestion``, ``unknown``), ``confidence`` from 0.5 to 1, and the evidence."""
        flows = self._report["between"]["flows"]
        rows = [{**loss, "from": flow["from"], "to": flow["to"]} for flow in flows for loss in flow["losses"]]
        return pa.Table.from_pylist(rows, schema=_LOST)

    def __repr__(self) -> str:
        one, other = self._report["files"]
        return f"<lasthop.Between of {one} and {other}: {len(self.flows)} directions>"


def diagnose_between(one: PathLike, other: PathLike) -> Between:
    """Matches the packets of two captures of the same connections, and determines why packets between the two places
    were lost, like ``lasthop diagnose --between``. The captures show which place is nearer to a sender.

    Args:
        one: pcap or pcapng file.
        other: second file.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not a capture, or no packet with data is in both.
    """
    return Between(json.loads(_lasthop.diagnose_between(one, other)))


class Fit:
    """Models fitted to a link's losses (docs/models/fit.md), and the link."""

    def __init__(self, core: _lasthop.Fit) -> None:
        """Internal; use :func:`fit`."""
        self._core = core

    @cached_property
    def models(self) -> pa.Table:
        """Table with a row per model.

        Columns: ``direction`` (``down``, ``up``), ``model``, ``rank`` (1 for the chosen one), ``free`` (number of
        fitted parameters), ``log_likelihood``, ``aic``."""
        return table(self._core.models(), metadata(measurement=self._core.name))

    @cached_property
    def parameters(self) -> pa.Table:
        """Table with a row per parameter of a model.

        Columns: ``direction``, ``model``, ``parameter`` (the scenario's key), ``unit`` (``share``, ``seconds``,
        ``bytes``, ``packets``), ``value``, and the 95 % interval ``low`` to ``high``, null if it was not fitted."""
        return table(self._core.parameters(), metadata(measurement=self._core.name))

    @cached_property
    def beside(self) -> pa.Table:
        """Table that compares the chosen model with the data, with a row per number.

        Columns: ``direction``, ``what`` (``runs``, ``autocorrelation``), ``at`` (a length in packets), ``seen``,
        ``model``."""
        return table(self._core.beside(), metadata(measurement=self._core.name))

    @cached_property
    def over_time(self) -> pa.Table:
        """Table of losses over time.

        Columns: ``direction``, ``at`` (in seconds, or in packets if times are unknown), and ``lost``, the loss from 0
        to 1 in the span that begins there."""
        return table(self._core.over_time(), metadata(measurement=self._core.name))

    @cached_property
    def report(self) -> dict[str, Any]:
        """Output of ``lasthop fit --json``."""
        report: dict[str, Any] = json.loads(self._core.json())
        return report

    @cached_property
    def scenario(self) -> Scenario:
        """Link as a scenario, for :func:`compare` and :func:`advise`.

        Raises:
            ValueError: its rate or its delay is neither measured nor given.
        """
        return Scenario.parse(self.toml, self._core.name)

    @cached_property
    def toml(self) -> str:
        """Link as the text of a scenario, each value with its origin, as ``lasthop fit --out`` writes it.

        Raises:
            ValueError: its rate or its delay is neither measured nor given.
        """
        return self._core.scenario()

    @property
    def words(self) -> str:
        """Description of the link in a line: rate, delay, queue, losses."""
        return self._core.words

    @cached_property
    def statement(self) -> pa.Table:
        """Table of what the scenario reproduces of the measurement, with a row per aspect.

        Columns: ``direction``, ``aspect`` (``rate``, ``delay``, ``order``, ``duplication``, ``loss``), ``verdict``
        (``fits``, ``does-not-fit``, ``unknown``), and ``why``."""
        names = ("direction", "aspect", "verdict", "why")
        rows = [dict(zip(names, row, strict=True)) for row in self._core.statements]
        return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))

    @property
    def remark(self) -> str | None:
        """Remark: which part of a larger measurement was used, or that its rate is a lower bound."""
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
    """Fits channel models to a link's losses, like ``lasthop fit``.

    Args:
        trace: losses of the downlink: 0 (arrives) and 1 (lost), a CSV with the columns ``sent_s`` and ``lost``, the
            output of ping (best ``ping -D -O``) or fping, the JSON of irtt or of ``iperf3 -u``, a packet capture, or
            the folder (or its ``probe.json``) that ``lasthop probe --out`` wrote.
        up: losses of the uplink.
        rate: rate of the link, as ``"10 Mbps"``; a probe has measured it, a capture may have.
        delay: one-way delay of the link, as ``"20 ms"``; a probe has measured it, a capture may have.
        wire_delay: one-way delay of the path behind the base station; default: measured, else 20 ms.
        queue: queue in front of the link, as ``"100 packets"``.
        interval: time between packets, as ``"1 s"``, if a list of losses or the output of ping has no times.
        at: place of a capture, seen from the sender of the data: ``sender``, ``gateway``, ``receiver``; default: found
            from the capture.

    Raises:
        OSError: a file cannot be read.
        ValueError: the file is not a measurement, or a value is invalid.
    """
    given = {"rate": rate, "delay": delay, "wire-delay": wire_delay, "queue": queue, "interval": interval, "at": at}
    return Fit(_lasthop.Fit(trace, up, _given(given)))


def _given(values: dict[str, str | None]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in values.items() if value is not None]


@dataclass(frozen=True)
class TunnelEnd:
    """End of the two-ended link, for :meth:`Advice.files`.

    Attributes:
        public_key: public key in base64, which ``lasthop tunnel keygen FILE`` prints there.
        host: address at which the other end reaches it, with the port if it is not 51900. Only one of the ends needs
            one.
        key_file: path of its private key on that machine.
        behind: networks behind it, whose packets take the tunnel, as ``10.20.0.0/16``.
    """

    public_key: str
    host: str | None = None
    key_file: str = "/etc/lasthop/tunnel.key"
    behind: tuple[str, ...] = ()


class Advice:
    """Cures that help on a link, with their gains (docs/advise.md).

    Attributes:
        scenario, seed: simulated scenario, and root seed.
        fit: models, if a measurement was given.
    """

    def __init__(self, core: _lasthop.Advice, scenario: Scenario, seed: int, fit: Fit | None) -> None:
        """Internal; use :func:`advise`."""
        self._core = core
        self.scenario = scenario
        self.seed = seed
        self.fit = fit

    @cached_property
    def table(self) -> pa.Table:
        """Table with a row per cure and use.

        Columns: ``cure``, ``needs``, ``use``, ``unit``, ``value`` (mean of the runs) with half of its 95 % interval
        (``ci95``), and ``ratio`` to the value without a cure, with its interval ``ratio_low`` to ``ratio_high``."""
        about = metadata(
            scenario=self.scenario.title, file=self.scenario.file, seed=self.seed, toml=self.scenario.to_toml()
        )
        return table(self._core.columns(), about)

    @cached_property
    def report(self) -> dict[str, Any]:
        """Output of ``lasthop advise --json``: each of ``cures`` also has ``gain``, ``helps``, ``harms``, ``place``,
        ``cannot``, ``does`` and ``happened``."""
        report: dict[str, Any] = json.loads(self._core.json())
        return report

    @property
    def winner(self) -> str | None:
        """Advised cure; ``None`` if none helps."""
        winner: str | None = self.report["advice"]
        return winner

    @property
    def best_with(self) -> dict[str, str | None]:
        """Best cure by what can be changed: ``sender``, ``box``, ``boxes``."""
        best: dict[str, str | None] = self.report["best_with"]
        return best

    @property
    def best_at(self) -> dict[str, str | None]:
        """Best cure of one device by its side of the hop: ``base-station``, ``customer``."""
        best: dict[str, str | None] = self.report["best_at"]
        return best

    @property
    def promise(self) -> dict[str, Any]:
        """Promised gain, as JSON for a file that ``lasthop gateway report --promise`` compares with the gateway's
        measurement."""
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
        """Returns the files of a cure and its promise by name, as ``lasthop advise --out FOLDER/`` writes them, but
        without private keys, which are generated where they stay.

        Args:
            cure: name of the cure; default: the winner.
            interface: interface of the gateway towards the hop, as ``"wlan0"``, if the cure is a gateway.
            near, far: ends of the two-ended link, in front of the hop and behind it, if the cure is one.

        Raises:
            ValueError: no cure helps, or an argument is missing or invalid.
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
        return f"<lasthop.Advice for {self.scenario.title}: {self.winner or 'no cure'}>"


def advise(
    source: ScenarioLike | Fit,
    *,
    control: str | Iterable[str] | None = None,
    place: str | None = None,
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
    """Simulates the cures for a link, and determines which one helps, like ``lasthop advise``.

    Args:
        source: measurement as for :func:`fit` (a CSV, a capture, a probe's folder or report) or its result, or a
            scenario: an object, the path of a file, or the name of a ready-made one.
        control: what can be changed: ``sender``, ``box``, ``boxes``; default: all.
        place: side of the hop on which one device may stand: ``base-station``, ``customer``, ``both``; default: the base
            station, and both if uploads are among the uses.
        uses: uses of the link: ``bulk``, ``upload``, ``pages``, ``call``; default: all but ``upload``.
        rate, delay, wire_delay, queue, interval, at: properties of a measurement, as for :func:`fit`.
        runs: number of runs of each cure and use.
        seed: root seed; default: the scenario's.
        jobs: number of threads; default: one per core.
        progress: called from time to time with the numbers of finished and total runs; an exception stops the runs.

    Raises:
        OSError: a file cannot be read.
        ScenarioError: the scenario is invalid, or lacks the base station.
        ValueError: the file is not a measurement or shows too little, or a value is invalid.
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
        what = "a fitted link has its own" if fitted else "a scenario has its own"
        raise ValueError(f"{name}: {what}; give it only with a measurement")
    scenario = fitted.scenario if fitted else Scenario.open(source)  # type: ignore[arg-type]
    runs = count("runs", runs, 10, RUNS)
    seed = count("seed", seed, scenario.seed, SEEDS)
    jobs = count("jobs", jobs, 0, JOBS)
    names = [_names(control, ("sender", "box", "boxes")), _names(uses, ("bulk", "pages", "call"))]
    core = _lasthop.Advice(scenario._core, names[0], place, names[1], seed, runs, jobs, progress)
    return Advice(core, scenario, seed, fitted)


def _names(given: str | Iterable[str] | None, default: tuple[str, ...]) -> list[str]:
    if given is None:
        return list(default)
    return [given] if isinstance(given, str) else list(given)
