"""A slurmdbd that fails, hangs or breaks off for some of the days: programs in the places of sacct
and sacctmgr that do just that.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from history.economics import slurm
from history.economics.gather import Accounting
from history.economics.sacct import FIELDS
from history.economics.slurm_days import ask

pytestmark = pytest.mark.slow

BEGIN, DAYS = datetime(2026, 11, 1, tzinfo=UTC), timedelta(days=4)
SACCT = """\
#!/bin/sh
if [ "$1" = --helpformat ]; then echo "{fields}"; exit; fi
echo "{head}"
case "$*" in {case} esac
echo "7|7|1|toc|COMPLETED|2026-11-01T10:00:00|2026-11-02T10:00:00|gpu01|gres/gpu=8"
case "$*" in *"-S 2026-11-04"*)
echo "9|9|3|toc|FAILED|2026-11-04T10:00:00|2026-11-04T11:00:00|gpu01|gres/gpu=8";; esac
"""
SACCTMGR = """\
#!/bin/sh
{first}
echo "NodeName|TimeStart|TimeEnd|State|Reason|User"
echo "gpu01|2026-11-02T10:00:00|2026-11-02T12:00:00|DOWN|x|root"
"""
HEAD = "JobIDRaw|JobID|DBIndex|Cluster|State|Start|End|NodeList|AllocTRES"


class Commands:
    """The two programs: ``case`` are patterns of sacct's arguments and what it does then."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.write()

    def write(self, case: str = "", first: str = "") -> None:
        """Both."""
        sacct = SACCT.format(fields=" ".join(FIELDS), head=HEAD, case=case)
        for name, text in (("sacct", sacct), ("sacctmgr", SACCTMGR.format(first=first))):
            file = self._folder / name
            file.write_text(text)
            file.chmod(0o755)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """They answer."""
    return Commands(tmp_path, monkeypatch)


def asked() -> Accounting:
    """Four days."""
    return ask(BEGIN, BEGIN + DAYS)


def test_a_run_of_several_days_counts_once(commands: Commands) -> None:
    """Each day that it touches lists it."""
    commands.write()
    found = asked()
    assert [run.job for run in found.runs] == ["7", "9"]
    assert [event.node for event in found.nodes] == ["gpu01"]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("breaks", "why"),
    [
        ("echo sacct: error: slurmdbd: Connection refused >&2; exit 1", "Connection refused"),
        ("exec sleep 600", "took longer than 1 s"),
        ("echo '7|7|1|to'; kill -9 $$", "exited with -9"),
    ],
)
def test_the_hours_that_are_lacking_are_said(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, breaks: str, why: str
) -> None:
    """From the day on at which it failed, hung, or broke off; days before it count."""
    monkeypatch.setattr(slurm, "DEADLINE_S", 1.0)
    commands.write(f'*"-S 2026-11-03"*) {breaks};;')
    found = asked()
    assert [run.job for run in found.runs] == ["7"]
    assert [event.node for event in found.nodes] == ["gpu01"]
    (note,) = found.notes
    assert "of jobs from 2026-11-03 00:00 to 2026-11-05 00:00 UTC (48 h)" in note
    assert why in note


def test_once_it_is_back_nothing_counts_twice(commands: Commands) -> None:
    """What was read before it went and again afterwards is one run, as the later row has it."""
    commands.write('*"-S 2026-11-03"*) exit 1;;', "exit 1")
    before = asked()
    assert len(before.notes) == 2
    commands.write()
    both = before.joined(asked())
    assert [run.job for run in both.runs] == ["7", "9"]
    assert len(both.nodes) == 1
