"""Link of simulator and lab as a scenario: a clean wire in front of a lossy hop."""
from dataclasses import dataclass

CONGESTION = ("cubic", "reno", "bbr")

# Delay with which frames leave the lab's links: 0.02 to 0.03 ms at the median, which is the mean here. Without it, the
# simulator would have the same result every time in cases that one frame decides, such as whether a queue has space
# left.
LATE = '{ model = "jitter", up_to = "0.05 ms", order = "kept" }'


@dataclass(frozen=True)
class Link:
    """Lossy hop with its surroundings. The wire has five sixths of the delay."""

    mbps: float
    rtt_ms: float
    queue: int

    @staticmethod
    def as_late():
        """Returns options for a simulation whose links are as late as the lab's."""
        return [word for link in ("wired", "lossy") for word in ("--set", f"links.{link}.delay_variation={LATE}")]

    def scenario(self, congestion, size, errors="", limit=600, tcp="", scheme="E2E", base_station="", hosts=("", ""), upload=False):
        """Returns the TOML of a transfer of `size` bytes between endpoints with this kernel's TCP, in the simulator as
        in the lab. `hosts` are further TCP keys of sender and receiver. An upload crosses the lossy hop first."""
        sender, receiver = (f"\ntcp = {{ {keys} }}" if keys else "" for keys in hosts)
        near, far = ("receiver", "sender") if upload else ("sender", "receiver")
        hop = self.rtt_ms / 12
        wire = "990 Mbps" if self.mbps > 90 else "99 Mbps"
        return f"""title = "{self.mbps:g} Mbps, {self.rtt_ms:g} ms, {self.queue} packets, {congestion}"
scheme = "{scheme}"
runs = 1
limit = "{limit} s"

[tcp]
preset = "linux-6.18"
congestion = "{congestion}"
# Linux holds a last short segment back only behind another short one (tcp_minshall_check), which a bulk transfer has none of.
nagle = "off"
# A program writes once it is connected, and the kernel acknowledges the SYN's answer at once.
handshake_ack = "own"
{tcp}

[lab]
settings = "kernel"
congestion = "{congestion}"
endpoints = "kernel"

[hosts.sender]{sender}
[hosts.receiver]{receiver}
[routers.gateway]

[links.wired]
between = ["{near}", "gateway"]
rate = "{wire}"
delay = "{self.rtt_ms / 2 - hop:.6f} ms"
queue = "10000 packets"

[links.lossy]
between = ["gateway", "{far}"]
rate = "{self.mbps} Mbps"
delay = "{hop:.6f} ms"
queue = "{self.queue} packets"
{errors}

[flows.bulk]
from = "sender"
to = "receiver"
size = {size}
close = "off"

{base_station}
"""
