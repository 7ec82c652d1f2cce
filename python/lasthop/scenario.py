"""Scenarios and schemes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Union

from . import _lasthop
from ._errors import ScenarioError

#: What stands for a scenario: one, or as for the command the path of a file or the name of a ready-made one.
ScenarioLike = Union["Scenario", str, os.PathLike[str]]

#: What stands for a scheme: its name, or what :func:`schemes` has.
SchemeLike = Union["Scheme", str]


class Scheme(NamedTuple):
    """A scheme.

    Attributes:
        name: the name that selects it, as ``LL-TCP-AWARE``.
        family: ``end-to-end``, ``link-layer``, ``split-connection``, ``multiple-layers``, ``today``,
            ``two-ended`` or ``discussed``.
        summary: one line on what it does.
    """

    name: str
    family: str
    summary: str


def schemes() -> list[Scheme]:
    """All schemes: those of the studies in their order, then today's."""
    return [Scheme(*scheme) for scheme in _lasthop.schemes()]


def builtin_names() -> list[str]:
    """The names of the ready-made scenarios, for :meth:`Scenario.builtin`."""
    return _lasthop.builtin_names()


class Scenario:
    """Who talks to whom over which links, with which TCP (docs/scenarios.md). It never changes: :meth:`set` makes another one.

    Two scenarios are equal when they say the same, whatever file and words they say it in.
    """

    __slots__ = ("_core",)

    def __init__(self, core: _lasthop.Scenario) -> None:
        """Not for users: call :meth:`load`, :meth:`builtin` or :meth:`parse`."""
        self._core = core

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads a scenario file.

        Raises:
            ScenarioError: it cannot be read, or something in it is wrong.
        """
        return cls(_lasthop.Scenario.load(path))

    @classmethod
    def builtin(cls, name: str) -> Scenario:
        """The ready-made scenario of that name.

        Raises:
            ScenarioError: there is none.
        """
        return cls(_lasthop.Scenario.builtin(name))

    @classmethod
    def parse(cls, text: str, name: str = "scenario") -> Scenario:
        """Reads a scenario from its text, which messages call ``name``. Paths in it are relative to the current folder.

        Raises:
            ScenarioError: something in it is wrong.
        """
        return cls(_lasthop.Scenario.parse(text, name))

    @classmethod
    def open(cls, scenario: ScenarioLike) -> Scenario:
        """What a user means: a scenario; a file if there is one or if it looks like one; otherwise a ready-made one.

        Raises:
            ScenarioError: there is none, or something in it is wrong.
        """
        if isinstance(scenario, Scenario):
            return scenario
        if isinstance(scenario, str):
            return cls(_lasthop.Scenario.open(scenario))
        return cls.load(scenario)

    def set(self, values: Mapping[str, object] | None = None, /, **more: object) -> Scenario:
        """The same scenario with other values; this one stays as it is.

        Args:
            values: by dotted key, as ``{"links.wireless.delay": "30 ms", "tcp.mss": 1000}``. Texts mean what they mean to
                ``lasthop run --set``; a mapping is a table: ``{"links.wireless.errors": {"model": "none"}}``.
            more: the same for keys at the top, as ``limit="60 s"``.

        Raises:
            ScenarioError: a key or value is wrong.
        """
        pairs = [(key, value_text(value)) for key, value in {**(values or {}), **more}.items()]
        return Scenario(self._core.with_overrides(pairs))

    def to_toml(self) -> str:
        """This scenario as TOML, with every default: a scenario file."""
        return self._core.to_toml()

    def explain(self, scheme: SchemeLike | None = None) -> str:
        """As :meth:`to_toml`, with a remark behind each value on where it comes from.

        Args:
            scheme: with one, the endpoints are those that run under it, and the first lines say what it decides.

        Raises:
            ScenarioError: the scenario lacks the base station that the scheme needs.
            ValueError: there is no such scheme.
        """
        return self._core.explain(None if scheme is None else scheme_name(scheme))

    def usual_schemes(self) -> list[str]:
        """The schemes that are compared where none are asked for: those of the studies, or of today where the endpoints are."""
        return self._core.usual_schemes()

    @property
    def title(self) -> str:
        """One line that says what it is."""
        return self._core.title

    @property
    def description(self) -> str | None:
        """What else there is to say about it."""
        return self._core.description

    @property
    def file(self) -> str:
        """The file, the name of a ready-made scenario, or the name given to :meth:`parse`."""
        return self._core.file

    @property
    def scheme(self) -> str:
        """The scheme that runs where none is asked for."""
        return self._core.scheme

    @property
    def runs(self) -> int:
        """How many runs there are where no number is asked for."""
        return self._core.runs

    @property
    def seed(self) -> int:
        """The root seed where none is asked for."""
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
    """A value as ``lasthop run --set`` takes it: texts as they are, everything else as TOML.

    Raises:
        TypeError: TOML has no such value.
    """
    return value if isinstance(value, str) else _toml(value)


def _toml(value: object) -> str:
    # NumPy's numbers.
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
    raise TypeError(f"{value!r} cannot be a value of a scenario; give a text, a number, a bool, a list or a mapping")


def scheme_name(scheme: SchemeLike) -> str:
    """The name of a scheme."""
    return scheme.name if isinstance(scheme, Scheme) else scheme


def scheme_names(given: Iterable[SchemeLike] | SchemeLike | None, default: list[str]) -> list[str]:
    """The names of schemes; ``default`` where none are given."""
    if given is None:
        return default
    if isinstance(given, (str, Scheme)):
        return [scheme_name(given)]
    names = [scheme_name(scheme) for scheme in given]
    if not names:
        raise ValueError("schemes: none given; give names, or leave it out")
    return names


def count(name: str, value: int | None, default: int, bounds: tuple[int, int]) -> int:
    """A whole number within bounds; ``default`` where none is given."""
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
