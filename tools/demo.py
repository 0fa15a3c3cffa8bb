"""Plays a scripted day on one machine and prints what happens, where to look, and what Tocsin
reports: `make demo`.

A separate agent reads the simulated node as it would read hardware. Time runs faster, so that
half an hour is over in minutes.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from collector.config.address import parse
from collector.web.page.words import upper
from collector.web.verdict import cause, name
from pipeline.short_ids import short
from simulator.day import Day, Step, load_day
from simulator.profile import load_profile
from simulator.rendering import MARKER
from simulator.simulate import WARM_UP_S, status

PROFILE = "hgx-h100"
LOOK_S = 0.5  # between two looks at the agent
UP_S = 60.0  # until the agent answers, on a machine that is busy


def main() -> int:
    """Start the agent, print the day, and leave it running until Ctrl-C."""
    # A shell may have started us with Ctrl-C ignored, and the agent is ours to end.
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, signal.default_int_handler)
    args = _arguments()
    try:
        day = load_day(args.day, load_profile(PROFILE))
    except ValueError as error:
        return _refuse(f"DAY: {error}")
    folder = args.folder.absolute()
    if obstacle := _obstacle(folder, args.address):
        return _refuse(obstacle)
    folder.mkdir(parents=True, exist_ok=True)
    # State of an earlier demo is of another node, with another clock.
    if (folder / "state" / "simulated" / MARKER).is_file():
        shutil.rmtree(folder / "state")
    with (folder / "agent.log").open("wb") as log:
        agent = subprocess.Popen(
            _command(args, folder, day),
            stdout=log,
            stderr=log,
            env=os.environ | {"NODE_NAME": "node1"},
        )
    try:
        return Terminal(day, folder, args.address, args.speed, agent).run()
    except KeyboardInterrupt:
        print("\nThe demo ends. Its store stays in", folder / "state")
        return 0
    finally:
        for ends in (signal.SIGINT, signal.SIGTERM):  # a second one, from make, while it ends
            signal.signal(ends, signal.SIG_IGN)
        agent.terminate()
        agent.wait(30)


def _refuse(why: str) -> int:
    print(f"make demo: {why}", file=sys.stderr)
    return 1


class Terminal:
    """Prints one day by the node's own clock.

    All it prints it asks the agent and the node, as any client could.
    """

    def __init__(
        self, day: Day, folder: Path, address: str, speed: int, agent: subprocess.Popen[bytes]
    ) -> None:
        self._day, self._folder, self._speed, self._agent = day, folder, speed, agent
        self._node, self._url = folder / "state" / "simulated", f"http://{address}"
        self._open: dict[str, tuple[str, ...]] = {}  # what was printed of each incident
        self._injected = 0

    def run(self) -> int:
        """The day, and what users inject after it; 1 where the agent did not start, or ended."""
        if not self._up():
            return self._failed()
        self._begin()
        waiting, over = list(self._day.steps), False
        while self._agent.poll() is None:
            try:
                node, document = status(self._node), json.loads(self._get("/api/v1/status"))
            except OSError:  # it ends, or the machine is busy
                time.sleep(LOOK_S)
                continue
            now = node["time_s"] - WARM_UP_S
            while waiting and waiting[0].at_s <= now:
                self._step(waiting.pop(0), waiting)
            self._injections(node["injected"])
            self._incidents(now, document)
            if not over and not waiting and now >= self._day.lasts_s:
                over = True
                self._end()
            time.sleep(LOOK_S)
        return self._failed()

    def _up(self) -> bool:
        _print("Starting the agent and the simulated node ...")
        begun = time.monotonic()
        while self._agent.poll() is None and time.monotonic() < begun + UP_S:
            try:
                self._get("/-/ready")
            except OSError:
                time.sleep(LOOK_S)
            else:
                _print(f"Ready after {time.monotonic() - begun:.0f} s.\n")
                return True
        return False

    def _failed(self) -> int:
        log = self._folder / "agent.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        why = f"did not answer within {UP_S:.0f} s" if self._agent.poll() is None else "ended"
        print(f"The agent {why}. The end of its log, {log}:", file=sys.stderr)
        print(*(f"  {line}" for line in lines[-5:]), sep="\n", file=sys.stderr)
        return 1

    def _begin(self) -> None:
        _print(f"{self._day.title}: a simulated HGX H100, 8 GPUs and 8 InfiniBand ports.")
        _print(f"  page     {self._url}/\n  metrics  {self._url}/metrics")
        _print(f"  store    {self._folder / 'state'}")
        minutes = self._day.lasts_s / 60 / self._speed
        _print(
            f"The node's clock runs {self._speed} times as fast: the day is over in {minutes:.0f} "
            "minutes. Ctrl-C ends the demo."
        )
        _print(
            "Paging is enabled for all detectors. By default, those that learn a baseline run in "
            "shadow mode (docs/detectors.md)."
        )
        if not self._day.steps:
            _print("No fault is scheduled.")
        self._try("Inject a fault:", f"simulate {self._node} --inject xid@gpu2:code=79")

    def _step(self, step: Step, later: list[Step]) -> None:
        _print(f"\n{_clock(step.at_s)}  FAULT   {step.says}\n       Look: {step.look}")
        if later:
            _print(f"       Next fault at {_clock(later[0].at_s).strip()}.")

    def _injections(self, injected: list[dict[str, Any]]) -> None:
        for one in injected:
            if one["number"] > self._injected:
                self._injected = one["number"]
                _print(f"\n{_clock(one['time_s'] - WARM_UP_S)}  FAULT   injected: {one['spec']}")

    def _incidents(self, now: float, document: dict[str, Any]) -> None:
        """What opened, changed or ended since the last look, each with its device."""
        found = {one["id"]: one for one in document["incidents"]}
        for identity, one in found.items():
            devices = dict.fromkeys(upper(name(row, document)) for row in (one, *one["standing"]))
            printed = (one["severity"], one["class"], *devices)
            if set(printed) <= set(self._open.get(identity, ())):
                continue
            self._open[identity] = printed
            root, *others = devices
            device = f"{root} (with {', '.join(others)})" if others else root
            _print(f"{_clock(now)}  TOCSIN  {one['severity']}: {device}: {cause(one)}")
            _print(f"       Do: {one['action']}. {one['reason']}")
            self._try("Why:", f"explain {short(identity)}")
        for identity in self._open.keys() - found.keys():
            fault = self._open.pop(identity)[1]
            _print(f"{_clock(now)}  TOCSIN  over: {fault} ({short(identity)})")

    def _end(self) -> None:
        _print(
            f"\nThe day is over: {len(self._open)} incidents are open. The node goes on until "
            "Ctrl-C, and takes faults. From a second terminal:"
        )
        for command in ("query xids", "query health", "export --since 1h --redact -o bad-day.zip"):
            self._try("", command)
        _print("docs/tour.md shows the output of each.")

    def _try(self, label: str, command: str) -> None:
        program = Path(sys.executable).with_name("tocsin")
        where = "" if command.startswith("simulate ") else f" --storage.path {self._node.parent}"
        _print(f"       {label}{' ' if label else ''}{program} {command}{where}")

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=10) as answer:
            body: bytes = answer.read()
            return body.decode()


def _print(text: str) -> None:
    print(text, flush=True)


def _obstacle(folder: Path, address: str) -> str:
    """Why the demo cannot start, and what to do; empty where it can."""
    try:
        host, port = parse(address)
        socket.create_server((host, port)).close()
    except (OSError, ValueError) as error:
        in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "is in use, by another exporter or demo" if in_use else f"cannot be used: {error}"
        return f"{address} {why}. Choose another: make demo ADDRESS=127.0.0.1:9401"
    try:
        status(folder / "state" / "simulated")
    except OSError:
        return ""
    return f"A demo already runs in {folder}. End it, or choose a folder: make demo DEMO=.demo2"


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--address", default="127.0.0.1:9400")
    parser.add_argument("--day", default="bad")
    parser.add_argument("--speed", type=int, default=10)
    return parser.parse_args()


def _command(args: Any, folder: Path, day: Day) -> list[str]:
    ago_s = day.lasts_s * (1 - 1 / args.speed)  # so that the day ends now
    return [
        str(Path(sys.executable).with_name("tocsin")),
        "agent",
        *(
            "--simulate",
            PROFILE,
            "--simulate.seed",
            "1",
            "--simulate.day",
            args.day,
            "--simulate.speed",
            str(args.speed),
        ),
        *("--simulate.ago", f"{ago_s:.0f}s"),
        *(
            "--detectors.off-trial",
            "all",
            "--web.listen-address",
            args.address,
            "--storage.path",
            str(folder / "state"),
        ),
    ]


def _clock(seconds: float) -> str:
    """A moment of the day: minutes and seconds since its begin.

    >>> _clock(95.2)
    ' 1:35'
    """
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    sys.exit(main())
