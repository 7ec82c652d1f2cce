#!/usr/bin/env python3
"""The README's answer to "which helps?", from `lasthop compare ... --json` on standard input."""
import json
import sys


def main():
    measured = {}
    for scheme in json.load(sys.stdin)["schemes"]:
        measured[scheme["scheme"]] = scheme["measures"]["throughput"]["mean"]
    plain, link, snoop = (measured[name] for name in ("E2E", "LL", "LL-TCP-AWARE"))
    print(
        f"Plain TCP gets {plain:.2f} Mbps, a base station that resends what the hop lost {link:.2f}, "
        f"one that also keeps the duplicate\nacknowledgments to itself (snoop) {snoop:.2f}: "
        f"{snoop / plain:.1f} times as much as plain TCP."
    )


if __name__ == "__main__":
    main()
