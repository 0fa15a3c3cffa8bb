"""Plays a scripted day on one machine and prints what happens, where to look, and what Tocsin
reports: `make demo`.

A separate agent reads the simulated node as it would read hardware. Time runs faster, so that
half an hour is over in minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo_terminal import (
    Processes,
    Terminal,
    catch_ends,
    clock,
    ended,
    obstacle,
    refuse,
    say,
    url_of,
)

from collector.config.settings import Nvml
from collector.config.units import Seconds
from simulator.day import Day, load_day
from simulator.profile import load_profile
from simulator.rendering import MARKER
from simulator.simulate import WARM_UP_S, status

PROFILE = "hgx-h100"
DEFAULTS = Nvml()


def main() -> int:
    """Start the agent, print the day, and leave it running until Ctrl-C."""
    catch_ends()
    args = _arguments()
    try:
        day = load_day(args.day, load_profile(PROFILE))
    except ValueError as error:
        return refuse("demo", f"DAY: {error}")
    folder = args.folder.absolute()
    if why := _obstacle(folder, args.address):
        return refuse("demo", why)
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
    processes = {"agent": agent}
    try:
        with ended(processes):
            return NodeTerminal(day, folder, args.address, args.speed, processes).run()
    except KeyboardInterrupt:
        print("\nThe demo ends. Its store stays in", folder / "state")
        return 0


class NodeTerminal(Terminal):
    """The day of one node."""

    def __init__(
        self, day: Day, folder: Path, address: str, speed: int, processes: Processes
    ) -> None:
        super().__init__(day, folder, url_of(address), speed, processes)
        self._node = folder / "state" / "simulated"
        self._injected = 0

    def _starting(self) -> str:
        return "Starting the agent and the simulated node ..."

    def _look(self) -> tuple[float, Mapping[str, Any]]:
        node, document = status(self._node), self._json("/api/v1/status")
        self._injections(node["injected"])
        return node["time_s"] - WARM_UP_S, document

    def _store(self, _: Mapping[str, Any]) -> Path:
        return self._node.parent

    def _begin(self) -> None:
        say(f"{self._day.title}: a simulated HGX H100, 8 GPUs and 8 InfiniBand ports.")
        say(f"  page     {self._url}/\n  metrics  {self._url}/metrics")
        say(f"  store    {self._folder / 'state'}")
        minutes = self._day.lasts_s / 60 / self._speed
        say(
            f"The node's clock runs {self._speed} times as fast: the day is over in {minutes:.0f} "
            "minutes. Ctrl-C ends the demo."
        )
        say(
            "Paging is enabled for all detectors. By default, some of them run in "
            "shadow mode (docs/detectors.md)."
        )
        if not self._day.steps:
            say("No fault is scheduled.")
        self._try("Inject a fault:", f"simulate {self._node} --inject xid@gpu2:code=79")

    def _injections(self, injected: list[dict[str, Any]]) -> None:
        for one in injected:
            if one["number"] > self._injected:
                self._injected = one["number"]
                say(f"\n{clock(one['time_s'] - WARM_UP_S)}  FAULT   injected: {one['spec']}")

    def _end(self) -> None:
        say(
            f"\nThe day is over: {len(self._open)} incidents are open. The node goes on until "
            "Ctrl-C, and takes faults. From a second terminal:"
        )
        for command in ("query xids", "query health", "export --since 1h --redact -o bad-day.zip"):
            self._try("", command, self._node.parent)
        say("docs/tour.md shows the output of each.")


def _obstacle(folder: Path, address: str) -> str:
    """Why the demo cannot start, and what to do; empty where it can."""
    if why := obstacle(address, "make demo ADDRESS=127.0.0.1:9401"):
        return why
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
        # As long by the clock on the wall as on a real node: a busy machine is no driver that
        # hangs.
        *("--source.nvml.call-deadline", f"{Seconds(DEFAULTS.call_deadline * args.speed)}"),
        *("--source.nvml.deadline", f"{Seconds(DEFAULTS.deadline * args.speed)}"),
        *(
            "--detectors.off-trial",
            "all",
            "--web.listen-address",
            args.address,
            "--storage.path",
            str(folder / "state"),
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
