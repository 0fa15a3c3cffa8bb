"""Services by the control groups of systemd, in a /sys of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.sources.services import SLICES, running

UNIT = "nvidia-fabricmanager.service"


@pytest.mark.parametrize("name", SLICES)
def test_a_service_runs_while_its_group_has_a_process(tmp_path: Path, name: str) -> None:
    """Without a group, as after a stop, and with an empty one, as after a failure, it does not."""
    group = tmp_path / name / UNIT
    group.parent.mkdir(parents=True)
    assert running(tmp_path, UNIT) == 0
    group.mkdir()
    (group / "cgroup.procs").write_text("2131\n2140\n")
    assert running(tmp_path, UNIT) == 1
    (group / "cgroup.procs").write_text("")
    assert running(tmp_path, UNIT) == 0


def test_where_systemd_is_not_seen_nothing_is_known(tmp_path: Path) -> None:
    """In a container with control groups of its own, and without systemd."""
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    assert running(tmp_path, UNIT) is None


def test_a_group_of_that_name_elsewhere_is_not_the_service(tmp_path: Path) -> None:
    """A user may make groups in the slice of a session."""
    (tmp_path / "fs/cgroup/system.slice").mkdir(parents=True)
    fake = tmp_path / "fs/cgroup/user.slice" / UNIT
    fake.mkdir(parents=True)
    (fake / "cgroup.procs").write_text("666\n")
    assert running(tmp_path, UNIT) == 0
