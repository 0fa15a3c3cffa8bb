"""The NVML source over the real pynvml: what it reads, and what it makes of
a driver that misbehaves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.node.gpu_processes import NO_INSTANCE, GpuProcesses, Holder
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.nvml.source import NvmlSource
from collector.sources.nvml.states import NAMES
from collector.sources.nvml.worker import Deadlines
from pipeline.catalog import agent
from pipeline.interfaces import Closable, Source
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.nvml.conftest import Scripted
from tests.collector.sources.nvml.node import (
    PATIENT,
    ScriptedNode,
    frame,
    reasons,
    states,
    uuid,
    values,
)
from tests.fakes import FakeClock
from tests.wait import until

pytestmark = pytest.mark.slow

HASTY = Deadlines(call_s=1, slow_s=1, silent_s=20, sweep_s=20)
HANG, ABORT, SEGFAULT = -1, -2, -3
LOST, UNKNOWN = 15, 999


def recover(node: ScriptedNode, wanted: list[str]) -> None:
    """Read until the states are as wanted; the node's clock passes every back-off."""
    until(lambda: node.states(400) == wanted, f"states {wanted}")


def test_a_source_is_what_the_engine_wants(scripted: Scripted) -> None:
    """The NVML source satisfies the seams of the engine."""
    node = scripted()
    assert isinstance(node.source, Source)
    assert isinstance(node.source, Closable)
    assert node.source.name == "nvml"


def test_values_change_under_a_running_child(scripted: Scripted) -> None:
    """Each reading shows what the driver says then."""
    node = scripted(1)
    node.table.set("0/nvmlDeviceGetTemperature(0)", 41)
    assert values(node.read())[0]["temperature_celsius"] == 41
    node.table.set("0/nvmlDeviceGetTemperature(0)", 90)
    assert values(node.read())[0]["temperature_celsius"] == 90


def test_more_gpus_than_eight(scripted: Scripted) -> None:
    """Sixteen GPUs are sixteen rows in index order."""
    node = scripted(16)
    gpus = frame(node.read(), "gpu")
    assert [d.id for d in gpus.devices] == [uuid(n) for n in range(16)]
    assert gpus.gauge("temperature_celsius").tolist() == [40.0 + n for n in range(16)]


def test_the_node_says_how_many_gpus_there_are(scripted: Scripted) -> None:
    """Expected and visible GPUs are values of the node."""
    node = scripted(3)
    assert values(node.read(), "node") == [{"gpus_expected": 3, "gpus_visible": 3}]
    node.table.fail("1/*", LOST)
    assert values(node.read(), "node") == [{"gpus_expected": 3, "gpus_visible": 2}]


def test_a_lost_gpu_keeps_its_row(scripted: Scripted) -> None:
    """A GPU that is lost in mid-run says so in its row; the others go on, and it is told once."""
    node = scripted(3)
    assert node.states() == ["ok", "ok", "ok"]
    node.table.fail("1/*", LOST)
    lost = node.read()
    assert states(lost) == ["ok", "lost", "ok"]
    assert values(lost)[1] == {"state": 1}
    assert values(lost)[2]["temperature_celsius"] == 42
    assert [(e.kind, e.device.id) for e in lost.events] == [("device_gone", uuid(1))]
    assert node.read().events == ()


def test_a_lost_gpu_comes_back(scripted: Scripted) -> None:
    """A GPU that answers again is ok, and that is an event."""
    node = scripted(2)
    node.read()
    node.table.fail("1/*", LOST)
    node.read()
    node.table.fail("1/*", 0)
    back = node.read()
    assert states(back) == ["ok", "ok"]
    assert [(e.kind, e.attributes["reason"]) for e in back.events] == [
        ("device_appeared", "was lost")
    ]


def test_a_gpu_lost_over_a_restart_of_the_child_stays_lost(scripted: Scripted) -> None:
    """After the driver no longer lists a lost GPU it is still lost, not merely absent."""
    node = scripted(2)
    node.read()
    node.table.fail("1/*", LOST)
    assert node.states() == ["ok", "lost"]
    node.table.set("-/nvmlDeviceGetCount()", 1)
    node.table.fail("0/nvmlDeviceGetTemperature(0)", ABORT)
    node.read()
    node.table.fail("0/nvmlDeviceGetTemperature(0)", 0)
    assert node.states() == ["ok", "lost"]


def test_a_known_gpu_that_is_not_there_at_start_is_absent(
    scripted: Scripted, tmp_path: Path
) -> None:
    """The inventory outlives the agent: a GPU that was there before has a row
    from the first reading on.
    """
    first = scripted(2, state=State(tmp_path / "state"))
    first.read()
    second = scripted(1, state=State(tmp_path / "state"))
    reading = second.read()
    assert states(reading) == ["ok", "absent"]
    assert values(reading, "node") == [{"gpus_expected": 2, "gpus_visible": 1}]


@pytest.mark.parametrize(
    ("driver", "vendor", "state"),
    [
        ("vfio-pci", "0x10de", "passthrough"),
        ("nvgrace-gpu-vfio-pci", "0x10de", "passthrough"),
        ("pci-stub", "0x10de", "passthrough"),
        ("nvidia", "0x10de", "absent"),
        ("nouveau", "0x10de", "absent"),
        ("", "0x10de", "absent"),
        ("vfio-pci", "0x15b3", "absent"),
    ],
)
def test_a_gpu_that_virtual_machines_have_is_not_absent(
    scripted: Scripted, tmp_path: Path, driver: str, vendor: str, state: str
) -> None:
    """Given away it is not gone, and not expected.

    One that no driver has, or the wrong one, or whose slot holds another part, is absent.
    """
    scripted(2, state=State(tmp_path / "state")).read()
    bind(tmp_path / "sys", "0000:11:00.0", driver, vendor)
    node = scripted(1, state=State(tmp_path / "state"), sysfs=tmp_path / "sys")
    reading = node.read()
    assert [NAMES[int(code)] for code in frame(reading, "gpu").gauge("state")] == ["ok", state]
    assert values(reading, "node") == [
        {"gpus_expected": 2 - (state == "passthrough"), "gpus_visible": 1}
    ]
    assert [(event.kind, event.attributes["reason"]) for event in reading.events] == [
        ("device_gone", state)
    ]


def test_a_node_whose_gpus_were_all_given_away_has_lost_none(
    scripted: Scripted, tmp_path: Path
) -> None:
    """NVIDIA's driver is not even loaded there."""
    scripted(1, state=State(tmp_path / "state")).read()
    bind(tmp_path / "sys", "0000:10:00.0", "vfio-pci")
    node = scripted(1, state=State(tmp_path / "state"), sysfs=tmp_path / "sys")
    node.table.fail("-/nvmlInit()", 9)
    assert node.states() == ["passthrough"]
    assert values(node.read(), "node") == [{"gpus_expected": 0, "gpus_visible": 0}]


def test_a_gpu_that_its_driver_gets_back_is_expected_again(
    scripted: Scripted, tmp_path: Path
) -> None:
    """What is bound back and not listed is absent; once it is listed it is read."""
    scripted(2, state=State(tmp_path / "state")).read()
    bind(tmp_path / "sys", "0000:11:00.0", "vfio-pci")
    node = scripted(1, state=State(tmp_path / "state"), sysfs=tmp_path / "sys")
    assert node.states() == ["ok", "passthrough"]
    bind(tmp_path / "sys", "0000:11:00.0", "nvidia")
    assert node.states() == ["ok", "absent"]
    node.add_gpu(1)
    node.table.set("-/nvmlDeviceGetCount()", 2)
    until(lambda: node.states(400) == ["ok", "ok"], "the second GPU")


def node_with_three(scripted: Scripted, tmp_path: Path, **more: Any) -> ScriptedNode:
    """Three GPUs of a node are bound to NVIDIA's driver, which lists two of them."""
    for slot in ("10", "11", "12"):
        bind(tmp_path / "sys", f"0000:{slot}:00.0", "nvidia")
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    parameters(tmp_path, "")
    folders = {"sysfs": tmp_path / "sys", "dev": tmp_path / "dev", "proc": tmp_path / "proc"}
    return scripted(2, facts_every_s=60, **folders, **more)


def parameters(tmp_path: Path, excluded: str) -> None:
    """Those of the driver, with GPUs that it is to leave out."""
    file = tmp_path / "proc/driver/nvidia/params"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'ResmanDebugLevel: 4294967295\nExcludedGpus: "{excluded}"\n')


def unlisted_after(node: ScriptedNode, minutes: int) -> list[str]:
    """Addresses that are shown so many minutes later, read once a minute; nobody expects them."""
    for _ in range(minutes):
        reading = node.read(60)
    assert values(reading, "node")[0]["gpus_expected"] == len(values(reading))
    series = dict(node.metrics.series()).get(agent.GPU_UNLISTED, ())
    return [address for (address,), _ in series]


def test_a_gpu_that_was_dead_before_the_agent_came_is_named(
    scripted: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver has it and does not list it, for longer than a driver takes to load."""
    node = node_with_three(scripted, tmp_path)
    node.read()
    assert unlisted_after(node, 4) == []
    assert unlisted_after(node, 3) == ["0000:12:00"]
    assert caplog.text.count("the GPU at 0000:12:00 has NVIDIA's driver") == 1
    bind(tmp_path / "sys", "0000:12:00.0", "vfio-pci")
    assert unlisted_after(node, 1) == []


def test_a_gpu_that_comes_up_late_is_read(scripted: Scripted, tmp_path: Path) -> None:
    """The child that serves has not seen it: another one is asked."""
    node = node_with_three(scripted, tmp_path)
    node.read()
    assert unlisted_after(node, 2) == []
    node.add_gpu(2)
    node.table.set("-/nvmlDeviceGetCount()", 3)
    until(lambda: len(values(node.read(60))) == 3, "the third GPU")
    assert unlisted_after(node, 8) == []


def test_five_minutes_are_of_one_driver(scripted: Scripted, tmp_path: Path) -> None:
    """While the driver was away nobody looked: it has its time again."""
    node = node_with_three(scripted, tmp_path)
    node.read()
    assert unlisted_after(node, 3) == []
    node.clock.advance(3600)
    assert unlisted_after(node, 4) == []
    assert unlisted_after(node, 3) == ["0000:12:00"]


@pytest.mark.parametrize(
    "why", ["container", "function", "excluded", "unknown", "unbound", "declared"]
)
def test_a_gpu_that_is_left_out_on_purpose_is_not_named(
    scripted: Scripted, tmp_path: Path, why: str
) -> None:
    """A container has a part of the GPUs; a function is virtual; the driver leaves one out, does
    not say whether it does, or has never had it; the number is declared.
    """
    node = node_with_three(scripted, tmp_path, expected=2 if why == "declared" else 0)
    if why == "container":
        (tmp_path / "dev/nvidia2").unlink()
    elif why == "function":
        (tmp_path / "sys/bus/pci/devices/0000:12:00.0/physfn").symlink_to("../0000:11:00.0")
    elif why == "excluded":
        parameters(tmp_path, "GPU-1b2c")
    elif why == "unknown":
        (tmp_path / "proc/driver/nvidia/params").unlink()
    elif why == "unbound":
        bind(tmp_path / "sys", "0000:12:00.0", "")
    node.read()
    assert unlisted_after(node, 8) == []


def bind(sysfs: Path, address: str, driver: str, vendor: str = "0x10de") -> None:
    """Have sysfs say which driver a PCI function is bound to, "" for none."""
    function = sysfs / "bus" / "pci" / "devices" / address
    function.mkdir(parents=True, exist_ok=True)
    (function / "vendor").write_text(f"{vendor}\n")
    (function / "class").write_text("0x030200\n")
    (function / "driver").unlink(missing_ok=True)
    if driver:
        (function / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")


def test_a_gpu_that_appears_later_is_read(scripted: Scripted) -> None:
    """A GPU that should be there and comes later is found without a restart, and without losing
    a reading of the others.
    """
    node = scripted(1, expected=2)
    assert node.states() == ["ok"]
    node.add_gpu(1)
    node.table.set("-/nvmlDeviceGetCount()", 2)

    def both() -> bool:
        reading = node.read(400)
        assert states(reading)[0] == "ok"
        return states(reading) == ["ok", "ok"]

    until(both, "the second GPU")


def test_a_driver_that_appears_later_is_picked_up(scripted: Scripted) -> None:
    """Without a driver the source says so; when it is loaded, GPUs are read."""
    node = scripted(1)
    node.table.fail("-/nvmlInit()", 9)
    without = node.read()
    assert reasons(without) == ["driver not loaded"]
    assert [f.kind for f in without.frames] == ["node"]
    assert values(without, "node") == [{"gpus_expected": 0, "gpus_visible": 0}]
    node.table.fail("-/nvmlInit()", 0)
    until(lambda: [f.kind for f in node.read(100).frames] != ["node"], "the driver")
    assert node.states() == ["ok"]


def test_no_library_is_a_state(scripted: Scripted, tmp_path: Path) -> None:
    """Without any NVML library the source serves and says why it sees nothing."""
    node = scripted(1, stub=tmp_path)
    assert reasons(node.read()) == ["driver library not found"]


@pytest.mark.parametrize(
    ("library", "said"),
    [
        ("banana:split", "nvml library 'banana:split'"),
        ("simulator.nvml_client:open_client:/nowhere", "/nowhere"),
    ],
)
def test_a_library_that_cannot_be_opened_is_named(library: str, said: str) -> None:
    """A wrong library setting is a state with a reason that names it."""
    source = NvmlSource(
        library, "n1", FakeClock(), Inventory("n1", State(None)), SelfMetrics(), deadlines=PATIENT
    )
    (reason,) = reasons(source.read())
    source.close()
    assert said in reason


def test_a_driver_that_is_unloaded_is_picked_up_again(scripted: Scripted) -> None:
    """After the driver went away under a running child its GPUs are unreadable, and
    read again once it is back.
    """
    node = scripted(2)
    node.read()
    node.table.fail("-/*", 1)
    node.table.fail("-/nvmlInit()", 9)
    assert node.states() == ["unreadable", "unreadable"]
    assert reasons(node.read(100)) == ["driver not loaded"]
    node.table.fail("-/*", 0)
    node.table.fail("-/nvmlInit()", 0)
    recover(node, ["ok", "ok"])


def test_gpus_that_the_driver_does_not_count_are_unreadable(
    scripted: Scripted, tmp_path: Path
) -> None:
    """They are not absent; once it counts they are read, and a later count that fails takes none
    away.
    """
    scripted(2, state=State(tmp_path / "state")).read()
    node = scripted(2, state=State(tmp_path / "state"), facts_every_s=10.0)
    node.table.fail("-/nvmlDeviceGetCount()", 999)
    assert node.states() == ["unreadable", "unreadable"]
    node.table.fail("-/nvmlDeviceGetCount()", 0)
    recover(node, ["ok", "ok"])
    node.table.fail("-/nvmlDeviceGetCount()", 999)
    assert [node.states(11.0) for _ in range(3)] == [["ok", "ok"]] * 3


def test_without_a_driver_it_is_not_asked_every_second(scripted: Scripted) -> None:
    """A driver that is not there is looked for ever more rarely, not with a
    new process per reading.
    """
    node = scripted(1)
    node.table.fail("-/nvmlInit()", 9)
    node.table.set("-/calls/nvmlInit", 0)
    for _ in range(60):
        node.read()
    assert 1 <= node.value("-/calls/nvmlInit") <= 20


def test_a_hang_costs_the_others_one_tick(scripted: Scripted) -> None:
    """A call that never returns on one GPU costs the GPUs after it that reading, and
    those before it nothing.
    """
    node = scripted(4, deadlines=HASTY)
    node.read()
    node.table.fail("2/nvmlDeviceGetPowerUsage()", HANG)
    node.table.fail("2/nvmlDeviceGetTemperature(0)", HANG)
    during = node.read()
    assert states(during) == ["ok", "ok", "hung", "unreadable"]
    assert values(during)[1]["temperature_celsius"] == 41
    assert [(e.kind, e.device.id, e.attributes.get("call")) for e in during.events] == [
        ("driver_hang", uuid(2), "nvmlDeviceGetTemperature"),
        ("device_gone", uuid(2), None),
    ]
    assert node.states() == ["ok", "ok", "hung", "ok"]
    assert node.states() == ["ok", "ok", "hung", "ok"]
    assert node.metrics.value(agent.NVML_HUNG_CALLS, "nvmlDeviceGetTemperature") == 1


def test_a_hung_gpu_is_tried_beside_the_others(scripted: Scripted) -> None:
    """Trying a hung GPU again, in vain, costs the others nothing; once it
    answers it is read again.
    """
    node = scripted(2, deadlines=HASTY)
    node.read()
    node.table.fail("1/*", HANG)
    assert node.states() == ["ok", "hung"]
    node.table.set("-/calls/nvmlInit", 0)

    def tried_again() -> bool:
        assert node.states(5) == ["ok", "hung"]
        return node.value("-/calls/nvmlInit") >= 3

    until(tried_again, "three tries of the hung GPU")
    node.table.fail("1/*", 0)

    def back() -> bool:
        now = node.states(400)
        assert now[0] == "ok"
        return now[1] == "ok"

    until(back, "the GPU that hung")


def test_a_hang_in_the_library_s_start_blames_no_gpu(scripted: Scripted) -> None:
    """A driver that hangs as a whole makes all GPUs unreadable; they are
    read when it answers again.
    """
    node = scripted(2, deadlines=Deadlines(call_s=20, slow_s=0.3, silent_s=20, sweep_s=20))
    node.table.fail("-/nvmlInit()", HANG)
    assert reasons(node.read()) == ["hung in nvmlInit"]
    node.table.fail("-/nvmlInit()", 0)
    until(lambda: [f.kind for f in node.read(100).frames] != ["node"], "the driver")
    assert node.states() == ["ok", "ok"]


def test_events_that_hang_are_given_up(scripted: Scripted) -> None:
    """A hang of NVML's event queue is no GPU's: the next child reads all GPUs without events."""
    node = scripted(2, deadlines=HASTY)
    node.read()
    node.table.fail("-/nvmlEventSetWait_v2()", HANG)
    assert states(node.read()) == ["unreadable", "unreadable"]
    assert node.states() == ["ok", "ok"]
    assert node.states() == ["ok", "ok"]


@pytest.mark.parametrize("death", [ABORT, SEGFAULT])
def test_a_crash_of_the_library_costs_one_tick(scripted: Scripted, death: int) -> None:
    """A library that aborts or segfaults takes its child with it, not the agent,
    and not the next reading.
    """
    node = scripted(2)
    node.read()
    node.table.fail("1/nvmlDeviceGetTemperature(0)", death)
    assert node.states() == ["ok", "unreadable"]
    node.table.fail("1/nvmlDeviceGetTemperature(0)", 0)
    assert node.states() == ["ok", "ok"]


def test_a_gpu_that_crashes_the_library_again_and_again_is_left_out(scripted: Scripted) -> None:
    """A GPU whose call kills the child each time may not keep the others from being read."""
    node = scripted(3)
    node.table.fail("0/nvmlDeviceGetTemperature(0)", SEGFAULT)
    node.read()
    node.read()
    assert node.states() == ["unreadable", "ok", "ok"]
    node.table.fail("0/nvmlDeviceGetTemperature(0)", 0)
    recover(node, ["ok", "ok", "ok"])


def test_one_field_s_error_hides_nothing_else(scripted: Scripted) -> None:
    """A field that fails is unobserved with its reason; it is asked again and comes back."""
    node = scripted(1)
    node.read()
    node.table.fail("0/field 83", UNKNOWN)
    node.table.fail("0/nvmlDeviceGetTemperature(0)", 4)
    reading = node.read()
    assert states(reading) == ["ok"]
    assert {"temperature_celsius", "energy_millijoules"}.isdisjoint(values(reading)[0])
    assert {(u.reason, u.device, u.field) for u in reading.unread} == {
        ("unknown error", uuid(0), "energy_millijoules"),
        ("no permission", uuid(0), "temperature_celsius"),
    }
    node.table.fail("0/field 83", 0)
    node.table.fail("0/nvmlDeviceGetTemperature(0)", 0)
    reading = node.read()
    assert reading.unread == ()
    assert values(reading)[0]["energy_millijoules"] == 1_000_000


def test_what_is_unsupported_is_asked_once(scripted: Scripted) -> None:
    """A field or getter that the hardware does not have is asked once between looks at the slow
    facts, and is no failure.
    """
    node = scripted(1)
    counters = (
        "0/calls/field 230",
        "-/calls/nvmlDeviceGetFanSpeed",
        "0/calls/field 83",
        "-/calls/nvmlGpmSampleGet",
    )
    for key in counters:
        node.table.set(key, 0)
    for _ in range(4):
        assert node.read().unread == ()
    asked = {key: node.value(key) for key in counters}
    assert asked["0/calls/field 230"] == 1
    assert asked["-/calls/nvmlDeviceGetFanSpeed"] == 1
    assert asked["-/calls/nvmlGpmSampleGet"] == 1
    assert asked["0/calls/field 83"] >= 4


def test_what_mig_ends_comes_back_with_its_end(scripted: Scripted) -> None:
    """A GPU in MIG mode refuses its utilization; without MIG it is there again, under the same
    driver and also where the agent began in MIG mode.
    """
    node = scripted(1, facts_every_s=10)
    mode, busy = "0/nvmlDeviceGetMigMode()[0]", "0/nvmlDeviceGetUtilizationRates().gpu"
    activity = "0/nvmlGpmSampleGet()"
    node.table.set("0/nvmlDeviceGetUtilizationRates().memory", 40)
    node.table.set("0/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)
    node.table.set("0/gpm 2", 87.5)
    node.table.set(busy, 97)
    node.table.set(mode, 1)
    node.table.fail(busy, 3)
    node.table.fail(activity, 3)

    def used(seconds: float) -> tuple[float | None, float | None]:
        row = values(node.read(seconds))[0]
        return row.get("gpu_utilization_percent"), row.get("sm_activity_percent")

    assert [used(1), used(1)] == [(None, None)] * 2
    child = node.source.child_pid
    for on, code, wanted in [(0, 0, (97, 87.5)), (1, 3, (None, None)), (0, 0, (97, 87.5))]:
        node.table.set(mode, on)
        node.table.fail(busy, code)
        node.table.fail(activity, code)
        node.read(11)  # the MIG mode is among the slow facts, which follow a sweep
        assert [used(0.1), used(0.1)][-1] == wanted
    assert node.source.child_pid == child


def test_what_was_answered_once_is_asked_again_at_every_look(scripted: Scripted) -> None:
    """A field, a getter and a field of an NVLink that were refused for a while come back with the
    next slow facts.
    """
    node = scripted(1, facts_every_s=10)
    node.table.set("0/field 91", 1)
    node.table.set("0/nvmlDeviceGetNvLinkState(0)", 1)
    keys = "0/field 83", "0/nvmlDeviceGetTemperature(0)", "0/nvmlDeviceGetNvLinkState(0)"

    def answers(seconds: float) -> list[float | None]:
        reading = node.read(seconds)
        gpu, link = values(reading)[0], values(reading, "nvlink")[0]
        return [
            gpu.get("energy_millijoules"),
            gpu.get("temperature_celsius"),
            link.get("state"),
        ]

    assert answers(1) == [1_000_000, 40, 1]
    for key in keys:
        node.table.fail(key, 3)
    assert answers(1) == [None] * 3
    for key in keys:
        node.table.fail(key, 0)
    assert answers(11) == [None] * 3
    assert answers(1) == [1_000_000, 40, 1]


def test_what_was_never_answered_is_asked_again_rarely(scripted: Scripted) -> None:
    """Of ten looks at the slow facts one lets a target ask what it never answered, a field and the
    GPM metrics; in the sweeps between it costs nothing.
    """
    node = scripted(1, facts_every_s=10)
    node.table.set("0/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)
    node.table.fail("0/nvmlGpmSampleGet()", 3)
    counters = "0/calls/field 230", "-/calls/nvmlGpmSampleGet"
    for key in counters:
        node.table.set(key, 0)
    for _ in range(10):
        node.read(11)
    assert [node.value(key) for key in counters] == [1, 1]
    node.table.set("0/field 230", 2)
    node.table.fail("0/nvmlGpmSampleGet()", 0)
    node.table.set("0/gpm 2", 87.5)
    node.read(11)
    rows = [values(node.read())[0] for _ in range(2)]
    assert [row.get("recovery_action") for row in rows] == [2, 2]
    assert rows[-1]["sm_activity_percent"] == 87.5


@pytest.mark.parametrize("lost", ["Temperature(0)", "PerformanceState()", "ComputeMode()"])
def test_a_refusal_in_the_sweep_that_loses_the_gpu_breaks_nothing(
    scripted: Scripted, lost: str
) -> None:
    """The same child goes on once the GPU answers again."""
    node = scripted(1, facts_every_s=10)
    busy = "0/nvmlDeviceGetUtilizationRates().gpu"
    node.table.set(busy, 97)
    node.read(1)
    child = node.source.child_pid
    node.table.fail(busy, 3)
    node.table.fail(f"0/nvmlDeviceGet{lost}", 15)
    node.read(1)
    node.table.fail(busy, 0)
    node.table.fail(f"0/nvmlDeviceGet{lost}", 0)
    for _ in range(3):
        node.read(11)
    assert values(node.read(1))[0].get("gpu_utilization_percent") == 97
    assert node.source.child_pid == child


def test_a_struct_is_asked_once_for_all_its_members(scripted: Scripted) -> None:
    """One call answers all questions about the same struct."""
    node = scripted(1)
    node.table.set("0/nvmlDeviceGetUtilizationRates().gpu", 90)
    node.table.set("0/nvmlDeviceGetUtilizationRates().memory", 30)
    node.table.set("-/calls/nvmlDeviceGetUtilizationRates", 0)
    node.read()
    node.read()
    assert node.value("-/calls/nvmlDeviceGetUtilizationRates") == 2


def test_a_gpu_is_asked_for_all_fields_in_one_call(scripted: Scripted) -> None:
    """Field values are read in one batch per GPU."""
    node = scripted(3)
    node.read()
    node.table.set("-/calls/nvmlDeviceGetFieldValues", 0)
    node.read()
    assert node.value("-/calls/nvmlDeviceGetFieldValues") == 3


def test_slow_getters_are_held(scripted: Scripted) -> None:
    """What seldom changes is asked rarely and shown in every reading."""
    node = scripted(1, hold=1.0)
    node.table.set("0/nvmlDeviceGetTemperatureThreshold(0)", 92)
    node.table.set("-/calls/nvmlDeviceGetTemperatureThreshold", 0)
    for _ in range(5):
        assert values(node.read())[0]["temperature_shutdown_celsius"] == 92
    assert node.value("-/calls/nvmlDeviceGetTemperatureThreshold") == 4  # the four thresholds, once


def test_a_new_driver_is_asked_anew(scripted: Scripted) -> None:
    """What was unsupported may be supported by another driver: it is asked again after a reload."""
    node = scripted(1)
    node.read()
    node.table.set("0/field 230", 2)
    assert "recovery_action" not in values(node.read())[0]
    node.table.fail("-/*", 9)
    node.read()
    node.table.fail("-/*", 0)
    recover(node, ["ok"])
    assert values(node.read())[0]["recovery_action"] == 2


def test_corrupt_inforom_is_a_value(scripted: Scripted) -> None:
    """A failed check of the InfoROM is 0, not a missing value."""
    node = scripted(2)
    node.table.set("0/nvmlDeviceValidateInforom()", 0)
    node.table.set("1/nvmlDeviceValidateInforom()", 0, result=14)
    assert [row["inforom_valid"] for row in values(node.read())] == [1, 0]


def test_temperatures_beyond_reason_are_no_temperatures(scripted: Scripted) -> None:
    """A sensor that says 255 degrees says nothing."""
    node = scripted(1)
    node.table.set("0/field 82", 255, type=1)
    assert "memory_temperature_celsius" not in values(node.read())[0]


def test_gpm_needs_two_samples(scripted: Scripted) -> None:
    """Activity between two samples is there from the second reading on."""
    node = scripted(1)
    node.table.set("0/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)
    node.table.set("0/gpm 2", 87.5)
    assert "sm_activity_percent" not in values(node.read())[0]
    assert values(node.read())[0]["sm_activity_percent"] == 87.5


@pytest.mark.parametrize("call", ["0/nvmlGpmSampleGet()", "0/nvmlGpmMetricsGet()"])
def test_gpm_says_why_it_is_missing_and_comes_back(scripted: Scripted, call: str) -> None:
    """While a profiler has the counters (NVML_ERROR_IN_USE), from the start or later."""
    node = scripted(1)
    node.table.set("0/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)
    node.table.set("0/gpm 2", 87.5)
    for _ in range(2):
        node.table.fail(call, 19)
        node.read()
        reading = node.read()
        assert "sm_activity_percent" not in values(reading)[0]
        assert values(reading)[0]["temperature_celsius"] == 40
        reasons = {one.field: one.reason for one in reading.unread}
        assert reasons["sm_activity_percent"] == "in use by another client"
        node.table.fail(call, 0)
        node.read()
        assert values(node.read())[0]["sm_activity_percent"] == 87.5


def test_an_xid_is_an_event(scripted: Scripted) -> None:
    """An XID that NVML announces comes once, on its GPU, with its MIG instance and address."""
    node = scripted(2)
    node.read()
    node.table.post(1, 8, 79)
    node.table.post(1, 8, 13, instance=3, compute=0)
    first, second = node.read().events
    assert (first.kind, first.device.id, first.time_ns) == ("xid", uuid(1), node.clock.time_ns())
    assert dict(first.attributes) == {"code": 79, "pci": "0000:11:00", "origin": "nvml"}
    assert dict(second.attributes) == {
        "code": 13,
        "gpu_instance": 3,
        "compute_instance": 0,
        "pci": "0000:11:00",
        "origin": "nvml",
    }
    assert node.read().events == ()


def test_an_error_that_nvml_announces_is_an_event(scripted: Scripted) -> None:
    """Of a kind that the GPU supports; one that it does not support is not registered."""
    node = scripted(2)
    node.table.set("1/nvmlDeviceGetSupportedEventTypes()", 0x8 | 0x7E00)
    node.read()
    for bit in range(9, 16):
        node.table.post(1, 1 << bit, 0)
    node.table.post(0, 0x200, 0)
    node.table.post(1, 8, 79)
    found = node.read().events
    assert [(event.kind, event.attributes.get("severity")) for event in found] == [
        ("ecc_storm", None),
        ("memory_retired", None),
        ("memory_retirement_failed", None),
        ("memory_poison", "nonfatal"),
        ("memory_poison", "fatal"),
        ("gpu_unavailable", None),
        ("xid", None),
    ]
    assert {event.device.id for event in found} == {uuid(1)}
    assert found[0].attributes["pci"] == "0000:11:00"


def test_processes_come_and_go(scripted: Scripted, tmp_path: Path) -> None:
    """Processes that hold a GPU are counted; those that come or go later
    are events with their name.
    """
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "comm").write_text("python3\n")
    node = scripted(1, proc=tmp_path)
    listed = "0/nvmlDeviceGetComputeRunningProcesses_v3()"
    node.table.set(f"{listed}.length", 1)
    node.table.set(f"{listed}[0].pid", 50)
    before = node.read()
    assert before.events == ()
    assert values(before)[0]["compute_processes"] == 1
    node.table.set(f"{listed}[0].pid", 77)
    came, went = node.read().events
    assert (came.kind, dict(came.attributes)) == (
        "gpu_process_started",
        {"pid": 77, "process": "python3"},
    )
    assert (went.kind, dict(went.attributes)) == ("gpu_process_ended", {"pid": 50})


def test_processes_that_end_while_a_child_is_replaced_have_ended(scripted: Scripted) -> None:
    """The next child finds none: what the one before it had reported is gone, for others too."""
    holders = GpuProcesses()
    node = scripted(1, holders=holders)
    listed = "0/nvmlDeviceGetComputeRunningProcesses_v3()"
    node.table.set(f"{listed}.length", 1)
    node.table.set(f"{listed}[0].pid", 50)
    node.read()
    node.table.fail("0/nvmlDeviceGetTemperature(0)", SEGFAULT)
    node.read()
    node.table.set(f"{listed}.length", 0)
    node.table.fail("0/nvmlDeviceGetTemperature(0)", 0)
    found = [event for _ in range(3) for event in node.read().events]
    ended = [dict(event.attributes) for event in found if event.kind == "gpu_process_ended"]
    assert ended == [{"pid": 50}]
    assert dict(holders.look().holders) == {uuid(0): ()}


def test_who_holds_a_gpu_is_told_to_others(scripted: Scripted) -> None:
    """Pids with their instance by GPU, an empty list for a GPU that nobody holds, and none
    for one that does not say.
    """
    holders = GpuProcesses()
    node = scripted(3, holders=holders)
    listed = "nvmlDeviceGetComputeRunningProcesses_v3()"
    node.table.set(f"0/{listed}.length", 2)
    for number, (pid, instance) in enumerate([(50, 7), (51, 0xFFFFFFFF)]):
        node.table.set(f"0/{listed}[{number}].pid", pid)
        node.table.set(f"0/{listed}[{number}].gpuInstanceId", instance)
    node.table.set(f"1/{listed}.length", 0)
    node.read()
    assert dict(holders.look().holders) == {
        uuid(0): (Holder(50, 7), Holder(51, NO_INSTANCE)),
        uuid(1): (),
    }
    assert [gpu.id for gpu in holders.look().gpus] == [uuid(0), uuid(1), uuid(2)]


def test_links_up_and_down_are_counted(scripted: Scripted) -> None:
    """A GPU shows how many of its NVLinks are up, in every reading, also when the links
    themselves are read rarely.
    """
    node = scripted(1, links_every=3)
    node.table.set("0/field 91", 4)
    for link in range(4):
        node.table.set(f"0/nvmlDeviceGetNvLinkState({link})", int(link != 2))
    first, second, third, fourth = (node.read() for _ in range(4))
    assert [
        (values(r)[0]["nvlinks_up"], values(r)[0]["nvlinks_down"])
        for r in (first, second, third, fourth)
    ] == [(3, 1)] * 4
    assert [any(f.kind == "nvlink" for f in r.frames) for r in (first, second, third, fourth)] == [
        True,
        False,
        False,
        True,
    ]
    assert [d.id for d in frame(first, "nvlink").devices] == [
        f"{uuid(0)}/{link}" for link in range(4)
    ]
    assert [row.get("state") for row in values(first, "nvlink")] == [1, 1, 0, 1]


def test_mig_instances_are_rows_of_their_own(scripted: Scripted) -> None:
    """A GPU instance is a device with its GPU's labels, and goes when it is destroyed, also for
    those who map jobs to GPUs.
    """
    holders = GpuProcesses()
    node = scripted(1, facts_every_s=10, holders=holders)
    node.table.set("0/nvmlDeviceGetMigMode()[0]", 1)
    node.table.set("0/nvmlDeviceGetMaxMigDeviceCount()", 7)
    node.table.set("0/nvmlDeviceGetMigDeviceHandleByIndex(0)", 5)
    node.table.set("0.5/nvmlDeviceGetUUID()", "MIG-5")
    node.table.set("0.5/nvmlDeviceGetGpuInstanceId()", 5)
    node.table.set("0.5/nvmlDeviceGetName()", "NVIDIA H100 80GB HBM3 MIG 3g.40gb")
    node.table.set("0.5/nvmlDeviceGetMemoryInfo(33554472).used", 2**34)
    reading = node.read()
    (device,) = frame(reading, "gpu_instance").devices
    assert device.id == "MIG-5"
    assert dict(device.attributes) == {
        "gpu_instance": "5",
        "profile": "3g.40gb",
        "index": "0",
        "gpu_uuid": uuid(0),
        "pci_bus_id": "00000000:10:00.0",
    }
    assert values(reading, "gpu_instance")[0]["memory_used_bytes"] == 2**34
    assert holders.look().instances == (device,)
    node.table.fail("0/nvmlDeviceGetMigDeviceHandleByIndex(0)", 6)
    until(
        lambda: not any(f.kind == "gpu_instance" for f in node.read(11).frames),
        "the instance to go",
    )
    assert holders.look().instances == ()


@pytest.mark.parametrize("question", ["nvmlDeviceGetGpuInstanceId()", "nvmlDeviceGetUUID()"])
def test_a_mig_instance_that_cannot_be_asked_hides_neither_gpu_nor_others(
    scripted: Scripted, question: str
) -> None:
    """It was destroyed a moment ago, or belongs to a container that we may not look into."""
    node = scripted(1)
    node.table.set("0/nvmlDeviceGetMigMode()[0]", 1)
    for number in (5, 6):
        node.table.set(f"0/nvmlDeviceGetMigDeviceHandleByIndex({number - 5})", number)
        node.table.set(f"0.{number}/nvmlDeviceGetUUID()", f"MIG-{number}")
        node.table.set(f"0.{number}/nvmlDeviceGetGpuInstanceId()", number)
    node.table.fail(f"0.5/{question}", 4)
    reading = node.read()
    assert states(reading) == ["ok"]
    assert [device.id for device in frame(reading, "gpu_instance").devices] == ["MIG-6"]


def test_a_mig_instance_that_is_made_again_is_read_again(scripted: Scripted) -> None:
    """It has the UUID that it had: what its handle refused while it was gone is asked again."""
    node = scripted(1, facts_every_s=10)
    node.table.set("0/nvmlDeviceGetMigMode()[0]", 1)
    node.table.set("0/nvmlDeviceGetMigDeviceHandleByIndex(0)", 5)
    node.table.set("0.5/nvmlDeviceGetUUID()", "MIG-5")
    node.table.set("0.5/nvmlDeviceGetGpuInstanceId()", 5)
    memory = "0.5/nvmlDeviceGetMemoryInfo(33554472).used"

    def used(seconds: float) -> float | None:
        return values(node.read(seconds), "gpu_instance")[0].get("memory_used_bytes")

    node.table.set(memory, 2**34)
    assert used(1) == 2**34
    node.table.fail(memory, 2)
    assert used(1) is None
    node.table.fail(memory, 0)
    node.table.set(memory, 2**33)
    until(lambda: used(11) == 2**33, "the memory of the instance")


def test_the_other_compute_instances_of_a_mig_instance_are_names_of_it(scripted: Scripted) -> None:
    """A pod may have the second: its device id is that one's UUID."""
    holders = GpuProcesses()
    node = scripted(1, holders=holders)
    for number, (handle, instance) in enumerate([(5, 1), (6, 1), (7, 2)]):
        node.table.set(f"0.{handle}/nvmlDeviceGetUUID()", f"MIG-{handle}")
        node.table.set(f"0.{handle}/nvmlDeviceGetGpuInstanceId()", instance)
        node.table.set(f"0/nvmlDeviceGetMigDeviceHandleByIndex({number})", handle)
    node.table.set("0/nvmlDeviceGetMaxMigDeviceCount()", 7)
    node.table.set("0/nvmlDeviceGetMigMode()[0]", 1)
    reading = node.read()
    assert [device.id for device in frame(reading, "gpu_instance").devices] == ["MIG-5", "MIG-7"]
    assert dict(holders.look().others) == {"MIG-6": "MIG-5"}


def test_the_profile_of_a_divided_mig_instance_is_its_own(scripted: Scripted) -> None:
    """Its name is that of its compute instance, 1c.3g.40gb; dashboards select by GPU_I_PROFILE."""
    node = scripted(1)
    node.table.set("0/nvmlDeviceGetMigMode()[0]", 1)
    node.table.set("0/nvmlDeviceGetMigDeviceHandleByIndex(0)", 5)
    node.table.set("0.5/nvmlDeviceGetUUID()", "MIG-5")
    node.table.set("0.5/nvmlDeviceGetGpuInstanceId()", 1)
    node.table.set("0.5/nvmlDeviceGetName()", "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb")
    (device,) = frame(node.read(), "gpu_instance").devices
    assert device.attributes["profile"] == "3g.40gb"


def test_a_counter_s_new_life_is_a_new_epoch(scripted: Scripted) -> None:
    """When the energy counter falls the driver was reloaded or the GPU reset: the device's
    epoch changes, its row stays.
    """
    node = scripted(1)
    before = frame(node.read(), "gpu").devices[0].attributes["epoch"]
    assert frame(node.read(), "gpu").devices[0].attributes["epoch"] == before
    node.table.set("0/field 83", 5)
    after = frame(node.read(), "gpu").devices
    assert len(after) == 1
    assert after[0].attributes["epoch"] != before


def test_an_agent_that_restarts_goes_on_counting_lives(scripted: Scripted, tmp_path: Path) -> None:
    """A restart of the agent is no reset, and a reset while it was away is
    one, in its first reading.
    """
    lives = []
    for energy in ([9_000, 8_000], [8_500], [7_000]):
        node = scripted(1, state=State(tmp_path / "state"))
        for millijoules in energy:
            node.table.set("0/field 83", millijoules)
            lives.append(frame(node.read(), "gpu").devices[0].attributes["epoch"])
        node.source.close()
    assert lives == ["580.95.05#0", "580.95.05#1", "580.95.05#1", "580.95.05#2"]


def test_lives_that_cannot_be_read_begin_at_none(scripted: Scripted) -> None:
    """A state file of somebody else, or a damaged one."""
    state = State(None)
    state.save("lives", {uuid(0): "many", uuid(1): [2]})
    assert [
        d.attributes["epoch"] for d in frame(scripted(2, state=state).read(), "gpu").devices
    ] == ["580.95.05#0"] * 2


def test_the_driver_s_time_is_the_row_s(scripted: Scripted) -> None:
    """A row bears the driver's own time; one that cannot be right is
    replaced by that of the reading.
    """
    node = scripted(2)
    wall_us = 1_700_000_000_000_000
    node.read()
    node.table.set("1/timestamp", wall_us)
    stamps = frame(node.read(), "gpu").sampled_ns
    assert stamps[1] != wall_us * 1000
    assert abs(stamps[1] - stamps[0]) < 20e9


def test_hostile_text_is_made_harmless(scripted: Scripted) -> None:
    """Text from the driver is printable and bounded when it becomes an attribute."""
    node = scripted(1)
    node.table.set("0/nvmlDeviceGetName()", 'H100"\n\x1b[31m{}')
    assert frame(node.read(), "gpu").devices[0].attributes["name"] == 'H100"[31m{}'


def test_no_gpu_at_all_is_an_empty_reading(scripted: Scripted) -> None:
    """A driver without a GPU is no failure."""
    node = scripted(0)
    reading = node.read()
    assert reading.unread == ()
    assert values(reading, "node") == [{"gpus_expected": 0, "gpus_visible": 0}]


def test_closing_ends_the_child(scripted: Scripted) -> None:
    """Closing leaves no process behind, and may be done twice."""
    node = scripted(1)
    node.read()
    pid = node.source.child_pid
    node.source.close()
    node.source.close()
    assert not Path(f"/proc/{pid}").exists()
    assert node.source.child_pid == 0
