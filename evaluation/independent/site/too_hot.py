"""GPUs that their room cannot cool: nothing breaks, and driver or hardware slow them down.

That is a fault like any other: where the hardware halves clocks somebody is to be woken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evaluation.independent.interface import Fault, Tick
from evaluation.independent.site.gpus import HW_THERMAL, MARGIN_K, MAX_POWER, SW_THERMAL
from evaluation.independent.site.life import Life, Site
from pipeline.finding import Severity
from simulator.fleet.truth import Where

WINDOW_S = 600.0
WITHIN_S = 1_200.0  # as for a heat sink that came loose
APART_S = 3_600.0  # slowed down again after less is the same fault
MINUTE_S = 60.0
PLACES: tuple[Where, ...] = ("same", "node", "job")
SYMPTOMS = tuple((word, where) for word in ("throttle", "straggler") for where in PLACES)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What slows a GPU down, and from which share of ten minutes on that is a fault."""

    reason: int
    share: float
    fault: str
    severity: Severity


SLOWDOWNS = (
    Slowdown(HW_THERMAL, 0.1, "thermal", "page"),
    Slowdown(SW_THERMAL, 0.2, "throttle", "ticket"),
)


def too_hot(site: Site) -> Iterator[Fault]:
    """The faults that a site has without anything that breaks: of each GPU the worst."""
    if not _warm(site):
        return
    reasons = np.array([_reasons(tick) for tick in Life(replace(site, effects=())).ticks()])
    done: set[int] = set()
    for slowdown in SLOWDOWNS:
        size = max(1, round(WINDOW_S / site.manners.period_s))
        slowed = (reasons & slowdown.reason) > 0
        sums = np.cumsum(np.vstack([np.zeros((size, slowed.shape[1])), slowed]), axis=0)
        often = sums[size:] - sums[:-size] > slowdown.share * size
        for gpu in set(np.flatnonzero(often.any(axis=0)).tolist()) - done:
            done.add(gpu)
            yield from _faults(site, slowdown, gpu, often[:, gpu])


def _faults(site: Site, slowdown: Slowdown, gpu: int, often: NDArray[np.bool_]) -> Iterator[Fault]:
    times = np.flatnonzero(often) * site.manners.period_s
    for some in np.split(times, np.flatnonzero(np.diff(times) > APART_S) + 1):
        yield Fault(
            f"too-hot-{gpu}-{some[0]:.0f}",
            slowdown.fault,
            slowdown.severity,
            "gpu",
            site.cluster.gpus[gpu].id,
            max(float(some[0]) - WINDOW_S, 0.0),
            min(float(some[-1]) + WINDOW_S, site.lasts_s),
            WITHIN_S,
            symptoms=SYMPTOMS,
        )


def _warm(site: Site) -> bool:
    """Whether a GPU might be slowed down, at the warmest air and the greatest power."""
    cluster = site.cluster
    times = np.arange(0.0, site.lasts_s, MINUTE_S)
    air = np.max([site.room.inlets(at) for at in times], axis=0)[cluster.rack_of][cluster.node_of]
    watts = MAX_POWER * cluster.model.limit_w
    warmest = air + MAX_POWER * cluster.preheat_k + cluster.resistance * watts
    return bool((warmest > cluster.model.slowdown_c - MARGIN_K).any())


def _reasons(tick: Tick) -> NDArray[np.int64]:
    gpus = next(rows.columns for rows in tick.rows if rows.kind == "gpu")
    return np.nan_to_num(gpus["clock_event_reasons"]).astype(np.int64)
