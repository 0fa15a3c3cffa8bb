"""What an agent knows of its last life."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.agent.environment import HostEnvironment
from collector.agent.runtime import Runtime
from collector.node.kept_jobs import KeptJob
from pipeline.catalog.agent import SOURCE_LAST_SUCCESS
from pipeline.exposition import TEXT
from pipeline.frame import Device, frame_of
from tests.collector.agent.test_sources import config
from tests.fakes import FakeClock, gpu, gpu_frame, observed

PORT = Device("n1", "ib_port", "0xa088", {"device": "mlx5_0", "port": "1"})
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


def test_nothing_waits_for_a_source_that_was_switched_off(tmp_path: Path) -> None:
    """It is no source that is silent: its readings and the series about it go, others stay."""
    agent, clock = life(tmp_path, "boot-1"), FakeClock()
    port = frame_of("ib_port", [(PORT, {"state": 4.0})], clock.time_ns(), clock.monotonic_ns())
    for frame, source in ((gpu_frame(clock, {"state": 0.0}), "nvml"), (port, "infiniband")):
        agent.metrics.set(SOURCE_LAST_SUCCESS, 1.0, source)
        for sink in (agent.exposition, agent.device_health):
            sink.write(observed(clock, frame, source=source), ())
    agent.forget({"infiniband"})
    assert "mlx5_0" not in agent.pages.metrics(TEXT).decode()
    assert [agent.metrics.value(SOURCE_LAST_SUCCESS, name) for name in ("nvml", "infiniband")] == [
        1.0,
        None,
    ]
    assert set(agent.device_health.health) == {gpu()}
    assert agent.pages.status()["ports"] == []
    assert "ib_port" not in agent.pages.health()["reason"]
