"""Types that the compiled part and the modules beside it share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from . import _lasthop

#: Numbers, as NumPy has them.
Floats: TypeAlias = npt.NDArray[np.float64]

#: Times in seconds, and numbers.
Points: TypeAlias = tuple[Floats, Floats]

#: A column: name, kind, number of values, and its buffers: validity or ``None``, then those of the kind.
Column: TypeAlias = tuple[str, str, int, list[npt.NDArray[Any] | None]]

#: Called with the numbers of runs done and to do, in the thread that waits, some twenty times a second at most.
Progress: TypeAlias = Callable[[int, int], object]

#: Runs of a cell: scenario, what is set in it, scheme, the first run, and the one behind the last.
Job: TypeAlias = "tuple[_lasthop.Scenario, list[tuple[str, str]], str, int, int]"
