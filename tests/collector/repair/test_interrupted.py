"""Repairs that die anywhere: no GPU in use is reset, no operator is undone, the cap holds, and no
act of unknown outcome is repeated.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.integrations.scheduler import OURS
from tests.collector.integrations.slurmctld import Killed
from tests.collector.repair.world import CAP, Node, World

NODES = ("gpu01", "gpu02", "gpu03")
WHAT = (
    *("run", "run", "run", "run", "run"),
    *("job", "no job", "process", "no process", "drain", "resume", "hours", "minutes", "ack"),
    *("reboot mends", "replacement", "act fails", "check fails"),
    *("hand reset", "hand reboot", "clock", "forgotten"),
)
steps = st.lists(
    st.tuples(st.sampled_from(WHAT), st.sampled_from(NODES), st.integers(1, 30), st.booleans()),
    max_size=40,
)


def memory() -> tempfile.TemporaryDirectory[str]:
    """A folder whose files are not waited for."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None)


def by_hand(node: Node, *, reboot: bool) -> None:
    """An operator repairs the GPU, without a word to anybody."""
    node.broken, node.epoch = False, node.epoch + 1
    if reboot:
        node.boot, node.booted = node.boot + 1, node.world.now
    node.unknown = False  # another boot or epoch is evidence


def happen(world: World, what: str, name: str, calls: int, *, before: bool) -> None:
    """One thing; `calls` and `before` are of a run, in which it dies."""
    node = world.nodes[name]
    changes: dict[str, Callable[[], object]] = {
        "job": lambda: world.slurm.busy.add(name),
        "no job": lambda: world.slurm.busy.discard(name),
        "process": lambda: node.held.add("python3 (pid 7)"),
        "no process": node.held.clear,
        "drain": lambda: world.people(name, drain=True),
        "resume": lambda: world.people(name, drain=False),
        "hours": lambda: setattr(world, "now", world.now + 7200),
        "minutes": lambda: setattr(world, "now", world.now + 600),
        "ack": lambda: setattr(node, "acknowledged", before),
        "reboot mends": lambda: setattr(node, "needs", "reboot"),
        "replacement": lambda: setattr(node, "needs", "replace"),
        "act fails": lambda: setattr(node, "act_fails", "exit 255" if before else ""),
        "hand reset": lambda: by_hand(node, reboot=False),
        "hand reboot": lambda: by_hand(node, reboot=True),
        "clock": lambda: setattr(world, "ahead", 86_400.0 * (calls - 15)),
        "forgotten": lambda: world.slurm.reasons.pop(name, None),  # a Node that was made again
        "check fails": lambda: setattr(node, "check_fails", "exit 1" if before else ""),
    }
    if what == "run":
        world.run(name, calls, before=before)
        if world.case(name) is None:
            node.unknown = False  # the incident is over, and with it what nobody knew
    else:
        changes[what]()


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(steps)
def test_a_repair_that_dies_anywhere_harms_nobody(
    happens: list[tuple[str, str, int, bool]],
) -> None:
    """Runs, jobs, people and time in any order: the world's own assertions hold, the cap holds, and
    what people drained stays theirs.
    """
    with memory() as folder:
        world = World(Path(folder), *NODES)
        for what, name, calls, before in happens:
            theirs = {n: r for n, r in world.slurm.reasons.items() if r.startswith("ada")}
            happen(world, what, name, calls, before=before)
            if what in ("drain", "resume", "forgotten"):
                theirs.pop(name, None)
            assert theirs.items() <= world.slurm.reasons.items()
            assert sum(reason.startswith(OURS) for reason in world.slurm.reasons.values()) <= CAP


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False])
def test_every_call_of_a_repair_may_be_its_last(before: bool) -> None:
    """Killed at its first call, its second, and so on to the end: undisturbed runs afterwards end
    with a node in service, or with a ticket for operators, with all services running again.
    """
    ends, stack = set(), contextlib.ExitStack()
    for calls in range(1, 60):
        world = World(Path(stack.enter_context(memory())), "gpu01")
        node, left = world.nodes["gpu01"], calls
        for _ in range(16):
            went_on = 10**6  # one that was killed is killed once
            with world.dying(left, before=before):
                world.machine(node).advance()
                went_on = world.slurm.calls
            left = went_on
            world.now += 300
        if world.slurm.reasons:
            case = world.case("gpu01")
            assert case is not None
            assert case.step == "stopped"
            ends.add("stopped")
        else:
            ends.add("returned")
            assert node.acts == ["reset"]
        assert not node.stopped
        assert node.persistent
    assert "returned" in ends
    stack.close()


@pytest.mark.slow
def test_nodes_that_repair_at_the_same_time_keep_the_cap() -> None:
    """Before any call of one node's drain, first and only, all others try theirs: no more nodes are
    drained than the cap allows, and the cap is used.
    """
    names = [f"gpu{number:02}" for number in range(1, 6)]
    most, call = 0, 1
    while True:
        with memory() as folder:
            world = World(Path(folder), *names)

            def others(world: World = world) -> None:
                for name in names[1:]:
                    world.machine(world.nodes[name]).advance()

            world.slurm.between[call] = others
            for _ in range(3):
                world.machine(world.nodes[names[0]]).advance()
                drained = sum(reason.startswith(OURS) for reason in world.slurm.reasons.values())
                most = max(most, drained)
                assert drained <= CAP
            if world.slurm.between:
                break  # it makes no more calls
            call += 1
    assert most == CAP
    assert call > 10


@pytest.mark.slow
def test_a_gpu_that_is_lost_in_an_interrupted_reset_was_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other GPUs of the node were there before: nobody can say what became of the reset, and
    an operator decides.
    """
    world = World(tmp_path, "gpu01")
    node = world.nodes["gpu01"]

    def dies(_: str) -> str:
        node.lost = True
        raise Killed

    monkeypatch.setattr(node, "reset", dies)
    for _ in range(8):
        world.run("gpu01")
        world.now += 600
    case = world.case("gpu01")
    assert case is not None
    assert (case.step, case.note) == (
        "stopped",
        "the reset was interrupted and its outcome is unknown",
    )
