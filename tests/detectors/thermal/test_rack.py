"""Cooling that fails for a rack: reported for the rack, within a quarter of an hour, and of nothing
that all racks or their load do.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectors.thermal import ThermalRack
from pipeline.frame import Device
from tests.detectors.feed import a_gpu, open_findings
from tests.detectors.thermal.heat import Metal

PERIOD_S = 20.0
MINUTE, HOUR = 60.0, 3600.0


def racks(count: int, nodes: int = 3, gpus: int = 4) -> list[Device]:
    """So many nodes in each of so many racks."""
    return [
        a_gpu(f"n{rack}{'abcd'[node]}", index, rack=f"r{rack}")
        for rack in range(count)
        for node in range(nodes)
        for index in range(gpus)
    ]


def in_rack(gpu: Device, rack: str = "r1") -> bool:
    """Whether it is one of these."""
    return gpu.attributes.get("rack") == rack


@pytest.fixture
def metal() -> Metal:
    """Four racks that have worked for two hours."""
    fleet = Metal(ThermalRack(), racks(4), period_s=PERIOD_S)
    assert fleet.run(2 * HOUR) == []
    return fleet


def warms(
    metal: Metal, kelvin_per_minute: float, *, everybody: bool = False, most: float = 18.0
) -> None:
    """From now on the inlet of rack r1, or of all, warms up."""
    begin, before = metal.seconds, metal.warmer

    def warmer(gpu: Device) -> float:
        return before(gpu) + (
            min(kelvin_per_minute * (metal.seconds - begin) / MINUTE, most)
            if everybody or in_rack(gpu)
            else 0.0
        )

    metal.warmer = warmer


@pytest.mark.slow
def test_half_a_kelvin_a_minute_pages_about_the_rack_within_a_quarter_of_an_hour(
    metal: Metal,
) -> None:
    """The rack is named, not its GPUs or node (F12)."""
    warms(metal, 0.5)
    assert open_findings(metal.run(15 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_a_slow_rise_is_told_at_five_kelvin(metal: Metal) -> None:
    """0.1 K a minute is no conspicuous rise, but it adds up."""
    warms(metal, 0.1)
    assert metal.run(45 * MINUTE) == []
    assert open_findings(metal.run(40 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_a_checkpoint_in_between_hides_nothing(metal: Metal) -> None:
    """Three minutes of low power, five minutes after the rise began."""
    warms(metal, 0.5)
    metal.run(4 * MINUTE)
    metal.watts = lambda _: 120.0
    metal.run(3 * MINUTE)
    metal.watts = lambda _: 500.0
    assert open_findings(metal.run(8 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_a_rack_that_idles_shows_its_inlet_too(metal: Metal) -> None:
    """Half an hour after its job, and an hour more that shows what is usual then."""
    metal.watts = lambda gpu: 75.0 if in_rack(gpu) else 500.0
    metal.worse.update({gpu: 1.8 for gpu in metal.gpus if in_rack(gpu)})  # slow fans
    assert metal.run(3 * HOUR) == []
    warms(metal, 0.5)
    assert open_findings(metal.run(15 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_a_chassis_that_is_still_warm_after_a_job_is_silent(metal: Metal) -> None:
    """What is usual when idle is known, and what the job warmed up takes half an hour to cool."""

    def idles(from_s: float) -> None:
        metal.watts = lambda gpu: 75.0 if in_rack(gpu) and metal.seconds > from_s else 500.0
        metal.warmer = lambda gpu: (
            max(15.0 - 0.5 * (metal.seconds - from_s) / MINUTE, 0.0)
            if in_rack(gpu) and metal.seconds > from_s
            else 0.0
        )

    idles(metal.seconds)
    metal.run(3 * HOUR)
    idles(metal.seconds + HOUR)
    assert metal.run(2 * HOUR) == []


@pytest.mark.slow
def test_one_minute_that_reads_too_warm_is_silent(metal: Metal) -> None:
    """Eight kelvin at once, and gone."""
    metal.tau_s, metal.feed.period_s = 1.0, 10.0
    metal.run(10 * MINUTE - metal.seconds % MINUTE)
    warms(metal, 1e6, most=8.0)
    metal.run(MINUTE)
    metal.warmer = lambda _: 0.0
    assert metal.run(HOUR) == []
    assert metal.feed.findings == []


@pytest.mark.slow
def test_small_cards_that_begin_to_work_are_silent() -> None:
    """70 W of a passive card with slow air make 40 K, and large GPUs idle with as much."""
    metal = Metal(ThermalRack(), racks(4), period_s=60.0)
    metal.worse.update(dict.fromkeys(metal.gpus, 13.0))
    metal.watts = lambda _: 15.0
    assert metal.run(3 * HOUR) == []
    for watts in (70.0, 60.0, 35.0, 70.0, 15.0):
        metal.watts = lambda gpu, w=watts: w if in_rack(gpu) else 15.0  # type: ignore[misc] # a default in a lambda
        assert metal.run(4 * HOUR) == []


@pytest.mark.slow
def test_another_power_of_idling_is_learnt_within_a_day(metal: Metal) -> None:
    """A process holds a context on each GPU from now on."""
    metal.feed.period_s = 60.0
    for watts, hours in ((75.0, 8.0), (110.0, 12.0)):
        metal.watts = lambda gpu, w=watts: w if in_rack(gpu) else 500.0  # type: ignore[misc] # a default in a lambda
        assert metal.run(hours * HOUR) == []
    warms(metal, 0.5)
    assert open_findings(metal.run(15 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_a_hall_that_steps_while_one_rack_alone_is_settled_is_silent(metal: Metal) -> None:
    """The others' power wanders, so that there is nothing to compare with (H47)."""
    metal.watts = lambda gpu: (
        500.0 if in_rack(gpu) else 500.0 if metal.seconds % 120 < 60 else 300.0
    )
    metal.run(10 * MINUTE)
    warms(metal, 0.5, everybody=True, most=7.0)
    assert metal.run(2 * HOUR) == []


@pytest.mark.slow
def test_a_hall_that_is_cold_while_one_rack_is_learnt_is_no_warm_rack_later(metal: Metal) -> None:
    """An economiser moves all by 9 K, for the two hours in which one rack idles the first time."""
    metal.run(6 * HOUR)
    metal.watts = lambda gpu: 75.0 if in_rack(gpu) else 500.0
    metal.warmer = lambda _: -9.0
    assert metal.run(2 * HOUR) == []
    metal.warmer = lambda _: 0.0
    assert metal.run(HOUR) == []


@pytest.mark.slow
def test_a_season_is_not_found_when_one_rack_is_left_to_work(metal: Metal) -> None:
    """All are 14 K warmer than at first, for days; then the others' power wanders."""
    metal.feed.period_s = 60.0
    warms(metal, 0.1, everybody=True, most=14.0)
    assert metal.run(36 * HOUR) == []
    metal.watts = lambda gpu: 500.0 if in_rack(gpu) or metal.seconds % 120 < 60 else 300.0
    assert metal.run(2 * HOUR) == []


def cycles(metal: Metal, kelvin: float, minutes: float, warms: float) -> None:
    """From now on the inlet of each rack swings, each at its own phase."""
    phase = {rack: n / 4 for n, rack in enumerate(("r0", "r1", "r2", "r3"))}

    def warmer(gpu: Device) -> float:
        into = (metal.seconds / MINUTE / minutes + phase[gpu.attributes["rack"]]) % 1
        return kelvin * (into / warms if into < warms else (1 - into) / (1 - warms))

    metal.warmer = warmer


@pytest.mark.slow
@pytest.mark.parametrize("kelvin", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("minutes", [4, 15, 60])
def test_a_compressor_that_switches_is_silent(kelvin: float, minutes: float) -> None:
    """Racks breathe the air of different units, at different phases."""
    metal = Metal(ThermalRack(), racks(4), period_s=30.0)
    cycles(metal, kelvin, minutes, warms=0.3)
    assert metal.run(8 * HOUR) == []


@pytest.mark.slow
def test_a_door_that_stays_open_is_silent() -> None:
    """One rack is four kelvin warmer within minutes, for half an hour, where the room swings."""
    metal = Metal(ThermalRack(), racks(4), period_s=30.0)
    cycles(metal, 0.5, 15, warms=0.5)
    metal.run(5 * HOUR)
    usual, begin = metal.warmer, metal.seconds

    def opened(gpu: Device) -> float:
        minutes = (metal.seconds - begin) / MINUTE
        door = min(0.5 * minutes, 4.0) if minutes < 30 else 0.0
        return usual(gpu) + (door if in_rack(gpu) else 0.0)

    metal.warmer = opened
    assert metal.run(HOUR) == []


@pytest.mark.slow
def test_a_rack_that_warms_up_in_a_room_that_cycles_is_paged(metal: Metal) -> None:
    """It is not swallowed by the swings that are usual there."""
    cycles(metal, 2.0, 15, warms=0.5)
    assert metal.run(8 * HOUR) == []
    usual, begin = metal.warmer, metal.seconds
    metal.warmer = lambda gpu: (
        usual(gpu) + (min(0.5 * (metal.seconds - begin) / MINUTE, 18.0) if in_rack(gpu) else 0.0)
    )
    assert open_findings(metal.run(20 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_one_node_of_a_rack_is_no_rack(metal: Metal) -> None:
    """Its fan fails; the two others are well."""
    begin = metal.seconds
    metal.warmer = lambda gpu: (
        min((metal.seconds - begin) / MINUTE, 18.0) if gpu.host == "n1a" else 0.0
    )
    assert metal.run(HOUR) == []


@pytest.mark.slow
def test_a_rack_of_two_nodes_is_a_ticket() -> None:
    """Two agree by chance more easily than three."""
    metal = Metal(ThermalRack(), racks(4, 2), period_s=PERIOD_S)
    metal.run(2 * HOUR)
    warms(metal, 0.5)
    assert open_findings(metal.run(15 * MINUTE)) == [("rack", "r1", "thermal/cooling", "ticket")]


@pytest.mark.slow
def test_a_room_that_warms_up_is_silent(metal: Metal) -> None:
    """All racks together: weather, seasons, a warm hall."""
    warms(metal, 0.5, everybody=True)
    assert metal.run(2 * HOUR) == []


@pytest.mark.slow
def test_checkpoints_that_begin_late_in_a_minute_are_silent() -> None:
    """Power falls in the last seconds, on most nodes of a rack and a minute later on the last: the
    metal is still warm, and well cooled.
    """
    nodes = [a_gpu(f"n{rack}", index, rack=f"r{rack}") for rack in (0, 2) for index in range(8)]
    late = [a_gpu(f"n1{part}", index, rack="r1") for part in "abc" for index in range(8)]
    metal = Metal(ThermalRack(), [*nodes, *late], period_s=10.0)
    metal.run(2 * HOUR)
    for _ in range(4):
        metal.run(10 * MINUTE - metal.seconds % MINUTE + 40)
        begins = {"n1a": metal.seconds, "n1b": metal.seconds, "n1c": metal.seconds + MINUTE}
        metal.watts = lambda gpu, at=begins: (
            120.0 if 0 <= metal.seconds - at.get(gpu.host, 1e9) <= 120 else 500.0
        )  # type: ignore[misc] # a default in a lambda
        metal.run(5 * MINUTE)
    assert metal.feed.findings == []


@pytest.mark.slow
def test_another_load_of_one_rack_is_silent(metal: Metal) -> None:
    """200 W less or more for hours is not another cooling."""
    for watts in (300.0, 650.0, 200.0):
        metal.watts = lambda gpu, w=watts: w if in_rack(gpu) else 500.0  # type: ignore[misc] # a default in a lambda
        assert metal.run(2 * HOUR) == []


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 12], ids=["alone", "among others"])
def test_gpus_that_shed_heat_worse_than_most_may_begin_to_work(count: int) -> None:
    """Their temperature rises by more than the power explains: H07, where half of the
    nodes hold another model.
    """
    metal = Metal(ThermalRack(), racks(count, 1, 8)[8:], period_s=PERIOD_S)
    others = {gpu for gpu in metal.gpus if int(gpu.host[1:-1]) % 2}
    metal.worse.update(dict.fromkeys(others, 1.5))
    for watts in (60.0, 350.0, 240.0, 350.0):
        metal.watts = lambda gpu, w=watts: w if gpu in others else 500.0  # type: ignore[misc] # a default in a lambda
        assert metal.run(HOUR) == []


@pytest.mark.slow
def test_it_ends_once_the_rack_is_cool_again(metal: Metal) -> None:
    """Ten minutes near what is usual."""
    warms(metal, 0.5)
    metal.run(30 * MINUTE)
    metal.warmer = lambda _: 0.0
    assert [f.phase for f in metal.run(30 * MINUTE)] == ["cleared"]


@pytest.mark.slow
def test_it_does_not_learn_the_fault_but_accepts_it_after_two_days(metal: Metal) -> None:
    """A rack that was moved to a warmer place runs warmer."""
    warms(metal, 0.5, most=8.0)
    metal.run(HOUR)
    metal.feed.period_s = 60.0
    assert metal.run(40 * HOUR) == []
    findings = metal.run(10 * HOUR)
    assert [f.phase for f in findings] == ["cleared"]
    assert "new normal" in findings[0].evidence[-1]


@pytest.mark.slow
def test_a_node_alone_tells_of_itself_as_a_ticket() -> None:
    """Its agent sees no other rack: a fast rise is a ticket of the node."""
    metal = Metal(ThermalRack(), racks(2, 1, 8)[8:], period_s=PERIOD_S)
    assert metal.run(2 * HOUR) == []
    warms(metal, 0.8)
    assert open_findings(metal.run(20 * MINUTE)) == [("node", "n1a", "thermal/cooling", "ticket")]


@pytest.mark.slow
def test_a_node_alone_does_not_complain_of_the_weather() -> None:
    """6 K within two hours may be the room."""
    metal = Metal(ThermalRack(), racks(2, 1, 8)[8:], period_s=PERIOD_S)
    metal.run(2 * HOUR)
    warms(metal, 0.05, most=6.0)
    assert metal.run(6 * HOUR) == []


@pytest.mark.slow
def test_marks_of_no_value_are_no_heat(metal: Metal) -> None:
    """A sentinel of some GPU in every reading (H18)."""
    metal.damage = {"temperature_celsius": 2147483632.0, "power_milliwatts": 4294967295.0}
    assert metal.run(3 * HOUR) == []


OLD, NEW = "580.95.05", "595.45.04"


def rolled_out(metal: Metal, *names: str, kelvin: float) -> None:
    """From now on these racks have the new driver, under which their GPUs run warmer."""
    before = metal.warmer
    metal.feed.gpus = [
        replace(gpu, attributes={**gpu.attributes, "driver_version": NEW})
        if gpu.attributes["rack"] in names
        else gpu
        for gpu in metal.gpus
    ]
    metal.warmer = lambda gpu: before(gpu) + kelvin * (gpu.attributes["rack"] in names)


@pytest.fixture
def old_driver() -> Metal:
    """Five racks that have worked for two hours under the old driver."""
    gpus = [replace(gpu, attributes={**gpu.attributes, "driver_version": OLD}) for gpu in racks(5)]
    fleet = Metal(ThermalRack(), gpus, period_s=60.0)
    assert fleet.run(2 * HOUR) == []
    return fleet


@pytest.mark.slow
def test_a_rack_that_runs_warmer_under_another_driver_alerts_nobody(old_driver: Metal) -> None:
    """The first of a roll-out: what is usual is learnt again in an hour, and judged by then."""
    rolled_out(old_driver, "r1", kelvin=8.0)
    assert old_driver.run(2 * HOUR) == []
    warms(old_driver, 0.5)
    assert open_findings(old_driver.run(20 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_cooling_that_fails_just_after_a_roll_out_is_found_where_others_had_it_before(
    old_driver: Metal,
) -> None:
    """What the driver makes of a rack is known from three others, so nothing has to be learnt."""
    rolled_out(old_driver, "r0", "r2", "r3", kelvin=8.0)
    assert old_driver.run(1.5 * HOUR) == []
    rolled_out(old_driver, "r1", kelvin=8.0)
    assert old_driver.run(10 * MINUTE) == []
    warms(old_driver, 0.5)
    assert open_findings(old_driver.run(20 * MINUTE)) == [("rack", "r1", "thermal/cooling", "page")]


@pytest.mark.slow
def test_a_rack_that_grows_warmer_without_another_driver_is_no_roll_out(
    old_driver: Metal,
) -> None:
    """The same heat, and its versions are what they were."""
    before = old_driver.warmer
    old_driver.warmer = lambda gpu: before(gpu) + 8.0 * in_rack(gpu)
    assert open_findings(old_driver.run(HOUR)) == [("rack", "r1", "thermal/cooling", "page")]
