"""Jobs that let others wait are asked last, and not all of them in one read."""

from __future__ import annotations

from collector.sources.tenants.patience import NODE_S, RESTS, TENANT_S, Patience


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
            clock.now += cost.get(job, 0.1)
            patience.took(job[0], cost.get(job, 0.0))
    return asked


def test_one_job_of_each_tenant_before_the_second_of_any() -> None:
    """Whoever was there first."""
    asked = ask(Patience(Clock()), Clock(), ["m1", "m2", "m3", "a1"], {})
    assert asked == ["m1", "a1", "m2", "m3"]


def test_a_slow_tenant_is_asked_once_and_later_last() -> None:
    """Its other jobs wait for a later read, in which nobody waits for them."""
    clock = Clock()
    patience, silent = Patience(clock), {"m1": 13.0, "m2": 13.0, "m3": 13.0}
    jobs = ["m1", "m2", "m3", "a1", "a2"]
    assert ask(patience, clock, jobs, silent) == ["m1", "a1", "a2"]
    clock.now += RESTS * 13.0
    assert ask(patience, clock, jobs, silent) == ["a1", "a2", "m1"]


def test_slow_tenants_leave_most_of_the_time_to_the_others() -> None:
    """A read that waits is rare, however many tenants are slow and whatever they have."""
    clock = Clock()
    patience, jobs = Patience(clock), [*(f"{tenant}{n}" for tenant in "mnop" for n in (1, 2)), "a1"]
    silent = dict.fromkeys(jobs[:-1], 13.0)
    for _ in range(3):
        ask(patience, clock, jobs, silent)  # each of them is slow for the first time
    reads, began = [], clock.now
    while clock.now < began + 600:
        clock.now += 5.0
        reads.append(ask(patience, clock, jobs, silent))
    assert all(read[0] == "a1" for read in reads)
    waited = sum(len(read) - 1 for read in reads) * 13.0
    assert waited <= 600 / (1 + RESTS) + 13.0
    assert {job[0] for read in reads for job in read} == set("amnop")


def test_a_tenant_that_is_alone_waits_for_nobody() -> None:
    """A stopped job is asked again as soon as it may be."""
    clock = Clock()
    patience = Patience(clock)
    for _ in range(3):
        assert ask(patience, clock, ["m1"], {"m1": 13.0}) == ["m1"]


def test_a_read_ends_however_many_new_tenants_are_silent() -> None:
    """The next one begins with those that were not asked."""
    clock = Clock()
    patience, jobs = Patience(clock), [f"{tenant}1" for tenant in "bcdefgh"]
    silent = dict.fromkeys(jobs, TENANT_S)
    first = ask(patience, clock, jobs, silent)
    assert (len(first) - 1) * TENANT_S < NODE_S
    assert ask(patience, clock, jobs, silent)[0] not in first
