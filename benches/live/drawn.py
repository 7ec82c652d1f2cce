"""Random links as scenarios, with their true properties."""
import concurrent.futures
import random
import threading
from dataclasses import dataclass

import common

# Loss models, by their names in scenarios and `lasthop fit`.
FAMILIES = ("uniform", "two-state-packet", "two-state")
# More than any link here carries in a run.
ENDLESS = 1 << 40
# Link in front of the hop if it is not measured.
WIRE = {"links.wire.rate": "990 Mbps"}


def seed(seed, number):
    """Returns the seed of a link's errors: links with the same seed would have the same luck. The next hundred seeds
    are free for runs."""
    return 1 + 100 * (1000 * seed + number)


def between(draw, low, high):
    """Draws a number from a log-uniform distribution."""
    return low * (high / low) ** draw.random()


def direction(draw, fastest=1e8, greatest_loss=0.1):
    """Draws one direction of a link; returns a scenario's text for its losses, and the true values. Rates are in bits
    per second, bad periods in seconds."""
    rate, queue, loss = between(draw, 1e6, fastest), round(between(draw, 10, 200)), greatest_loss * draw.random()
    family = draw.choice(FAMILIES) if loss > 0 else "none"
    truth = {"rate": round(rate / 1e3) * 1e3, "queue": queue, "loss": loss, "family": family, "burst": None}
    if family == "none":
        errors = '{ model = "none" }'
    elif family == "uniform":
        errors = f'{{ model = "uniform", frame_loss = {loss:.6f} }}'
    elif family == "two-state-packet":
        truth["burst"] = run = between(draw, 2, 10)
        errors = f'{{ model = "two-state-packet", good_to_bad = {loss / (1 - loss) / run:.8f}, bad_to_good = {1 / run:.8f} }}'
    else:
        truth["burst"] = bad = between(draw, 0.01, 0.1)
        truth["good"] = bad * (1 - loss) / loss
        errors = f'{{ model = "two-state", good = "{truth["good"] * 1e3:.4f} ms", bad = "{bad * 1e3:.4f} ms", good_ber = 0, bad_ber = 1 }}'
    return {**truth, "errors": errors}


@dataclass(frozen=True)
class Link:
    """Lossy hop, and the wire in front of it."""

    down: dict
    up: dict
    # One-way delay in ms.
    delay: float
    wire: float

    @classmethod
    def drawn(cls, seed, number, fastest=1e8, greatest_loss=0.1):
        """Draws the link with this number. Its directions are no faster than `fastest` bits per second, and lose at
        most `greatest_loss`."""
        draw = random.Random(f"{seed} {number}")
        return cls(direction(draw, fastest, greatest_loss), direction(draw, fastest, greatest_loss), between(draw, 2, 150), between(draw, 2, 20))

    def hop(self, near, far):
        """Returns the TOML of the hop between two nodes, the one nearer to the server first."""
        return f"""[links.hop]
between = ["{near}", "{far}"]
rate = "{self.down["rate"] / 1e3:.0f} kbps"
rate_up = "{self.up["rate"] / 1e3:.0f} kbps"
delay = "{self.delay:.3f} ms"
queue = "{self.down["queue"]} packets"
queue_up = "{self.up["queue"]} packets"
errors_down = {self.down["errors"]}
errors_up = {self.up["errors"]}
"""

    def path(self, seconds):
        """Returns a scenario: one download over wire and hop, whose ends run this kernel's TCP."""
        return f"""title = "A link drawn at random"
scheme = "E2E-CUBIC"
limit = "{seconds:g} s"

[tcp]
preset = "linux-6.18"

[lab]
settings = "kernel"

[hosts.server]
[hosts.client]
[routers.base]

[links.wire]
between = ["server", "base"]
rate = "{WIRE["links.wire.rate"]}"
delay = "{self.wire:.3f} ms"

{self.hop("base", "client")}
[flows.download]
from = "server"
to = "client"
size = {ENDLESS}
close = "off"

[base_station]
router = "base"
link = "hop"
"""

    def __str__(self):
        return f"down {words(self.down)}; up {words(self.up)}; {self.delay:.1f} ms; wire {self.wire:.1f} ms"


def arguments(parser, links):
    """Adds the options of all benchmarks on random links: selection, default number `links`, and parallelism."""
    parser.add_argument("--links", type=int, default=links, help=f"how many (default {links})")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default 0): to go on from there")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (default 1)")
    parser.add_argument("--at-once", type=int, default=1, help="links measured at a time (default 1)")
    parser.add_argument("--only-show", action="store_true", help="measure nothing")


def each(args, numbers, work):
    """Calls `work(number, stop)` for each link, with the parallelism of the options; `stop` is set on interruption.
    Returns the exit status."""
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        done = [pool.submit(work, number, stop) for number in numbers]
        try:
            for one in done:
                one.result()
        except (KeyboardInterrupt, SystemExit):
            stop.set()
            pool.shutdown(cancel_futures=True)
            common.note("interrupted; the next call goes on from here")
            return 130
    return 0


def words(way):
    burst = {"none": "", "uniform": "", "two-state-packet": " of {:.2g}", "two-state": " of {:.2g} s"}[way["family"]].format(way["burst"])
    return f"{way['rate'] / 1e6:.3g} Mbps, queue {way['queue']}, {100 * way['loss']:.2g} % {way['family']}{burst}"
