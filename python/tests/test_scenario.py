from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL

import lasthop


def test_the_three_ways_to_get_a_scenario(tmp_path: Path, small: lasthop.Scenario) -> None:
    (tmp_path / "link.toml").write_text(SMALL)
    loaded = lasthop.Scenario.load(tmp_path / "link.toml")
    assert loaded == small and hash(loaded) == hash(small)
    assert loaded.file == str(tmp_path / "link.toml")
    assert lasthop.Scenario.open("link.toml") == small
    assert lasthop.Scenario.open(small) is small
    wavelan = lasthop.Scenario.builtin("wavelan-lan")
    assert (wavelan.scheme, wavelan.runs, wavelan.seed) == ("E2E", 30, 1)
    assert wavelan.description is not None and "Balakrishnan" in wavelan.description
    assert {"wavelan-lan", "satellite"} <= set(lasthop.builtin_names())
    assert repr(small) == "<lasthop.Scenario small: A small radio link>"


def test_setting_makes_another_scenario(small: lasthop.Scenario) -> None:
    other = small.set(
        {
            "links.radio.delay": "30 ms",
            "tcp.mss": np.int64(1000),
            "links.radio.errors": {"model": "list", "drop": [{"data": 17, "transmission": 2}]},
        },
        seed=9,
        limit="60 s",
    )
    assert (small.seed, other.seed) == (7, 9)
    text = other.to_toml()
    assert 'delay = "30 ms"' in text and 'mss = "1 kB"' in text and "data = 17" in text and 'limit = "60 s"' in text
    assert lasthop.Scenario.parse(text) == other != small
    assert "# override" in other.explain()
    with pytest.raises(TypeError, match="cannot be a value of a scenario"):
        small.set({"tcp.mss": object()})
    with pytest.raises(TypeError, match="nan"):
        small.set({"links.radio.errors.frame_loss": float("nan")})


def test_scenarios_travel_to_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickled scenarios include the folder that relative paths refer to."""
    (tmp_path / "losses.txt").write_text("0 0 1 0 0 0 0 0 0 0")
    replay = SMALL.replace('{ model = "uniform", frame_loss = "1 %" }', '{ model = "replay", file = "losses.txt" }')
    (tmp_path / "replay.toml").write_text(replay)
    scenario = lasthop.Scenario.load("replay.toml").set({"tcp.mss": 900})
    packed = pickle.dumps(scenario)
    here = lasthop.run(scenario, runs=1)
    monkeypatch.chdir("/")
    again = pickle.loads(packed)
    assert again == scenario
    assert lasthop.run(again, runs=1).samples.equals(here.samples)


def test_schemes() -> None:
    schemes = lasthop.schemes()
    assert [scheme.name for scheme in schemes][:2] == ["E2E", "E2E-NEWRENO"]
    assert {scheme.family for scheme in schemes} >= {"end-to-end", "link-layer", "split-connection", "today"}


def test_schemes_of_today(small: lasthop.Scenario) -> None:
    today = [scheme.name for scheme in lasthop.schemes() if scheme.family == "today"]
    assert today == ["E2E-CUBIC", "E2E-BBR", "E2E-BBR3", "SNOOP", "SPLIT-BBR"]
    assert not set(today) & set(small.usual_schemes())
    linux = small.set({"tcp.preset": "linux-6.18"})
    assert linux.usual_schemes() == today
    compared = lasthop.compare(linux, runs=2)
    assert list(compared.schemes) == today and not compared.remarks
    fixed = lasthop.compare(small.set({"tcp.congestion": "reno"}), ["E2E-BBR", "SNOOP"], runs=2)
    assert fixed.remarks == {"E2E-BBR": "modified: tcp.congestion is set"}
    text = small.explain("E2E-BBR")
    assert '\npreset = "linux-6.18"' in text and '\ncongestion = "bbr"' in text
    with pytest.raises(ValueError, match="no scheme"):
        small.explain("E2E-VEGAS")


def test_errors_name_file_line_and_key(tmp_path: Path, small: lasthop.Scenario) -> None:
    (tmp_path / "bad.toml").write_text(SMALL.replace('delay = "10 ms"', 'delay = "10"'))
    with pytest.raises(lasthop.ScenarioError) as caught:
        lasthop.Scenario.load("bad.toml")
    error = caught.value
    assert isinstance(error, ValueError)
    line = 1 + SMALL.split("\n").index('delay = "10 ms"')
    assert (error.file, error.key, error.line) == ("bad.toml", "links.radio.delay", line)
    assert str(error) == error.message and str(error).startswith(f"bad.toml:{line}: links.radio.delay: cannot be")
    # From a worker to the client.
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.key, again.line) == (str(error), error.file, error.key, error.line)

    with pytest.raises(lasthop.ScenarioError, match='did you mean "radio"') as caught:
        small.set({"links.raido.delay": "1 ms"})
    assert (caught.value.key, caught.value.line) == ("links.raido.delay", None)
    with pytest.raises(lasthop.ScenarioError, match="cannot be read"):
        lasthop.Scenario.load("nowhere.toml")
    with pytest.raises(lasthop.ScenarioError, match="no ready-made scenario"):
        lasthop.Scenario.builtin("wavelan")
    with pytest.raises(lasthop.ScenarioError, match="base_station"):
        lasthop.run(lasthop.Scenario.parse(SMALL[: SMALL.index("[base_station]")]), "LL")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scheme": "LLL"}, "no scheme \"LLL\"; expected one of E2E, "),
        ({"runs": 0}, "runs: cannot be 0; give 1 to 4294967295"),
        ({"seed": -1}, "seed: cannot be -1; give 0 to"),
        ({"seed": 2**64}, "seed: cannot be"),
        ({"jobs": -1}, "jobs: cannot be -1"),
    ],
)
def test_wrong_arguments(small: lasthop.Scenario, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lasthop.run(small, **arguments)  # type: ignore[arg-type]


def test_numbers_must_be_whole(small: lasthop.Scenario) -> None:
    with pytest.raises(TypeError, match="runs: cannot be 1.5; give a whole number"):
        lasthop.run(small, runs=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="schemes: none given"):
        lasthop.compare(small, [])
