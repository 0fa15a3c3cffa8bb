"""``tocsin simulate DIR``: the process that lets a simulated node live in a directory and
takes faults while it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from collector.control import Control, request
from pipeline.clock import Clock, FastClock, SystemClock
from simulator.day import load_day
from simulator.injection import faults_help, parse
from simulator.injection import inject as inject_into
from simulator.node import Node
from simulator.profile import load_profile
from simulator.rendering import Rendering

log = logging.getLogger("tocsin.simulator")

HERTZ = 4.0  # how often the node is written: sensors of real GPUs renew about as often
MAX_HERTZ = 20.0  # of one whose time runs faster: once in each of its seconds, up to here
MAX_STEP_S = 60.0  # a pause of the machine is made up for in pieces

MAX_INJECTED = 100  # faults that the status lists

# of the node's time, before anybody looks: no GPU draws 700 W at 30 degrees,
# and a job is well under way
WARM_UP_S = 900.0


class Stop(Protocol):
    """What says when a node has lived long enough: a ``threading.Event``, or
    what may be set by a signal.
    """

    def wait(self, timeout_s: float, /) -> bool:
        """Whether it was said within that time."""
        ...


def simulate(
    directory: Path,
    profile: str,
    *,
    seed: int = 0,
    inject: Sequence[str] = (),
    day: str = "",
    speed: float = 1.0,
    clock: Clock | None = None,
    stop: Stop,
) -> None:
    """Let a node live in a directory until ``stop`` is set; ``speed`` 60 lets
    an hour pass in a minute.

    ``day`` is a script of faults (day.py). With a ``clock`` that runs faster itself
    (pipeline.clock.FastClock), leave ``speed`` at 1.

    ValueError for an unknown profile or fault, FileExistsError where the directory is taken:
    before anything is written.
    """
    if not 0 < speed <= 3600:
        raise ValueError(f"speed must be above 0 and at most 3600, not {speed:g}")
    model = load_profile(profile)
    faults = [*inject, *(step.spec for step in (load_day(day, model).steps if day else ()))]
    for spec in faults:
        parse(spec, model)
    clock = clock or SystemClock()
    rendering = Rendering(directory, profile, seed=seed, clock=clock, serve=True)
    try:
        lock = Lock()
        rendering.step(WARM_UP_S)
        for spec in faults:
            inject_into(rendering.node, spec)
        requests = Requests(rendering.node, lock)
        control = Control(directory, requests.answer)
        try:
            rendering.ready()
            log.info(
                "simulating %s (seed %d) in %s: no real hardware is read", profile, seed, directory
            )
            _live(rendering, lock, speed, clock, stop)
        finally:
            control.close()
    finally:
        rendering.close()


def inject(directory: Path, spec: str) -> dict[str, Any]:
    """Inject a fault into the running simulation of a directory; what it
    answers (spec, targets, delay).

    ValueError where it refuses the fault, ConnectionError where no simulation is running.
    """
    return request(directory, {"command": "inject", "spec": spec})


def status(directory: Path) -> dict[str, Any]:
    """What the running simulation of a directory is doing: profile, seconds since its start, job
    phase, faults on their way.
    """
    return request(directory, {"command": "status"})


def _live(rendering: Rendering, lock: Lock, speed: float, clock: Clock, stop: Stop) -> None:
    last, failing = clock.monotonic_ns(), False
    hurry = speed * (clock.speed if isinstance(clock, FastClock) else 1.0)
    while not stop.wait(1 / max(HERTZ, min(hurry, MAX_HERTZ))):
        now = clock.monotonic_ns()
        seconds, last = max(now - last, 0) / 1e9, now
        try:
            with lock:
                rendering.step(min(seconds, MAX_STEP_S) * speed)
        except (OSError, ValueError) as error:  # a disk that is full, a table that is
            if not failing:
                log.warning("cannot write %s, continuing: %s", rendering.directory, error)
            failing = True
        else:
            if failing:
                log.info("writing %s again", rendering.directory)
            failing = False


class Requests:
    """Answers the control socket, and remembers which faults were injected through it."""

    def __init__(self, node: Node, lock: Lock) -> None:
        self._node, self._lock = node, lock
        self._injected: list[dict[str, Any]] = []

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """What a command gives; ValueError where it is refused."""
        command = message.get("command")
        if command == "faults":
            return {"faults": faults_help()}
        if command == "inject":
            return self._inject(message.get("spec"))
        if command == "status":
            with self._lock:
                return _status(self._node) | {"injected": list(self._injected)}
        raise ValueError(f"no command {command!r}; there are inject, status, faults")

    def _inject(self, spec: object) -> dict[str, Any]:
        if not isinstance(spec, str):
            # the client is wrong, not a caller
            raise ValueError(  # noqa: TRY004
                'inject wants {"command": "inject", "spec": "name@target..."}'
            )
        parse(spec, self._node.profile)  # before the lock: a bad fault must not wait for the node
        with self._lock:
            done = inject_into(self._node, spec)
            number = self._injected[-1]["number"] + 1 if self._injected else 1
            at_s = round(self._node.time_s, 3)
            self._injected.append({"number": number, "spec": done.spec, "time_s": at_s})
            del self._injected[:-MAX_INJECTED]
        log.info("injected %s", done.spec)
        return {
            "spec": done.spec,
            "targets": [name for name, _ in done.targets],
            "delay_s": done.delay_s,
        }


def _status(node: Node) -> dict[str, Any]:
    waiting = [{"spec": a.spec, "target": a.target, "acting": a.started} for a in node.active]
    return {
        "profile": node.profile.name,
        "seed": node.seed,
        "time_s": round(node.time_s, 3),
        "phase": node.demand.phase,
        "faults": waiting,
    }
