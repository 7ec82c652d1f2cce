#!/usr/bin/env python3
"""Captures bulk transfers of QUIC stacks over an emulated lossy hop, as a device beside the hop sees them.

    server -- wire, 10 Mbps, 25 ms -- box -- hop, 100 Mbps, 1 to 10 ms -- client

The hop loses packets of the data direction. The lab (`lasthop lab hold`) records the fate of each. Each run becomes a
trace (trace.py) in the folder of results; existing ones are not repeated. For root.

    benches/quic/stacks.py --how                    prints how each stack is built; this program builds nothing
    benches/quic/stacks.py --programs FOLDER ...    runs those whose programs are in FOLDER
"""
import base64
import collections
import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "live"))

import common  # noqa: E402
import trace  # noqa: E402

PORT = 4433
# No transfer ends before its time.
BYTES = 1 << 30
LATENESS_MS = 4
# A full packet on the wire.
PACKET_MS = 1.2
REPEATS = 3

Stack = collections.namedtuple("Stack", "version build needs server client up")


def stack(version, build, needs, server, client, up=None):
    """Describes a stack: its version, how to build it, the programs that must be in the folder, and the commands of the
    server and the client; `up` is the client's for uploads if it differs."""
    return Stack(version, build, needs, server, client, up or client)


CARGO = "CARGO_TARGET_DIR={programs}/target cargo build --release --locked --manifest-path benches/quic/drivers/Cargo.toml -p bulk-{name}; cp {programs}/target/release/bulk-{name} {programs}"
GO = "cd benches/quic/drivers/go && go build -o {programs} ./{name}"
COMMON = "client {address}:{port} {way} {bytes}"
STACKS = {
    "quinn": stack("0.11.12", CARGO, ["bulk-quinn"], "{programs}/bulk-quinn server {address}:{port} {cert} {key}", "{programs}/bulk-quinn " + COMMON),
    "quicgo": stack("0.65.0", GO, ["quicgo"], "{programs}/quicgo server {address}:{port} {cert} {key}", "{programs}/quicgo " + COMMON),
    "quiche": stack("0.30.0", CARGO, ["bulk-quiche"], "{programs}/bulk-quiche server {address}:{port} {cert} {key}", "{programs}/bulk-quiche " + COMMON),
    "s2n": stack("1.91.0", CARGO, ["bulk-s2n"], "{programs}/bulk-s2n server {address}:{port} {cert} {key}", "{programs}/bulk-s2n " + COMMON + " {ca}"),
    "aioquic": stack("1.7.2", "python3 -m venv {programs}/venv && {programs}/venv/bin/pip install aioquic==1.7.2", ["venv/bin/python"],
                     "{programs}/venv/bin/python {drivers}/aioquic_bulk.py server {address}:{port} {cert} {key}",
                     "{programs}/venv/bin/python {drivers}/aioquic_bulk.py " + COMMON),
    "xnet": stack("0.62.0", GO, ["xnet"], "{programs}/xnet server {address}:{port} {cert} {key}", "{programs}/xnet " + COMMON),
    "ngtcp2": stack("0.12.1", "apt-get install ngtcp2-client ngtcp2-server (Debian 12); cp /usr/bin/gtlsclient /usr/sbin/gtlsserver {programs}",
                    ["gtlsclient", "gtlsserver"], "{programs}/gtlsserver -q -d {folder} {address} {port} {key} {cert}",
                    "{programs}/gtlsclient -q {address} {port} https://bulk.test/large",
                    "{programs}/gtlsclient -q -m POST -d {folder}/large {address} {port} https://bulk.test/small"),
    "picoquic": stack("d199d45b", "clone github.com/private-octopus/picoquic and github.com/h2o/picotls, build both with cmake, target picoquicdemo; cp picoquicdemo {programs}",
                      ["picoquicdemo"], "{programs}/picoquicdemo -c {cert} -k {key} -p {port} -w {folder}",
                      "{programs}/picoquicdemo -8 -n bulk.test -a perf -D {address} {port} *1:8:{bytes}",
                      "{programs}/picoquicdemo -8 -n bulk.test -a perf -D {address} {port} *1:{bytes}:8"),
    "msquic": stack("2.5.1-beta", "unpack the crate msquic 2.5.1-beta, build it with cmake -DQUIC_TLS_LIB=quictls; cc -I src/inc benches/quic/drivers/msquic_bulk.c -lmsquic -o {programs}/msquic_bulk",
                    ["msquic_bulk"], "{programs}/msquic_bulk server {address}:{port} {cert} {key}", "{programs}/msquic_bulk " + COMMON),
    # Browsers against quic-go: for downloads they are the receivers, for uploads the senders.
    "chromium": stack("156", GO.format(name="h3", programs="{programs}") + "; apt-get install chromium; ln -s /usr/bin/chromium {programs}", ["h3", "chromium"],
                      "{programs}/h3 {address}:{port} {cert} {key}",
                      "{programs}/chromium --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
                      "--user-data-dir={scratch}/profile --host-resolver-rules={resolver} --origin-to-force-quic-on=bulk.test:{port} "
                      "--ignore-certificate-errors-spki-list={spki} https://bulk.test:{port}/{way}/{bytes}"),
    "firefox": stack("153", GO.format(name="h3", programs="{programs}") + "; apt-get install firefox-esr libnss3-tools; ln -s /usr/bin/firefox-esr {programs}",
                     ["h3", "firefox-esr"], "{programs}/h3 {address}:{port} {cert} {key}",
                     "env HOME={scratch} {programs}/firefox-esr --headless --no-remote --profile {scratch}/profile https://bulk.test:{port}/{way}/{bytes}"),
}
FIREFOX = """user_pref("network.http.http3.alt-svc-mapping-for-testing", "bulk.test;h3=:{port}");
user_pref("network.http.http3.disable_when_third_party_roots_found", false);
user_pref("network.dns.forceResolve", "{address}");
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
"""

SCENARIO = """seed = {seed}
[hosts.server]
[hosts.client]
[routers.box]
[links.wire]
between = ["server", "box"]
rate = "10 Mbps"
delay = "25 ms"
queue = "100 packets"
[links.hop]
between = ["box", "client"]
rate = "100 Mbps"
delay = "{delay} us"
queue = "1000 packets"
errors_{way} = {{ model = "uniform", frame_loss = {loss} }}
{more}
[flows.bulk]
from = "server"
to = "client"
size = "1 GiB"
[lab]
lateness = "{lateness} ms"
"""


class Cell(collections.namedtuple("Cell", "stack way rtt loss seed")):
    """One run: the name of the stack, `up` or `down`, the round trip of the hop in ms, its loss in percent, the seed."""

    @property
    def name(self):
        return f"{self.stack}-{self.way}-{self.rtt:g}-{self.loss:g}-{self.seed}"


def certificates(folder):
    """Writes a certificate authority `ca.pem`, a certificate `cert.pem` of bulk.test, and its key `key.pem`."""
    path = {name: os.path.join(folder, name) for name in ("ca.pem", "ca.key", "cert.pem", "key.pem", "request.pem", "names")}
    if os.path.exists(path["cert.pem"]):
        return
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    common.run(*new, "-x509", "-keyout", path["ca.key"], "-out", path["ca.pem"], "-days", "3650", "-subj", "/CN=bulk CA")
    common.run(*new, "-keyout", path["key.pem"], "-out", path["request.pem"], "-subj", "/CN=bulk.test")
    with open(path["names"], "w", encoding="utf-8") as file:
        file.write("subjectAltName=DNS:bulk.test\nbasicConstraints=CA:FALSE\n")
    common.run("openssl", "x509", "-req", "-in", path["request.pem"], "-CA", path["ca.pem"], "-CAkey", path["ca.key"], "-CAcreateserial",
               "-days", "3650", "-extfile", path["names"], "-out", path["cert.pem"])


def files(folder):
    """Writes what the HTTP/3 servers and clients transfer: a large sparse file, and a small one."""
    with open(os.path.join(folder, "large"), "wb") as file:
        file.truncate(BYTES)
    with open(os.path.join(folder, "small"), "wb") as file:
        file.write(b"small")


def public_key(folder):
    """Returns the hash of the certificate's public key, as Chromium expects it."""
    key = common.run("openssl", "x509", "-in", os.path.join(folder, "cert.pem"), "-pubkey", "-noout")
    body = "".join(key.strip().splitlines()[1:-1])
    return base64.b64encode(hashlib.sha256(base64.b64decode(body)).digest()).decode()


def firefox_profile(folder, words):
    """Writes a profile that trusts the authority and uses HTTP/3 from the first request on."""
    profile = os.path.join(folder, "profile")
    os.mkdir(profile)
    common.run("certutil", "-N", "-d", f"sql:{profile}", "--empty-password")
    common.run("certutil", "-A", "-d", f"sql:{profile}", "-n", "bulk", "-t", "C,,", "-i", words["ca"])
    with open(os.path.join(profile, "user.js"), "w", encoding="utf-8") as file:
        file.write(FIREFOX.format(**words))


def disturbance(args, folder, way):
    """Returns further keys of the hop: jitter of the returning packets; or reordering, where about one packet every 250 ms
    is late by the time of 1 to 20 packets."""
    if args.jitter:
        back = "up" if way == "down" else "down"
        return f'delay_variation_{back} = {{ model = "exponential", mean = "{round(args.jitter * 1000)} us" }}'
    if not args.reorder:
        return ""
    path = os.path.join(folder, "late")
    with open(path, "w", encoding="utf-8") as file:
        file.write("0 0\n")
        for event in range(int((args.seconds + args.settle) * 4)):
            at = 1.5 + event / 4
            # Neighbouring events have distant displacements.
            late = (1 + event * 7 % 20 + 0.5) * PACKET_MS
            file.write(f"{at:.4f} {late:.2f}\n{at + PACKET_MS / 1000:.4f} 0\n")
    return f'delay_variation_down = {{ model = "replay", file = "{path}", order = "free" }}'


def whole(args, cell, client):
    """Captures whole packets at the client, for frames.py, if this is asked for."""
    if not args.whole:
        return contextlib.nullcontext()
    device = next(iter(client["devices"].values()))
    return common.Program(client["namespace"], "tcpdump", "-Z", "root", "-U", "-i", device, "-w", os.path.join(args.results, f"{cell.name}.pcap"), "udp")


def once(args, cell, folder):
    """Runs a cell; returns the facts about the run and its packets."""
    link, capture = os.path.join(folder, "link.toml"), os.path.join(folder, "lab.pcapng")
    with open(link, "w", encoding="utf-8") as file:
        file.write(SCENARIO.format(seed=cell.seed, delay=round(cell.rtt * 500), way=cell.way, loss=cell.loss / 100, lateness=LATENESS_MS, more=disturbance(args, folder, cell.way)))
    made = STACKS[cell.stack]
    with common.Program(None, "nice", "-n", "-5", args.lasthop, "lab", "hold", link, "--json", "--scheme", "E2E", "--pcapng", capture) as lab:
        nodes = json.loads(lab.line())["nodes"]
        address = nodes["server"]["address"]
        words = {"programs": args.programs, "drivers": os.path.join(HERE, "drivers"), "address": address, "port": PORT, "way": cell.way, "bytes": BYTES,
                 "scratch": folder, "resolver": f"MAP bulk.test {address}", "spki": args.spki, "folder": args.results, **{name: os.path.join(args.results, f"{name}.pem") for name in ("cert", "key", "ca")}}
        server, client = ([word.format(**words) for word in command.split()] for command in (made.server, made.client if cell.way == "down" else made.up))
        if cell.stack == "firefox":
            firefox_profile(folder, words)
        with (open(os.path.join(folder, "server.log"), "w+", encoding="utf-8") as far, open(os.path.join(folder, "client.log"), "w+", encoding="utf-8") as near,
              whole(args, cell, nodes["client"])):
            with common.Program(nodes["server"]["namespace"], "sh", "-c", 'cd "$0" && exec "$@" > server.out', folder, *server, log=far):
                time.sleep(args.settle)
                command = ["env", f"SSLKEYLOGFILE={folder}/keys", *client]
                with common.Program(nodes["client"]["namespace"], "sh", "-c", 'cd "$0" && exec "$@" > client.out', folder, *command, log=near) as running:
                    time.sleep(args.seconds)
                    if running.process.poll() is not None:
                        raise RuntimeError(f"{cell.name}: the client ended early with status {running.process.returncode}: {running.said()[-400:]}")
                    # A browser consists of several processes.
                    os.killpg(running.pid, signal.SIGKILL)
        lab.process.send_signal(signal.SIGINT)
        left = json.loads(lab.process.communicate(timeout=60)[0].strip().splitlines()[-1])
    packets = trace.reduced(capture, cell.way)
    if args.whole and os.path.exists(f"{folder}/keys"):
        shutil.copy(f"{folder}/keys", os.path.join(args.results, f"{cell.name}.keys"))
    about = {"stack": cell.stack, "version": made.version, "way": cell.way, "hop_rtt_ms": f"{cell.rtt:g}", "loss_percent": f"{cell.loss:g}", "seed": cell.seed,
             "late_p99_us": left["lateness_us"]["p99"], "late_max_us": left["lateness_us"]["max"], "void": left["void"]}
    if args.reorder:
        about["reordered"] = True
    if args.jitter:
        about["return_jitter_ms"] = f"{args.jitter:g}"
    return about, packets


def run_cell(args, cell):
    """Runs a cell until a run is not void, and saves its trace."""
    path = os.path.join(args.results, f"{cell.name}.csv")
    if os.path.exists(path):
        return f"{cell.name}: present"
    why = ""
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory(prefix="lasthop-quic-") as folder:
            try:
                about, packets = once(args, cell, folder)
            except (RuntimeError, ValueError, OSError) as error:
                why = str(error)
                continue
        data = sum(packet.length for packet in packets if packet.kind == ">")
        if about["void"]:
            why = f"void: {about['void']}"
        elif data < 100_000:
            why = f"only {data} bytes arrived"
        else:
            trace.write(path, about, packets)
            return f"{cell.name}: {data * 8 / args.seconds / 1e6:.2f} Mbps, {sum(packet.kind == 'x' for packet in packets)} lost, late {about['late_p99_us']:.0f} us"
    return f"{cell.name}: FAILED: {why}"


def numbers(text):
    return [float(word) for word in text.split(",")]


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--how", action="store_true", help="print how each stack is built, and exit")
    parser.add_argument("--programs", default=os.path.join(common.ROOT, "target", "quic"), help="folder of the stacks' programs (default target/quic)")
    parser.add_argument("--results", default=os.path.join(common.ROOT, "target", "quic-traces"), help="folder of the traces (default target/quic-traces)")
    parser.add_argument("--stacks", default="all", help="stacks, separated by commas (default: all whose programs are present)")
    parser.add_argument("--ways", default="down,up", help="down, up (default both)")
    parser.add_argument("--rtts", type=numbers, default=[2, 10, 20], help="round trips of the hop in ms (default 2,10,20)")
    parser.add_argument("--losses", type=numbers, default=[0, 0.1, 1, 3, 5], help="losses in percent (default 0,0.1,1,3,5)")
    parser.add_argument("--seeds", type=int, default=1, help="runs per cell, each with its own seed (default 1)")
    parser.add_argument("--first-seed", type=int, default=1, help="the first of these seeds (default 1)")
    parser.add_argument("--seconds", type=float, default=15, help="length of a run (default 15)")
    parser.add_argument("--settle", type=float, default=1, help="seconds from the start of the server to that of the client (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument("--jitter", type=float, default=0, help="mean of an exponential delay of the returning packets in ms, which keeps their order (default 0)")
    parser.add_argument("--reorder", action="store_true", help="delay a downlink packet every 250 ms, so that 1 to 20 later ones pass it")
    parser.add_argument("--whole", action="store_true", help="also keep captures of whole packets at the client, and the keys, for frames.py (tcpdump)")
    args = parser.parse_args()
    if args.how:
        for name, one in STACKS.items():
            print(f"{name} {one.version}: {one.build.format(name=name, programs=args.programs)}")
        return 0
    common.check_machine(args)
    args.programs, args.results = os.path.abspath(args.programs), os.path.abspath(args.results)
    os.makedirs(args.results, exist_ok=True)
    names = common.chosen(parser, args.stacks, STACKS)
    missing = {name for name in names for need in STACKS[name].needs if not os.access(os.path.join(args.programs, need), os.X_OK)}
    for name in sorted(missing):
        common.skipped(f"{name}: {', '.join(STACKS[name].needs)} not in {args.programs}; {STACKS[name].build.format(name=name, programs=args.programs)}")
    certificates(args.results)
    args.spki = public_key(args.results)
    files(args.results)
    common.go_first()
    cells = [Cell(name, way, rtt, loss, args.first_seed + run) for run in range(args.seeds) for loss in args.losses for rtt in args.rtts
             for way in args.ways.split(",") for name in names if name not in missing]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done, line in enumerate(pool.map(lambda cell: run_cell(args, cell), cells), 1):
            failed += "FAILED" in line
            common.note(f"{done}/{len(cells)} {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    common.end_with(main)
