"""Figures, drawn like those of the commands, as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import _lasthop

if TYPE_CHECKING:
    from .runs import Comparison
    from .sweeps import SweepResult

#: Ratio of values beyond which an axis is logarithmic.
_WIDE = 20


class Figure(NamedTuple):
    """Figure, which notebooks display.

    Attributes:
        id: name, as ``figure-13``.
        caption: text below the figure, or its title.
        svg: image.
    """

    id: str
    caption: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<lasthop.Figure {self.id}: {self.caption}>"


def comparison(result: Comparison, measure: str) -> Figure:
    """Draws a bar per scheme, in the given order, from the top."""
    known = {name for measures in result.measures.values() for name in measures}
    if measure not in known:
        raise ValueError(f"no measure {measure!r}; expected one of {', '.join(sorted(known))}")
    names = [name for name in result.schemes if measure in result[name]]
    estimates = [result[name][measure] for name in names]
    label = f"{measure.replace('_', ' ')} ({estimates[0].unit})"
    bars = [(estimate.mean, estimate.ci95) for estimate in estimates]
    title = result.scenario.title
    return Figure(measure, title, _lasthop.bars_svg(title, label, names, [("", bars)]))


def sweep(result: SweepResult, measure: str, x: str | None) -> Figure:
    """Draws a line for each scheme and combination of varied keys besides ``x``, or bars if its values are not numbers."""
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

    title, y_label = result.grid.scenario.title, f"{measure.replace('_', ' ')} ({units[measure]})"
    others = _short([other for other in vary if other != key and len(vary[other]) > 1])
    several = len(set(result.grid.schemes)) > 1
    lines: dict[str, dict[float | str, tuple[float, float | None]]] = {}
    for row in result.table.to_pylist():
        label = ", ".join(
            ([row["scheme"]] if several or not others else []) + [f"{name} {row[other]}" for other, name in others.items()]
        )
        at = row[key] if column is None else row[column]
        if at is not None and row[measure] is not None:
            lines.setdefault(label, {})[at] = (row[measure], row[f"{measure}_ci95"])

    if column is None:
        groups = list(dict.fromkeys(vary[key]))
        bars = [(label, [line.get(group) for group in groups]) for label, line in lines.items()]
        return Figure(measure, title, _lasthop.bars_svg(title, y_label, groups, bars))
    unit = numbers[key][column][1]
    x_label = f"{column.removesuffix(f'_{unit}')} ({unit})" if unit else column
    drawn = sorted({float(at) for line in lines.values() for at in line})
    is_log = bool(drawn) and 0 < drawn[0] * _WIDE < drawn[-1]
    points = [(label, sorted((float(at), value) for at, value in line.items())) for label, line in lines.items()]
    return Figure(measure, title, _lasthop.lines_svg(title, x_label, y_label, is_log, points))


def _short(keys: list[str]) -> dict[str, str]:
    """Returns the last part of each dotted key if it is unique."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True)}
