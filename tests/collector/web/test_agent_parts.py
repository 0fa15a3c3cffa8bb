"""How the agent itself is, in words, from its own numbers."""

from __future__ import annotations

import pytest

from collector.web.agent_parts import parts, sources
from pipeline.catalog import Metric, agent
from pipeline.selfmetrics import SelfMetrics

NOW_S = 1_800_000_000
MINUTE, HOUR = 60, 3600


def said(*numbers: tuple[Metric, float, tuple[str, ...]]) -> dict[str, tuple[bool, str]]:
    """By part whether it is well, and what is said, where these are the agent's numbers."""
    metrics = SelfMetrics()
    for metric, value, labels in numbers:
        metrics.set(metric, value, *labels)
    return {part["name"]: (part["ok"], part["text"]) for part in parts(metrics, NOW_S * 10**9)}


def test_of_what_there_is_not_nothing_is_said() -> None:
    """An agent without an upload has no line about it."""
    assert said() == {}


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (1, (True, "Loaded 5 min ago.")),
        (
            0,
            (
                False,
                (
                    "The last reload failed; the previous configuration, loaded 5 min ago, "
                    "stays active."
                ),
            ),
        ),
    ],
)
def test_the_configuration(taken: int, words: tuple[bool, str]) -> None:
    """Which one is in force, and since when."""
    numbers = (
        (agent.CONFIG_RELOAD_SUCCESS, taken, ()),
        (agent.CONFIG_RELOAD_TIME, NOW_S - 5 * MINUTE, ()),
    )
    assert said(*numbers)["configuration"] == words


@pytest.mark.parametrize(
    ("failed", "sealed", "well"),
    [(0, 0, True), (3, 0, False), (3, NOW_S - MINUTE, True), (0, NOW_S - HOUR, False)],
    ids=["young", "never", "again", "late"],
)
def test_a_store_that_does_not_seal_is_not_well(failed: int, sealed: int, well: bool) -> None:
    """A failure that was made up for is told and no worry; three times the interval
    without a sealing is one.
    """
    numbers = (agent.STORE_SEALS, failed, ("failed",)), (agent.STORE_LAST_SEAL, sealed, ())
    assert said(*numbers)["store"][0] is well


def test_what_the_store_did_not_get_is_told() -> None:
    """Where the queue before it was full, or the disk."""
    full = (
        (agent.STAGE_FAILURES, 2, ("sink", "store", "OSError")),
        (agent.STAGE_FAILURES, 9, ("sink", "web", "OSError")),
    )
    numbers = (agent.STORE_SEALS, 0, ("failed",)), (agent.QUEUE_DROPPED, 7, ("store",)), *full
    assert "Since start: 2 writes failed, 7 observations dropped." in said(*numbers)["store"][1]


@pytest.mark.parametrize(("hours", "well"), [(0.1, True), (2, False)])
def test_an_upload_that_falls_behind_is_not_well(hours: float, well: bool) -> None:
    """By the age of the oldest file that waits."""
    numbers = (agent.UPLOAD_PENDING_FILES, 12, ()), (agent.UPLOAD_OLDEST, NOW_S - hours * HOUR, ())
    assert said(*numbers)["upload"][0] is well


def test_a_driver_that_nobody_may_ask_any_more_is_not_well() -> None:
    """The GPUs are then not read at all."""
    numbers = (agent.NVML_BLIND, 1, ()), (agent.NVML_ABANDONED, 3, ())
    assert said(*numbers)["driver"] == (
        False,
        "3 processes are stuck in the driver: no more are started, and the GPUs are not read.",
    )


def test_a_driver_that_hangs_as_a_whole_is_not_well() -> None:
    """Though no process is stuck in it yet."""
    assert said((agent.NVML_BLIND, 1, ()))["driver"] == (
        False,
        "No call into the driver returns: the GPUs are not read.",
    )


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (["ok", "ok"], (True, "No process is stuck in the driver.")),
        (["ok", "lost"], (True, "No process is stuck in the driver.")),
        (["ok", "hung"], (False, "Of 2 GPUs 1 hung. No process is stuck in the driver.")),
        (["hung", "unreadable", "hung"], (False, "Of 3 GPUs 2 hung and 1 unreadable. ")),
    ],
)
def test_a_driver_is_not_healthy_beside_a_gpu_for_which_it_hangs(
    states: list[str], words: tuple[bool, str]
) -> None:
    """A GPU that is lost is the GPU's own fault."""
    metrics = SelfMetrics()
    metrics.set(agent.NVML_BLIND, 0)
    (driver,) = parts(metrics, NOW_S * 10**9, states)
    assert (driver["ok"], driver["text"].startswith(words[1])) == (words[0], True)


@pytest.mark.parametrize(
    ("mode", "words"),
    [("kmsg", (True, "Read from kmsg.")), ("none", (False, "Not read: XIDs are missed."))],
)
def test_a_kernel_log_that_cannot_be_read_is_not_well(mode: str, words: tuple[bool, str]) -> None:
    """The agent is blind to XIDs, and says so."""
    assert said((agent.KERNEL_LOG_MODE, 1, (mode,)))["kernel log"] == words


def test_a_source_says_what_it_could_not_read() -> None:
    """By reason, without those of which there are none now."""
    metrics = SelfMetrics()
    metrics.set(agent.SOURCE_SUCCESS, 1, "nvml")
    metrics.set(agent.SOURCE_UNREAD, 3, "nvml", "not_supported")
    metrics.set(agent.SOURCE_UNREAD, 0, "nvml", "timeout")
    metrics.set(agent.SOURCE_UNREAD, 1, "infiniband", "timeout")
    (source,) = sources(metrics, NOW_S * 10**9)
    assert source["unread"] == {"not_supported": 3}
