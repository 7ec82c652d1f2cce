"""From a measurement to a cure: the results equal those of the command for the same file."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import Command

import lasthop

_DRAW = random.Random(7)
#: Losses of 4,000 packets with a spacing of 1 ms, 1 in 50.
TRACE = "sent_s,bytes,lost\n" + "".join(
    f"{number / 1e3:.3f},1000,{int(_DRAW.random() < 0.02)}\n" for number in range(4000)
)
LINK = {"rate": "6 Mbps", "delay": "10 ms"}
OPTIONS = ["--rate", "6Mbps", "--delay", "10ms"]


@pytest.fixture
def capture(small: lasthop.Scenario, tmp_path: Path) -> Path:
    """Returns a gateway's capture of a download over a lossy radio."""
    path = tmp_path / "hop.pcapng"
    scenario = small.set({"flows.download.size": "2 MiB", "tcp.preset": "linux-6.18"})
    lasthop.trace(scenario, "E2E-CUBIC").to_pcapng(path, point="tower:radio")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "losses.csv"
    path.write_text(TRACE)
    return path


def test_diagnosis_is_the_commands(capture: Path, command: Command) -> None:
    said = lasthop.diagnose("hop.pcapng")
    told = command.json("diagnose", "hop.pcapng")
    assert isinstance(told, dict)
    assert said.report == told["captures"][0]
    [flow] = [row for row in said.flows.to_pylist() if row["bytes"] > 1_000_000]
    direction = said.report["flows"][0]["directions"][0]
    for name in ("from", "to", "vantage", "bytes", "packets", "goodput_bps", "rtt_ms", "limit", "corruption", "congestion"):
        assert flow[name] == direction[name], name
    shares = {limit["factor"]: limit["share"] for limit in direction["limits"]}
    assert shares and all(flow[f"limit_{factor.replace('-', '_')}"] == share for factor, share in shares.items())
    # Each loss is listed with its cause: the radio destroyed the packets.
    losses = said.losses
    assert losses.num_rows == sum(len(one["losses"]) for flow in said.report["flows"] for one in flow["directions"])
    assert losses["cause"].to_pylist().count("corruption") > 5
    assert losses["time_s"].type == pa.float64() and losses["packet"].type == pa.uint64()
    assert losses.schema.metadata[b"lasthop.capture"] == b"hop.pcapng"
    assert "limited by" in str(said) and "<table>" in said._repr_html_()


def test_two_captures_are_matched_as_the_command_does(small: lasthop.Scenario, command: Command, tmp_path: Path) -> None:
    trace = lasthop.trace(small.set({"flows.download.size": "1 MiB", "tcp.preset": "linux-6.18"}), "E2E-CUBIC")
    for name, point in (("near", "tower:radio"), ("far", "phone")):
        trace.to_pcapng(tmp_path / f"{name}.pcapng", point=point)
    found = lasthop.diagnose_between("near.pcapng", "far.pcapng")
    assert found.report == command.json("diagnose", "--between", "near.pcapng", "far.pcapng")
    [flow] = [row for row in found.flows.to_pylist() if row["packets"] > 500]
    assert flow["near"] == 1 and flow["corruption"] == found.losses["cause"].to_pylist().count("corruption") > 2
    assert found.losses["confidence"].null_count == 0 and "near.pcapng and far.pcapng" in repr(found)
    with pytest.raises(ValueError, match="contains no packet|not a capture"):
        (tmp_path / "losses.csv").write_text(TRACE)
        lasthop.diagnose_between("near.pcapng", "losses.csv")


def test_a_diagnosis_writes_what_the_command_writes(capture: Path, command: Command, tmp_path: Path) -> None:
    command.text("diagnose", "hop.pcapng", "--loss-trace", "theirs.csv", "--annotate", "theirs.pcapng")
    said = lasthop.diagnose(capture, at="gateway")
    lasthop.diagnose(capture).loss_trace(tmp_path / "ours.csv")
    said.annotate("ours.pcapng")
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes()
    assert (tmp_path / "ours.pcapng").stat().st_size > 0
    with pytest.raises(ValueError, match="is the capture itself"):
        said.annotate(capture)
    with pytest.raises(ValueError, match="flow: cannot be 9; the capture has flows 1 to 1"):
        said.loss_trace("x.csv", flow=9)


def test_fit_is_the_commands(trace: Path, command: Command, tmp_path: Path) -> None:
    fitted = lasthop.fit("losses.csv", **LINK)
    assert fitted.report == command.json("fit", "losses.csv", *OPTIONS)
    command.text("fit", "losses.csv", *OPTIONS, "--out", "link.toml")
    # The origin of a value is the option's name there as well.
    assert fitted.toml == (tmp_path / "link.toml").read_text()
    report = fitted.report["down"]["fit"]
    assert fitted.models["model"].to_pylist() == [fit["family"] for fit in report["fits"]]
    assert fitted.models["rank"].to_pylist()[0] == 1 and fitted.models["aic"].to_pylist()[0] == report["fits"][0]["aic"]
    first = fitted.parameters.to_pylist()[0]
    parameter = report["fits"][0]["parameters"][0]
    assert (first["parameter"], first["value"], [first["low"], first["high"]]) == (
        parameter["key"],
        parameter["value"],
        parameter["interval"],
    )
    assert sum(row["seen"] for row in fitted.beside.to_pylist() if row["what"] == "runs") > 0
    assert 0 < sum(fitted.over_time["lost"].to_pylist()) < fitted.over_time.num_rows <= 120
    statement = fitted.statement.to_pylist()
    assert [row["aspect"] for row in statement[:5]] == ["rate", "delay", "order", "duplication", "loss"]
    told = fitted.report["down"]["statement"]
    assert all(told[row["aspect"]] == {"verdict": row["verdict"], "why": row["why"]} for row in statement[:5])
    # The fitted scenario is usable like any other.
    result = lasthop.compare(fitted.scenario.set({"flows.download.size": "200 KiB"}), ["E2E-CUBIC", "SNOOP"], runs=2)
    assert result["SNOOP"]["throughput"].mean > 0
    assert "<table>" in fitted._repr_html_() and "down: " in str(fitted)


def test_a_capture_is_fitted(capture: Path, command: Command) -> None:
    fitted = lasthop.fit(capture.name, rate="5 Mbps")
    assert fitted.report == command.json("fit", capture.name, "--rate", "5Mbps")
    assert fitted.remark is not None and "losses of flow 1" in fitted.remark


def test_advice_is_the_commands(trace: Path, command: Command, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    advice = lasthop.advise(
        "losses.csv", **LINK, control="box", uses=["bulk"], runs=2, progress=lambda *run: seen.append(run)
    )
    arguments = ["advise", "losses.csv", *OPTIONS, "--control", "box", "--for", "bulk", "-n", "2"]
    assert advice.report == command.json(*arguments)
    assert seen[-1] == (6, 6)
    assert advice.fit is not None and advice.scenario == advice.fit.scenario
    table = advice.table.to_pylist()
    assert [row["cure"] for row in table] == ["E2E-CUBIC", "SNOOP", "SPLIT-BBR"]
    assert table[0]["ratio"] == 1.0 and table[1]["ratio_low"] <= table[1]["ratio"] <= table[1]["ratio_high"]
    assert advice.winner in {"SNOOP", "SPLIT-BBR", None} and set(advice.best_with) == {"sender", "box", "boxes"}
    # A given fit is not repeated.
    again = lasthop.advise(lasthop.fit(trace, **LINK), control="box", uses="bulk", runs=2, jobs=1)
    assert again.report == advice.report
    # The same with the scenario's file.
    (tmp_path / "link.toml").write_text(advice.fit.toml)
    assert lasthop.advise("link.toml", control="box", uses="bulk", runs=2).table.equals(advice.table)
    # The gateway's file equals the command's, byte for byte.
    if advice.winner:
        command.text(*arguments, "--interface", "wlan0", "--out", "gateway.toml")
        files = advice.files(interface="wlan0")
        assert files["gateway.toml"] == (tmp_path / "gateway.toml").read_text()
        assert json.loads(files["gateway.promise.json"]) == json.loads((tmp_path / "gateway.promise.json").read_text())


def test_the_files_of_other_cures() -> None:
    advice = lasthop.advise("farm-radio", uses="bulk", runs=1)
    assert "net.ipv4.tcp_congestion_control = bbr" in advice.files("E2E-BBR")["90-lasthop-bbr.conf"]
    near = lasthop.TunnelEnd("3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=")
    far = lasthop.TunnelEnd("HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=", host="boat.example", behind=("10.20.0.0/16",))
    files = advice.files("LINK-HYBRID", near=near, far=far)
    assert set(files) == {"tunnel.toml", "tunnel-far.toml", "tunnel.promise.json"}
    assert 'endpoint = "boat.example:51900"' in files["tunnel.toml"] and '"10.20.0.0/16"' in files["tunnel.toml"]
    for wrong, message in [
        ({"cure": "SNOOP"}, "interface: give the gateway's interface"),
        ({"cure": "SNOOP", "interface": "a/b"}, 'interface: "a/b": it is not an interface name'),
        ({"cure": "LINK-HYBRID", "near": near}, "far_key: give the public key"),
        ({"cure": "E2E-CUBIC"}, "installs nothing"),
    ]:
        with pytest.raises(ValueError, match=message):
            advice.files(**wrong)  # type: ignore[arg-type]
    assert "<table>" in advice._repr_html_() and "Advice: " in str(advice)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lasthop.diagnose("none.pcap"), OSError, r"none\.pcap: No such file"),
        (lambda: lasthop.diagnose("losses.csv"), ValueError, r"losses\.csv: not a capture"),
        (lambda: lasthop.diagnose("losses.csv", at="roof"), ValueError, 'at: cannot be "roof"'),
        (lambda: lasthop.fit("none.csv"), OSError, r"none\.csv: No such file"),
        (lambda: lasthop.fit("losses.csv", rate="soon"), ValueError, 'rate: "soon": .*give a rate with its unit'),
        (lambda: lasthop.fit("losses.csv", wire_delay="1"), ValueError, 'wire_delay: "1": '),
        (lambda: lasthop.fit("losses.csv").scenario, ValueError, 'rate and delay are unknown; give rate="10 Mbps", delay="20 ms"'),
        (lambda: lasthop.advise("losses.csv"), ValueError, "rate and delay are unknown"),
        (lambda: lasthop.advise("farm-radio", rate="1 Mbps"), ValueError, "rate: a scenario has its own"),
        (lambda: lasthop.advise("farm-radio", control="roof"), ValueError, "give one or more of sender, box, boxes"),
        (lambda: lasthop.advise("farm-radio", uses=["films"]), ValueError, "give one or more of bulk, upload, pages, call"),
        (lambda: lasthop.advise("farm-radio", runs=0), ValueError, "runs: cannot be 0"),
        (lambda: lasthop.advise("no-such-link"), lasthop.ScenarioError, "no-such-link"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(call: object, error: type[Exception], message: str, trace: Path) -> None:
    assert callable(call)
    with pytest.raises(error, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)
