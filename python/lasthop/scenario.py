"""Scenarios and schemes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Union

from . import _lasthop
from ._errors import ScenarioError

#: Scenario object or, as for the command, the path of a file or the name of a ready-made one.
ScenarioLike = Union["Scenario", str, os.PathLike[str]]

#: Name of a scheme, or an element of :func:`schemes`.
SchemeLike = Union["Scheme", str]


class Scheme(NamedTuple):
    """Scheme.

    Attributes:
        name: name that selects it, as ``LL-TCP-AWARE``.
        family: ``end-to-end``, ``link-layer``, ``split-connection``, ``multiple-layers``, ``today``,
            ``two-ended`` or ``discussed``.
        summary: description of one line.
    """

    name: str
    family: str
    summary: str


def schemes() -> list[Scheme]:
    """Returns all schemes: those of the studies in their order, then those with modern endpoints."""
    return [Scheme(*scheme) for scheme in _lasthop.schemes()]


def builtin_names() -> list[str]:
    """Returns the names of the ready-made scenarios, for :meth:`Scenario.builtin`."""
    return _lasthop.builtin_names()


class Scenario:
    """Immutable scenario: hosts, links, flows and their TCP (docs/scenarios.md). :meth:`set` returns a modified one.

    Two scenarios are equal if they have the same meaning, whatever their files and wording.
    """

    __slots__ = ("_core",)

    def __init__(self, core: _lasthop.Scenario) -> None:
        """Internal; use :meth:`load`, :meth:`builtin` or :meth:`parse`."""
        self._core = core

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads a scenario file.

        Raises:
            ScenarioError: the file cannot be read, or is invalid.
        """
        return cls(_lasthop.Scenario.load(path))

    @classmethod
    def builtin(cls, name: str) -> Scenario:
        """Returns the ready-made scenario with this name.

        Raises:
            ScenarioError: there is no such scenario.
        """
        return cls(_lasthop.Scenario.builtin(name))

    @classmethod
    def parse(cls, text: str, name: str = "scenario") -> Scenario:
        """Parses a scenario from its text, which messages call ``name``. Paths in it are relative to the current
        folder.

        Raises:
            ScenarioError: the text is invalid.
        """
        return cls(_lasthop.Scenario.parse(text, name))

    @classmethod
    def open(cls, scenario: ScenarioLike) -> Scenario:
        """Returns a scenario object as it is; otherwise opens a file if there is one or if the name looks like one, or
        else a ready-made scenario.

        Raises:
            ScenarioError: there is no such scenario, or it is invalid.
        """
        if isinstance(scenario, Scenario):
            return scenario
        if isinstance(scenario, str):
            return cls(_lasthop.Scenario.open(scenario))
        return cls.load(scenario)

    def set(self, values: Mapping[str, object] | None = None, /, **more: object) -> Scenario:
        """Returns the scenario with other values; this one does not change.

        Args:
            values: values by dotted key, as ``{"links.wireless.delay": "30 ms", "tcp.mss": 1000}``. Texts are parsed as
                by ``lasthop run --set``; a mapping is a table: ``{"links.wireless.errors": {"model": "none"}}``.
            more: values of top-level keys, as ``limit="60 s"``.

        Raises:
            ScenarioError: a key or value is invalid.
        """
        pairs = [(key, value_text(value)) for key, value in {**(values or {}), **more}.items()]
        return Scenario(self._core.with_overrides(pairs))

    def to_toml(self) -> str:
        """Returns the scenario as TOML with every default, which is a scenario file."""
        return self._core.to_toml()

    def explain(self, scheme: SchemeLike | None = None) -> str:
        """Returns the text of :meth:`to_toml` with a comment on the origin of each value.

        Args:
            scheme: scheme whose endpoints are shown; the first lines then describe what it determines.

        Raises:
            ScenarioError: the scenario lacks the base station that the scheme needs.
            ValueError: there is no such scheme.
        """
        return self._core.explain(None if scheme is None else scheme_name(scheme))

    def usual_schemes(self) -> list[str]:
        """Returns the schemes that are compared by default, which depend on whether the endpoints are modern."""
        return self._core.usual_schemes()

    @property
    def title(self) -> str:
        """Title, a line."""
        return self._core.title

    @property
    def description(self) -> str | None:
        """Description."""
        return self._core.description

    @property
    def file(self) -> str:
        """Path of the file, name of a ready-made scenario, or name given to :meth:`parse`."""
        return self._core.file

    @property
    def scheme(self) -> str:
        """Default scheme."""
        return self._core.scheme

    @property
    def runs(self) -> int:
        """Default number of runs."""
        return self._core.runs

    @property
    def seed(self) -> int:
        """Default root seed."""
        return self._core.seed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self._core == other._core

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __repr__(self) -> str:
        return f"<lasthop.Scenario {self.file}: {self.title}>"

    def __reduce__(self) -> tuple[type[Scenario], tuple[_lasthop.Scenario]]:
        return Scenario, (self._core,)


def value_text(value: object) -> str:
    """Returns a value as ``lasthop run --set`` takes it: texts unchanged, everything else as TOML.

    Raises:
        TypeError: TOML has no such value.
    """
    return value if isinstance(value, str) else _toml(value)


def _toml(value: object) -> str:
    # Scalars of NumPy.
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        value = value.item()
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{ " + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(_toml(item) for item in value) + "]"
    raise TypeError(f"{value!r} cannot be a value of a scenario; give a string, a number, a bool, a list or a mapping")


def scheme_name(scheme: SchemeLike) -> str:
    """Returns the name of a scheme."""
    return scheme.name if isinstance(scheme, Scheme) else scheme


def scheme_names(given: Iterable[SchemeLike] | SchemeLike | None, default: list[str]) -> list[str]:
    """Returns the names of schemes; ``default`` if none are given."""
    if given is None:
        return default
    if isinstance(given, (str, Scheme)):
        return [scheme_name(given)]
    names = [scheme_name(scheme) for scheme in given]
    if not names:
        raise ValueError("schemes: none given; give names, or omit it")
    return names


def count(name: str, value: int | None, default: int, bounds: tuple[int, int]) -> int:
    """Returns a whole number within bounds; ``default`` if none is given."""
    if value is None:
        return default
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: cannot be {value!r}; give a whole number")
    value = value.__index__()
    if not bounds[0] <= value <= bounds[1]:
        raise ValueError(f"{name}: cannot be {value}; give {bounds[0]} to {bounds[1]}")
    return value


RUNS = (1, 2**32 - 1)
SEEDS = (0, 2**64 - 1)
JOBS = (0, 1024)

__all__ = ["Scenario", "ScenarioError", "Scheme", "builtin_names", "schemes"]
