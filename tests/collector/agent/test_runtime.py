"""What an agent knows of its last life."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.agent.environment import HostEnvironment
from collector.agent.runtime import Runtime
from collector.node.kept_jobs import KeptJob
from tests.collector.agent.test_sources import config
from tests.fakes import FakeClock

JOBS = {"71": KeptJob("slurm", ("GPU-0", "GPU-1")), "ml/llm.1a2b": KeptJob("kubernetes", ())}


def life(root: Path, boot: str) -> Runtime:
    """An agent begins."""
    world = HostEnvironment(
        "n1", boot, FakeClock(), root / "proc", root / "sys", root / "kmsg", "none"
    )
    settings = config(storage__path=str(root / "storage"))
    return Runtime(settings, world, unhealthy=str, unready=str, reloading=bool)


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_the_jobs_that_ran_are_known_after_a_restart(tmp_path: Path, boot: str) -> None:
    """And whether the node was restarted meanwhile."""
    agent = life(tmp_path, "boot-1")
    agent.kept_jobs.keep(JOBS)
    assert agent.close(1.0) == []
    kept = life(tmp_path, boot).kept_jobs
    assert kept.jobs == JOBS
    assert kept.rebooted == (boot == "boot-2")
