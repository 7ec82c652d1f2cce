"""The link that simulator and lab share, as a scenario: a clean wire in front of a lossy hop."""
from dataclasses import dataclass

CONGESTION = ("cubic", "reno", "bbr")

# How late frames leave the lab's links: 0.02 to 0.03 ms at the median, which is the mean of this. A simulator without it has the same story each time where one frame more or
# less decides, as whether a queue still has room.
LATE = '{ model = "jitter", up_to = "0.05 ms", order = "kept" }'


@dataclass(frozen=True)
class Link:
    """A lossy hop and what surrounds it. The wire takes five sixths of the delay."""

    mbps: float
    rtt_ms: float
    queue: int

    @staticmethod
    def as_late():
        """Options of a simulation whose links are as late as the lab's."""
        return [word for link in ("wired", "lossy") for word in ("--set", f"links.{link}.delay_variation={LATE}")]

    def scenario(self, congestion, size, errors="", limit=600, tcp="", scheme="E2E", base_station=""):
        """TOML of a transfer of so many bytes whose ends run this kernel's TCP, in the simulator as in the lab."""
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

[hosts.sender]
[hosts.receiver]
[routers.gateway]

[links.wired]
between = ["sender", "gateway"]
rate = "{wire}"
delay = "{self.rtt_ms / 2 - hop:.6f} ms"
queue = "10000 packets"

[links.lossy]
between = ["gateway", "receiver"]
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
