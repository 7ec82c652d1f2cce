"""The effects of a lossy last hop on TCP, and their cures.

>>> import lasthop
>>> farm = lasthop.Scenario.builtin("wavelan-lan").set({"links.wireless.delay": "30 ms"})
>>> result = lasthop.compare(farm, ["E2E", "LL-TCP-AWARE"], runs=10)
>>> result["LL-TCP-AWARE"]["throughput"].mean > result["E2E"]["throughput"].mean
True

The same scenario, scheme, seed and number of runs give the same numbers as the command ``lasthop``, with any number of
threads, processes and machines.
"""

from ._errors import ScenarioError, SweepError
from ._lasthop import __build__, __version__
from .links import Advice, Between, Diagnosis, Fit, TunnelEnd, advise, diagnose, diagnose_between, fit
from .plots import Figure
from .runs import Comparison, Estimate, RunResult, Trace, compare, run, trace
from .scenario import Scenario, Scheme, builtin_names, schemes
from .studies import Claim, Study, reproduce
from .sweeps import Grid, SweepResult, sweep

__all__ = [
    "Advice",
    "Between",
    "Claim",
    "Comparison",
    "Diagnosis",
    "Estimate",
    "Figure",
    "Fit",
    "Grid",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "Scheme",
    "Study",
    "SweepError",
    "SweepResult",
    "Trace",
    "TunnelEnd",
    "__build__",
    "__version__",
    "advise",
    "builtin_names",
    "compare",
    "diagnose",
    "diagnose_between",
    "fit",
    "reproduce",
    "run",
    "schemes",
    "sweep",
    "trace",
]
