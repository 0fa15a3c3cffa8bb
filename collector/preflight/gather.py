"""One look at the node for preflight: the agent's own sources, and the kernel's files."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from collector.agent.reading import environment_of, readings
from collector.config.settings import Config
from collector.facts.node import node_facts
from collector.facts.processes import SHM, process_facts
from collector.node.state import State
from collector.preflight.model import Machine, Mount, Row
from collector.sources.nccl.discovery.mounts import mounts_in
from pipeline import child
from pipeline.observation import Observation

# Of all sources together, and of all mounts: a prolog holds up a job, for less than five seconds.
DEADLINE_S, MOUNTS_S = 3.0, 1.5
MAX_MOUNTS = 64
REMEMBERED = "inventory"
SOURCES = ("nvml", "infiniband", "host")
# Types whose server may be away (Linux, and the file systems of clusters).
NETWORK = frozenset(
    ("nfs", "nfs4", "lustre", "gpfs", "ceph", "beegfs", "wekafs", "cifs", "smb3", "pvfs2", "9p")
)
# Each mount in a thread of its own; a line says that they have begun, then one for each that
# answers, if only with an error that is not its server's: EIO, ENOTCONN, ETIMEDOUT, EHOSTDOWN,
# ESTALE.
_ASK = """
import os, sys, threading
def ask(number, point):
    try:
        os.statvfs(point)
    except OSError as error:
        if error.errno in (5, 107, 110, 112, 116):
            return
    os.write(1, b"%d\\n" % number)
threads = [threading.Thread(target=ask, args=one, daemon=True) for one in enumerate(sys.argv[1:])]
os.write(1, b"begun\\n")
for t in threads: t.start()
for t in threads: t.join()
"""


def gather(config: Config, *, node: str = "", chosen: Sequence[str] = ()) -> Machine:
    """Look once. Never raises for the node: what cannot be read is in ``failed``."""
    world = environment_of(config, node)
    seen = _within(DEADLINE_S, lambda taken: _read(config, node, taken))
    frames = {f.kind: f for f in chain.from_iterable(one.frames for one in seen)}
    rows = {
        kind: tuple(Row(*record) for record in frame.records()) for kind, frame in frames.items()
    }
    nodes = (
        values
        for one in seen
        for frame in one.frames
        if frame.kind == "node"
        for _, values in frame.records()
    )
    here = world.procfs == Path("/proc")
    return Machine(
        world.host,
        rows.get("gpu", ()),
        rows.get("ib_port", ()),
        {name: value for values in nodes for name, value in values.items()},
        node_facts(world.host, world.procfs, world.sysfs),
        frozenset(chosen),
        _failed(seen),
        process_facts(Path("/proc/self")).limits if here else Machine("").limits,
        _free(SHM) if here else None,
        tuple(ask_mounts(Path("/proc/self/mountinfo"))) if here else (),
    )


def _read(config: Config, node: str, taken: list[Observation]) -> None:
    remembered = _remembered(config.storage.path)
    taken.extend(readings(config, SOURCES, saved=False, node=node, remembered=remembered))


def _within(seconds: float, work: Callable[[list[Observation]], None]) -> list[Observation]:
    """What the work has taken when the time is over."""
    taken: list[Observation] = []
    thread = threading.Thread(target=work, args=(taken,), daemon=True)
    thread.start()
    thread.join(seconds)
    return list(taken)


def _failed(seen: Sequence[Observation]) -> dict[str, str]:
    found = {one.source: one.error for one in seen if one.outcome != "ok"}
    missing = [name for name in SOURCES if name not in {one.source for one in seen}]
    return found | dict.fromkeys(missing, f"no answer within {DEADLINE_S:g} s")


def _remembered(storage: str) -> State:
    """The devices that the agent knows of; a copy, so that nothing is written."""
    memory = State(None)
    try:
        document = json.loads((Path(storage) / "state" / f"{REMEMBERED}.json").read_bytes())
    except (OSError, ValueError):
        return memory
    if isinstance(document, dict):
        memory.save(REMEMBERED, document)
    return memory


def _free(path: str) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def ask_mounts(
    mountinfo: Path,
    run: Callable[..., child.Finished] = child.run,
) -> list[Mount]:
    """The network file systems of a /proc/PID/mountinfo, asked in a child that may hang."""
    try:
        text = mountinfo.read_text(errors="surrogateescape")
    except OSError:
        return []
    wanted = {m.point or "/": m.type for m in mounts_in(text) if m.type in NETWORK}
    points = list(wanted)[:MAX_MOUNTS]
    if not points:
        return []
    argv = [sys.executable, "-I", "-S", "-c", _ASK, *points]
    begun, *numbers = run(argv, timeout_s=MOUNTS_S).stdout.split() or [b""]
    if begun != b"begun":  # the node is too busy to start a process in time
        return [Mount(point, wanted[point], None) for point in points]
    answered = {int(number) for number in numbers}
    return [Mount(point, wanted[point], n in answered) for n, point in enumerate(points)]
