"""The child that reads what tenants wrote: whatever ends it costs one look, at one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from collector.sources.tenants.child_desk import IDLE_S, ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import NODE, LookLostError, Who
from collector.sources.tenants.fairness import FIRST_REST_S
from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.tenants.victim import Victim
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.slow

ALICE, MALLORY = Who("71", "user1000"), Who("666", "user65534")
MEMORY = 64 << 20


class Bench:
    """A desk with a clock that is set by hand."""

    def __init__(self, start: str = "", start_s: float = PATIENCE_S) -> None:
        self.now_s = 1000.0
        self.metrics = SelfMetrics()
        reader = ReaderOf("tests.collector.sources.tenants.victim", MEMORY, ("so", start))
        self.desk = ChildDesk(
            "nccl",
            reader,
            self.metrics,
            Cuts(self.metrics),
            lambda: self.now_s,
            start_s=start_s,
        )

    def calls(self, who: Who = ALICE) -> int:
        """How often the child has answered in its life."""
        word, calls = self.desk.ask(Victim.calls, who, PATIENCE_S, "it is")
        assert word == "so it is"
        return calls

    def loses(self, method: Callable[[Victim], object], deadline_s: float = PATIENCE_S) -> str:
        """Why the attacker's look is lost."""
        with pytest.raises(LookLostError) as lost:
            self.desk.ask(method, MALLORY, deadline_s)
        assert lost.value.reason == "withheld" or self.lost(lost.value.reason) == 1
        return lost.value.reason

    def lost(self, reason: str) -> float:
        """Lost looks in the metric."""
        return self.metrics.value(agent.TENANT_LOOKS_LOST, "nccl", reason) or 0.0


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A desk whose child is not yet started."""
    made = Bench()
    yield made
    made.desk.close()


def test_it_starts_with_the_first_look_and_ends_when_idle(bench: Bench) -> None:
    """A node without jobs has no child."""
    assert bench.desk.pid is None
    assert [bench.calls(), bench.calls()] == [1, 2]
    bench.now_s += IDLE_S
    bench.desk.tend()
    assert bench.calls() == 3
    bench.now_s += IDLE_S + 1
    bench.desk.tend()
    assert bench.desk.pid is None
    assert (bench.calls(), bench.desk.starts) == (1, 2)


@pytest.mark.parametrize(
    ("method", "reason", "starts", "deadline_s"),
    [
        (Victim.sleep, "time", 2, 0.5),
        (Victim.grow, "memory", 1, PATIENCE_S),
        (Victim.fail, "failed", 1, PATIENCE_S),
        (Victim.lie, "failed", 1, PATIENCE_S),
        (Victim.flood, "failed", 1, PATIENCE_S),
        (Victim.noise, "garbage", 2, PATIENCE_S),
    ],
)
def test_what_ends_or_fills_it_costs_one_look(
    bench: Bench,
    method: Callable[[Victim], object],
    reason: str,
    starts: int,
    deadline_s: float,
) -> None:
    """The next look at another job is answered, by the same child or a new one."""
    bench.calls()
    assert bench.loses(method, deadline_s) == reason
    assert bench.calls() == (2 if starts == 1 else 1)
    assert bench.desk.starts == starts


def test_cpu_time_has_an_end_that_the_kernel_holds(bench: Bench) -> None:
    """A job that has used up its time is ended within seconds, and not looked at again for now."""
    bench.desk._jobs.charge(MALLORY, 60.0, bench.now_s)
    bench.now_s += 1.0
    assert bench.loses(Victim.burn) == "cpu"
    assert bench.calls() == 1


def test_a_look_that_ends_the_child_is_not_tried_again_at_once(bench: Bench) -> None:
    """After a minute, then two; other looks at that job, and other jobs, are not affected."""
    for rest_s in (FIRST_REST_S, 2 * FIRST_REST_S):
        assert bench.loses(Victim.noise) == "garbage"
        bench.metrics.replace(agent.TENANT_LOOKS_LOST, {})
        assert bench.calls(MALLORY) == 1
        bench.now_s += rest_s - 1
        assert bench.loses(Victim.noise) == "withheld"
        bench.now_s += 1
    bench.desk.tend()
    assert bench.metrics.value(agent.TENANT_CUT, "666", "user65534", "child") == 2


def test_a_death_names_the_process_that_was_looked_at(bench: Bench) -> None:
    """A look at many processes is of no job: the subject is blamed, and its user is shown."""
    with pytest.raises(LookLostError) as lost:
        bench.desk.ask(Victim.die, NODE, PATIENCE_S, "812")
    assert (lost.value.reason, lost.value.subject) == ("died", "812")
    assert lost.value.tenant == "user65534"
    bench.desk.tend()
    assert bench.metrics.value(agent.TENANT_CUT, "", "user65534", "child") == 1


def test_what_a_library_prints_is_no_message(bench: Bench) -> None:
    """Standard output is not the pipe."""
    assert bench.desk.ask(Victim.chatter, ALICE, PATIENCE_S) == 7


def test_the_time_that_the_child_takes_to_start_is_not_of_the_look() -> None:
    """A node under load starts a process in seconds: no tenant is cut for that."""
    bench = Bench(start="1")
    try:
        assert bench.desk.ask(Victim.calls, ALICE, 0.5, "it is") == ("so it is", 1)
    finally:
        bench.desk.close()


def test_a_child_that_does_not_start_is_no_tenants_doing() -> None:
    """The look is lost, and tried again with the next."""
    bench = Bench(start="never", start_s=0.2)
    try:
        for _ in range(2):
            assert bench.loses(Victim.chatter) == "start"
            bench.metrics.replace(agent.TENANT_LOOKS_LOST, {})
        assert bench.desk.pid is None
        bench.desk.tend()
        assert bench.metrics.value(agent.TENANT_CUT, "666", "user65534", "child") is None
    finally:
        bench.desk.close()
