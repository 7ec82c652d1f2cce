"""Columns of the compiled part as Arrow tables, without copying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from . import _lasthop
from ._types import Column

_NUMBERS = {"float64": pa.float64(), "uint64": pa.uint64(), "uint32": pa.uint32()}


def metadata(**values: object) -> dict[str, str]:
    """Returns a table's metadata: ``values``, and version and build of lasthop, under keys that begin with
    ``lasthop.``."""
    known = {"version": _lasthop.__version__, "build": _lasthop.__build__, **values}
    return {f"lasthop.{name}": str(value) for name, value in known.items()}


def table(
    columns: Sequence[Column], about: Mapping[str, str], units: Mapping[str, str] | None = None
) -> pa.Table:
    """Returns a table of ``columns``; ``about`` becomes its metadata, ``units`` that of the fields with these names."""
    fields, arrays = [], []
    for name, kind, length, buffers in columns:
        array = _array(kind, length, buffers)
        unit = (units or {}).get(name.removesuffix("_ci95"))
        fields.append(pa.field(name, array.type, metadata={"unit": unit} if unit else None))
        arrays.append(array)
    return pa.table(arrays, schema=pa.schema(fields, metadata=dict(about)))


def _array(kind: str, length: int, buffers: Sequence[Any]) -> pa.Array:
    given: list[Any] = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    validity, *rest = given
    if kind == "dictionary":
        indices, offsets, text = rest
        texts = pa.Array.from_buffers(pa.string(), offsets.size // 4 - 1, [None, offsets, text])
        return pa.DictionaryArray.from_arrays(
            pa.Array.from_buffers(pa.int32(), length, [validity, indices]), texts
        )
    return pa.Array.from_buffers(_NUMBERS.get(kind, pa.string()), length, [validity, *rest])
