"""The GPUs: clocks follow the work and the limit, power the clocks, heat the power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.independent.site.cluster import PER_NODE, Cluster
from evaluation.independent.site.draw import LongMemory, Values
from evaluation.independent.site.faults import Effect, parts, sized
from evaluation.independent.site.manners import Manners
from evaluation.independent.site.memory import Memory
from evaluation.independent.site.room import Room
from evaluation.independent.site.work import Load

# Bits of NVML's clocks event reasons.
IDLE, POWER_CAP, SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x1, 0x4, 0x8, 0x20, 0x40, 0x80
SUPPORTED = IDLE | 0x2 | POWER_CAP | SLOWDOWN | 0x10 | SW_THERMAL | HW_THERMAL | POWER_BRAKE
MARGIN_K = 4.0  # below the limit of the hardware the driver slows down
MAX_POWER = 1.08  # that a GPU ever draws, of its limit
CURVE = 2.2  # power over idle grows with the clock to this power, as voltage follows the clock


@dataclass
class State:
    """Of every GPU at one time."""

    clock_mhz: Values
    reasons: NDArray[np.int64]
    limit_w: Values
    watts: Values


class Gpus:
    """All GPUs of a cluster: arrays are (GPU,)."""

    def __init__(
        self, cluster: Cluster, room: Room, manners: Manners, source: np.random.Generator
    ) -> None:
        self._cluster, self._room, self._manners, self._source = cluster, room, manners, source
        size = len(cluster.gpus)
        self._power_noise = LongMemory(source, size)
        self._clock_noise = LongMemory(source, size)
        self._node_noise = LongMemory(source, len(cluster.nodes))
        self._temperature = np.full(size, 35.0)
        self._energy = source.uniform(1e9, 1e13, size)
        self._held_back = source.uniform(0, 1e15, (4, size))
        self._replays = source.integers(0, 20, size).astype(float)
        self._memory = Memory(source, size)
        self._kept: dict[str, Values] = {}

    def read(self, at_s: float, load: Load, active: list[Effect]) -> dict[str, Values]:
        """Columns of the table gpu."""
        state = self._state(at_s, load, active)
        self._heat(at_s, state.watts, active)
        self._hold_back(state)
        self._count(state, active)
        return self._broken(self._columns(load, state, active), active)

    def _state(self, at_s: float, load: Load, active: list[Effect]) -> State:
        model, habits, size = self._cluster.model, self._manners, len(load.busy)
        limit = model.limit_w * (1 - sized(active, "limited", size))
        limit *= habits.cap if at_s >= habits.cap_from_s else 1.0
        room = (limit - self._cluster.idle_w) / np.maximum(self._demand(load, 1.0), 1.0)
        share = np.minimum(1.0, room ** (1 / CURVE))
        bound = share < 1
        free = np.minimum(1.02 * model.top_mhz * self._differing(), model.top_mhz)
        clock = np.where(bound, model.top_mhz * share * self._differing(), free)
        brake = np.repeat(sized(active, "power_brake", len(self._cluster.nodes)), PER_NODE)
        clock = (
            np.minimum(clock, model.top_mhz) * (1 - sized(active, "slow", size)) * (1 - brake / 2)
        )
        reasons = np.where(bound, POWER_CAP, 0) | np.where(brake > 0, POWER_BRAKE | SLOWDOWN, 0)
        clock = np.where(load.held, clock, model.low_mhz)
        watts = self._watts(load, clock, limit)
        return State(clock, np.where(load.held, reasons, IDLE), limit, watts)

    def _differing(self) -> Values:
        """Factors of the clock: the die's, and noise of which nodes share a part."""
        habits = self._manners
        own = self._clock_noise.next(habits.period_s)
        shared = self._node_noise.next(habits.period_s)[self._cluster.node_of]
        mixed = np.sqrt(1 - habits.shared_noise) * own + np.sqrt(habits.shared_noise) * shared
        factors: Values = self._cluster.die * np.exp(habits.clock_noise * mixed)
        return factors

    def _demand(self, load: Load, share: Values | float) -> Values:
        """Watts above idle at a share of the top clock."""
        span = self._cluster.model.limit_w - self._cluster.idle_w
        drawn: Values = self._manners.hunger * load.effort * span * np.asarray(share) ** CURVE
        return drawn

    def _watts(self, load: Load, clock: Values, limit: Values) -> Values:
        floor = np.where(load.held, self._cluster.context_w, self._cluster.idle_w)
        drawn = self._cluster.idle_w + self._demand(load, clock / self._cluster.model.top_mhz)
        noise = self._manners.power_noise * self._power_noise.next(self._manners.period_s)
        factor = np.exp(np.where(load.busy > 0, noise, noise / 5))
        watts: Values = np.clip(np.maximum(drawn, floor) * factor, 20, MAX_POWER * limit)
        return watts

    def _heat(self, at_s: float, watts: Values, active: list[Effect]) -> None:
        inlet, resistance = self._room.inlets(at_s), self._cluster.resistance.copy()
        for effect in active:
            age = at_s - effect.start_s
            if effect.kind == "hot_rack":
                inlet[effect.of[0]] += effect.size * (1 - np.exp(-age / 900))
            elif effect.kind == "hot":
                resistance[effect.of[0]] *= 1 + effect.size * (1 - np.exp(-age / 600))
        in_front = watts.reshape(-1, PER_NODE)[:, : PER_NODE // 2].mean(axis=1)
        preheat = np.repeat(in_front, PER_NODE) / self._cluster.model.limit_w
        air = inlet[self._cluster.rack_of][self._cluster.node_of]
        target = air + preheat * self._cluster.preheat_k + resistance * watts
        step = 1 - np.exp(-self._manners.period_s / self._manners.sink_s)
        self._temperature += step * (target - self._temperature)

    def _hold_back(self, state: State) -> None:
        """Software slows down below the limit of the hardware, which halves the clock above it."""
        limit = self._cluster.model.slowdown_c
        soft = (self._temperature > limit - MARGIN_K) & (self._temperature <= limit)
        hard = self._temperature > limit
        self._temperature = np.minimum(self._temperature, limit + 2)
        state.clock_mhz *= np.where(soft, 0.85, np.where(hard, 0.5, 1.0))
        state.reasons |= np.where(soft, SW_THERMAL, 0) | np.where(hard, HW_THERMAL | SLOWDOWN, 0)

    def _count(self, state: State, active: list[Effect]) -> None:
        seconds, nodes = self._manners.period_s, len(self._cluster.nodes)
        self._energy += state.watts * seconds * 1e3
        self._replays += self._source.random(len(state.watts)) < 2e-5 * seconds
        for row, bit in enumerate((POWER_CAP, SW_THERMAL, HW_THERMAL)):
            self._held_back[row] += np.where(state.reasons & bit, 0.8, 0.0) * seconds * 1e9
        brake = np.repeat(sized(active, "power_brake", nodes), PER_NODE)
        self._held_back[3] += brake * seconds * 1e9
        self._memory.age(self._source, seconds, active)

    def _columns(self, load: Load, state: State, active: list[Effect]) -> dict[str, Values]:
        model, size = self._cluster.model, len(load.busy)
        used = np.where(load.held, 0.8, 0.01) * model.memory_bytes
        instant = state.watts * np.exp(self._source.normal(0, 0.02, size))
        width = np.full(size, 16.0)
        width[parts(active, "narrow_pcie")] = 8.0
        clock = 15 * np.round(state.clock_mhz / 15)
        always = {
            "memory_total_bytes": float(model.memory_bytes),
            "memory_clock_megahertz": model.memory_mhz,
            "sm_maximum_clock_megahertz": model.top_mhz,
            "power_limit_default_milliwatts": 1e3 * model.limit_w,
            "power_limit_maximum_milliwatts": 1e3 * model.limit_w,
            "temperature_slowdown_celsius": model.slowdown_c,
            "temperature_shutdown_celsius": model.slowdown_c + 5,
            "persistence_mode": 1.0,
            "clock_event_reasons_supported": float(SUPPORTED),
            "pcie_width_maximum": 16.0,
            "pcie_generation_maximum": float(model.pcie_generation),
        }
        return {
            **{name: np.full(size, float(value)) for name, value in always.items()},
            "state": np.zeros(size),
            "gpu_utilization_percent": np.round(100 * load.busy),
            "memory_utilization_percent": np.round(100 * load.dram),
            "compute_processes": load.held.astype(float),
            "memory_used_bytes": np.round(used),
            "memory_free_bytes": np.round(model.memory_bytes - used),
            "sm_clock_megahertz": clock,
            "graphics_clock_megahertz": clock.copy(),
            "power_milliwatts": np.round(1e3 * state.watts),
            "power_instant_milliwatts": np.round(1e3 * instant),
            "power_limit_enforced_milliwatts": np.round(1e3 * state.limit_w),
            "power_limit_requested_milliwatts": np.round(1e3 * state.limit_w),
            "energy_millijoules": np.floor(self._energy),
            "temperature_celsius": np.round(self._temperature),
            "memory_temperature_celsius": np.round(self._temperature + 2 + 9 * load.dram),
            "performance_state": np.where(load.held, 0.0, 8.0),
            "clock_event_reasons": state.reasons.astype(float),
            "throttled_power_cap_nanoseconds": np.floor(self._held_back[0]),
            "throttled_sw_thermal_nanoseconds": np.floor(self._held_back[1]),
            "throttled_hw_thermal_nanoseconds": np.floor(self._held_back[2]),
            "throttled_hw_power_brake_nanoseconds": np.floor(self._held_back[3]),
            "pcie_width_current": width,
            "pcie_generation_current": np.where(load.held, float(model.pcie_generation), 1.0),
            "pcie_replays": self._replays.copy(),
            "sm_activity_percent": np.round(90 * load.busy, 4),
            "tensor_activity_percent": np.round(100 * load.tensor, 4),
            "dram_activity_percent": np.round(100 * load.dram, 4),
            **self._memory.columns(),
        }

    def _broken(self, columns: dict[str, Values], active: list[Effect]) -> dict[str, Values]:
        """What cannot be read, and what is read again and again."""
        frozen = np.isin(self._cluster.node_of, parts(active, "frozen"))
        if frozen.any() and self._kept:
            for name, values in columns.items():
                values[frozen] = self._kept[name][frozen]
        self._kept = {name: values.copy() for name, values in columns.items()}
        lost = parts(active, "lost")
        for name, values in columns.items():
            values[lost] = 1.0 if name == "state" else np.nan
        return columns
