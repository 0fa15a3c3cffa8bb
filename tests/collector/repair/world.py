"""Nodes with a broken GPU each, a controller, people and jobs, in memory: whatever a repair does is
done here, and what it must never do is an assertion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.integrations.agent_client import Answer, read
from collector.integrations.policy import Policy
from collector.integrations.record import Record
from collector.integrations.resume import BurnInCheck
from collector.integrations.scheduler import OURS, NodeState
from collector.repair.case import Case, CaseFile
from collector.repair.machine import Machine
from collector.repair.notes import Notes
from collector.repair.site import Site, Switches
from tests.collector.integrations.answers import LOST, OTHERS, document
from tests.collector.integrations.slurmctld import Killed, Slurmctld

CAP = 2
BROKEN = LOST | {"action": "COMPONENT_RESET", "class": "ecc/contained"}
GPU = BROKEN["device"]
ALL_ON = Switches(reset=True, reboot=True, return_to_service=True, services=("tocsin", "dcgm"))


class Controller(Slurmctld):
    """With nodes on which jobs run."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: set[str] = set()
        self.between: dict[int, Callable[[], object]] = {}  # what happens before the n-th call
        self.made = 0

    def node(self, name: str) -> NodeState:
        state = super().node(name)
        more = {"ALLOCATED"} if name in self.busy else set()
        return replace(state, words=state.words | more)

    def _call(self, change: object = None) -> None:
        self.made += 1
        self.between.pop(self.made, lambda: None)()
        super()._call(change)

    def call(self, change: Callable[[], object]) -> None:
        """Something else than a question to the controller, before or after which a process may
        die as well.
        """
        self._call(change)


class Node:
    """One node: ``needs`` is the act that mends its GPU."""

    def __init__(self, name: str, world: World, needs: str = "reset") -> None:
        self.name, self.world, self.needs = name, world, needs
        self.boot, self.epoch, self.broken, self.acknowledged = 1, 0, True, False
        self.booted = 0.0
        self.incident = BROKEN["id"]
        self.held: set[str] = set()
        self.stopped: set[str] = set()
        self.persistent = True
        self.acts: list[str] = []
        self.unknown = False  # an act died: nobody can say whether it was done
        self.lost = False  # its GPU does not answer
        self.check_fails = self.act_fails = ""

    def answer(self) -> Answer:
        """Of its agent; silent while it is stopped."""
        own = {"kind": "gpu", "id": GPU, "epoch": f"580.95#{self.epoch}"}
        parts = [*OTHERS, *([] if self.lost else [own])]
        problem = BROKEN | {"id": self.incident, "acknowledged": self.acknowledged}
        problems = [problem] if self.broken else []
        known: dict[str, Any] = document(
            *problems, boot_id=f"boot-{self.boot}", parts=parts, host=self.name
        )
        if "tocsin" in self.stopped:
            known["verdict"] = "unknown"
        return read(known)

    # What a repair can do (collector/repair/hands.py).

    def blockers(self, uuid: str, services: Sequence[str]) -> list[str]:
        assert uuid == GPU
        running = {f"{one}.service" for one in ALL_ON.services if one not in self.stopped}
        return sorted(self.held | (running - {f"{one}.service" for one in services}))

    def stop(self, services: Sequence[str]) -> str:
        self.world.slurm.call(lambda: self.stopped.update(services))
        return ""

    def start(self, services: Sequence[str]) -> str:
        if services:
            self.world.slurm.call(lambda: self.stopped.difference_update(services))
        return ""

    def persistence(self, uuid: str) -> bool:
        assert uuid == GPU
        return self.persistent

    def set_persistence(self, uuid: str, *, on: bool) -> str:
        assert uuid == GPU
        self.world.slurm.call(lambda: setattr(self, "persistent", on))
        return ""

    def reset(self, uuid: str) -> str:
        assert uuid == GPU
        assert not self.held, "a GPU in use was reset"
        assert not self.persistent, "the driver holds the GPU"
        return self._act("reset")

    def reboot(self) -> str:
        self._act("reboot")
        raise Killed  # the process dies with its node

    def check(self) -> str:
        return self.check_fails

    def bundle(self, case: Case) -> str:
        return f"/bundles/{case.incident}"

    def _act(self, act: str) -> str:
        reason = self.world.slurm.reasons.get(self.name, "")
        assert reason.startswith(OURS), "an act on a node that is not ours"
        jobs = self.world.slurm.busy | self.world.slurm.suspended
        assert self.name not in jobs, "an act on a node with jobs"
        assert not self.unknown, "an act after one of unknown outcome"
        self.acts.append(act)
        self.unknown = True
        self.world.slurm.call(lambda: self._done(act))
        self.unknown = False
        return self.act_fails

    def _done(self, act: str) -> None:
        self.unknown = False  # from now on there is evidence
        if act == "reboot":
            self.boot += 1
            self.booted = self.world.now
        elif not self.act_fails:
            self.epoch += 1
        self.broken = self.broken and act != self.needs


class World:
    """Some nodes before one controller."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.slurm, self.folder, self.now = Controller(), folder, 1_800_014_400.0
        self.ahead = 0.0  # of the wall clock, seconds
        self.nodes = {name: Node(name, self) for name in names}

    def machine(self, node: Node, switches: Switches = ALL_ON, **changed: Any) -> Machine:
        """The repair of one node, as a process that has just started has it."""
        allowed: dict[str, Any] = {"most_drained": CAP, "most_per_hour": CAP}
        policy = Policy(drain=True, severity="page", off_file="/nowhere/off", **allowed)
        site = Site(
            node.name,
            changed.pop("scheduler", self.slurm),
            self.record(node.name),
            changed.pop("policy", policy),
            node.answer,
            lambda: self.now + self.ahead,
            lambda: self.now - node.booted,
            switches,
            BurnInCheck(("true",)),
            **changed,
        )
        notes = Notes(node.name, self.cases(node.name), site.now, silent=site.dry_run)
        return Machine(site, notes, node)

    def record(self, name: str) -> Record:
        """What the drain keeps."""
        return Record(self.folder / f"{name}-gate.json")

    def cases(self, name: str) -> CaseFile:
        """What the repair keeps."""
        return CaseFile(self.folder / f"{name}-repair.json")

    def run(self, name: str, calls: int = 10**6, *, before: bool = True) -> list[str]:
        """One run, which dies at that call; what it said."""
        node = self.nodes[name]
        said: list[str] = []
        with self.dying(calls, before=before):
            said += self.machine(node).advance()
        return said

    @contextlib.contextmanager
    def dying(self, calls: int, *, before: bool) -> Iterator[None]:
        """A process that dies at one of its calls."""
        self.slurm.calls, self.slurm.before = calls, before
        with contextlib.suppress(Killed):
            yield
        self.slurm.calls = 10**6

    def people(self, name: str, *, drain: bool) -> None:
        """An administrator drains, or resumes."""
        self.slurm.clock += 1
        if drain:
            self.slurm.reasons[name] = f"ada@root {self.slurm.clock}"
        else:
            self.slurm.reasons.pop(name, None)

    def case(self, name: str) -> Case | None:
        """What is kept of the repair."""
        return next(iter(self.cases(name).read().cases.values()), None)
