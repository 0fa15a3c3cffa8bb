"""What the demos share: a day is printed as it happens, with what was reported of it."""

from __future__ import annotations

import errno
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from collector.agent.simulated_node import READY_S
from collector.config.address import parse
from collector.web.page.words import upper
from collector.web.verdict import cause, name
from pipeline.short_ids import short
from simulator.day import Day, Step

LOOK_S = 0.5  # between two looks at what runs
UP_S = READY_S + 60.0  # until it answers, on a machine that is busy
END_S = 30.0  # for a process to end

Processes = Mapping[str, "subprocess.Popen[bytes]"]


def refuse(target: str, why: str) -> int:
    """Exit code of a demo that cannot start, with the reason on standard error."""
    print(f"make {target}: {why}", file=sys.stderr)
    return 1


def obstacle(address: str, hint: str) -> str:
    """Why an address cannot be listened on, and what to do; empty where it can."""
    try:
        host, port = parse(address)
        socket.create_server((host, port)).close()
    except (OSError, ValueError) as error:
        in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "is in use, by another exporter or demo" if in_use else f"cannot be used: {error}"
        return f"{address} {why}. Choose another: {hint}"
    return ""


def url_of(address: str) -> str:
    """Where what listens on an address is asked from this machine: ``:9400`` is every interface,
    and no host to connect to.
    """
    host, port = parse(address)
    return f"http://{address}" if host else f"http://127.0.0.1:{port}"


def catch_ends() -> None:
    """Ctrl-C and SIGTERM end the demo, also where a shell started it with Ctrl-C ignored: the
    processes are ours to end.
    """
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, signal.default_int_handler)


@contextmanager
def ended(processes: Processes) -> Iterator[None]:
    """End them with the demo, last one first; ``processes`` may grow."""
    try:
        yield
    finally:
        for ends in (signal.SIGINT, signal.SIGTERM):  # a second one, from make, while it ends
            signal.signal(ends, signal.SIG_IGN)
        for process in reversed([*processes.values()]):
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_S)


class Terminal:
    """Prints one day by its own clock. All it prints it asks programs for, as any client could.

    ``processes`` are what runs, by name, with their logs in ``folder``.
    """

    def __init__(self, day: Day, folder: Path, url: str, speed: int, processes: Processes) -> None:
        self._day, self._folder, self._url, self._speed = day, folder, url, speed
        self._processes = processes
        self._open: dict[str, tuple[str, ...]] = {}  # what was printed of each incident

    def run(self) -> int:
        """The day, and what comes after it; 1 where something did not start, or ended."""
        if not self._up():
            return self._failed()
        self._begin()
        waiting, over = list(self._day.steps), False
        while not self._dead():
            try:
                now, document = self._look()
            except OSError:  # it ends, or the machine is busy
                time.sleep(LOOK_S)
                continue
            while waiting and waiting[0].at_s <= now:
                self._step(waiting.pop(0), waiting)
            self._incidents(now, document)
            if not over and not waiting and now >= self._day.lasts_s:
                over = True
                self._end()
            time.sleep(LOOK_S)
        return self._failed()

    # What each demo does in its own way.

    def _starting(self) -> str:
        raise NotImplementedError

    def _begin(self) -> None:
        raise NotImplementedError

    def _look(self) -> tuple[float, Mapping[str, Any]]:
        """Seconds since the day's begin, and a document with the open incidents."""
        raise NotImplementedError

    def _store(self, incident: Mapping[str, Any]) -> Path:
        """Where an incident is stored."""
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    # What they share.

    def _dead(self) -> str:
        """A process that ended."""
        return next((n for n, p in self._processes.items() if p.poll() is not None), "")

    def _up(self) -> bool:
        say(self._starting())
        begun = time.monotonic()
        while not self._dead() and time.monotonic() < begun + UP_S:
            try:
                self._ready()
            except OSError:
                time.sleep(LOOK_S)
            else:
                say(f"Ready after {time.monotonic() - begun:.0f} s.\n")
                return True
        return False

    def _ready(self) -> None:
        """OSError where it is not."""
        self._get("/-/ready")

    def _failed(self) -> int:
        dead = self._dead()
        part = dead or next(iter(self._processes))
        log = self._folder / f"{part}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        why = "ended" if dead else f"did not answer within {UP_S:.0f} s"
        print(f"The {part} {why}. The end of its log, {log}:", file=sys.stderr)
        print(*(f"  {line}" for line in lines[-5:]), sep="\n", file=sys.stderr)
        return 1

    def _step(self, step: Step, later: list[Step]) -> None:
        say(f"\n{clock(step.at_s)}  FAULT   {step.says}\n       Look: {step.look}")
        if later:
            say(f"       Next fault at {clock(later[0].at_s).strip()}.")

    def _incidents(self, now: float, document: Mapping[str, Any]) -> None:
        """What opened, changed or ended since the last look, each with its device."""
        found = {one["id"]: one for one in document["incidents"]}
        for identity, one in found.items():
            devices = dict.fromkeys(
                self._device(row, document) for row in (one, *one.get("standing", ()))
            )
            printed = (one["severity"], one["class"], *devices)
            if set(printed) <= set(self._open.get(identity, ())):
                continue
            self._open[identity] = printed
            root, *others = devices
            device = f"{root} (with {', '.join(others)})" if others else root
            say(f"{clock(now)}  TOCSIN  {one['severity']}: {device}: {cause(one)}")
            say(f"       Do: {one['action']}. {one['reason']}")
            self._try("Why:", f"explain {short(identity)}", self._store(one))
        for identity in self._open.keys() - found.keys():
            fault = self._open.pop(identity)[1]
            say(f"{clock(now)}  TOCSIN  over: {fault} ({short(identity)})")

    def _device(self, row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
        return upper(name(row, document))

    def _try(self, label: str, command: str, store: Path | None = None) -> None:
        program = Path(sys.executable).with_name("tocsin")
        where = f" --storage.path {store}" if store else ""
        say(f"       {label}{' ' if label else ''}{program} {command}{where}")

    def _get(self, path: str, url: str = "") -> str:
        with urllib.request.urlopen(f"{url or self._url}{path}", timeout=10) as answer:
            body: bytes = answer.read()
            return body.decode()

    def _json(self, path: str) -> Any:
        return json.loads(self._get(path))


def say(text: str) -> None:
    """At once, also into a pipe."""
    print(text, flush=True)


def clock(seconds: float) -> str:
    """A moment of the day: minutes and seconds since its begin.

    >>> clock(95.2)
    ' 1:35'
    """
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"
