"""The systemd unit, judged by systemd-analyze: what it says, and how much of the machine
is in the agent's reach.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import child
from tests.parts import need
from tests.sources import ROOT
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.integration

SYSTEMD = ROOT / "deploy" / "systemd"
# Ten times the exposure level that issue 7 allows the unit as it is shipped.
MAX_EXPOSED = 27


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit in a folder of its own, with a program that exists on this machine."""
    text = (
        (SYSTEMD / "tocsin.service")
        .read_text(encoding="utf-8")
        .replace("/opt/tocsin/bin/tocsin", "/bin/true")
    )
    path = tmp_path / "tocsin.service"
    path.write_text(text, encoding="utf-8")
    return path


def add_full_profile(unit: Path) -> None:
    """The drop-in, where systemd looks for it."""
    folder = unit.with_name(f"{unit.name}.d")
    folder.mkdir()
    (folder / "full.conf").write_bytes((SYSTEMD / "tocsin-full.conf").read_bytes())


def analyze(*arguments: str) -> child.Finished:
    """What systemd-analyze says."""
    return child.run([need("systemd-analyze", "systemd"), *arguments], timeout_s=PATIENCE_S)


def exposed(unit: Path) -> set[str]:
    """Names of the settings that systemd-analyze marks as leaving something in reach."""
    answer: list[dict[str, Any]] = json.loads(
        analyze("security", "--offline=true", "--json=short", str(unit)).stdout
    )
    return {str(row["json_field"]) for row in answer if row["set"] is False and row["exposure"]}


@pytest.mark.parametrize("profile", ["default", "full"])
def test_systemd_understands_every_line(unit: Path, profile: str) -> None:
    """Unknown keys and bad values are only warnings to systemd, and would silently weaken
    the unit: here they fail.
    """
    if profile == "full":
        add_full_profile(unit)
    checked = analyze("verify", str(unit))
    assert (checked.returncode, checked.stderr.decode()) == (0, "")


def test_the_units_of_the_gates_are_understood_too(unit: Path) -> None:
    """The timer that returns nodes, and what it starts."""
    for name in ("tocsin-return.service", "tocsin-return.timer"):
        text = (
            (ROOT / "deploy" / "slurm" / name)
            .read_text(encoding="utf-8")
            .replace("/usr/bin/tocsin", "/bin/true")
        )
        unit.with_name(name).write_text(text, encoding="utf-8")
    checked = analyze("verify", str(unit.with_name("tocsin-return.timer")))
    assert (checked.returncode, checked.stderr.decode()) == (0, "")


def test_little_of_the_machine_is_in_reach(unit: Path) -> None:
    """The exposure level stays at or below 2.7 of 10."""
    judged = analyze("security", "--offline=true", f"--threshold={MAX_EXPOSED}", str(unit))
    assert judged.returncode == 0, judged.stdout.decode()[-200:]


def test_the_default_profile_holds_one_capability(unit: Path) -> None:
    """Reading the kernel log is all that the agent may do beyond any other user."""
    held = {
        name.removeprefix("CapabilityBoundingSet_")
        for name in exposed(unit)
        if name.startswith("CapabilityBoundingSet")
    }
    assert held == {"CAP_SYSLOG"}


def test_the_full_profile_adds_to_the_reach_and_takes_nothing_back(unit: Path) -> None:
    """What the drop-in opens is on top: whatever the default profile can read, the full one can."""
    before = exposed(unit)
    add_full_profile(unit)
    assert before < exposed(unit)
