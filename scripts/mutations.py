#!/usr/bin/env python3
"""Injects deliberate faults that the tests must detect (`make mutations`). Each fault is put into a copy of the
sources, one at a time, and the tests named beside it must fail. Prints a table; fails if a fault is not detected.

    scripts/mutations.py [NAME ...]     only the faults whose names contain one of these
    scripts/mutations.py --check        only checks that each fault's file exists and has its text exactly once
"""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo").split()
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "mutations"
# Maximum duration of a test, for faults that loop forever; the study of several layers takes minutes.
SECONDS = 1800

TCP = "crates/lasthop-proto/src/tcp"
RECOVERY = f"{TCP}/classic/recovery"
CHANNEL = "crates/lasthop-proto/src/channel"
STUDY = "crates/lasthop-study/src"
CELL = "crates/lasthop-proto/src/link/cell"
HYBRID = "crates/lasthop-proto/src/link/hybrid"
QUIC = "crates/lasthop-proto/src/pep/quic"
QUEUE = "crates/lasthop-proto/src/queue"


def golden(name):
    return ["-p", "lasthop-proto", "--test", "all", f"golden_{name}::"]


def inside(module):
    return ["-p", "lasthop-proto", "--lib", module]


DIAGNOSE = "crates/lasthop-diagnose/src"


def rule(test):
    return ["-p", "lasthop-diagnose", "--test", "all", test]


FIRST_STUDY = ["-p", "lasthop-study", "--test", "all", "the_1997_study"]

LIARS = ["-p", "lasthop-proto", "--test", "all", "hybrid::liars"]
NAT = "crates/lasthop-gateway/src/daemon/nat.rs"

# Name, file, original text (which occurs once), replacement, arguments of `cargo test`.
FAULTS = [
    ("cells of the atlas are compared without their common links", "crates/lasthop-study/src/atlas/moments.rs",
     "self.squares[at] += other.squares[at] + apart * apart * mine * theirs / all;",
     "self.squares[at] += other.squares[at] + self.means[0] * apart * mine * theirs / all;", ["-p", "lasthop-study", "--lib", "moments"]),
    ("a region of the atlas extends to other rates", "crates/lasthop-study/src/atlas/placement.rs",
     "[SHARE, QUEUE, BURST, VARIATION, ROUND_TRIP]", "[0, QUEUE, BURST, VARIATION, ROUND_TRIP]", ["-p", "lasthop-study", "--lib", "placement"]),
    ("a lookup beside a first packet decides on later ones", NAT, "(None, Moment::Queued) => return Some(None),",
     "(None, Moment::Queued) => (Finding::Source(None), UNTRACKED),", ["-p", "lasthop-gateway", "--lib", "nat"]),
    ("a translated connection becomes an untracked one", NAT, "(None, _) if was_translated =>",
     "(None, _) if was_translated && entry.is_some() =>", ["-p", "lasthop-gateway", "--lib", "nat"]),
    ("a path may be faster than light", f"{HYBRID}/schedule.rs", "least.saturating_sub(self.delay(other)).max(0)",
     "least.saturating_sub(self.delay(other)).clamp(0, 0)", LIARS),
    ("late reports on a path end repair on others", f"{HYBRID}/mod.rs", "longest.min(limits::LONGEST_HOLD)",
     "longest", LIARS),
    ("false reports of arrivals stop a hop", f"{HYBRID}/symbols.rs", "if is_contradicted { self.base }",
     "if is_contradicted && self.base == 0 { self.base }", LIARS),
    ("packets that are a second late are not missed", f"{STUDY}/lasthop2026/metrics.rs", "late.max(0.01 * (sent - lost))",
     "0.01 * (sent - lost)", ["-p", "lasthop-study", "--lib", "lasthop2026"]),
    ("an interval around the bound decides a claim", f"{STUDY}/claims.rs", "(low > 0.0, high <= 0.0)", "(low > 0.0, low <= 0.0)",
     ["-p", "lasthop-study", "--lib", "claims"]),
    ("a comparison on one thread has no numbers", "crates/lasthop-study/src/progressive.rs", "while started == 0\n", "while false\n",
     ["-p", "lasthop-study", "--lib", "progressive"]),
    ("a rate on the page spans a restart", "crates/lasthop-serve/src/status/history.rs",
     "before.counted_by == reading.counted_by", "before.counted_by <= reading.counted_by", ["-p", "lasthop-serve", "--lib", "status"]),
    ("a page of daemons keeps all its past", "crates/lasthop-serve/src/status/history.rs", "self.rounds.len() > ROUNDS ||",
     "false ||", ["-p", "lasthop-serve", "--lib", "status"]),
    ("a changed private key keeps the old sessions", "crates/lasthop-tunneld/src/engine.rs", "identity.is_some() || !peers",
     "!peers", ["-p", "lasthop-tunneld", "--lib", "another_private_key"]),
    ("the classic queue is marked like the scalable one", f"{QUEUE}/dual_pi2.rs",
     "self.strikes(probability) && self.strikes(probability)", "self.strikes(probability)", inside("dual_pi2")),
    ("the scheduler of DualPI2 starves the classic queue", f"{QUEUE}/dual_pi2.rs", "self.credit += change;",
     "self.credit += change.min(0);", inside("dual_pi2")),
    ("PIE forgets its allowance for bursts", f"{QUEUE}/pie.rs", "burst: BURST, dequeued", "burst: 0, dequeued", inside("pie")),
    ("CAKE ignores the hosts of flows", f"{QUEUE}/cake/tin.rs", "*load.entry(host).or_insert(0) += 1;",
     "let _ = (load, host);", inside("cake")),
    ("Prague counts the segments before a change as marked", f"{TCP}/modern/rack/echoes.rs", "u32::from(before) * older",
     "u32::from(echo) * older", golden("prague")),
    ("a retransmission of Prague takes no marks", f"{TCP}/connection/segments.rs", "packet.ecn = Ecn::Ect1;",
     "packet.ecn = if turn == Some(Turn::Again) { Ecn::NotEct } else { Ecn::Ect1 };", golden("prague")),
    ("repair of QUIC holds for too long", f"{QUIC}/case.rs", "until: now + hold,", "until: now + hold * 2,",
     inside("pep::quic")),
    ("repair of QUIC exceeds its budget", f"{QUIC}/copies.rs", "spent * 100 <=", "spent * 50 <=", inside("pep::quic")),
    ("repair of QUIC releases old acknowledgments first", f"{QUIC}/case.rs", "newest.into_iter().chain(self.held)",
     "self.held.into_iter().chain(newest)", inside("pep::quic")),
    ("repair of QUIC repairs connections whose beginning it missed", f"{QUIC}/mod.rs", "if form == HeaderForm::Short {",
     "if false {", inside("pep::quic")),
    ("snoop suppresses other counters", "crates/lasthop-proto/src/pep/repair/signals.rs",
     "counters: segment.options.ecn_counters,", "counters: None,", ["-p", "lasthop-proto", "--test", "all", "accurate_snoop"]),
    ("marked bytes do not tell that a count has wrapped", f"{TCP}/stream/feedback.rs", "most.min(least + (estimate & !7))",
     "least", inside("feedback")),
    ("the option drops the last two SACK blocks", f"{TCP}/connection/accurate/option.rs", "const LEAST_BLOCKS: usize = 2;",
     "const LEAST_BLOCKS: usize = 0;", ["-p", "lasthop-proto", "--test", "all", "linux::accurate_ecn"]),
    ("a bucket holds more than its burst", "crates/lasthop-proto/src/bucket.rs", "(self.level + gained).min(self.size)",
     "self.level + gained", inside("bucket")),
    ("a frame is sent at the rate of its beginning", "crates/lasthop-proto/src/rate/mod.rs", "if work <= room {",
     "if rate > 0 {", inside("rate::")),
    ("an aggregate does not wait for its hole", "crates/lasthop-proto/src/link/window.rs", "State::Waits(_) => return None,",
     "State::Waits(_) => (Fate::GivenUp, self.passed_on),", inside("aggregation")),
    ("a repeat of a cell takes no resources", f"{CELL}/mod.rs", "*left -= taken;", "let _ = &left;", inside("cell")),
    ("a frame leaves with its first block", f"{CELL}/line.rs", "frame.open = frame.open.saturating_sub(1);",
     "frame.open = 0;", inside("cell")),
    ("competing users pause while lines are idle", f"{CELL}/carrier.rs", "self.next.max(tti.saturating_sub(settling))..tti",
     "tti.max(settling)..tti", inside("cell")),
    ("a drop of a policer is one of the queue", "crates/lasthop-sim/src/link/feed.rs", "(frame, DropReason::Policer)",
     "(frame, DropReason::Aqm)", ["-p", "lasthop-scenario", "--test", "all", "impairments::"]),
    ("a queue is no congestion", f"{HYBRID}/congestion.rs", "round.standing > target || overflows",
     "overflows", ["-p", "lasthop-proto", "--test", "all", "hybrid::auto"]),
    ("want of packets lowers the rate", f"{HYBRID}/rate.rs", "Some(rate) if round.supply == Supply::Ample =>",
     "Some(rate) =>", inside("rate")),
    ("a rate faster than it was sent at", f"{HYBRID}/rounds.rs",
     "to.arrived.since(from.arrived).max(to.sent.since(from.sent))", "to.arrived.since(from.arrived)", inside("rounds")),
    ("a bridge gives signs of life on one line", "crates/lasthop-tunneld/src/engine/bridged.rs", "in (0..paths).zip(sign_at)",
     "in (0..paths.min(1)).zip(sign_at)", ["-p", "lasthop-tunneld", "--lib", "bridged"]),
    ("a line with other addresses is lost", "crates/lasthop-tunnel/src/peer/path.rs",
     "let is_due = is_over(self.heard_at, MISSING)", "let is_due = self.heard_at.is_none()",
     ["-p", "lasthop-tunneld", "--lib", "bridged"]),
    ("queues of equal length are one bottleneck", f"{HYBRID}/couple.rs", "both >= VARIES * ENOUGH as i64 && apart * ALIKE <= both",
     "both >= apart.min(0)", inside("hybrid::couple")),
    ("queues of this end's own make a group", f"{HYBRID}/couple.rs", "if raised || queues", "if queues", inside("hybrid::couple")),
    ("Reno inflates by two", f"{RECOVERY}/reno.rs", "c.cc.inflate(threshold);", "c.cc.inflate(threshold - 1);",
     golden("reno")),
    ("NewReno deflates by half", f"{RECOVERY}/newreno.rs", "c.cc.partial_ack(acked)", "c.cc.partial_ack(acked / 2)",
     golden("newreno")),
    ("Sack1's pipe starts too low", f"{RECOVERY}/sack1.rs", "- i64::from(s.config().dupack_threshold);",
     "- i64::from(s.config().dupack_threshold + 1);", golden("sack1")),
    ("RFC 6675 never rescues", f"{RECOVERY}/rfc6675.rs", "if s.snd_una().le(self.rescue_rxt) {",
     "if s.snd_una().ge(self.rescue_rxt) {", golden("rfc6675")),
    ("SMART credits half a segment", f"{RECOVERY}/smart.rs", "c.credit += sent.end.since(sent.seq);",
     "c.credit += sent.end.since(sent.seq) / 2;", golden("smart")),
    ("ELN waits for a fourth", f"{RECOVERY}/eln.rs", "c.dupacks == s.config().dupack_threshold",
     "c.dupacks == s.config().dupack_threshold + 1", golden("eln")),
    ("ELN keeps its inflation", f"{RECOVERY}/eln.rs",
     "c.cc.take_back(core::mem::take(&mut self.inflation));", "self.inflation = 0;", golden("bsd_windows")),
    ("4.4BSD's window grows by mss/16", f"{TCP}/classic/congestion/bsd.rs", "{ mss / 8 }", "{ mss / 16 }",
     golden("bsd")),
    ("RFC 5681 keeps two thirds", f"{TCP}/classic/congestion/rfc5681.rs", "(outstanding.flight / 2)",
     "(outstanding.flight / 3 * 2)", golden("reno")),
    ("RFC 6298 with two deviations", f"{TCP}/rtt.rs", "let var = (4 * self.rttvar)", "let var = (2 * self.rttvar)",
     inside("rtt")),
    ("retransmissions merge super-segments", f"{TCP}/modern/rack/bursts.rs", "began || self.forced.is_some(), most)",
     "self.forced.is_some(), most)", golden("offloads")),
    ("a super-segment ignores half of the window", f"{TCP}/modern/rack/bursts.rs",
     "(None, None) => self.burst(s).min(self.control.window() / 2)", "(None, None) => self.burst(s)", golden("offloads")),
    ("receive offload merges over PSH", f"{TCP}/gro.rs", "const ENDS: Flags = Flags::PSH.with(Flags::FIN)",
     "const ENDS: Flags = Flags::FIN", golden("offloads")),
    ("packets of a super-segment have fates of their own", f"{CHANNEL}/whole.rs", "*last == number && number != 0",
     "*last == number && number == 0", golden("offloads")),
    ("the application writes at any room", f"{TCP}/send_buffer.rs", "free < held / 2", "free == 0", inside("send_buffer")),
    ("the send buffer holds a window", f"{TCP}/congestion/control.rs",
     "fn buffered_windows(&self) -> u32 {\n        2", "fn buffered_windows(&self) -> u32 {\n        1", golden("rack")),
    ("three segments for an acknowledgment", f"{TCP}/receiver/window.rs", "map_or(2, AckRatio::least_update)",
     "map_or(3, AckRatio::least_update)", golden("acks")),
    ("a mark triples the ratio of acknowledgments", f"{TCP}/sender/ack_ratio.rs", "self.ratio.saturating_mul(2)",
     "self.ratio.saturating_mul(3)", golden("ack_congestion")),
    ("a filtered queue puts news last", "crates/lasthop-proto/src/queue/ack_aware.rs", "place.unwrap_or(self.came)",
     "place.map_or(self.came, |_| self.came)", inside("queue")),
    ("exponential errors 10 % rarer", f"{CHANNEL}/exponential.rs", "Gap::new(mean_bytes, stream)",
     "Gap::new(1.1 * mean_bytes, stream)", inside("channel")),
    ("uniform errors 10 % more frequent", f"{CHANNEL}/uniform.rs", "expected_errors(frame_loss), gap",
     "expected_errors(1.1 * frame_loss), gap", inside("channel")),
    ("snoop waits for two deviations", "crates/lasthop-proto/src/pep/repair/link_rtt.rs",
     "srtt.saturating_add(self.dev.saturating_mul(4))", "srtt.saturating_add(self.dev.saturating_mul(2))",
     inside("pep")),
    ("snoop does not wait for what is late", "crates/lasthop-proto/src/pep/repair/reordering.rs",
     "steps => rtt.smoothed().saturating_mul(u64::from(4 + steps)) / 4,", "steps => rtt.smoothed() / u64::from(64 * steps),",
     inside("pep")),
    ("snoop retransmits everything at each timeout of a silence", "crates/lasthop-proto/src/pep/repair/arrivals.rs",
     "self.delivery == Delivery::TimedOut", "false",
     inside("pep")),
    ("a half-duplex frame without its overhead", "crates/lasthop-sim/src/link/shared.rs",
     "overhead: self.frame_overhead", "overhead: Duration::ZERO",
     ["-p", "lasthop-sim", "--lib", "link"]),
    ("the LAN's timeout 1 s", "scenarios/wavelan-lan.toml", 'rto_min = "3 s"', 'rto_min = "1 s"', FIRST_STUDY),
    ("goodput columns swapped", f"{STUDY}/balakrishnan1997/cells.rs",
     '(5, "wireless_goodput"), (6, "wired_goodput")', '(6, "wireless_goodput"), (5, "wired_goodput")', FIRST_STUDY),
    ("a cell misspelt in a claim", f"{STUDY}/balakrishnan1997/claims.rs", 'let cell = |scheme: &str| format!("{scheme}/{testbed}");',
     'let cell = |scheme: &str| format!("{scheme} /{testbed}");', FIRST_STUDY),
    ("claims judged the wrong way round", f"{STUDY}/claims.rs", "(low > 0.0, high <= 0.0)",
     "(high <= 0.0, low > 0.0)", FIRST_STUDY),
    ("gains published as losses", f"{STUDY}/xylomenos_kokkinakis/cells.rs", "base * (1.0 + gain / 100.0)",
     "base * (1.0 - gain / 100.0)", ["-p", "lasthop-study", "--lib", "xylomenos_kokkinakis"]),
    ("the handshake shows no round trip", f"{DIAGNOSE}/half/blind.rs", "(base, other) => base.or(other),",
     "(base, _) => base,", rule("handshake")),
    ("a newer timestamp does not prove a retransmission", f"{DIAGNOSE}/half/gaps.rs", "|| later == 0 &&",
     "|| later <= 1000 &&", rule("newer_timestamp")),
    ("smaller segments at once are needless", f"{DIAGNOSE}/half/blind.rs", " || packet.len < piece.packet_len", "",
     rule("smaller_segments")),
    ("a repeated acknowledgment answers a retransmission", f"{DIAGNOSE}/half/blind.rs",
     "now.saturating_sub(self.answers.last_answer) < MILLISECOND",
     "now.saturating_sub(self.answers.last_answer) < 0", rule("duplicate")),
    ("a D-SACK marks bytes twice", f"{DIAGNOSE}/loss.rs", "|| marked.iter().any(|&before| overlap(range, before))", "",
     rule("duplicate_data")),
    ("a stray number opens a gap", f"{DIAGNOSE}/half/stray.rs", "const MOST_APART: u64 = 1 << 20;",
     "const MOST_APART: u64 = 1 << 40;", rule("stray")),
    ("padding is data", f"{DIAGNOSE}/flow.rs", "            packet.len = 0;\n", "", rule("padding")),
    ("what follows a reset is ignored", f"{DIAGNOSE}/flow.rs", "self.halves[from].after_reset(&packet);", "",
     rule("reset")),
]


def misplaced(root):
    """Returns the faults that cannot be put into the sources below `root`, each with the reason."""
    wrong = {}
    for name, file, old, _, _ in FAULTS:
        places = (root / file).read_text().count(old) if (root / file).is_file() else None
        if places is None:
            wrong[name] = f"{file}: no such file"
        elif places != 1:
            wrong[name] = f"{file}: {places} places instead of 1 have {old!r}"
    return wrong


def copy(to):
    """Copies the sources, including uncommitted changes. Writes only files that differ, so that cargo rebuilds only what
    a change or an interrupted run makes necessary."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for path in [path for path in to.rglob("*") if path.is_file()]:
        if str(path.relative_to(to)) not in names:
            path.unlink()
    for name in names:
        content, path = (ROOT / name).read_bytes(), to / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod((ROOT / name).stat().st_mode)


def run(arguments, where):
    """Returns the result of `cargo test`: "passed", "failed", "does not compile", or "nothing ran"."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    command = [*CARGO, "test", "--locked", "--quiet", *arguments]
    try:
        done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "failed"
    if "could not compile" in done.stderr or "error: no test target" in done.stderr:
        return "does not compile"
    if "test result:" not in done.stdout:
        return f"nothing ran: {done.stderr.strip().splitlines()[-1:]}"
    passed = [line for line in done.stdout.splitlines() if line.startswith("test result: ok")]
    if done.returncode == 0 and all(" 0 passed" in line for line in passed):
        return "nothing ran"
    return "passed" if done.returncode == 0 else "failed"


def inject(fault, where, sound):
    """Returns the result of a fault put into the sources below `where`: "caught", or what is wrong. `sound` keeps the
    results of the tests without a fault, which must pass; otherwise their failure proves nothing."""
    _, file, old, new, arguments = fault
    tests = " ".join(arguments)
    if tests not in sound:
        sound[tests] = run(arguments, where)
    if sound[tests] != "passed":
        return f"UNSOUND: without it {sound[tests]}"
    path = where / file
    text = path.read_text()
    path.write_text(text.replace(old, new))
    result = run(arguments, where)
    path.write_text(text)
    return "caught" if result == "failed" else f"NOT CAUGHT: {result}"


def main():
    wrong = misplaced(ROOT)
    for name, why in wrong.items():
        print(f"{name}: {why}", file=sys.stderr)
    if wrong or sys.argv[1:] == ["--check"]:
        print(f"{len(FAULTS) - len(wrong)} of {len(FAULTS)} faults fit the sources")
        sys.exit(1 if wrong else 0)
    chosen = [fault for fault in FAULTS if not sys.argv[1:] or any(word in fault[0] for word in sys.argv[1:])]
    where = TARGET / "sources"
    where.mkdir(parents=True, exist_ok=True)
    with open(TARGET / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy(where)
        print("| fault | where | tests | result | |\n|---|---|---|---|--:|", flush=True)
        caught, sound = 0, {}
        for fault in chosen:
            begun = time.monotonic()
            name, file, _, _, arguments = fault
            result = inject(fault, where, sound)
            caught += result == "caught"
            print(f"| {name} | {file} | `{' '.join(arguments)}` | {result} | {time.monotonic() - begun:.0f} s |", flush=True)
    print(f"\n{caught} of {len(chosen)} caught")
    sys.exit(0 if caught == len(chosen) else 1)


if __name__ == "__main__":
    main()
