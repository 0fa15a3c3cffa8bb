"""The physics is plausible to a GPU engineer, exact in its integrals and
the same for the same seed.
"""

from __future__ import annotations

import numpy as np
import pytest

from simulator.gpus import HW_SLOWDOWN, IDLE, POWER_CAP
from simulator.links import HEALTHY_BER
from simulator.node import Node
from simulator.profile import profile_names
from simulator.readings import gpu_readings
from tests.simulator.nodes import node, training

pytestmark = pytest.mark.slow


def _state(busy: Node) -> list[list[float]]:
    return [[float(x) for x in values.ravel()] for values in gpu_readings(busy).values()]


def test_the_same_seed_gives_the_same_node() -> None:
    """Two nodes of one seed and the same steps agree in every reading, to the last bit."""
    assert _state(training(seed=5)) == _state(training(seed=5))


def test_another_seed_gives_another_node() -> None:
    """Seeds differ in silicon, job and identity."""
    one, other = training(seed=5), training(seed=6)
    assert one.uuids != other.uuids
    assert not np.array_equal(one.gpus.energy_mj.value, other.gpus.energy_mj.value)


@pytest.mark.parametrize("profile", profile_names())
def test_idle_gpus_are_cool_slow_and_say_idle(profile: str) -> None:
    """Before the first job: power near the model's idle draw, below 50 C, idle clock, the
    idle reason and no other.
    """
    idle = node(profile)
    idle.advance(4)
    model = idle.profile.gpu
    assert np.all(np.abs(idle.gpus.power_w / model.idle_w - 1) < 0.2)
    assert np.all((idle.gpus.temperature_c > model.inlet_c) & (idle.gpus.temperature_c < 50))
    assert np.all(idle.gpus.shown_clock() == model.clock_idle_mhz)
    assert np.all(idle.gpus.reasons == IDLE)


@pytest.mark.parametrize("seed", range(6))
def test_training_draws_what_training_draws(seed: int) -> None:
    """H100 in training: 330-705 W on average, 45-80 C, memory warmer than the core, utilisation
    near 100 %, tensor cores in use.
    """
    busy = training(seed=seed)
    energy = busy.gpus.energy_mj.value.astype(float)
    busy.advance(300)
    watts = (busy.gpus.energy_mj.value - energy) / 1000 / 300
    assert np.all((watts > 330) & (watts < 705))
    assert np.all((busy.gpus.temperature_c > 45) & (busy.gpus.temperature_c < 80))
    assert np.all(busy.gpus.memory_c > busy.gpus.temperature_c)
    assert np.all(busy.gpus.busy > 0.95)
    assert np.all((busy.gpus.tensor >= 0) & (busy.gpus.tensor < 0.8))


def test_energy_is_the_integral_of_power() -> None:
    """The counter grows by exactly the power of each step times its length; a millijoule per GPU
    is what rounding may cost.
    """
    busy = training()
    start = busy.gpus.energy_mj.value.copy()
    total = np.zeros(busy.profile.gpu.count)
    for _ in range(200):
        busy.advance(0.25)
        total += busy.gpus.power_w * 0.25 * 1000
    assert np.all(np.abs((busy.gpus.energy_mj.value - start).astype(float) - total) <= 1.0)


def test_temperature_follows_power_with_its_time_constant() -> None:
    """When a job dies, a GPU has lost about 63 % of its excess temperature
    one time constant later.
    """
    busy = training()
    hot = busy.gpus.temperature_c.copy()
    busy.workload.kill(busy.time_s, 0)
    busy.workload.drained.add("test")
    busy.advance(busy.profile.gpu.tau_s)
    later = busy.gpus.temperature_c.copy()
    busy.advance(20 * busy.profile.gpu.tau_s)
    share = (hot - later) / (hot - busy.gpus.temperature_c)
    assert np.all((share > 0.55) & (share < 0.72))


def test_clocks_fall_only_for_a_reason() -> None:
    """In half an hour of healthy work no clock is more than 10 % below its
    maximum without a reason bit.
    """
    busy = training(seed=3)
    model = busy.profile.gpu
    for _ in range(1800):
        busy.advance(1)
        slow = busy.gpus.clock_mhz < 0.9 * model.clock_max_mhz
        assert not np.any(slow & (busy.gpus.reasons == 0))


def test_the_power_cap_holds_and_says_so() -> None:
    """A job that asks for more than the limit gets lower clocks, the cap's reason bit and its
    nanoseconds, at the limit's power.
    """
    busy = training()
    busy.gpus.limit_w[2] = 300.0
    before = busy.gpus.slowed_ns[POWER_CAP].value[2]
    for _ in range(60):
        busy.advance(0.5)
        assert busy.gpus.power_w[2] < 300 * 1.03
    assert busy.gpus.reasons[2] & np.uint64(POWER_CAP)
    assert busy.gpus.clock_mhz[2] < 0.9 * busy.profile.gpu.clock_max_mhz
    grown = int(busy.gpus.slowed_ns[POWER_CAP].value[2] - before)
    assert 0.5 * 30e9 < grown <= 30e9


def test_throttle_time_never_exceeds_wall_time() -> None:
    """Nanosecond counters grow by at most the time that passed."""
    busy = training(seed=2)
    before = {bit: counter.value.copy() for bit, counter in busy.gpus.slowed_ns.items()}
    busy.advance(600)
    for bit, counter in busy.gpus.slowed_ns.items():
        assert np.all(counter.value - before[bit] <= np.uint64(600 * 10**9))


def test_gpus_of_one_model_differ() -> None:
    """Silicon and cooling spread: temperatures of one job differ by kelvins, clocks by
    a few percent, not more.
    """
    busy = training()
    assert 1 < np.ptp(busy.gpus.temperature_c) < 25
    assert np.ptp(busy.gpus.clock_mhz) / busy.profile.gpu.clock_max_mhz < 0.2


def test_a_checkpoint_pauses_the_work() -> None:
    """Within an hour and a half of training there is a checkpoint in which
    power falls to near idle.
    """
    busy = training(seed=4)
    quiet = []
    for _ in range(5400):
        busy.advance(1)
        if busy.demand.phase == "checkpoint":
            quiet.append(float(busy.gpus.power_w.mean()))
    assert len(quiet) >= 60
    assert min(quiet) < 2 * busy.profile.gpu.idle_w


def test_symbol_errors_come_at_signalling_rate_times_ber() -> None:
    """At a bit error ratio of 1e-12 an NDR port counts 425e9 x 1e-12 errors per second, within
    Poisson noise (5 sigma).
    """
    busy = training()
    busy.ports.ber[0] = 1e-12
    before = int(busy.ports.errors["symbol"][0])
    busy.advance(1000)
    expected = 425e9 * 1e-12 * 1000
    assert abs(int(busy.ports.errors["symbol"][0]) - before - expected) < 5 * expected**0.5


def test_healthy_links_are_nearly_free_of_errors() -> None:
    """At the healthy ratio eight NDR ports see about one symbol error an hour: after
    ten minutes at most a few.
    """
    busy = training()
    assert np.all(busy.ports.ber == HEALTHY_BER)
    busy.advance(600)
    assert int(busy.ports.errors["symbol"].sum()) <= 5
    assert not busy.ports.errors["downed"].any()


def test_traffic_stays_below_line_rate() -> None:
    """NVLink and InfiniBand counters grow in training, and never faster than the wire."""
    busy = training()
    links, ports = busy.nvlinks.sent.value.copy(), busy.ports.sent.value.copy()
    busy.advance(100)
    speeds = (busy.nvlinks.sent.value - links) / 100
    assert np.all((speeds > 1e9) & (speeds < busy.profile.nvlink.gigabytes_per_second * 1e9))
    speeds = (busy.ports.sent.value - ports) / 100
    assert np.all((speeds > 1e9) & (speeds < busy.profile.ports.gigabits_per_second * 1e9 / 8))


def test_correctable_errors_come_at_the_healthy_rate() -> None:
    """A healthy node of eight sees hardly any correctable error in an hour
    (0.016 bursts expected).
    """
    busy = training()
    busy.advance(3600)
    assert int(busy.cells.total(corrected=True, lifetime=False).sum()) <= 30
    assert int(busy.cells.total(corrected=False, lifetime=False).sum()) == 0


def test_single_hardware_slowdown_needs_heat_or_brake() -> None:
    """A healthy node never shows the hardware slowdown bit."""
    busy = training()
    for _ in range(300):
        busy.advance(1)
        assert not np.any(busy.gpus.reasons & np.uint64(HW_SLOWDOWN))


def test_steps_of_any_length_agree_in_what_they_integrate() -> None:
    """An hour in quarter seconds and an hour in one call differ in noise
    only: energy within 2 %.
    """
    fine, coarse = node(seed=9), node(seed=9)
    for _ in range(4 * 1200):
        fine.advance(0.25)
    coarse.advance(1200)
    assert fine.gpus.energy_mj.value.sum() == pytest.approx(
        int(coarse.gpus.energy_mj.value.sum()), rel=0.02
    )
