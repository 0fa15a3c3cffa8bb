"""One driver child and its parent, with children that are no drivers at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from collector.sources.nvml import wire, worker
from collector.sources.nvml.wire import Message, pack_document
from collector.sources.nvml.worker import ChildLostError, Deadlines, Worker
from pipeline.child import python

pytestmark = pytest.mark.slow

BODY = "tests.collector.sources.nvml.bad_child"
PATIENT = Deadlines(call_s=20, slow_s=20, silent_s=20, sweep_s=20)


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Makes workers whose child is bad_child instead of the driver."""
    made: list[Worker] = []

    def make(what: str, deadlines: Deadlines = PATIENT) -> Worker:
        monkeypatch.setattr(worker, "python", lambda module, *arguments: python(BODY, what))
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
