"""Power, temperature and clocks of a fleet's GPUs: the model of simulator/gpus.py for many GPUs and
ticks of seconds at once.

Noise, load and everything else that does not feed back is made for a chunk of ticks in one go; only
heat, leakage and the thermal governor go tick by tick. Within a tick the working and the waiting
part of the job's steps are distinguished, so counters integrate what happens between two readings,
and gauges show the instant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.demand import Demands
from simulator.fleet.noise import LongNoise
from simulator.fleet.settings import Settings
from simulator.gpus import (
    EXPONENT,
    HALVED,
    HW_BRAKE,
    HW_SLOWDOWN,
    HW_THERMAL,
    IDLE,
    LEAK_W_PER_K,
    POWER_CAP,
    SW_THERMAL,
)
from simulator.profile import Profile
from simulator.workload import WAITS

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# clocks of a loaded GPU lie about a tenth below the highest: the spread of silicon fits below it
TYPICAL_LN = np.log(0.9)
SPIKE = 0.7  # one sample in two thousand is 30 % low
LOWEST_FACTOR = 0.35  # the governor goes no lower
GOVERNOR_GAIN = 0.5  # of what is missing, per tick, on the way back up
FAST = 0.5  # of what is missing to where it settles is left after a tick
NEAR_K = 15.0  # below what is too hot: a heat sink with a usual time constant stays below in a tick
ROOM_K = 4.0  # left for what the room's air does
GPUS = 8
MEMORY_OVER_C, MEMORY_BUSY_C = 6.0, 9.0  # kelvin over the core: idle, and more under full traffic
FRONT_TAU_S = 40.0  # the air behind follows the power in front


@dataclass(slots=True)
class GpuChunk:
    """Arrays (tick, GPU): gauges at the end of each tick, increments over it."""

    clock_mhz: Floats
    power_w: Floats
    temperature_c: Floats
    memory_c: Floats
    reasons: Floats
    energy_mj: Floats
    slowed: dict[
        int, Floats
    ]  # share of the tick by reason bit; reasons that nothing was held back for are left out


@dataclass(slots=True)
class _Heat:
    """Arrays (tick, GPU) on the way: power of the working part and of nothing at all, temperature
    of the core and kelvin of the memory above it, the governor's factor on clocks.
    """

    working_w: Floats
    base_w: Floats
    core_c: Floats
    memory_over_k: Floats
    factor: Floats | None = None
    halved: Flags = field(default_factory=lambda: np.zeros((0, 0), bool))


class FleetGpus:
    """State of all GPUs, arrays (GPU,).

    Faults turn the same knobs as those of a node, and two more.

    ``hot_duty`` is the share of time under hardware slowdown by a hot spot that the sensor does not
    show, ``memory_heat`` kelvin on the memory. ``profiles`` are those of the nodes; all have the
    same step of the clock.
    """

    def __init__(
        self, profiles: list[Profile], settings: Settings, rng: np.random.Generator
    ) -> None:
        def each(name: str) -> Floats:
            return np.repeat(
                np.array([float(getattr(profile.gpu, name)) for profile in profiles]), GPUS
            )

        n = GPUS * len(profiles)
        self.count, self._settings, self._rng = n, settings, rng
        self._offsets = rng.spawn(1)[
            0
        ]  # of its own: what a job does to silicon must not hang on how often is read
        self.limit_max_w, self.clock_max, self._clock_idle = (
            each("power_limit_w"),
            each("clock_max_mhz"),
            each("clock_idle_mhz"),
        )
        self.clock_step = profiles[0].gpu.clock_step_mhz
        self.max_operating_c, self._slowdown_c = (
            each("max_operating_c"),
            each("max_operating_c") - each("slowdown_margin_c"),
        )
        self._shutdown_c, self._memory_max_c = (
            each("max_operating_c") - each("shutdown_margin_c"),
            each("memory_max_c"),
        )
        spread = settings.silicon
        self.silicon = np.clip(rng.normal(0, spread, n), -2.4 * spread, 2.4 * spread)
        widest = max(0.15, 2.5 * settings.r_th_spread)
        self._r_th = each("r_th") * (
            1 + np.clip(rng.normal(0, settings.r_th_spread, n), -widest, widest)
        ).clip(0.5)
        self._preheat = rng.uniform(0, settings.preheat_c, n)
        self._r_th = np.minimum(self._r_th, self._worst_healthy_r_th(settings))
        self._idle_mean_w = each("idle_w") * settings.idle_factor
        self._idle_w = self._idle_mean_w * rng.normal(1, 0.03, n)
        self.tau_s = np.full(n, settings.sink_tau_s) if settings.sink_tau_s else each("tau_s")
        self._front = np.zeros(n)  # kelvin that the GPUs in front add
        self._noise = (
            LongNoise(
                len(profiles),
                GPUS,
                minutes_sd=settings.clock_noise,
                slow=settings.clock_slow,
                shared=settings.clock_shared,
                rng=rng.spawn(2)[1],
            )
            if settings.clock_noise
            else None
        )
        self._wander = rng.normal(0, settings.wander, n)
        self.job_offset = np.zeros(n)
        self._inlet_walk = 0.0
        self._factor = np.ones(n)
        self.cooling, self.clock_knob, self.power_knob = np.ones(n), np.ones(n), np.ones(n)
        self.brake, self.hot_duty, self.memory_heat, self.inlet_rise = (
            np.zeros(n) for _ in range(4)
        )
        self.clock_lock = np.ones(n)  # highest clock asked for, as a share of what there is
        self.limit_w = (
            self.limit_max_w.copy()
            if not settings.cap_w
            else np.minimum(settings.cap_w, self.limit_max_w)
        )
        self.memory_mib = each("memory_mib") - each("reserved_mib")
        links = [
            profile.nvlink.links * profile.nvlink.gigabytes_per_second * 1e9 for profile in profiles
        ]
        self.nvlink_bytes_per_s = np.repeat(np.array(links), GPUS)
        # no T.Limit before Hopper
        self.margin_from_c = np.where(each("margins") > 0, self.max_operating_c, np.nan)
        self.pcie_width = each("pcie_width")
        self.pcie_generation = each("pcie_generation")
        self.processless = np.zeros(n, bool)  # the rank's process is gone
        # the rank does nothing: culprit of a stall, or the GPU is gone
        self.dead = np.zeros(n, bool)
        # what the rank's GPU draws in place of its node's demand, as a share of full load; NaN: no
        # other than its node. ``alone``: it computes while the others of its node do something else
        self.own_load = np.full(n, np.nan)
        self.alone = np.zeros(n, bool)
        self.temperature_c = settings.inlet_c + self._preheat + self._r_th * self._idle_w
        self.memory_c = self.temperature_c + MEMORY_OVER_C

    def _worst_healthy_r_th(self, settings: Settings) -> Floats:
        """Thermal resistance, K/W (GPU,), with which a GPU at its power limit stays cool enough:
        one that is slowed down day by day is not taken over from the vendor.
        """
        rear = np.arange(self.count) % GPUS >= GPUS // 2
        warmest = settings.inlet_c + settings.inlet_daily_c + self._preheat
        warmest += settings.front_k * rear
        return np.asarray((self.max_operating_c - ROOM_K - warmest) / self.limit_max_w)

    def new_job(self, gpus: NDArray[np.intp]) -> None:
        """Another job: the same silicon runs a little differently."""
        self.job_offset[gpus] = self._offsets.normal(0, self._settings.job_offset, len(gpus))

    def coolest_limit_c(self, dram: float) -> Floats:
        """The core's temperature, C (GPU,), above which the driver slows a GPU down for the sake of
        core or memory; ``dram``: share of time in which the memory is busy.
        """
        of_memory = self._memory_max_c - MEMORY_OVER_C - MEMORY_BUSY_C * dram
        return np.minimum(self.max_operating_c, of_memory)

    def expected_c(self, gpu: int, load: float, communication: float) -> float:
        """Temperature at which a GPU settles in training: at that load, with that share of
        each step spent waiting.
        """
        speed = np.exp(EXPONENT * (self.silicon[gpu] + self.job_offset[gpu]))
        dynamic = self._room()[gpu] * load * speed * (1 - (1 - WAITS.load) * communication)
        power = self._idle_w[gpu] + dynamic
        return float(
            self._settings.inlet_c
            + self._preheat[gpu]
            + self._r_th[gpu] * self.cooling[gpu] * power
        )

    def advance(self, times_s: Floats, dt: float, demands: Demands) -> GpuChunk:
        """The ticks that end at these times."""
        ticks, rng = len(times_s), self._rng
        ln_clock = self._ln_clock(ticks, dt)
        waits, now_waiting = (
            np.repeat(demands.waits, GPUS, axis=1),
            np.repeat(demands.waiting, GPUS, axis=1),
        )
        idle = np.repeat(demands.idle, GPUS, axis=1) | self.dead
        dynamic = np.repeat(demands.load, GPUS, axis=1)
        own = np.isfinite(self.own_load)
        if own.any():
            dynamic[:, own] = self.own_load[own]
        dynamic *= self._room()
        dynamic *= np.exp(
            EXPONENT * (ln_clock - TYPICAL_LN)
        )  # a job's load is what it draws at the typical clock
        dynamic[idle] = 0.0
        heat = self._heat(times_s, dt, dynamic, waits, np.repeat(demands.dram, GPUS, axis=1))

        working, waiting = heat.working_w, heat.base_w + WAITS.load * (heat.working_w - heat.base_w)
        ratio = np.exp(ln_clock)
        capped = working > self.limit_w
        slowed: dict[int, Floats] = {}
        if capped.any():
            slowed[POWER_CAP] = capped * (1 - waits)
            now = capped & ~now_waiting
            limit, base = np.broadcast_to(self.limit_w, now.shape)[now], heat.base_w[now]
            ratio[now] *= (np.maximum(limit - base, 1.0) / (working[now] - base)) ** (1 / EXPONENT)
            capped = now
            np.minimum(working, self.limit_w, out=working)
            np.minimum(waiting, self.limit_w, out=waiting)
        power = np.where(now_waiting, waiting, working)
        power *= 1 + self._settings.power_noise * rng.standard_normal(power.shape, np.float32)
        energy = (working + (waiting - working) * waits) * (dt * 1000)

        reasons = np.where(idle, float(IDLE), 0.0)
        if POWER_CAP in slowed:
            reasons += POWER_CAP * (capped & ~idle)
        self._slow(heat, ratio, reasons, idle, slowed)
        shown = np.where(idle, self._clock_idle, self._grid(ratio))
        return GpuChunk(
            shown,
            power,
            self._sensor(heat.core_c),
            np.rint(heat.core_c + heat.memory_over_k),
            reasons,
            energy,
            slowed,
        )

    def _room(self) -> Floats:
        """Dynamic power at full load and clock: the brake and hot spots halve the clock for
        their share of the time.
        """
        halves = 1 - HALVED**EXPONENT
        room = (self.limit_max_w - self._idle_mean_w) * (1 + self.job_offset) * self.power_knob
        return np.asarray(room * (1 - self.brake * halves) * (1 - self.hot_duty * halves))

    def _ln_clock(self, ticks: int, dt: float) -> Floats:
        """Logarithm of the clock over the highest, without what heat and
        limits take; AR(0.95) at 10 s.
        """
        noise = (
            self._wandering(ticks, dt) if self._noise is None else self._noise.advance(ticks, dt)
        )
        noise += TYPICAL_LN + self.silicon + self.job_offset + np.log(self.clock_knob)
        return np.minimum(noise, np.log(self.clock_lock), out=noise)

    def _wandering(self, ticks: int, dt: float) -> Floats:
        rho = 0.95 ** (dt / 10)
        noise: Floats = self._rng.standard_normal((ticks, self.count), np.float32).astype(
            np.float64
        )
        noise *= self._settings.wander * np.sqrt(1 - rho * rho)
        state = self._wander
        for row in noise:
            state *= rho
            state += row
            row[:] = state
        return noise

    def _heat(
        self, times_s: Floats, dt: float, dynamic: Floats, waits: Floats, dram: Floats
    ) -> _Heat:
        """Tick by tick: power makes heat, heat makes leakage, and the governor holds the limits."""
        shape, n = dynamic.shape, self.count
        base_w, core_c = np.empty(shape), np.empty(shape)
        memory_over = MEMORY_OVER_C + MEMORY_BUSY_C * dram + self.memory_heat
        heat = _Heat(dynamic, base_w, core_c, memory_over)
        share = 1 - (1 - WAITS.load) * waits
        resistance, still = self._r_th * self.cooling, self._preheat + self.inlet_rise
        keep = np.exp(-dt / self.tau_s)
        follows, fast = 1 - keep, bool((keep < FAST).any())
        careful = (
            np.minimum(self.max_operating_c, self._memory_max_c - memory_over.max(initial=0.0))
            - 1.0
        )
        inlet = self._inlet(times_s, dt)
        core, scratch = self.temperature_c, np.empty(n)
        for t in range(shape[0]):
            base = base_w[t]
            np.subtract(core, 40.0, out=base)
            np.maximum(base, 0.0, out=base)
            base *= LEAK_W_PER_K
            base += self._idle_w
            heading = core
            if fast or (core > careful - NEAR_K).any():
                free_w = np.minimum(dynamic[t], self.limit_w - base) * share[t] + base
                settles = free_w * resistance + self._front + still + inlet[t]
                heading = np.maximum(core, core + follows * (settles - core))
            if (heading > careful).any() or heat.factor is not None or (self._factor < 1).any():
                highest = core + (self.max_operating_c - core) / follows  # to settle at
                allowed = (highest - self._front - still - inlet[t]) / resistance - base
                self._govern(heat, t, core, heading, allowed / share[t])
            working = dynamic[t]
            working += base
            np.minimum(working, self.limit_w, out=scratch)
            scratch -= base
            scratch *= share[t]
            scratch += base  # mean power
            front = self._front
            if self._settings.front_k:  # of the next tick: the governor knows the air of this one
                self._front = self._warmed_rear(scratch, dt)
            scratch *= resistance
            scratch += front
            scratch += still
            scratch += inlet[t]  # where temperature would settle
            core = core_c[t]
            np.subtract(self.temperature_c, scratch, out=core)
            core *= keep
            core += scratch
            np.minimum(core, self._shutdown_c, out=core)
            self.temperature_c = core
        self.temperature_c = core.copy()
        return heat

    def _warmed_rear(self, watts: Floats, dt: float) -> Floats:
        """The air behind the front half of each node's GPUs is as warm as their power makes it."""
        share = (watts / self.limit_max_w).reshape(-1, GPUS)[:, : GPUS // 2].mean(axis=1)
        wanted = np.zeros((len(share), GPUS))
        wanted[:, GPUS // 2 :] = self._settings.front_k * share[:, None]
        change = (1 - np.exp(-dt / FRONT_TAU_S)) * (wanted.ravel() - self._front)
        return np.asarray(self._front + change)

    def _govern(self, heat: _Heat, t: int, core: Floats, heading: Floats, allowed: Floats) -> None:
        """Software slowdown holds core and memory at their highest operating temperatures; hardware
        halves clocks above its own.

        ``allowed`` is the dynamic power at which the core would be at its highest operating
        temperature when the tick ends, ``heading`` its highest until then where nothing holds it:
        the driver looks more often than once in a tick.
        """
        if heat.factor is None:
            heat.factor, heat.halved = (
                np.ones(heat.working_w.shape),
                np.zeros(heat.working_w.shape, bool),
            )
        room = heat.working_w[t]
        target = np.clip(allowed / np.maximum(room, 1.0), LOWEST_FACTOR**EXPONENT, 1.0) ** (
            1 / EXPONENT
        )
        hot = (heading > self.max_operating_c - 0.5) | (self._factor < 1)
        back = self._factor + GOVERNOR_GAIN * (target - self._factor)
        self._factor = np.asarray(np.where(hot, np.minimum(target, back), 1.0), np.float64)
        memory = core + heat.memory_over_k[t]
        self._factor -= np.clip(0.02 * (memory - self._memory_max_c), 0.0, 0.2)
        self._factor = np.where(self._factor > 0.995, 1.0, np.maximum(self._factor, LOWEST_FACTOR))
        heat.halved[t] = core >= self._slowdown_c
        heat.factor[t] = self._factor
        heat.factor[t, heat.halved[t]] *= HALVED
        room *= heat.factor[t] ** EXPONENT

    def _slow(
        self, heat: _Heat, ratio: Floats, reasons: Floats, idle: Flags, slowed: dict[int, Floats]
    ) -> None:
        """What heat, hot spots and the brake do to clocks, reason bits and nanosecond counters."""
        if heat.factor is not None:
            ratio *= heat.factor
            soft, hard = (heat.factor < 1) & ~heat.halved & ~idle, heat.halved & ~idle
            slowed[SW_THERMAL], slowed[HW_THERMAL] = (
                soft.astype(np.float64),
                hard.astype(np.float64),
            )
            reasons += SW_THERMAL * soft + (HW_SLOWDOWN | HW_THERMAL) * hard
        for bit, duty in ((HW_THERMAL, self.hot_duty), (HW_BRAKE, self.brake)):
            if duty.any():
                # An external signal brakes idle GPUs too; a hot spot needs load.
                share = duty * (~idle if bit == HW_THERMAL else ~self.dead)
                slowed[bit] = slowed.get(bit, 0.0) + share * np.ones(ratio.shape)
                now = self._rng.random(ratio.shape) < share
                ratio[now] *= HALVED
                reasons += np.where(now, float(HW_SLOWDOWN | bit), 0.0)

    def _grid(self, ratio: Floats) -> Floats:
        """Clocks as the driver sets them, on a grid of steps; now and then a sample falls
        into a pause of the clock.
        """
        spikes = self._rng.binomial(ratio.size, self._settings.spikes)
        ratio.ravel()[self._rng.integers(0, ratio.size, spikes)] *= SPIKE
        ratio *= self.clock_max / self.clock_step
        np.rint(ratio, out=ratio)
        ratio *= self.clock_step
        return ratio

    def _sensor(self, core_c: Floats) -> Floats:
        noise: Floats = self._rng.standard_normal(core_c.shape, np.float32).astype(np.float64)
        noise *= self._settings.sensor_noise_c
        noise += core_c
        return np.rint(noise, out=noise)

    def _inlet(self, times_s: Floats, dt: float) -> Floats:
        """Temperature of the room, (tick,): daily swing and a slow random walk."""
        settings, keep = self._settings, np.exp(-dt / 3600)
        steps = (
            self._rng.standard_normal(len(times_s))
            * settings.inlet_walk_c
            * np.sqrt(1 - keep * keep)
        )
        walk = np.empty(len(times_s))
        for t, step in enumerate(steps.tolist()):
            self._inlet_walk = self._inlet_walk * keep + step
            walk[t] = self._inlet_walk
        return np.asarray(
            settings.inlet_c + settings.inlet_daily_c * np.sin(2 * np.pi * times_s / 86400) + walk
        )
