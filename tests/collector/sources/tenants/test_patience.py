"""Jobs that let others wait are asked last, and not all of them in one read."""

from __future__ import annotations

from collector.sources.tenants.patience import NODE_S, TENANT_S, Patience


class Clock:
    """Stands where it is put."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def ask(patience: Patience, clock: Clock, jobs: list[str], cost: dict[str, float]) -> list[str]:
    """The jobs that are asked in a read, in order; a job's first letter is its tenant."""
    asked = []
    for job in patience.begin(jobs, lambda job: job[0], lambda _: 0):
        if patience.may_ask(job[0]):
            asked.append(job)
            with patience.asking(job[0]):
                clock.now += cost.get(job, 0.1)
    return asked


def test_one_job_of_each_tenant_before_the_second_of_any() -> None:
    """Whoever was there first."""
    asked = ask(Patience(Clock()), Clock(), ["m1", "m2", "m3", "a1"], {})
    assert asked == ["m1", "a1", "m2", "m3"]


def test_a_slow_tenant_is_asked_once_and_later_last() -> None:
    """Its other jobs wait for the next read, in which nobody waits for them."""
    clock = Clock()
    patience, silent = Patience(clock), {"m1": 26.0, "m2": 26.0, "m3": 26.0}
    jobs = ["m1", "m2", "m3", "a1", "a2"]
    assert ask(patience, clock, jobs, silent) == ["m1", "a1", "a2"]
    assert ask(patience, clock, jobs, silent) == ["a1", "a2", "m1"]


def test_many_slow_tenants_share_a_limit_in_turns() -> None:
    """A read ends, and each of them is asked in one of the next reads."""
    clock = Clock()
    patience, tenants = Patience(clock), "bcdefgh"
    jobs = [f"{tenant}1" for tenant in tenants]
    silent = dict.fromkeys(jobs, TENANT_S)
    ask(patience, clock, jobs, silent)
    reads = [ask(patience, clock, [*jobs, "a1"], silent) for _ in range(3)]
    assert all(read[0] == "a1" for read in reads)
    assert max(len(read) - 1 for read in reads) == NODE_S // TENANT_S + 1
    assert {job for read in reads for job in read} >= set(jobs)
