"""Nodes whose agents live through everything that agents live through: what each of them reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from evaluation.metrics.scope import ByHost
from evaluation.runs.run import Job, rendered
from pipeline.clock import SECOND_NS
from pipeline.frame import Frame
from pipeline.observation import Event, Observation, Value
from tests.contracts.noise import Noise

Agent = list[Observation]  # what one agent reads, in its order


@dataclass(frozen=True, slots=True)
class Life:
    """What happens to an agent: its boot lies ``up_s`` seconds back, and its clocks differ by up to
    ``jitter_s`` from tick to tick; it misses readings; its wall clock is set; it reads each
    ``every``-th tick only; at ``reboot`` (share of the run) it is away for five minutes and boots;
    it comes at ``begin`` and goes at ``end``.
    """

    up_s: float
    jitter_s: float = 0.002
    missed: float = 0.0
    step_s: float = 0.0
    every: int = 1
    reboot: float = 2.0
    begin: float = 0.0
    end: float = 1.0


LIVES = (
    Life(1_000_003.25, missed=0.02),
    Life(17.5, step_s=240.0, every=3),
    Life(86_391.0, missed=0.1, reboot=0.4),
    Life(5_000.0, begin=0.3, step_s=-75.0),
    Life(12.0, end=0.7, jitter_s=0.2, every=3),
    Life(777_777.7, missed=0.005, reboot=0.6, step_s=30.0, every=3),
)
REBOOT_NS = 300 * SECOND_NS
XIDS = (79, 48, 94, 31, 119)  # of the GPU, its memory, the program, its firmware


@cache
def simulated(
    scenario: str, lives: tuple[Life, ...], *, days: float, seed: int, from_s: float = 0.0
) -> list[Agent]:
    """Agents of a simulated run, each with a life that begins after ``from_s`` seconds of it;
    ``seed`` makes both.
    """
    run = rendered(Job(scenario, "nominal", seed, "dev", (), days=days, nodes=len(lives)))
    hosts, cut = run.topology.hosts[: len(lives)], ByHost()
    seen: dict[str, Agent] = {host: [] for host in hosts}
    for whole in run.observations():
        for host, part in cut.split(whole):
            if host in seen:
                seen[host].append(part)
    begin_ns = run.topology.begin_ns + round(from_s * 1e9)
    length_ns = round((run.seconds - from_s) * 1e9)
    return [
        list(_lived(seen[host], life, np.random.default_rng((seed, n)), begin_ns, length_ns))
        for n, (host, life) in enumerate(zip(hosts, lives, strict=True))
    ]


def struck(agent: Sequence[Observation], rng: np.random.Generator) -> Iterator[Observation]:
    """What an agent reads, with errors of GPUs in it and a link that is down for a third of it."""
    down = range(len(agent) // 3, 2 * len(agent) // 3)
    for number, one in enumerate(agent):
        frames, events = list(one.frames), list(one.events)
        for place, frame in enumerate(frames):
            if frame.kind == "gpu" and rng.random() < 0.1:
                gpu = frame.devices[int(rng.integers(len(frame.devices)))]
                facts: dict[str, Value] = {"code": int(rng.choice(XIDS)), "origin": "nvml"}
                events.append(Event(one.time_ns, one.mono_ns, gpu, "xid", facts))
            if frame.kind == "ib_port" and number in down:
                gauges = frame.gauges.copy()
                gauges[frame.schema.gauge_row["state"], 0] = 1  # DOWN
                frames[place] = replace(frame, gauges=gauges)
        yield replace(one, frames=tuple(frames), events=tuple(events))


@cache
def noisy(nodes: int, *, ticks: int, seed: int) -> list[Agent]:
    """Agents that read what nobody can read: one host of a noise of its own each."""
    agents = []
    for n in range(nodes):
        host, cut = f"n{n}", ByHost(frozenset({f"n{n}"}))
        parts = (part for o in Noise(seed + n).observations(ticks) for _, part in cut.split(o))
        agents.append([_raw(part, host) for part in parts])
    return agents


def _raw(part: Observation, host: str) -> Observation:
    """As an agent has read it: its judge makes the increments."""
    frames = tuple(replace(frame, increments=None) for frame in part.frames)
    return replace(part, host=host, frames=frames)


def _lived(
    agent: Sequence[Observation],
    life: Life,
    rng: np.random.Generator,
    begin_ns: int,
    length_ns: int,
) -> Iterator[Observation]:
    boot, up_ns, away_until, ticks = "first", round(life.up_s * 1e9), 0, dict[str, int]()
    for number, one in enumerate(agent):
        passed_ns = one.time_ns - begin_ns
        share = passed_ns / length_ns
        ticks[one.source] = ticks.get(one.source, 0) + 1
        if boot == "first" and share >= life.reboot:
            boot, away_until = "second", passed_ns + REBOOT_NS
            up_ns = 20 * SECOND_NS - away_until
        absent = not life.begin <= share < life.end or passed_ns < away_until
        silent = bool(one.frames) and (
            bool(ticks[one.source] % life.every) or rng.random() < life.missed
        )
        if absent or (silent and not one.events):
            continue
        late_ns = round(rng.uniform(0, life.jitter_s) * 1e9)
        set_ns = round(life.step_s * 1e9) * (share >= 0.5)
        yield _shifted(one, boot, number, late_ns + set_ns, passed_ns + up_ns + late_ns)


def _shifted(one: Observation, boot: str, seq: int, wall_ns: int, mono_ns: int) -> Observation:
    """By the clocks of its node."""
    shift = mono_ns - one.mono_ns

    def frame(f: Frame) -> Frame:
        stamps = np.where(f.sampled_ns > 0, f.sampled_ns + wall_ns, f.sampled_ns)
        return replace(
            f,
            time_ns=f.time_ns + wall_ns,
            mono_ns=f.mono_ns + shift,
            sampled_ns=stamps,
            increments=None,
        )

    def event(e: Event) -> Event:
        return replace(e, time_ns=e.time_ns + wall_ns, mono_ns=e.mono_ns + shift)

    return replace(
        one,
        boot_id=f"{boot} boot of {one.host}",
        seq=seq,
        time_ns=one.time_ns + wall_ns,
        mono_ns=mono_ns,
        frames=tuple(map(frame, one.frames)),
        events=tuple(map(event, one.events)),
    )
