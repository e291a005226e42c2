"""The profiles of gradual adoption: each is sound, and its ticket holds what its step is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from changegen.cli import cli

ROOT = Path(__file__).resolve().parent.parent
PROFILES = sorted((ROOT / "examples" / "adoption").glob("*.yaml"))
BEFORE = ROOT / "tests" / "data" / "recorded" / "before"


def _ticket(profile: Path) -> dict:
    result = CliRunner().invoke(cli, ["-q", "ticket", str(BEFORE), "--profile", str(profile), "-f", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.stem)
def test_profile_is_sound(profile):
    result = CliRunner().invoke(cli, ["profile", "lint", str(profile)])
    assert result.exit_code == 0, result.output


def test_there_is_one_profile_a_step():
    assert [p.name[0] for p in PROFILES] == ["1", "2", "3", "4"]


def test_the_first_step_keeps_device_plugins():
    ticket = _ticket(PROFILES[0])
    assert not any("to DRA" in step["title"] for step in ticket["steps"])
    assert any("example.com/legacy-gpu" in check["title"] for check in ticket["checks"])


def test_the_second_step_moves_a_resource_node_by_node_with_a_way_back():
    ticket = _ticket(PROFILES[1])
    steps = [step for step in ticket["steps"] if "to DRA" in step["title"]]
    assert steps
    backs = {back["id"] for back in ticket["rollback"] if "served by DRA" in back["what"]}
    assert backs
    assert all(set(step["rollback"]) & backs for step in steps)


def test_the_third_step_rolls_a_taint_out_by_its_effects():
    ticket = _ticket(PROFILES[2])
    text = json.dumps([step["commands"] for step in ticket["steps"]])
    assert "None" in text
    assert "NoSchedule" in text
    assert "NoExecute" in text


def test_the_fourth_step_says_what_the_beta_feature_lacks():
    wanted = [row for row in _ticket(PROFILES[3])["features"] if row["wanted"]]
    assert wanted
    assert any(row["missing"] for row in wanted)
