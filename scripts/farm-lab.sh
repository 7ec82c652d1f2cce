#!/bin/sh
# Measures the lab results that docs/example.md shows beside the simulator's, and writes docs/data/farm-lab.json. Needs root and some
# minutes.
#
#     sudo scripts/farm-lab.sh [LASTHOP] [RUNS] [LATENESS]
#
# Runs with more than one frame in a hundred later than LATENESS do not count; other load on the machine delays frames.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
lasthop=${1:-lasthop}
runs=${2:-5}
lateness=${3:-1 ms}
out=$root/docs/data/farm-lab.json
measured=$("$lasthop" lab "$root/scenarios/farm-radio.toml" --runs "$runs" --json \
    --schemes E2E-CUBIC,E2E-BBR,E2E-BBR3,SNOOP,SPLIT-BBR --set "lab.lateness=$lateness")
printf '{"date": "%s", "kernel": "%s", "lab": %s}\n' "$(date +%Y-%m-%d)" "$(uname -r)" "$measured" >"$out.new"
python3 -m json.tool --indent 1 "$out.new" "$out"
rm "$out.new"
