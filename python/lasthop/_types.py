"""Types shared by the compiled part and the modules beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from . import _lasthop

#: Array of numbers.
Floats: TypeAlias = npt.NDArray[np.float64]

#: Column: name, kind, number of values, and its buffers: validity or ``None``, then those of the kind.
Column: TypeAlias = tuple[str, str, int, list[npt.NDArray[Any] | None]]

#: Called in the waiting thread with the numbers of finished and total runs, at most about twenty times per second.
Progress: TypeAlias = Callable[[int, int], object]

#: Runs of a cell: scenario, overrides, scheme, first run, and the run after the last.
Job: TypeAlias = "tuple[_lasthop.Scenario, list[tuple[str, str]], str, int, int]"
