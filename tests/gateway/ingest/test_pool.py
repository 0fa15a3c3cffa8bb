"""Workers read what one process reads, bit by bit, whatever becomes of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from gateway.fleet import Fleet, JudgedSecond
from gateway.ingest.pool import Pool
from gateway.ingest.reading import InProcess, Reading
from pipeline.bus import subjects
from pipeline.catalog import fleet as series
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.plain import plain_event
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock
from tests.gateway.agents import PERIOD_S, Agents
from tests.gateway.ingest import fragile
from tests.wait import until

Message = tuple[int, str, bytes]
AHEAD = 20  # messages that are offered before they are taken
HOSTILE = "gpu-99"


@cache
def messages() -> tuple[Message, ...]:
    """Some are lost, some late, and some clocks wrong; and some bytes are no batch."""
    sent = [*Agents(5).batches()]
    at_ns, host, payload = sent[50]
    other = next(name for _, name, _ in sent if name != host)
    sent[50:50] = [(at_ns, host, payload[:-1]), (at_ns, other, payload), (at_ns, host, b"")]
    return tuple(sent)


def shown(second: JudgedSecond) -> Any:
    """All that the judge was given in a second, of which the arrays are used again."""
    frames: list[Any] = []
    for judged in second.judged:
        one = judged.observation
        for frame in one.frames:
            digest = sha256()
            for array in (frame.gauges, frame.counters, frame.observed, frame.sampled_ns):
                digest.update(array.tobytes())
            frames.append((one.source, frame.kind, frame.devices, digest.hexdigest()))
        frames.append((one.seq, one.time_ns, [*map(plain_event, one.events)], one.unread))
    return second.second, frames, [*map(plain_event, second.events)]


class Read:
    """What becomes of messages: what is judged, why some are refused, and what is remembered."""

    def __init__(
        self,
        reading: Reading,
        metrics: SelfMetrics,
        some: Sequence[Message],
        between: Callable[[int], None] = lambda _: None,
    ) -> None:
        judge = Judge((), metrics, FakeClock(), periods_s={})
        fleet = Fleet(judge, metrics, PERIOD_S * SECOND_NS, reading=reading)
        self.judged: list[Any] = []
        self.refused: list[str] = []
        for number, (message, ahead) in enumerate(zip_longest(some, some[AHEAD:])):
            for _, host, payload in some[:AHEAD] if not number else []:
                fleet.offer(subjects.token(host), payload)
            if ahead:
                fleet.offer(subjects.token(ahead[1]), ahead[2])
            between(number)
            reading.tend()
            at_ns, host, payload = message
            self.judged += map(shown, fleet.judged(at_ns))
            self.refused.append(fleet.take(subjects.token(host), payload, at_ns))
        self.judged += map(shown, fleet.judged(some[-1][0] + 60 * SECOND_NS))
        self.remembered = {name: array.tobytes() for name, array in fleet.state().items()}


@cache
def in_process() -> Read:
    """The same by one process."""
    return Read(InProcess(), SelfMetrics(), messages())


@contextmanager
def pool(workers: int, metrics: SelfMetrics, **more: Any) -> Iterator[Pool]:
    """Its processes have ended afterwards."""
    made = Pool(workers, metrics, **more)
    try:
        yield made
    finally:
        pids = made.pids
        made.close()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids if pid)


def same(found: Read) -> bool:
    """As by one process."""
    expected = in_process()
    return (found.judged, found.refused, found.remembered) == (
        expected.judged, expected.refused, expected.remembered
    )  # fmt: skip


def restarts(metrics: SelfMetrics) -> dict[str, int]:
    """By reason, those that are not 0."""
    counted = {
        reason: int(metrics.value(series.INGEST_RESTARTS, reason) or 0)
        for reason in ("ended", "hung", "start")
    }
    return {reason: number for reason, number in counted.items() if number}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_read_what_one_process_reads(workers: int) -> None:
    """Every value of every frame, every refusal in its words, the cut, and what a snapshot has."""
    metrics = SelfMetrics()
    with pool(workers, metrics) as made:
        found = Read(made, metrics, messages())
    assert len(in_process().judged) > 50
    assert any(in_process().refused)
    assert found.judged == in_process().judged
    assert found.refused == in_process().refused
    assert found.remembered == in_process().remembered
    assert restarts(metrics) == {}
    assert (metrics.value(series.SPENT, "workers") or 0) > 0


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing() -> None:
    """Wherever it is: what it held and what it was at is read again by another one."""
    metrics = SelfMetrics()
    with pool(2, metrics) as made:

        def kill(number: int) -> None:
            if number in (35, 75):  # each once: a message at which two end is skipped
                os.kill(made.pids[number // 75], signal.SIGKILL)

        found = Read(made, metrics, messages(), kill)
    assert same(found)
    assert sum(restarts(metrics).values()) == 2


@pytest.mark.slow
def test_a_worker_that_is_stopped_costs_nothing() -> None:
    """It does not answer in time, and another one takes its place."""
    metrics = SelfMetrics()
    with pool(1, metrics, hang_s=2.0) as made:

        def stop(number: int) -> None:
            if number == 70:
                os.kill(made.pids[0], signal.SIGSTOP)

        found = Read(made, metrics, messages(), stop)
    assert same(found)
    assert restarts(metrics)["hung"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("poison", "reason"),
    [(fragile.KILLS, "ended"), (fragile.SPINS, "hung"), (fragile.FILLS, "ended")],
)
def test_a_message_that_ends_workers_is_skipped(poison: bytes, reason: str) -> None:
    """At the second time, and counted as refused; all others are read as ever."""
    some = [*messages()]
    some[60:60] = [(some[60][0], HOSTILE, poison)]
    metrics = SelfMetrics()
    with pool(2, metrics, hang_s=6.0, module=fragile.__name__) as made:
        found = Read(made, metrics, some)
    assert "skipped" in found.refused.pop(60)
    assert same(found)
    assert restarts(metrics) == {reason: 2}
    refused = [each for each in in_process().refused if each]
    assert metrics.value(series.REFUSED) == len(refused) + 1


@pytest.mark.slow
def test_a_host_that_goes_on_is_not_read_for_a_while() -> None:
    """After its second message of that kind no worker is ended any more."""
    some = [*messages()]
    some[60:60] = [(some[60][0], HOSTILE, fragile.KILLS)] * 5
    metrics = SelfMetrics()
    with pool(1, metrics, module=fragile.__name__) as made:
        found = Read(made, metrics, some)
    assert [
        word for text in found.refused[60:65] for word in ("skipped", "a while") if word in text
    ] == ["skipped", "skipped", "a while", "a while", "a while"]
    del found.refused[60:65]
    assert same(found)


@pytest.mark.slow
def test_where_no_worker_can_be_started_the_gateway_reads_itself() -> None:
    """After three starts in vain."""
    metrics = SelfMetrics()
    with pool(1, metrics, module="tests.gateway.ingest.unable") as made:
        found = Read(made, metrics, messages())
    assert same(found)
    assert restarts(metrics)["start"] >= 3


@pytest.mark.slow
def test_workers_end_with_the_gateway_and_leave_nothing() -> None:
    """However it ends: no process, and no file of what they shared."""
    before = {*Path("/dev/shm").iterdir()}
    read, write = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - another process
        try:
            made = Pool(2, SelfMetrics())
            os.write(write, b"%d %d" % (*made.pids,))
            signal.pause()
        finally:
            os._exit(1)
    pids = [int(pid) for pid in os.read(read, 100).split()]
    os.close(read)
    os.close(write)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    until(lambda: not any(alive(pid) for pid in pids), "the workers' end")
    assert {*Path("/dev/shm").iterdir()} <= before


def alive(pid: int) -> bool:
    """Whether it runs; nobody waits for one whose parent is gone."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
            != "Z"
        )
    except OSError:
        return False
