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
# Ten times the exposure level that each unit may have as it is shipped.
MAX_EXPOSED = {"tocsin": 26, "tocsin-helper": 12, "tocsin-gateway": 20}
# Each drop-in, by the unit that it is for.
DROP_INS = {
    "tocsin-full": "tocsin",
    "tocsin-joblogs": "tocsin",
    "tocsin-perfquery": "tocsin",
    "tocsin-helper-namespaces": "tocsin-helper",
}


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The agent's unit and the helper's in a folder of their own, with a program that exists on
    this machine; the agent's.
    """
    for name in MAX_EXPOSED:
        text = (SYSTEMD / f"{name}.service").read_text(encoding="utf-8")
        path = tmp_path / f"{name}.service"
        path.write_text(text.replace("/opt/tocsin/bin/tocsin", "/bin/true"), encoding="utf-8")
    return tmp_path / "tocsin.service"


def add(unit: Path, drop_in: str) -> Path:
    """A drop-in where systemd looks for it; the unit that it is for."""
    changed = unit.with_name(f"{DROP_INS[drop_in]}.service")
    folder = changed.with_name(f"{changed.name}.d")
    folder.mkdir(exist_ok=True)
    (folder / f"{drop_in}.conf").write_bytes((SYSTEMD / f"{drop_in}.conf").read_bytes())
    return changed


def analyze(*arguments: str) -> child.Finished:
    """What systemd-analyze says."""
    return child.run([need("systemd-analyze", "systemd"), *arguments], timeout_s=PATIENCE_S)


def exposed(unit: Path) -> set[str]:
    """Names of the settings that systemd-analyze marks as leaving something in reach."""
    answer: list[dict[str, Any]] = json.loads(
        analyze("security", "--offline=true", "--json=short", str(unit)).stdout
    )
    return {str(row["json_field"]) for row in answer if row["set"] is False and row["exposure"]}


@pytest.mark.parametrize("drop_in", ["", *DROP_INS])
def test_systemd_understands_every_line(unit: Path, drop_in: str) -> None:
    """Unknown keys and bad values are only warnings to systemd, and would silently weaken
    the unit: here they fail.
    """
    if drop_in:
        add(unit, drop_in)
    checked = analyze("verify", *(str(unit.with_name(f"{name}.service")) for name in MAX_EXPOSED))
    assert (checked.returncode, checked.stderr.decode()) == (0, "")


def test_the_units_of_the_gates_are_understood_too(unit: Path) -> None:
    """The timer that returns nodes, and what it starts."""
    for name in (
        *("tocsin-return.service", "tocsin-return.timer"),
        *("tocsin-repair.service", "tocsin-repair.timer"),
    ):
        text = (
            (ROOT / "deploy" / "slurm" / name)
            .read_text(encoding="utf-8")
            .replace("/usr/bin/tocsin", "/bin/true")
        )
        unit.with_name(name).write_text(text, encoding="utf-8")
    checked = analyze("verify", str(unit.with_name("tocsin-return.timer")))
    assert (checked.returncode, checked.stderr.decode()) == (0, "")


def allowed(unit: Path) -> set[str]:
    """System calls that a unit may make: each line adds to those before, or takes from them."""
    calls: set[str] = set()
    for line in unit.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key == "SystemCallFilter":
            named = {call for word in value.lstrip("~").split() for call in calls_of(word)}
            calls = calls - named if value.startswith("~") else calls | named
    return calls


def calls_of(word: str) -> set[str]:
    """The calls of a set of systemd's, and of the sets in it; a call itself."""
    if not word.startswith("@"):
        return {word}
    rows = map(str.strip, analyze("syscall-filter", word).stdout.decode().splitlines()[1:])
    return {call for row in rows if row and row[0] != "#" for call in calls_of(row)}


@pytest.mark.parametrize("name", ["tocsin", "tocsin-gateway"])
def test_children_that_keep_the_store_may_make_themselves_nice(unit: Path, name: str) -> None:
    """os.nice is setpriority: refused, nothing is compacted or removed any more."""
    calls = allowed(unit.with_name(f"{name}.service"))
    assert {"setpriority", "read"} <= calls
    assert not {"mount", "setuid"} & calls


@pytest.mark.parametrize("name", MAX_EXPOSED)
@pytest.mark.parametrize("full", [False, True])
def test_little_of_the_machine_is_in_reach(unit: Path, name: str, full: bool) -> None:
    """The exposure level of the agent stays at or below 2.6 of 10 in both profiles, that of the
    helper at 1.2, that of the gateway at 2.0.
    """
    if full:
        add(unit, "tocsin-full")
    limit = f"--threshold={MAX_EXPOSED[name]}"
    judged = analyze("security", "--offline=true", limit, str(unit.with_name(f"{name}.service")))
    assert judged.returncode == 0, judged.stdout.decode()[-200:]


def test_no_drop_in_takes_anything_back(unit: Path) -> None:
    """What a drop-in opens is on top of what the unit can do without it."""
    for drop_in, name in DROP_INS.items():
        before = exposed(unit.with_name(f"{name}.service"))
        after = exposed(add(unit, drop_in))
        assert before <= after
        assert (before == after) is (drop_in == "tocsin-full")
