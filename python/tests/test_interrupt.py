"""Ctrl-C, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

# One run takes many times as long as the test waits: the interrupt must reach it in the middle.
ONE_LONG_RUN = """
big = lasthop.Scenario.builtin("wavelan-lan").set({"flows.bulk.size": "1024 GiB", "limit": "100000 h"})
long = "long.txt"
with open(long, "w") as file:
    file.write("0001011000" * 200_000)
"""

CALLS = {
    "run": "lasthop.run(big)",
    "compare": 'lasthop.compare(big, ["E2E", "LL"])',
    "sweep": 'lasthop.sweep(big, {"tcp.mss": [500, 1000]}, out="rows")',
    "trace": "lasthop.trace(big)",
    "advise": 'lasthop.advise("farm-radio", runs=100_000)',
    # Fitting hidden states to a million packets takes minutes.
    "fit": "lasthop.fit(long)",
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_run_in_the_middle(call: str) -> None:
    program = f"""
import signal
import lasthop
# Python leaves SIGINT alone where it was ignored, as in jobs that a shell runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
{ONE_LONG_RUN}
print("ready", flush=True)
try:
    {CALLS[call]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        assert process.poll() is None
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        # A process that ignores the signal must not block the test.
        patience = threading.Timer(30, process.kill)
        patience.start()
        try:
            assert process.stdout.readline() == "interrupted\n"
            # Usually a fraction of a second, but this machine may be busy.
            assert time.monotonic() - pressed < 5
            assert process.wait(timeout=10) == 0
        finally:
            patience.cancel()
            process.kill()
