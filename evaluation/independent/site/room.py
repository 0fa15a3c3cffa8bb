"""The air at the nodes: the day, compressors that stage, economisers that switch, doors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.independent.site.draw import Values, between

DAY_S = 86_400.0


@dataclass(frozen=True)
class Room:
    """Inlet of each rack, degrees Celsius. Amplitudes in kelvin."""

    base_c: float
    daily_k: float
    warmest_s: float
    cycle_s: Values
    phase: Values
    cycle_k: Values
    duty: Values
    steps: tuple[tuple[float, float, float], ...]  # when, how long the ramp is, kelvin

    def inlets(self, at_s: float) -> Values:
        """Inlet of every rack."""
        daily = self.daily_k * np.cos(2 * np.pi * (at_s - self.warmest_s) / DAY_S)
        turn = (at_s / self.cycle_s + self.phase) % 1.0
        saw = np.where(turn < self.duty, turn / self.duty, (1 - turn) / (1 - self.duty))
        steps = sum(k * min(max((at_s - t) / ramp, 0.0), 1.0) for t, ramp, k in self.steps)
        inlets: Values = self.base_c + daily + self.cycle_k * (saw - 0.5) + steps
        return inlets


def furnish(source: np.random.Generator, racks: int, lasts_s: float) -> Room:
    """A room with habits of its own; racks near each other share a compressor by half."""
    cycle = between(source, 240, 3_600)
    amplitude = between(source, 0.2, 4.0)
    switches = source.poisson(3 * lasts_s / DAY_S) if source.random() < 0.5 else 0
    times = np.sort(source.uniform(0, lasts_s, switches))
    sizes = between(source, 0.7, 4.0) * np.where(np.arange(switches) % 2, 1.0, -1.0)
    return Room(
        source.uniform(18, 26),
        between(source, 0.15, 3.0),
        source.uniform(13, 18) * 3600,
        cycle * np.exp(source.normal(0, 0.1, racks)),
        source.random() + source.uniform(0, 0.5, racks),
        amplitude * source.uniform(0.4, 1.0, racks),
        source.uniform(0.2, 0.9, racks),
        tuple(
            (float(t), between(source, 300, 2400), float(k))
            for t, k in zip(times, sizes, strict=True)
        ),
    )
