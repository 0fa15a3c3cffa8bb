"""A site drawn from published figures: the same from the same seed, and broken where it says so."""

from __future__ import annotations

from functools import cache
from itertools import islice

import numpy as np
import pytest

from evaluation.independent import WORLDS
from evaluation.independent.interface import Fault, Tick, World
from evaluation.independent.run import run_of
from evaluation.independent.site.draw import LongMemory
from evaluation.independent.site.families import FAMILIES, LEARNT_S
from simulator.fleet.scenario import Split


@cache  # what its room cannot cool is found by a pass over its days
def world_of(name: str, seed: int = 1, split: Split = "dev") -> World:
    """A world of a family."""
    return run_of(name, WORLDS[name], seed, split).world


def column(tick: Tick, kind: str, name: str) -> np.ndarray:
    """A column of one tick."""
    return next(r.columns[name] for r in tick.rows if r.kind == kind and name in r.columns)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_pass_over_a_world_is_the_same(name: str) -> None:
    """To the last digit, and the same seed gives the same world again."""
    world = world_of(name)
    again = world_of.__wrapped__(name)
    passes = [islice(each.ticks(), 20, 25) for each in (world, world, again)]
    for ticks in zip(*passes, strict=True):
        for rows in zip(*(tick.rows for tick in ticks), strict=True):
            for values in zip(*(r.columns.values() for r in rows), strict=True):
                assert all(np.array_equal(values[0], v, equal_nan=True) for v in values[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_breaks_before_it_could_be_learnt_what_is_usual(name: str) -> None:
    """Sixteen hours; and in a healthy world nothing breaks at all, whatever its room."""
    for seed in range(3):
        world = world_of(name, seed)
        broken = [fault for fault in world.faults if not fault.id.startswith("too-hot")]
        assert bool(broken) == bool(FAMILIES[name].cases)
        assert all(fault.since_s >= LEARNT_S for fault in broken)
        assert all(fault.since_s + fault.within_s < world.lasts_s for fault in broken)


@pytest.mark.slow
def test_a_gpu_that_its_room_cannot_cool_is_a_fault_while_it_is_slowed_down() -> None:
    """By hardware or driver. It is slowed down within, and outside no other GPU is for long."""
    world = world_of("I01", 1904, "test")
    gpus = [device.id for device in world.devices if device.kind == "gpu"]
    reasons = np.zeros((int(world.lasts_s / world.period_s), len(gpus)), int)
    for row, tick in zip(reasons, world.ticks(), strict=True):
        row[:] = np.nan_to_num(column(tick, "gpu", "clock_event_reasons"))
    for fault, reason, share in (("thermal", 0x40, 0.1), ("throttle", 0x20, 0.2)):
        slowed = reasons & reason > 0
        found = [each for each in world.faults if each.fault == fault]
        assert found
        for each in found:
            first, last = (int(at / world.period_s) for at in (each.since_s, each.until_s))
            assert slowed[first:last, gpus.index(each.entity)].mean() > 0.01
        for each in world.faults:
            first, last = (int(at / world.period_s) for at in (each.since_s, each.until_s))
            slowed[first:last, gpus.index(each.entity)] = False
            if each.fault == "thermal":  # the worse of the two is the fault
                slowed[:, gpus.index(each.entity)] &= fault == "thermal"
        window = round(600 / world.period_s)
        sums = np.cumsum(slowed, axis=0)
        assert (sums[window:] - sums[:-window]).max() <= share * window + 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("I01", 1901), ("I02", 1904)])
def test_a_room_that_is_cool_enough_has_no_such_fault(name: str, seed: int) -> None:
    """Nothing is excused in it."""
    assert not world_of(name, seed, "test").faults


@pytest.mark.slow
def test_a_gpu_that_is_lost_is_read_until_then() -> None:
    """Its state and power are read before; after, it is lost, and one GPU fewer is visible."""
    world, fault = _with("I03", "xid")
    first = int(fault.since_s // world.period_s)
    gpu = next(n for n, device in enumerate(world.devices) if device.id == fault.entity)
    *_, before, _, _, after = ticks = list(islice(world.ticks(), first + 2))
    assert np.isfinite(column(before, "gpu", "power_milliwatts")[gpu])
    assert column(after, "gpu", "state")[gpu] == 1.0
    assert np.isnan(column(after, "gpu", "power_milliwatts")[gpu])
    assert column(after, "node", "gpus_visible")[gpu // 8] == 7.0
    assert 79 in [event.attributes["code"] for tick in ticks[-4:] for event in tick.events]


@pytest.mark.slow
def test_a_job_that_stands_still_does_no_work() -> None:
    """No tensor core of its nodes is active, and they were before."""
    world, fault = _with("I06", "hang")
    at = int(fault.since_s // world.period_s)
    ticks = list(islice(world.ticks(), at - 30, at + 30))
    of_job = np.isin([d.host for d in world.devices if d.kind == "gpu"], fault.members)
    before, after = (column(ticks[n], "gpu", "tensor_activity_percent")[of_job] for n in (0, -1))
    assert np.nanmax(before) > 5
    assert np.nanmax(after) == 0


@pytest.mark.slow
def test_of_some_nodes_no_job_is_known_though_their_gpus_work() -> None:
    """Servers of requests without a scheduler, beside nodes with one."""
    world = world_of("I07")
    known = {uuid for job in world.jobs for uuid in job.gpus}
    gpus = [device for device in world.devices if device.kind == "gpu"]
    busy = np.array([column(t, "gpu", "gpu_utilization_percent") for t in _first(world, 60)]) > 0
    work = {
        gpu.host for gpu, works in zip(gpus, np.any(busy, axis=0).tolist(), strict=True) if works
    }
    assert 0 < len({gpu.host for gpu in gpus if gpu.id in known} & work) < len(work)


@pytest.mark.slow
def test_while_one_rank_evaluates_all_others_wait_in_a_kernel() -> None:
    """Busy to the driver, and no tensor core of theirs is active."""
    world = world_of("I08")
    found = 0
    for tick in islice(world.ticks(), 0, None, 20):
        tensor = column(tick, "gpu", "tensor_activity_percent")
        busy = column(tick, "gpu", "gpu_utilization_percent")
        for job in world.jobs:
            rows = [n for n, device in enumerate(world.devices) if device.id in job.gpus]
            if job.start_s + 3600 < tick.at_s < job.end_s and tensor[rows[0]] > 0:
                found += bool((tensor[rows[1:]] == 0).all() and (busy[rows[1:]] == 100).all())
    assert found > 10


def _first(world: World, number: int) -> list[Tick]:
    return list(islice(world.ticks(), number))


def test_the_noise_has_a_long_memory() -> None:
    """The mean of a minute keeps about 0.83 of the deviation of a second, that of an hour 0.53: as
    the samples of a published cluster do (AcmeTrace).
    """
    noise = LongMemory(np.random.default_rng(3), 400)
    seconds = np.array([noise.next(1.0) for _ in range(3600)])
    assert seconds.std() == pytest.approx(1.0, abs=0.1)
    minutes = seconds.reshape(60, 60, -1).mean(axis=1)
    assert minutes.std() == pytest.approx(0.83, abs=0.08)
    assert seconds.mean(axis=0).std() == pytest.approx(0.53, abs=0.1)


def _with(name: str, kind: str) -> tuple[World, Fault]:
    """A world in which a kind of fault occurs."""
    worlds = [world_of(name, seed) for seed in range(4)]
    found = [(w, fault) for w in worlds for fault in w.faults if fault.fault == kind]
    return min(found, key=lambda pair: pair[1].since_s / pair[0].period_s)
