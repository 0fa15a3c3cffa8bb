"""The machine step by step: each switch, the ladder, operators, tickets and what helped before."""

from __future__ import annotations

import contextlib
import errno
import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from collector.cli import repair
from collector.cli.repair import _forget
from collector.config.settings import Config, Storage
from collector.integrations.policy import Policy
from collector.integrations.resume import BurnInCheck, Return
from collector.repair.case import Book, CaseFile, DamagedError
from collector.repair.ladder import proposal
from collector.repair.site import Switches
from tests.collector.repair.world import ALL_ON, GPU, World

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One node."""
    return World(tmp_path, "gpu01")


def runs(world: World, count: int, switches: Switches = ALL_ON, minutes: float = 10) -> list[str]:
    """Runs of a timer; what all of them said, and a reboot is a run without words."""
    said: list[str] = []
    for _ in range(count):
        with world.dying(10**6, before=True):
            said += world.machine(world.nodes["gpu01"], switches).advance()
        world.now += 60 * minutes
    return said


def test_a_repair_goes_through_its_steps_once(world: World) -> None:
    """Each step is an event, in order, and the last one says that the reset helped."""
    runs(world, 8)
    book = world.cases("gpu01").read()
    steps = [event["step"] for event in book.events]
    assert steps == ["suspected", "drained", "reset", "checked", "burning_in", "returned"]
    assert book.events[-1]["helped"] is True
    assert world.nodes["gpu01"].acts == ["reset"]
    assert not world.slurm.reasons


@pytest.mark.parametrize(
    ("switches", "stays", "says"),
    [
        (replace(ALL_ON, reset=False), "drained", "would reset (gates.repair.reset is off)"),
        (
            replace(ALL_ON, return_to_service=False),
            "checked",
            "gates.repair.return_to_service is off",
        ),
    ],
)
def test_each_step_has_a_switch(world: World, switches: Switches, stays: str, says: str) -> None:
    """A step that is off waits, and says which switch it is."""
    said = runs(world, 8, switches)
    case = world.case("gpu01")
    assert case is not None
    assert case.step == stays
    assert says in said[-1]


def test_without_a_drain_nothing_is_done(world: World) -> None:
    """All switches of the repair do nothing to a node that may not be drained."""
    policy = Policy(drain=False, off_file="/nowhere/off", most_drained=2, most_per_hour=2)
    for _ in range(4):
        said = world.machine(world.nodes["gpu01"], policy=policy).advance()
    assert "gates.slurm.drain is off" in said[0]
    assert world.nodes["gpu01"].acts == []


def test_a_dry_run_changes_nothing(world: World) -> None:
    """Neither a file nor the controller nor the node."""
    said = world.machine(world.nodes["gpu01"], dry_run=True).advance()
    assert said[0].startswith("GPU 3: dry run: would drain gpu01")
    assert not list(world.folder.iterdir())
    assert not world.slurm.reasons


def test_the_off_file_stops_a_repair_at_any_step(world: World, tmp_path: Path) -> None:
    """Services that a dead run left stopped are started all the same."""
    runs(world, 1)
    node = world.nodes["gpu01"]
    for calls in range(1, 20):
        if not node.stopped:
            world.run("gpu01", calls, before=False)
    assert node.stopped == {"tocsin", "dcgm"}  # it died after it had stopped them
    off = tmp_path / "off"
    off.touch()
    policy = Policy(True, "page", 2, 2, off_file=str(off))
    said = world.machine(node, policy=policy).advance()
    assert "integrations are off" in said[0]
    assert (node.stopped, node.acts) == (set(), [])


def test_what_holds_the_gpu_is_named(world: World) -> None:
    """A GPU that a process has open is not reset, and services are not stopped for nothing."""
    node = world.nodes["gpu01"]
    node.held = {"python3 (pid 812)"}
    assert runs(world, 3)[-1] == "GPU 3: not reset: held by python3 (pid 812)"
    assert node.acts == []
    node.held.clear()
    runs(world, 1)
    assert node.acts == ["reset"]


def test_a_reset_that_does_not_help_is_followed_by_a_reboot_and_a_replacement(
    world: World,
) -> None:
    """The ladder ends with a ticket that has the bundle, and it is known what did not help."""
    world.nodes["gpu01"].needs = "replace"
    runs(world, 40)
    book = world.cases("gpu01").read()
    assert world.nodes["gpu01"].acts == ["reset", "reboot"]
    assert [(past.rung, past.helped) for past in book.past] == [
        ("reset", False),
        ("reboot", False),
    ]
    (ticket,) = book.tickets
    assert (ticket["step"], ticket["serial"]) == ("rma", "1652859266991")
    assert ticket["bundle"] == "/bundles/5a2e173dd20e2d3d"
    assert ticket["known"] == (
        "reset helped in 0 of 1 for ecc/contained, reboot helped in 0 of 1 for ecc/contained"
    )


def test_a_fault_that_comes_back_within_a_week_needs_more(world: World) -> None:
    """What helped for a day is not tried a second time."""
    node = world.nodes["gpu01"]
    runs(world, 8)
    assert node.acts == ["reset"]
    node.broken, node.needs = True, "reboot"
    world.now += 86400
    runs(world, 12)
    assert node.acts == ["reset", "reboot"]
    assert proposal("ecc/contained", world.cases("gpu01").read().past) == (
        "reset helped in 1 of 1 for ecc/contained, reboot helped in 1 of 1 for ecc/contained"
    )


def test_an_acknowledged_incident_is_an_operators(world: World) -> None:
    """Who takes an incident on repairs it; a ticket says that this one stopped."""
    runs(world, 1)
    world.nodes["gpu01"].acknowledged = True
    said = runs(world, 2)
    assert said[0] == "GPU 3: stopped: an operator has acknowledged the incident"
    assert world.nodes["gpu01"].acts == []
    assert len(world.cases("gpu01").read().tickets) == 1


def test_a_file_of_other_contents_stops_everything(world: World) -> None:
    """What was done before is not known then."""
    world.cases("gpu01").file.write_text('{"version": 1, "cases": {"x": 1}}')
    with pytest.raises(DamagedError, match="cannot be read"):
        world.machine(world.nodes["gpu01"]).advance()


def test_a_file_of_a_newer_release_says_so(world: World) -> None:
    """After a downgrade."""
    world.cases("gpu01").file.write_text('{"version": 9, "cases": {}}')
    with pytest.raises(DamagedError, match="a newer release wrote it, in version 9"):
        world.machine(world.nodes["gpu01"]).advance()


def as_version_1(world: World) -> None:
    """The file as the first release wrote it: no checksum, no time by the node's own clock."""
    file = world.cases("gpu01").file
    book = json.loads(file.read_text(encoding="utf-8"))
    del book["sha256"]
    for case in book["cases"].values():
        del case["boot_id"], case["uptime"]
        if case["intent"]:
            del case["intent"]["uptime"]
    file.write_text(json.dumps({**book, "version": 1}), encoding="utf-8")


@pytest.mark.parametrize("steps", range(5))
def test_an_upgrade_goes_on_with_an_open_repair(world: World, steps: int) -> None:
    """At whichever step it came: one act in all, and the node is back in service."""
    runs(world, steps)
    if world.case("gpu01") is not None:
        as_version_1(world)
    runs(world, 6)
    assert world.nodes["gpu01"].acts == ["reset"]
    assert world.case("gpu01") is None
    assert not world.slurm.reasons


def test_an_act_of_before_an_upgrade_has_its_time_to_help(world: World) -> None:
    """Its time begins when it is looked at, as nobody knows when it was done."""
    world.nodes["gpu01"].needs = "reboot"
    runs(world, 2)
    as_version_1(world)
    assert runs(world, 1) == ["GPU 3: reset done; the fault is still reported: waiting"]
    runs(world, 6)
    assert world.nodes["gpu01"].acts == ["reset", "reboot"]


@pytest.mark.parametrize("calls", range(1, 14))
def test_an_upgrade_in_the_middle_of_an_act_repeats_none(world: World, calls: int) -> None:
    """Killed anywhere, then replaced by this release: services run again, and where nobody knows
    what was done an operator decides.
    """
    node = world.nodes["gpu01"]
    runs(world, 1)
    world.run("gpu01", calls, before=True)
    as_version_1(world)
    runs(world, 8)
    assert node.acts.count("reset") <= 1
    assert not node.stopped
    assert node.persistent
    case = world.case("gpu01")
    assert case is None or case.step == "stopped"


def test_a_full_disk_leaves_no_service_stopped(world: World) -> None:
    """Nothing is done, what was stopped for the act runs again at once; with room it goes on."""
    node = world.nodes["gpu01"]
    runs(world, 1)
    machine, left = world.machine(node), 1
    write = CaseFile.write

    def full(file: CaseFile, book: Book) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, book)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CaseFile, "write", full)
        with pytest.raises(OSError, match="No space"):
            machine.advance()
    assert node.acts == []
    assert not node.stopped
    assert node.persistent
    runs(world, 5)
    assert node.acts == ["reset"]
    assert world.case("gpu01") is None


def test_a_repair_that_is_forgotten_leaves_no_service_stopped(world: World) -> None:
    """The run that stopped them died, and no other would start them."""
    node = world.nodes["gpu01"]
    runs(world, 1)
    for calls in range(1, 20):
        world.run("gpu01", calls, before=True)
        if node.stopped:
            break
    assert node.stopped
    assert _forget(world.cases("gpu01"), str(GPU)[:6], node, lambda: None) == 0
    assert not node.stopped
    assert node.persistent
    assert world.case("gpu01") is None


def test_what_operators_resumed_is_left_alone_until_that_incident_is_closed(world: World) -> None:
    """Its slot is free at once, and another fault of the same GPU is repaired afterwards."""
    node = world.nodes["gpu01"]
    world.slurm.busy.add("gpu01")
    runs(world, 2)
    world.people("gpu01", drain=False)
    said = runs(world, 3)
    assert said[0] == "GPU 3: stopped: an operator changed the node (no longer drained)"
    assert not world.slurm.reasons
    assert not [name for name in world.slurm.held if "slot" in name]
    node.broken = False
    assert runs(world, 1) == ["GPU 3: returned by an operator"]
    assert (world.record("gpu01").read(), world.case("gpu01")) == (None, None)
    world.slurm.busy.clear()
    node.broken, node.incident = True, "another"
    runs(world, 5)
    assert node.acts == ["reset"]
    assert not world.slurm.reasons


def test_no_incident_of_a_node_that_operators_took_over_is_a_cause(world: World) -> None:
    """The drain was for two; when the first is closed, the node is left alone for the second."""
    record = world.record("gpu01")
    runs(world, 1)
    drained = record.read()
    assert drained is not None
    record.write(replace(drained, incident="first", incidents=["first", drained.incident]))
    world.people("gpu01", drain=False)
    runs(world, 3)
    assert not world.slurm.reasons
    kept = record.read()
    assert kept is not None
    assert kept.over


def test_a_return_by_the_other_timer_ends_a_repair_without_a_ticket(world: World) -> None:
    """`tocsin check --return` resumed the node after the reset: nobody changed it."""
    runs(world, 2)
    case, node = world.case("gpu01"), world.nodes["gpu01"]
    assert case is not None
    assert case.step == "reset"
    site = world.machine(node)._site
    proof = BurnInCheck(("true",))
    back = Return("gpu01", site.scheduler, site.record, site.policy, site.ask, proof=proof)
    assert back.attempt().resumed
    assert runs(world, 1) == ["GPU 3: returned outside of this command"]
    book = world.cases("gpu01").read()
    assert (book.tickets, dict(book.cases)) == ((), {})
    assert [(past.rung, past.helped) for past in book.past] == [("reset", True)]


def test_an_act_that_did_not_help_is_not_praised_for_an_operators_repair(world: World) -> None:
    """It was found useless before the operator repaired and resumed the node."""
    world.nodes["gpu01"].needs = "replace"
    runs(world, 40)
    world.nodes["gpu01"].broken = False
    world.people("gpu01", drain=False)
    runs(world, 2)
    assert not any(past.helped for past in world.cases("gpu01").read().past)


def test_a_forgotten_repair_holds_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the record of its drain nor its slot."""
    runs(world, 1)
    world.record("gpu01").file.rename(tmp_path / "gate.json")
    monkeypatch.setattr(repair, "_scheduler", lambda _: world.slurm)
    config = Config(storage=Storage(path=str(tmp_path)))
    assert [name for name in world.slurm.held if "slot" in name]
    repair._release(Namespace(node=""), config)
    assert not [name for name in world.slurm.held if "slot" in name]
    assert not (tmp_path / "gate.json").exists()


def test_the_drain_is_given_up_with_the_last_repair_of_a_node(world: World) -> None:
    """Another part of it is still under repair."""
    runs(world, 1)
    file = world.cases("gpu01")
    released: list[None] = []
    book = file.read()
    other = replace(next(iter(book.cases.values())), device="GPU-9b", name="GPU 4")
    file.write(book.with_case(other))
    for device in ("GPU-9b", str(GPU)):
        released.append(None)
        assert _forget(file, device, world.nodes["gpu01"], released.clear) == 0
    assert released == []
    assert not file.read().cases


def test_a_suspended_job_keeps_the_node_from_an_act(world: World) -> None:
    """To Slurm the node is idle meanwhile; a reboot would end the job."""
    world.slurm.suspended.add("gpu01")
    assert runs(world, 3)[-1] == "GPU 3: jobs are still running"
    world.slurm.suspended.clear()
    runs(world, 1)
    assert world.nodes["gpu01"].acts == ["reset"]


def test_a_gpu_that_stays_dead_is_to_be_replaced_whatever_slurm_says_of_it(world: World) -> None:
    """Slurm puts its own reason in place of ours when the node registers with a GPU less."""
    world.nodes["gpu01"].needs = "replace"
    for _ in range(12):
        runs(world, 1)
        if world.nodes["gpu01"].boot > 1:
            world.slurm.invalid.add("gpu01")
            reason = "gres/gpu count reported lower than configured (7 < 8)"
            world.slurm.reasons["gpu01"] = f"{reason}@slurm 99"
    case = world.case("gpu01")
    assert case is not None
    assert case.step == "rma"
    assert [ticket["step"] for ticket in world.cases("gpu01").read().tickets] == ["rma"]


def test_an_operators_reason_on_an_invalid_node_is_theirs(world: World) -> None:
    """A GPU is missing there too; the author is not Slurm."""
    runs(world, 1)
    world.slurm.invalid.add("gpu01")
    world.people("gpu01", drain=True)
    assert "an operator changed the node" in runs(world, 1)[0]


def test_a_fault_that_an_operator_has_repaired_needs_no_act(world: World) -> None:
    """Reset by hand while the node was drained: it is checked and returned, and nothing counts as
    what helped.
    """
    runs(world, 1)
    node = world.nodes["gpu01"]
    node.broken, node.epoch = False, 1
    assert "not by this command" in runs(world, 1)[0]
    runs(world, 4)
    assert world.nodes["gpu01"].acts == []
    assert world.case("gpu01") is None
    assert not world.slurm.reasons
    assert world.cases("gpu01").read().past == ()


@pytest.mark.parametrize("step", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_changes_no_patience(world: World, step: float) -> None:
    """A day ahead or back right after the reset: the fault has its time to go, and not a day."""
    node = world.nodes["gpu01"]
    node.needs = "reboot"
    runs(world, 2)
    assert node.acts == ["reset"]
    world.ahead += step
    said = runs(world, 2)
    assert said[-1] == "GPU 3: reset done; the fault is still reported: waiting"
    runs(world, 4)
    assert node.acts == ["reset", "reboot"]


def test_an_outcome_is_awaited_by_the_clock_of_the_new_boot(world: World) -> None:
    """The wall clock is a year off until the time service has set it: no repair is given up."""
    node = world.nodes["gpu01"]
    node.needs = "reboot"
    node.broken = True
    runs(world, 7)
    assert node.acts == ["reset", "reboot"]
    world.ahead = 3.2e7
    runs(world, 4)
    assert world.case("gpu01") is None
    assert not world.slurm.reasons


def test_a_file_with_one_wrong_bit_stops_everything(world: World) -> None:
    """Wherever it is: another GPU, another number of attempts, an act that never began."""
    runs(world, 2)
    file = world.cases("gpu01").file
    sound = file.read_bytes()
    world.cases("gpu01").read()
    for place in range(0, len(sound), 7):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << place % 7
        file.write_bytes(damaged)
        with contextlib.suppress(DamagedError):
            assert world.cases("gpu01").read() == _book(sound, file)
    file.write_bytes(sound[: len(sound) // 2])
    with pytest.raises(DamagedError):
        world.machine(world.nodes["gpu01"]).advance()


def _book(sound: bytes, file: Path) -> Book:
    """As the sound file has it: a bit between two values changes nothing."""
    file.write_bytes(sound)
    return CaseFile(file).read()
