"""Runs a scenario, given as text, under several schemes."""
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benches", "agreement"))
from call import call  # noqa: E402


def throughputs(lasthop, scenario, schemes, runs, command="compare"):
    """Returns the mean throughput of each scheme in Mbps, of all flows together. `command` is "compare", or "lab"
    between kernels."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(scenario)
        file.flush()
        told = json.loads(call(lasthop, command, file.name, "--schemes", ",".join(schemes), "--runs", str(runs), "--json"))
    rows = {row["scheme"]: row["measures"] for row in told["schemes"]}
    return {scheme: measures.get("total_throughput", measures["throughput"])["mean"] for scheme, measures in rows.items()}
