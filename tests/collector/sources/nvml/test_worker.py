"""One driver child and its parent, with children that are no drivers at all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.sources.nvml import wire, worker
from collector.sources.nvml.wire import Message, pack_document
from collector.sources.nvml.worker import ChildLostError, Deadlines, Worker
from pipeline.child import python
from pipeline.starvation import Starvation

pytestmark = pytest.mark.slow

BODY = "tests.collector.sources.nvml.bad_child"
PATIENT = Deadlines(call_s=20, slow_s=20, silent_s=20, sweep_s=20)


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Makes workers whose child is bad_child instead of the driver."""
    made: list[Worker] = []

    def make(what: str, deadlines: Deadlines = PATIENT) -> Worker:
        monkeypatch.setattr(
            worker, "python", lambda module, *arguments: python(BODY, what, *arguments)
        )
        made.append(Worker("", deadlines))
        return made[-1]

    yield make
    for one in made:
        one.kill()
        assert one.ended(10)
        one.close()


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("noise", "garbage"),
        ("flood", "garbage"),
        ("exit", "died"),
        ("half", "died"),
        ("list", "garbage"),
    ],
)
def test_a_child_that_is_no_driver_is_found_out(
    bad: Callable[..., Worker], what: str, cause: str
) -> None:
    """Noise, a flood, an early end and half a message each end the child's
    service, with the cause.
    """
    messages: list[Message] = []
    with pytest.raises(ChildLostError) as error:
        bad(what).collect(20, messages, until="ready")
    assert error.value.cause == cause
    assert len(messages) <= worker.MAX_MESSAGES + 65536 // len(
        pack_document(wire.FOUND, 0, id="GPU-0")
    )


def test_a_child_that_says_nothing_is_found_out(bad: Callable[..., Worker]) -> None:
    """A child in which no driver call runs, and which says nothing, is given up after its time."""
    with pytest.raises(ChildLostError) as error:
        bad("silence", Deadlines(call_s=0.1, slow_s=0.1, silent_s=0.3, sweep_s=20)).collect(
            20, [], until="ready"
        )
    assert error.value.cause == "silent"


def test_waiting_for_a_child_ends_in_time(bad: Callable[..., Worker]) -> None:
    """A child that is merely slow is not given up; who waits gets nothing and goes on."""
    messages: list[Message] = []
    slow = bad("silence")
    slow.collect(0.05, messages, until="ready")
    assert not slow.ready
    assert messages == []


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor that four programs keep busy."""
    cpu = min(os.sched_getaffinity(0))
    monkeypatch.setenv("TOCSIN_TEST_CPU", str(cpu))
    code = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    hogs = [subprocess.Popen([sys.executable, "-I", "-c", code]) for _ in range(4)]
    yield
    for hog in hogs:
        hog.kill()
        hog.wait()


# Longer than the half second that the slow call works, which what a hypervisor takes counts as.
SHORT = Deadlines(call_s=0.75, slow_s=0.75, silent_s=60, sweep_s=60)


def test_a_call_that_had_no_processor_does_not_hang(
    bad: Callable[..., Worker], crowded: None
) -> None:
    """It takes many times its deadline, as others use the processor; it is waited for."""
    slow, began = bad("slow", SHORT), time.monotonic()
    slow.collect(60, [], until="ready")
    assert slow.ready
    assert time.monotonic() - began > SHORT.call_s
    assert slow.starved_ns > 0


def test_a_call_that_hangs_is_found_out_on_a_crowded_machine(
    bad: Callable[..., Worker], crowded: None
) -> None:
    """It sleeps in the kernel and wants no processor."""
    with pytest.raises(ChildLostError) as error:
        bad("stuck", SHORT).collect(60, [], until="ready")
    assert (error.value.cause, error.value.function, error.value.gpu) == ("hung", "nvmlX", 0)


def test_a_parent_that_woke_late_gives_its_child_as_much_time(tmp_path: Path) -> None:
    """Both were frozen: the kernel's account of the child alone would not show it."""
    starvation = Starvation(1, proc=str(tmp_path))
    starvation.mark()
    starvation.woke_late(7_000)
    assert starvation.since_mark_ns() == 7_000
    starvation.mark()
    assert (starvation.since_mark_ns(), starvation.total_ns()) == (0, 7_000)


def test_a_child_that_waits_for_a_processor_now_is_seen_to(tmp_path: Path) -> None:
    """The kernel counts a wait when it is over. One that runs, sleeps or is gone does not wait."""
    (tmp_path / "1").mkdir()
    account, stat = tmp_path / "1" / "schedstat", tmp_path / "1" / "stat"
    stat.write_text("1 (a) R b) R 0 1")
    account.write_text("500 70 3")
    starvation = Starvation(1, proc=str(tmp_path))
    assert [starvation.waits_now() for _ in range(3)] == [True, True, True]
    account.write_text("600 90 4")  # it ran, and what it waited is counted now
    assert [starvation.waits_now() for _ in range(2)] == [False, True]
    stat.write_text("1 (a) R b) D 0 1")
    assert not starvation.waits_now()
    starvation.close()
    assert not starvation.waits_now()


@pytest.mark.parametrize("text", ["", "1 x 3", "1"])
def test_an_account_that_cannot_be_read_excuses_nothing(tmp_path: Path, text: str) -> None:
    """Kernels without it have other texts, or none."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "schedstat").write_text(text)
    starvation = Starvation(1, proc=str(tmp_path))
    assert starvation.total_ns() == 0
    assert not starvation.waits_now()
    starvation.close()
