#!/usr/bin/env python3
"""Tests the gateway beside other programs' rules: nothing may be worse with it than without, and `gateway check` must
predict the result.

    sender -- 100 Mbps, 10 ms -- gateway -- 20 Mbps, 5 ms, 2 % lost in both directions -- receiver

A cell is a rule set on the gateway, a mode (snoop, split, bridge) and an IP version. It has the goodput of a download
with the gateway relative to that without it, under the same rules; whether the gateway treated it; and whether `check`
predicted that. The goal of each cell is 95 %, and a correct prediction.

    sudo python3 benches/live/firewalls.py --require
    sudo python3 benches/live/firewalls.py --list
    sudo python3 benches/live/firewalls.py --sets nft-input-drop,ufw --modes split --families 4
"""
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from arena import Arena
from common import HERE, Gateway, Program, arguments, check_built, check_machine, chosen, end_with, example_argument, goal_arguments, note, run, table

PORT = 5001
PATIENCE = 30
SHARE = 0.95
TRANSFERS = os.path.join(HERE, "transfers.py")

# Lines for a shell on the gateway. IPT stands for both programs, iptables and ip6tables; NFT FAMILY TABLE { ... } is
# one nft file.
EST = "ct state established,related accept"
BASICS = "iif lo accept; meta l4proto { icmp, icmpv6 } accept"


def nft(text):
    """Returns rules for `nft`, one per line."""
    text = re.sub(r"^(\s*(?:chain|flowtable) \S+ \{)(.*)\}\s*$", lambda line: line[1] + "\n" + line[2].strip().rstrip(";").replace("; ", "\n") + "\n}", text, flags=re.MULTILINE)
    return f"nft -f - <<'END'\n{text}\nEND"


def chain(hook, policy="accept", rules="", priority="filter", kind="filter"):
    return f"chain {hook} {{ type {kind} hook {hook} priority {priority}; policy {policy}; {rules} }}"


def inet(*chains, name="filter"):
    return nft(f"table inet {name} {{\n" + "\n".join(chains) + "\n}")


def ipt(*rules):
    return "\n".join(f"{program} -w {rule}" for rule in rules for program in ("iptables", "ip6tables"))


def legacy(*rules):
    return "\n".join(f"{program} -w {rule}" for rule in rules for program in ("iptables-legacy", "ip6tables-legacy"))


def sysctl(**values):
    return "\n".join(f"echo {value} > /proc/sys/{name.replace('__', '/')}" for name, value in values.items())


STATEFUL = f"{BASICS}; {EST}; ct state invalid drop"
FORWARD = f"{EST}; ct state invalid drop; iifname wireless accept; iifname wired accept"
IPT_BASICS = ("-A INPUT -i lo -j ACCEPT", "-A INPUT -p icmp -j ACCEPT", "-A INPUT -p ipv6-icmp -j ACCEPT", "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT")
IPT_OUT = ("-A OUTPUT -o lo -j ACCEPT", "-A OUTPUT -p icmp -j ACCEPT", "-A OUTPUT -p ipv6-icmp -j ACCEPT", "-A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT")
UFW = ("-N ufw-before-input", "-A ufw-before-input -i lo -j ACCEPT", "-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
       "-A ufw-before-input -m conntrack --ctstate INVALID -j DROP", "-A ufw-before-input -p icmp -j ACCEPT", "-A ufw-before-input -p ipv6-icmp -j ACCEPT",
       "-N ufw-before-forward", "-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-A ufw-before-forward -i wireless -j ACCEPT",
       "-N ufw-before-output", "-A ufw-before-output -o lo -j ACCEPT", "-A ufw-before-output -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
       "-N ufw-reject-forward", "-A ufw-reject-forward -j REJECT",
       "-A INPUT -j ufw-before-input", "-A FORWARD -j ufw-before-forward", "-A FORWARD -j ufw-reject-forward", "-A OUTPUT -j ufw-before-output", "-P INPUT DROP", "-P FORWARD DROP")
DOCKER = ("-N DOCKER-USER", "-N DOCKER", "-A DOCKER-USER -j RETURN", "-A FORWARD -j DOCKER-USER", "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
          "-A FORWARD -o docker0 -j DOCKER", "-A FORWARD -i wireless -j ACCEPT", "-P FORWARD DROP", "-t nat -N DOCKER", "-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
          "-t nat -A OUTPUT -m addrtype --dst-type LOCAL -j DOCKER")


def firewalld(out="accept"):
    zone = "jump filter_IN_public; reject with icmpx admin-prohibited"
    return nft(f"""table inet firewalld {{
 chain mangle_PREROUTING {{ type filter hook prerouting priority mangle + 10; policy accept; jump mangle_PRE }}
 chain mangle_PRE {{ }}
 chain nat_POSTROUTING {{ type nat hook postrouting priority srcnat + 10; policy accept; oifname wired meta nfproto ipv4 masquerade }}
 chain filter_PREROUTING {{ type filter hook prerouting priority filter + 10; policy accept; icmpv6 type {{ nd-router-advert, nd-neighbor-solicit }} accept; meta nfproto ipv6 fib saddr . mark . iif oif missing drop }}
 chain filter_INPUT {{ type filter hook input priority filter + 10; policy accept; ct state {{ established, related }} accept; ct status dnat accept; iifname lo accept; ct state invalid drop; {zone} }}
 chain filter_FORWARD {{ type filter hook forward priority filter + 10; policy accept; ct state {{ established, related }} accept; ct status dnat accept; iifname lo accept; ct state invalid drop; iifname wireless oifname wired accept; reject with icmpx admin-prohibited }}
 chain filter_OUTPUT {{ type filter hook output priority filter + 10; policy {out}; ct state {{ established, related }} accept; oifname lo accept; meta l4proto {{ icmp, icmpv6 }} accept }}
 chain filter_IN_public {{ meta l4proto {{ icmp, icmpv6 }} accept; tcp dport 22 accept }}
}}""")


POLICY_ROUTING = "\n".join(("ip route add default via 10.1.0.2 dev wired table 100", "ip rule add pref 100 fwmark 1 lookup 100", "ip -6 route add default via fd01::2 dev wired table 100",
                            "ip -6 rule add pref 100 fwmark 1 lookup 100", ipt("-t mangle -A PREROUTING -i wireless -j MARK --set-mark 1")))
SETS = {
    "empty": "true",
    # nftables
    "nft-input-drop": inet(chain("input", "drop", STATEFUL)),
    "nft-input-reject": inet(chain("input", "accept", f"{STATEFUL}; reject with icmpx admin-prohibited")),
    "nft-input-reset": inet(chain("input", "accept", f"{STATEFUL}; meta l4proto tcp reject with tcp reset")),
    "nft-output-drop": inet(chain("output", "drop", f"oif lo accept; meta l4proto {{ icmp, icmpv6 }} accept; {EST}")),
    "nft-output-new": inet(chain("output", "drop", "oif lo accept; meta l4proto { icmp, icmpv6 } accept; ct state new,established,related accept")),
    "nft-output-reset": inet(chain("output", "accept", f"oif lo accept; meta l4proto {{ icmp, icmpv6 }} accept; {EST}; meta l4proto tcp reject with tcp reset")),
    "nft-output-untracked": inet(chain("output", "accept", "ct state untracked drop")),
    "nft-forward-drop": inet(chain("forward", "drop", FORWARD)),
    "nft-all-drop": inet(chain("input", "drop", STATEFUL), chain("forward", "drop", FORWARD), chain("output", "drop", f"oif lo accept; meta l4proto {{ icmp, icmpv6 }} accept; {EST}")),
    "nft-raw-output": inet(chain("output", "accept", "oifname wireless meta l4proto tcp meta skuid 0 accept; meta mark != 0 drop", priority="raw")),
    "nft-postrouting-drop": inet(chain("postrouting", "accept", "oifname wireless ct state untracked drop")),
    "nft-prerouting-invalid": inet(chain("prerouting", "accept", "ct state invalid drop", priority="mangle")),
    "nft-prerouting-untracked": inet(chain("prerouting", "accept", "iifname wireless ct state untracked meta l4proto tcp drop", priority="filter")),
    "nft-rpfilter": inet(chain("prerouting", "accept", "fib saddr . iif oif missing drop", priority="raw")),
    "nft-notrack": inet(chain("prerouting", "accept", "meta l4proto tcp notrack", priority="raw"), chain("output", "accept", "meta l4proto tcp notrack", priority="raw")),
    "nft-notrack-drop": inet(chain("prerouting", "accept", "meta l4proto tcp notrack", priority="raw"), chain("input", "drop", f"{BASICS}; {EST}")),
    "nft-zone": inet(chain("prerouting", "accept", "iifname { wireless, wired } ct zone set 7", priority="raw"), chain("input", "drop", STATEFUL)),
    "nft-zone-masquerade": inet(chain("prerouting", "accept", "ct zone set 7", priority="raw"), chain("postrouting", "accept", "oifname wired masquerade", priority="srcnat", kind="nat")),
    "nft-masquerade": inet(chain("postrouting", "accept", "oifname wired masquerade", priority="srcnat", kind="nat"), chain("forward", "drop", FORWARD)),
    "nft-masquerade-input": inet(chain("postrouting", "accept", "oifname wired masquerade", priority="srcnat", kind="nat"), chain("input", "drop", STATEFUL), chain("forward", "drop", FORWARD)),
    "nft-masquerade-output": inet(chain("postrouting", "accept", "oifname wired masquerade", priority="srcnat", kind="nat"), chain("output", "drop", f"oif lo accept; meta l4proto {{ icmp, icmpv6 }} accept; {EST}")),
    "nft-mss-clamp": inet(chain("forward", "accept", "tcp flags syn / syn,rst tcp option maxseg size set 1200", priority="mangle")),
    "nft-marks": inet(chain("prerouting", "accept", "iifname wireless meta mark set 0x42", priority="mangle"), chain("output", "accept", "meta mark set 0x43", priority="mangle", kind="route")),
    "nft-ct-mark": inet(chain("prerouting", "accept", "meta mark set ct mark; meta mark 0 meta mark set 0x5; ct mark set meta mark", priority="mangle")),
    "nft-limit": inet(chain("input", "drop", f"{STATEFUL}; tcp flags syn limit rate 1/minute accept")),
    "nft-two-tables": inet(chain("input", "drop", STATEFUL), name="first") + "\n" + inet(chain("input", "drop", STATEFUL, priority="filter + 20"), name="second"),
    "nft-input-late": inet(chain("input", "drop", STATEFUL, priority="300")),
    "nft-accepts-marks": inet(chain("input", "drop", f"{STATEFUL}; meta mark and 0x10000000 == 0x10000000 accept"),
                              chain("output", "drop", f"oif lo accept; {EST}; meta l4proto {{ icmp, icmpv6 }} accept; meta mark and 0x68000000 != 0 accept")),
    # iptables
    "ipt-input-drop": ipt(*IPT_BASICS, "-P INPUT DROP"),
    "ipt-output-drop": ipt(*IPT_OUT, "-P OUTPUT DROP"),
    "ipt-all-drop": ipt(*IPT_BASICS, *IPT_OUT, "-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", "-A FORWARD -i wireless -j ACCEPT", "-P INPUT DROP", "-P FORWARD DROP", "-P OUTPUT DROP"),
    "ipt-invalid": ipt("-t mangle -A PREROUTING -m conntrack --ctstate INVALID -j DROP", "-t mangle -A PREROUTING -p tcp ! --syn -m conntrack --ctstate NEW -j DROP"),
    "ipt-mangle-output": ipt("-t mangle -A OUTPUT -o wireless -p tcp -m conntrack --ctstate UNTRACKED -j DROP"),
    "ipt-mangle-input": ipt("-t mangle -A INPUT -p tcp -m conntrack --ctstate UNTRACKED -j DROP"),
    "ipt-raw-notrack": ipt("-t raw -A PREROUTING -p tcp -j CT --notrack", "-t raw -A OUTPUT -p tcp -j CT --notrack"),
    "ipt-masquerade": ipt("-t nat -A POSTROUTING -o wired -j MASQUERADE", "-A FORWARD -m conntrack --ctstate INVALID -j DROP"),
    "ipt-zone": ipt("-t raw -A PREROUTING -j CT --zone 7", "-t nat -A POSTROUTING -o wired -j MASQUERADE"),
    "ipt-tcpmss": ipt("-t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1100"),
    "ipt-policy-routing": POLICY_ROUTING,
    "ipt-policy-only": POLICY_ROUTING + "\nip route del 10.1.0.0/24 dev wired\nip route add 10.1.0.0/24 dev wired table 100\nip -6 route del fd01::/64 dev wired\nip -6 route add fd01::/64 dev wired table 100",
    "ipt-synproxy": sysctl(net__ipv4__tcp_syncookies=1, net__netfilter__nf_conntrack_tcp_loose=0) + "\n" + ipt(
        "-t raw -A PREROUTING -i wireless -p tcp --syn -j CT --notrack", "-A FORWARD -i wireless -p tcp -m conntrack --ctstate INVALID,UNTRACKED -j SYNPROXY --sack-perm --timestamp --wscale 7 --mss 1460",
        "-A FORWARD -m conntrack --ctstate INVALID -j DROP"),
    "legacy-input-drop": legacy(*IPT_BASICS, "-P INPUT DROP"),
    "legacy-output-drop": legacy(*IPT_OUT, "-P OUTPUT DROP"),
    "legacy-mangle-output": legacy("-t mangle -A OUTPUT -o wireless -p tcp -m conntrack --ctstate UNTRACKED -j DROP"),
    # Systems
    "ufw": ipt(*UFW),
    "ufw-output": ipt(*UFW, "-P OUTPUT DROP"),
    "docker": ipt(*DOCKER) + "\niptables -w -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
    "firewalld": firewalld(),
    "firewalld-output": firewalld("drop"),
    "openwrt": nft(f"""table inet fw4 {{
 chain input {{ type filter hook input priority filter; policy accept; iifname lo accept; ct state established,related accept; tcp flags & (fin | syn | rst | ack) == syn jump syn_flood; iifname wireless jump input_lan; iifname wired jump input_wan; jump handle_reject }}
 chain forward {{ type filter hook forward priority filter; policy drop; ct state established,related accept; iifname wireless accept; jump handle_reject }}
 chain output {{ type filter hook output priority filter; policy accept; oifname lo accept; ct state established,related accept }}
 chain syn_flood {{ limit rate 25/second burst 50 packets return; drop }}
 chain input_lan {{ accept }}
 chain input_wan {{ meta l4proto {{ icmp, icmpv6 }} accept; jump handle_reject }}
 chain handle_reject {{ meta l4proto tcp reject with tcp reset; reject with icmpx port-unreachable }}
 chain srcnat {{ type nat hook postrouting priority srcnat; policy accept; oifname wired meta nfproto ipv4 masquerade }}
 chain mangle_forward {{ type filter hook forward priority mangle; policy accept; tcp flags syn tcp option maxseg size set rt mtu }}
}}"""),
    # Settings of the kernel
    "loose-0": sysctl(net__netfilter__nf_conntrack_tcp_loose=0) + "\n" + inet(chain("forward", "drop", FORWARD)),
    "liberal": sysctl(net__netfilter__nf_conntrack_tcp_be_liberal=1) + "\n" + inet(chain("forward", "drop", FORWARD)),
    "rp-strict": sysctl(net__ipv4__conf__all__rp_filter=1, net__ipv4__conf__wired__rp_filter=1, net__ipv4__conf__wireless__rp_filter=1),
    "rp-loose": sysctl(net__ipv4__conf__all__rp_filter=2, net__ipv4__conf__wired__rp_filter=2, net__ipv4__conf__wireless__rp_filter=2),
    "rp-strict-mark": sysctl(net__ipv4__conf__all__rp_filter=1, net__ipv4__conf__wireless__rp_filter=1, net__ipv4__conf__all__src_valid_mark=1),
    # Bridges
    "bridge-forward": nft("table bridge filter {\nchain forward { type filter hook forward priority filter; policy accept; }\n}"),
    "flowtable": inet("flowtable fast { hook ingress priority filter; devices = { wired, wireless }; }", chain("forward", "accept", "meta l4proto tcp flow add @fast")),
}
SETS["nft-log-drop"] = nft(f"table inet filter {{\nchain last {{ counter drop }}\n{chain('input', 'accept', f'{STATEFUL}; jump last')}\n}}")

MODES = {
    "snoop": ("routed", 'mode = "snoop"\ninterface = "wireless"\n'),
    "split": ("routed", f'mode = "split"\ninterface = "wireless"\nports = [{PORT}]\n'),
    "bridge": ("bridge", 'mode = "snoop"\ninterface = "wireless"\n'),
}
# Rule sets that affect the bridge: it takes TCP past all chains except those of the bridge.
BRIDGED = ("empty", "nft-input-drop", "nft-output-drop", "nft-all-drop", "ufw", "bridge-forward")
TOP = {"bridge": 'bridge.wired = "wired"\n'}


def predicted(args, arena, mode):
    """Returns whether `check` predicts treatment, and its findings."""
    with tempfile.TemporaryDirectory(prefix="lasthop-bench-") as folder:
        file = os.path.join(folder, "gateway.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(f'control = "{folder}/gateway.sock"\n{TOP.get(mode, "")}\n[[rule]]\nname = "bench"\n{MODES[mode][1]}')
        done = subprocess.run(["ip", "netns", "exec", arena.namespace("gateway"), args.lasthop, "gateway", "check", "--json", file], capture_output=True, text=True, check=False)
        findings = json.loads(done.stdout) if done.stdout else []
    return done.returncode == 0, findings


def of_family(findings, family):
    """Selects findings of the rehearsals for an IP version: whether all are ok, and their details."""
    word = f"over IPv{family}"
    told = [one for one in findings if one["subject"].startswith("firewall") and word in one["subject"]]
    return all(one["outcome"] == "ok" for one in told) and bool(told), " ".join(one["detail"] for one in told)


def meet(args, arena, family):
    """Makes the hosts resolve their neighbours, so that no lost request for a hardware address delays a download by a
    second."""
    # Refused by ICMP once it has arrived.
    code = ("import socket, sys\ns = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(0.5)\ns.connect((sys.argv[1], 5999))\n"
            "for _ in range(6):\n try:\n  s.send(b'x')\n  s.recv(1)\n except ConnectionRefusedError: break\n except OSError: pass\n")
    run(sys.executable, "-c", code, arena.address("sender", family), namespace=arena.namespace("receiver"))


def download(args, arena, family, gateway):
    meet(args, arena, family)
    plan = {"transfers": 0, "at_once": 1, "bulk": 1, "seconds": args.seconds, "sizes": [0, 0], "up": [0, 0], "kind": "close", "control": "bbr", "patience": 30, "begin": 0, "pause": 0,
            "ports": [20_000, 60_000]}
    text = json.dumps(plan)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Program(arena.namespace("sender"), sys.executable, TRANSFERS, "serve", str(PORT), "1", text))
        server.line()
        client = stack.enter_context(Program(arena.namespace("receiver"), sys.executable, TRANSFERS, "call", arena.address("sender", family), str(PORT), "1", text))
        ended = client.result(args.seconds + PATIENCE)
        status = gateway.status() if gateway else None
    bad = [one for one in ended["results"] if one["status"] != "ok"]
    mbps = sum(one["received"] for one in ended["results"]) * 8e-6 / args.seconds
    return mbps, bad, status


def one(args, rules, mode, family, seed, with_gateway):
    """Returns the goodput of one download, its failures, and the gateway's status."""
    path = MODES[mode][0]
    wire = "rate=100,delay=10,queue=2000"
    lossy = f"rate=20,delay=5,queue=200,down.loss={args.loss / 100:g},up.loss={args.loss / 100:g}"
    with contextlib.ExitStack() as stack:
        arena = stack.enter_context(Arena(args, path, seed, wire, lossy))
        run("sh", "-ec", rules, namespace=arena.namespace("gateway"))
        gateway = stack.enter_context(Gateway(args, arena.namespace("gateway"), MODES[mode][1], TOP.get(mode, ""))) if with_gateway else None
        return download(args, arena, family, gateway)


def check_of(args, rules, mode):
    with Arena(args, MODES[mode][0], 1, "rate=100,delay=10,queue=2000", "rate=20,delay=5,queue=200") as arena:
        run("sh", "-ec", rules, namespace=arena.namespace("gateway"))
        return predicted(args, arena, mode)


def is_treated(mode, status, family):
    word = {"snoop": "snoop", "bridge": "snoop", "split": "split"}[mode]
    suspended = any(one["treatment"] == word and one["family"] == f"IPv{family}" for one in status.get("untreated", []))
    return not suspended and (status["split"]["total"] > 0 if mode == "split" else status["packets"]["towards_wireless"] > 0)


def possible(args, name, mode):
    """Returns whether the kernel accepts a rule set at all."""
    try:
        with Arena(args, MODES[mode][0], 1, "rate=100", "rate=20") as arena:
            run("sh", "-ec", SETS[name], namespace=arena.namespace("gateway"))
        return None
    except RuntimeError as error:
        return str(error)


def page(cells):
    """Returns the table of docs/notes/gateway-firewalls.md, without the text around it."""
    done = [cell for cell in cells if "mode" in cell]
    low = [cell for cell in done if cell["share"] < SHARE]
    wrong = [cell for cell in done if cell["check"] != cell["treated"]]
    lines = [
        f"{len({cell['set'] for cell in done})} rule sets, {len(done)} cells; {len(low)} below 95 %, {len(wrong)} where `check` was wrong.", "",
        "| rule set | mode | IP | Mbps without | with | treated | check |", "|---|---|---|--:|--:|---|---|",
    ]
    lines += [f"| {cell['set']} | {cell['mode']} | {cell['family']} | {cell['bare']:.1f} | {cell['share']:.0%} | {'yes' if cell['treated'] else 'no'} | {'works' if cell['check'] else 'would not'} |"
              for cell in done]
    skipped = [cell for cell in cells if "skipped" in cell]
    if skipped:
        lines += ["", "Not run, since this kernel does not take the rules:", ""] + [f"* {cell['set']}: {cell['skipped'].splitlines()[-1][:100] if cell['skipped'] else ''}" for cell in skipped]
    return "\n".join(lines) + "\n"


def joined(cells, files):
    """Merges the cells with those of earlier runs, in the order of the rule sets."""
    def key(cell):
        return list(SETS).index(cell["set"]), list(MODES).index(cell.get("mode", "snoop")), cell.get("family", 4)

    every = {}
    for file in files:
        with open(file, encoding="utf-8") as earlier:
            every |= {key(cell): cell for cell in json.load(earlier)["cells"]}
    every |= {key(cell): cell for cell in cells}
    return [cell for _, cell in sorted(every.items())]


def repeated(args):
    """Returns the cells to repeat, with the findings of `check`."""
    part, parts = (int(text) for text in args.repeat.split("/"))
    low = [cell for cell in joined([], args.cells) if "mode" in cell and cell["share"] < SHARE]
    return {(cell["set"], cell["mode"], cell["family"]): cell for cell in low[part - 1::parts]}


def main():
    parser = arguments(__doc__)
    example_argument(parser, "--hop", "the emulated links")
    parser.add_argument("--sets", default="all", help="which rule sets, separated by commas (default all)")
    parser.add_argument("--modes", default="all", help=f"which, separated by commas (default all of {', '.join(MODES)})")
    parser.add_argument("--families", default="4,6", help="versions of IP (default 4,6)")
    parser.add_argument("--loss", type=float, default=2, help="percent of the frames on the hop, each way (default 2)")
    parser.add_argument("--seconds", type=float, default=5, help="of each download (default 5)")
    parser.add_argument("--tries", type=int, default=5, help="pairs of downloads, each with losses of its own, before a cell counts as worse (default 5): the median counts")
    parser.add_argument("--page", metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--cells", metavar="FILE", action="append", default=[], help="JSON of an earlier run, whose other cells belong to the table, too; may be repeated")
    parser.add_argument("--repeat", metavar="PART/PARTS", help="repeat the cells of --cells that are below the goal, or a part of them, without `check`")
    parser.add_argument("--list", action="store_true", help="print the rule sets and end")
    goal_arguments(parser)
    args = parser.parse_args()
    args.offloads = False
    if args.list:
        print("\n\n".join(f"# {name}\n{text}" for name, text in SETS.items()))
        return 0
    check_machine(args)
    check_built(args.hop)
    names, modes = chosen(parser, args.sets, SETS), chosen(parser, args.modes, MODES)
    families = [int(text) for text in args.families.split(",")]
    cells, missed = [], False
    again = repeated(args) if args.repeat else {}
    for name in names:
        if args.repeat and not any(key[0] == name for key in again):
            continue
        if problem := possible(args, name, "snoop"):
            note(f"!!! SKIPPED: {name}: {problem}")
            cells.append({"set": name, "skipped": problem})
            continue
        bare = {}
        for mode in modes:
            if mode == "bridge" and name not in BRIDGED:
                continue
            if args.repeat and not any(key[:2] == (name, mode) for key in again):
                continue
            fine, findings = (True, []) if args.repeat else check_of(args, SETS[name], mode)
            for family in families:
                if args.repeat and (name, mode, family) not in again:
                    continue
                path = MODES[mode][0]
                treated, broken, with_all, bare_all = False, [], [], []
                for attempt in range(args.tries):
                    if (path, family, attempt) not in bare:
                        bare[path, family, attempt] = one(args, SETS[name], mode, family, attempt + (11 if args.repeat else 1), False)[0]
                    mbps, bad, status = one(args, SETS[name], mode, family, attempt + (11 if args.repeat else 1), True)
                    with_all.append(mbps)
                    bare_all.append(bare[path, family, attempt])
                    share = statistics.median(with_all) / max(statistics.median(bare_all), 0.01)
                    treated, broken = is_treated(mode, status, family), broken + bad
                    if share >= SHARE and len(with_all) % 2:
                        break
                said, words = (fine, "") if mode == "bridge" else of_family(findings, family)
                if args.repeat:
                    said, words = again[name, mode, family]["check"], again[name, mode, family]["said"]
                right = said == treated
                missed |= share < SHARE or not right
                cells.append({"set": name, "mode": mode, "family": family, "share": share, "mbps": with_all, "bare": statistics.median(bare_all), "treated": treated, "check": said, "tries": len(with_all),
                              "said": words, "broken": len(broken)})
                note(f"{name}, {mode}, IPv{family}: {share:.0%}, {'treated' if treated else 'untreated'}, check says {'works' if said else 'does not'}{'' if right else ' (WRONG)'} {words[:160] if not right else ''}")
    if not args.repeat:
        cells = joined(cells, args.cells)
    if args.page:
        with open(args.page, "w", encoding="utf-8") as out:
            out.write(page(cells))
    if args.json:
        print(json.dumps({"seconds": args.seconds, "loss_percent": args.loss, "cells": cells}, indent=2))
    else:
        rows = [[cell["set"], cell["mode"], f"IPv{cell['family']}", f"{cell['bare']:.1f}", f"{cell['share']:.0%}", "yes" if cell["treated"] else "no", "works" if cell["check"] else "does not"]
                for cell in cells if "mode" in cell]
        table(["rule set", "mode", "", "Mbps without", "with", "treated", "check"], rows)
    return 1 if missed and args.require else 0


if __name__ == "__main__":
    end_with(main)
