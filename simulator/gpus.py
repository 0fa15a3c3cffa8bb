"""Power, temperature and clocks of a node's GPUs: one vectorised model in
which each drives the others.

``P = idle + leak + dynamic * load * (clock/max)^2.4``; the cap, heat and the power brake lower the
clock, and say so in NVML's reason bits; ``dT/dt = (inlet + preheat + R_th * P - T) / tau``. Silicon
differs by 2.5 % (SC'22, "Not all GPUs are created equal": 8 % mean, 22 % worst difference in
performance), thermal resistance by 6 %, clocks wander by 1 %.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.counters import Counter
from simulator.profile import Gpu
from simulator.workload import Demand

Floats = NDArray[np.float64]

# Bits of nvmlClocksEventReasons (nvml.h).
IDLE, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_BRAKE = 0x1, 0x4, 0x8, 0x20, 0x40, 0x80

EXPONENT = 2.4  # dynamic power over clock: C V^2 f with voltage following frequency in part
LEAK_W_PER_K = 0.35  # leakage above 40 C
HALVED = 0.5  # hardware slowdown halves clocks (or worse)


class Gpus:
    """State of all GPUs of a node; every array has one element per GPU.

    Temperatures in C, power in W, clocks in MHz.

    Faults turn the knobs: ``cooling`` multiplies the thermal resistance, ``clock_knob`` the clock
    without a reason bit, ``brake`` is the share of time under power brake, ``limit_w`` the enforced
    power limit, ``present`` whether the GPU is still there.
    """

    def __init__(self, model: Gpu, rng: np.random.Generator) -> None:
        n = model.count
        self.model = model
        self._rng = rng
        self._silicon = np.clip(rng.normal(0, 0.025, n), -0.06, 0.06)
        self._r_th = model.r_th * (1 + np.clip(rng.normal(0, 0.06, n), -0.15, 0.15))
        self._preheat = rng.uniform(0, 6, n)
        self._idle_w = model.idle_w * rng.normal(1, 0.03, n)
        self._wander = np.zeros(n)
        self._job_offset = np.zeros(n)
        self._job = -1
        self._inlet_walk = 0.0
        self._thermal_factor = np.ones(n)
        self.cooling = np.ones(n)
        self.clock_knob = np.ones(n)
        self.brake = np.zeros(n)
        self.limit_w = np.full(n, model.power_limit_w)
        self.present = np.ones(n, bool)
        self.power_w = self._idle_w.copy()
        self.power_average_w = self._idle_w.copy()
        self.temperature_c = model.inlet_c + self._preheat + self._r_th * self._idle_w
        # where temperature would end at the present power
        self._settles_c = self.temperature_c.copy()
        self.memory_c = self.temperature_c + 6.0
        self.clock_mhz = np.full(n, float(model.clock_idle_mhz))
        self.reasons = np.full(n, IDLE, np.uint64)
        self.load = np.zeros(n)
        self.busy = np.zeros(n)
        self.tensor = np.zeros(n)
        self.dram = np.zeros(n)
        self.energy_mj = Counter((n,))
        self.slowed_ns = {
            bit: Counter((n,)) for bit in (POWER_CAP, SW_THERMAL, HW_THERMAL, HW_BRAKE)
        }

    def advance(
        self, now_s: float, dt: float, demand: Demand, job: int, culprit: NDArray[np.bool_]
    ) -> None:
        """Go on by ``dt`` seconds (at most 2).

        ``culprit`` marks GPUs whose rank is dead while the others wait for it.
        """
        n, rng = self.model.count, self._rng
        if job != self._job:
            self._job, self._job_offset = job, rng.normal(0, 0.008, n)
        # AR(0.95) at 10 s with a standard deviation of 1 %, for a step of any length.
        rho = 0.95 ** (dt / 10)
        self._wander = rho * self._wander + 0.01 * np.sqrt(1 - rho * rho) * rng.standard_normal(n)
        works = self.present & ~culprit
        self.load = np.where(works, demand.load * (1 + self._job_offset), 0.0)
        self.busy = np.where(works, demand.busy, 0.0)
        self.tensor = np.where(works, demand.tensor * (1 + self._wander), 0.0)
        self.dram = np.where(works, demand.dram * (1 + self._wander), 0.0)
        self._clocks_and_power(dt)
        self._heat(now_s, dt)

    def _clocks_and_power(self, dt: float) -> None:
        model, rng = self.model, self._rng
        self._govern_heat(dt)
        idle = (self.load < 0.01) & (self.busy < 0.01)
        braked = rng.random(model.count) < self.brake
        hot = self.temperature_c >= model.max_operating_c - model.slowdown_margin_c
        ratio = np.minimum(1.0, np.exp(self._silicon - 0.01 + self._job_offset + self._wander))
        ratio = ratio * self._thermal_factor * self.clock_knob * np.where(braked | hot, HALVED, 1.0)
        base = self._idle_w + LEAK_W_PER_K * np.maximum(self.temperature_c - 40, 0)
        room = (model.power_limit_w - model.idle_w) * self.load
        wanted = base + room * ratio**EXPONENT
        capped = (wanted > self.limit_w) & ~idle
        fits = np.maximum(self.limit_w - base, 1.0) / np.maximum(room, 1.0)
        ratio = np.where(capped, np.minimum(ratio, fits ** (1 / EXPONENT)), ratio)
        power = np.where(idle, base, base + room * ratio**EXPONENT)
        self.power_w = np.where(self.present, power * (1 + rng.normal(0, 0.004, model.count)), 0.0)
        self.power_average_w += (1 - np.exp(-dt / 1.0)) * (self.power_w - self.power_average_w)
        self.clock_mhz = np.where(idle, model.clock_idle_mhz, model.clock_max_mhz * ratio)
        soft = (self._thermal_factor < 0.999) & ~idle
        hot = hot & ~idle
        self.reasons = (
            np.where(idle, IDLE, 0)
            | np.where(capped, POWER_CAP, 0)
            | np.where(soft, SW_THERMAL, 0)
            | np.where(hot, HW_SLOWDOWN | HW_THERMAL, 0)
            | np.where(braked, HW_SLOWDOWN | HW_BRAKE, 0)
        ).astype(np.uint64)
        self.energy_mj.add(self.power_w * dt * 1000)
        for bit, share in (
            (POWER_CAP, capped),
            (SW_THERMAL, soft),
            (HW_THERMAL, hot),
            (HW_BRAKE, self.brake),
        ):
            self.slowed_ns[bit].add(share * (dt * 1e9) * self.present)

    def _govern_heat(self, dt: float) -> None:
        """Software slowdown: hold core and memory at their highest operating
        temperatures by the clock.

        It looks at where temperature is heading, half way to the steady state of the present
        power, or it would hunt.
        """
        model = self.model
        core = (self.temperature_c + self._settles_c) / 2 - model.max_operating_c
        hot = (
            np.maximum(
                self.temperature_c - model.max_operating_c, self.memory_c - model.memory_max_c
            )
            > 0
        )
        over = np.maximum(core, self.memory_c - model.memory_max_c)
        step = np.where(hot | (self._thermal_factor < 1), -0.005 * over, 0.0)
        self._thermal_factor = np.clip(self._thermal_factor + step * dt, 0.35, 1.0)

    def _heat(self, now_s: float, dt: float) -> None:
        model = self.model
        keep = np.exp(-dt / model.tau_s)
        self._inlet_walk += float(
            -self._inlet_walk * dt / 3600
            + 0.5 * np.sqrt(2 * dt / 3600) * self._rng.standard_normal()
        )
        inlet = model.inlet_c + 2.0 * np.sin(2 * np.pi * now_s / 86400) + self._inlet_walk
        self._settles_c = inlet + self._preheat + self._r_th * self.cooling * self.power_w
        # Above the shutdown temperature the board switches itself off; the model holds it there.
        shutdown = model.max_operating_c - model.shutdown_margin_c
        self.temperature_c = np.minimum(
            self._settles_c + (self.temperature_c - self._settles_c) * keep, shutdown
        )
        settles = self.temperature_c + 6.0 + 9.0 * self.dram
        self.memory_c = settles + (self.memory_c - settles) * keep

    def shown_temperature(self) -> NDArray[np.int64]:
        """The sensor's reading: 0.4 K of noise, whole degrees."""
        return np.rint(self.temperature_c + self._rng.normal(0, 0.4, self.model.count)).astype(
            np.int64
        )

    def shown_clock(self) -> NDArray[np.int64]:
        """The SM clock on its grid of steps, as the driver sets it."""
        step = self.model.clock_step_mhz
        return (np.floor(self.clock_mhz / step + 0.5) * step).astype(np.int64)
