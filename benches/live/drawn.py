"""Links drawn at random, as scenarios, with what is so of each."""
import random

# Models of losses, as scenarios and `lasthop fit` name them.
FAMILIES = ("uniform", "two-state-packet", "two-state")


def between(draw, low, high):
    """A number between two, evenly by its logarithm."""
    return low * (high / low) ** draw.random()


def direction(draw, fastest=1e8):
    """One direction of a link: what a scenario says of its losses, and what is so. Rates in bits a second, bad times in seconds."""
    rate, queue, loss = between(draw, 1e6, fastest), round(between(draw, 10, 200)), 0.1 * draw.random()
    family = draw.choice(FAMILIES)
    truth = {"rate": round(rate / 1e3) * 1e3, "queue": queue, "loss": loss, "family": family, "burst": None}
    if family == "uniform":
        errors = f'{{ model = "uniform", frame_loss = {loss:.6f} }}'
    elif family == "two-state-packet":
        truth["burst"] = run = between(draw, 2, 10)
        errors = f'{{ model = "two-state-packet", good_to_bad = {loss / (1 - loss) / run:.8f}, bad_to_good = {1 / run:.8f} }}'
    else:
        truth["burst"] = bad = between(draw, 0.01, 0.1)
        truth["good"] = bad * (1 - loss) / loss
        errors = f'{{ model = "two-state", good = "{truth["good"] * 1e3:.4f} ms", bad = "{bad * 1e3:.4f} ms", good_ber = 0, bad_ber = 1 }}'
    return {**truth, "errors": errors}


def link(seed, number, fastest=1e8):
    """The link of that number: down, up, its delay one way in ms, and what draws whatever else it needs."""
    draw = random.Random(f"{seed} {number}")
    return direction(draw, fastest), direction(draw, fastest), between(draw, 2, 150), draw


def hop(ends, down, up, delay):
    """TOML of the link between two nodes, the nearer to the server first."""
    return f"""[links.hop]
between = ["{ends[0]}", "{ends[1]}"]
rate = "{down["rate"] / 1e3:.0f} kbps"
rate_up = "{up["rate"] / 1e3:.0f} kbps"
delay = "{delay:.3f} ms"
queue = "{down["queue"]} packets"
queue_up = "{up["queue"]} packets"
errors_down = {down["errors"]}
errors_up = {up["errors"]}
"""


def words(down, up, delay):
    """A link in a line."""
    one = lambda way: (f"{way['rate'] / 1e6:.3g} Mbps, queue {way['queue']}, {100 * way['loss']:.2g} % {way['family']}"
                       + ("" if way["burst"] is None else f" {way['burst']:.2g}" if way["family"] == "two-state-packet" else f" {1e3 * way['burst']:.2g} ms"))
    return f"down {one(down)}; up {one(up)}; {delay:.1f} ms"
