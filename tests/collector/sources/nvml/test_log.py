"""What the NVML source says in the log: a line per change, with its cause."""

from __future__ import annotations

import os
import signal

import pytest

from collector.sources.nvml.library import LOST
from collector.sources.nvml.worker import Deadlines
from simulator.nvml_state import SEGFAULT
from tests.collector.sources.nvml.conftest import Scripted
from tests.collector.sources.nvml.node import uuid

pytestmark = pytest.mark.slow


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines so far, which are then forgotten."""
    lines = [record.getMessage() for record in caplog.records if record.name == "tocsin.nvml"]
    caplog.clear()
    return lines


@pytest.fixture(autouse=True)
def _every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tocsin.nvml")


def test_gpus_that_are_well_from_the_start_are_no_news(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is said of a healthy node."""
    node = scripted(3)
    assert node.states() == ["ok"] * 3
    assert said(caplog) == []


def test_a_driver_that_goes_is_a_line_not_one_per_gpu(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Eight GPUs fall silent for one reason: the child ended, by which
    signal, and who is concerned.
    """
    node = scripted(3)
    node.read()
    os.kill(node.source.child_pid, signal.SIGSEGV)
    assert node.states() == ["unreadable"] * 3
    assert node.states() == ["ok"] * 3
    assert said(caplog) == [
        "driver child ended by SIGSEGV",
        "GPUs 0, 1, 2 are unreadable",
        "GPUs 0, 1, 2 are ok",
    ]


def test_a_crash_within_a_call_names_the_call(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Which function of the driver it was, for a report to its vendor."""
    node = scripted(1)
    node.read()
    node.table.fail("0/nvmlDeviceGetTemperature(0)", SEGFAULT)
    node.read()
    assert said(caplog)[0] == "driver child ended in nvmlDeviceGetTemperature by SIGSEGV"


def test_one_lost_gpu_is_said_with_its_identity_and_once(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Index for people, UUID for the ticket; not once per reading."""
    node = scripted(2)
    node.read()
    node.table.fail("1/*", LOST)
    for _ in range(5):
        assert node.states() == ["ok", "lost"]
    assert said(caplog) == [f"GPU 1 ({uuid(1)}) is lost"]


def test_a_child_that_is_stopped_is_replaced(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """A child in which no call runs has no device to blame: it is given up after its
    time, and another one serves.
    """
    node = scripted(2, deadlines=Deadlines(call_s=20, slow_s=20, silent_s=0.5, sweep_s=20))
    node.read()
    stopped = node.source.child_pid
    os.kill(stopped, signal.SIGSTOP)
    assert node.states() == ["unreadable"] * 2
    assert node.states() == ["ok"] * 2
    assert node.source.child_pid != stopped
    assert said(caplog)[0] == "driver child said nothing, though no driver call runs"
