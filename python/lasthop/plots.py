"""Plots with matplotlib. Colours are those of Okabe and Ito, which are distinguishable with colour vision deficiency."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from ._types import Points
    from .runs import Comparison
    from .sweeps import SweepResult

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
_AGAIN = "#D55E00"
_RETRANSMITTED = ", retransmitted"
_MARKERS = "osD^vP"
#: Ratio of values beyond which an axis is logarithmic.
_WIDE = 20


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'lasthop[plot]'") from error
    made: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return made


def _places(ax: Axes, names: Iterable[str]) -> dict[str, int]:
    """Returns the index of each name among all names in these axes, and in other plots of the same run, so that a name
    has one colour in all of them."""
    known: list[str] = getattr(ax, "_lasthop_names", [])
    known.extend(name for name in dict.fromkeys(names) if name not in known)
    ax._lasthop_names = known  # type: ignore[attr-defined]
    return {name: place for place, name in enumerate(known)}


def sequence(series: list[tuple[str, Points, Points]], title: str, ax: Axes | None, names: Iterable[str] = ()) -> Axes:
    """Draws a dot for each packet, and a cross for each retransmission. ``names`` are those of all series of the run,
    in the order of their colours."""
    ax = _axes(ax, (8.0, 4.5))
    places = _places(ax, [*names, *(name for name, *_ in series)])
    for name, sent, again in series:
        number = places[name]
        colour = _COLOURS[number % len(_COLOURS)]
        # A base station may only retransmit packets of others.
        if len(sent[0]) > 0:
            ax.plot(*sent, ".", markersize=2.5, color=colour, label=name, rasterized=len(sent[0]) > 5000)
        if len(again[0]) > 0:
            # The first series' crosses stand out; others keep their colour, so that they can be attributed.
            crosses = _AGAIN if number == 0 else colour
            ax.plot(*again, "x", markersize=5, markeredgewidth=1.2, color=crosses, label=name + _RETRANSMITTED, zorder=3)
    return _finish(ax, title, "sequence number (KB)")


def window(series: list[tuple[str, Points]], title: str, ax: Axes | None, names: Iterable[str] = ()) -> Axes:
    """Draws a step for each change. ``names`` are those of all series of the run, in the order of their colours."""
    ax = _axes(ax, (8.0, 4.5))
    places = _places(ax, [*names, *(name for name, _ in series)])
    for name, points in series:
        colour = _COLOURS[places[name] % len(_COLOURS)]
        ax.step(*points, where="post", linewidth=1.2, color=colour, label=name)
    return _finish(ax, title, "congestion window (KB)")


def _finish(ax: Axes, title: str, y_label: str) -> Axes:
    ax.set(xlabel="time (s)", ylabel=y_label, title=title)
    # Setting one limit fixes the other, as an earlier call may have: rescale for the new series.
    ax.autoscale()
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)
    ax.legend(markerscale=1.5, fontsize="small")
    return ax


def comparison(result: Comparison, measure: str, ax: Axes | None) -> Axes:
    """Draws a bar per scheme, in the given order, from the top."""
    known = {name for measures in result.measures.values() for name in measures}
    if measure not in known:
        raise ValueError(f"no measure {measure!r}; expected one of {', '.join(sorted(known))}")
    names = [name for name in result.schemes if measure in result[name]]
    estimates = [result[name][measure] for name in names]
    ax = _axes(ax, (7.0, 1.2 + 0.3 * len(names)))
    ax.barh(
        range(len(names)),
        [estimate.mean for estimate in estimates],
        xerr=[estimate.ci95 or 0.0 for estimate in estimates],
        color=_COLOURS[0],
        error_kw={"capsize": 3, "elinewidth": 1},
    )
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set(xlabel=f"{measure.replace('_', ' ')} ({estimates[0].unit})", title=result.scenario.title)
    ax.set_xlim(left=0)
    ax.grid(axis="x", alpha=0.3)
    return ax


def sweep(result: SweepResult, measure: str, x: str | None, ax: Axes | None) -> Axes:
    """Draws a line for each scheme and combination of varied keys besides ``x``."""
    from .sweeps import number_columns

    vary = result.grid.vary
    if not vary:
        raise ValueError("nothing is varied; use plot_comparison() with compare()")
    units = dict(result.grid._core.measures)
    if measure not in units:
        raise ValueError(f"no measure {measure!r}; expected one of {', '.join(sorted(units))}")
    numbers = {key: number_columns(key, values) for key, values in vary.items()}
    # Columns that distinguish all values.
    axes = {
        key: [name for name, (column, _) in columns.items() if len(column.drop_null().unique()) == len(set(vary[key]))]
        for key, columns in numbers.items()
    }
    if x is None:
        x = next((key for key in vary if axes[key] and len(vary[key]) > 1), next(iter(vary)))
    key = next((key for key in vary if x == key or x in numbers[key]), None)
    if key is None:
        columns = [name for key in vary for name in dict.fromkeys([key, *numbers[key]])]
        raise ValueError(f"no varied key {x!r}; expected one of {', '.join(columns)}")
    column = x if x in numbers[key] else next(iter(axes[key]), None)

    lines: dict[str, list[tuple[float, float, float]]] = {}
    places = {value: float(place) for place, value in enumerate(dict.fromkeys(vary[key]))}
    others = _short([other for other in vary if other != key and len(vary[other]) > 1])
    several = len(set(result.grid.schemes)) > 1
    for row in result.table.to_pylist():
        label = ", ".join(
            ([row["scheme"]] if several or not others else []) + [f"{name} {row[other]}" for other, name in others.items()]
        )
        at = places[row[key]] if column is None else row[column]
        if at is not None and row[measure] is not None:
            lines.setdefault(label, []).append((at, row[measure], row[f"{measure}_ci95"] or 0.0))

    ax = _axes(ax, (7.0, 4.5))
    for number, (label, points) in enumerate(lines.items()):
        values, means, intervals = zip(*sorted(points), strict=True)
        colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number // len(_COLOURS) % len(_MARKERS)]
        ax.errorbar(values, means, yerr=intervals, capsize=3, markersize=5, label=label, color=colour, marker=marker)
    ax.set(ylabel=f"{measure.replace('_', ' ')} ({units[measure]})", title=result.grid.scenario.title)
    drawn = sorted({point[0] for points in lines.values() for point in points})
    if column is None:
        ax.set_xticks(list(places.values()), list(places))
        ax.set_xlabel(key)
    else:
        unit = numbers[key][column][1]
        ax.set_xlabel(f"{column.removesuffix(f'_{unit}')} ({unit})" if unit else column)
        if drawn and 0 < drawn[0] * _WIDE < drawn[-1]:
            ax.set_xscale("log")
        if len(drawn) <= 10:
            ax.set_xticks(drawn, [f"{value:g}" for value in drawn])
            ax.set_xticks([], minor=True)
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)
    if lines:
        ax.legend(fontsize="small")
    return ax


def _short(keys: list[str]) -> dict[str, str]:
    """Returns the last part of each dotted key if it is unique."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True)}
