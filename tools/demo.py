"""Plays a scripted day on one machine and says what happens, where to look, and what Tocsin made of it: `make demo`.

An agent of its own reads the simulated node as it would read hardware. Time runs faster, so that half an hour is over in minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from collector.simulator.day import Day, Step, load_day
from collector.simulator.profile import load_profile
from collector.simulator.rendering import MARKER
from collector.simulator.simulate import WARM_UP_S, status

PROFILE = "hgx-h100"
LOOK_S = 0.5  # between two looks at the agent
UP_S = 60.0  # until the agent answers, on a machine that is busy


def main() -> int:
    """Start the agent, tell the day, and leave it running until Ctrl-C."""
    for ends in (signal.SIGINT, signal.SIGTERM):  # a shell may have started us deaf to Ctrl-C, and the agent is ours to end
        signal.signal(ends, signal.default_int_handler)
    args = _arguments()
    day = load_day(args.day, load_profile(PROFILE))
    folder = args.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if (
        folder / "state" / "simulated" / MARKER
    ).is_file():  # of an earlier day: this one is another node's, with clocks of its own
        shutil.rmtree(folder / "state")
    with (folder / "agent.log").open("wb") as log:
        agent = subprocess.Popen(_command(args, folder, day), stdout=log, stderr=log, env=os.environ | {"NODE_NAME": "node1"})
    try:
        return Telling(day, folder, args.address, args.speed, agent).tell()
    except KeyboardInterrupt:
        print("\nIt ends; what it kept stays in", folder / "state")
        return 0
    finally:
        agent.terminate()
        agent.wait(30)


class Telling:
    """Follows one day by the node's own clock. All it knows it asks the agent and the node, as anybody could."""

    def __init__(self, day: Day, folder: Path, address: str, speed: int, agent: subprocess.Popen[bytes]) -> None:
        self._day, self._folder, self._url, self._speed, self._agent = day, folder, f"http://{address}", speed, agent
        self._open: dict[str, tuple[str, str]] = {}

    def tell(self) -> int:
        """The whole day; 1 where the agent did not start, or ended by itself."""
        if not self._up():
            return self._gone()
        self._begin()
        waiting = list(self._day.steps)
        while self._agent.poll() is None:
            now = status(self._folder / "state" / "simulated")["time_s"] - WARM_UP_S
            while waiting and waiting[0].at_s <= now:
                self._step(waiting.pop(0), waiting)
            self._incidents(now)
            if not waiting and now >= self._day.lasts_s:
                self._end()
                self._agent.wait()
            time.sleep(LOOK_S)
        return self._gone()

    def _up(self) -> bool:
        deadline = time.monotonic() + UP_S
        while self._agent.poll() is None and time.monotonic() < deadline:
            try:
                self._get("/-/ready")
            except OSError:
                time.sleep(LOOK_S)
            else:
                return True
        return False

    def _gone(self) -> int:
        lines = (self._folder / "agent.log").read_text(encoding="utf-8", errors="replace").splitlines()
        print("The agent ended. The last it said:", *lines[-5:], sep="\n  ", file=sys.stderr)
        return 1

    def _begin(self) -> None:
        minutes = self._day.lasts_s / 60 / self._speed
        print(f"{self._day.title}: a simulated HGX H100, 8 GPUs and 8 InfiniBand ports. Nothing of it is real.")
        print(f"  page     {self._url}/\n  metrics  {self._url}/metrics\n  store    {self._folder / 'state'}")
        print(f"Its clock runs {self._speed} times as fast: the day is over in {minutes:.0f} minutes. Ctrl-C ends it.")
        print("All detectors speak here; as shipped, those on trial only record (docs/detectors.md).")
        if not self._day.steps:
            print("Nothing will happen. Break something from a second terminal:")
            self._try(f"simulate {self._folder}/state/simulated --inject xid@gpu2:code=79")

    def _step(self, step: Step, later: list[Step]) -> None:
        print(f"\n{_clock(step.at_s)}  {step.says}\n       Look: {step.look}")
        if later:
            print(f"       The next fault comes at {_clock(later[0].at_s).strip()}.")

    def _incidents(self, now: float) -> None:
        """Say what opened, grew worse or ended since the last look."""
        found = {one["id"]: one for one in json.loads(self._get("/api/v1/incidents"))["incidents"]}
        for name, one in found.items():
            told = (one["severity"], one["class"])
            if self._open.get(name) != told:
                print(f"{_clock(now)}  TOCSIN  {one['severity']}: {one['summary']}\n       Do: {one['action']}. {one['reason']}")
                self._try(f"explain {name}")
                self._open[name] = told
        for name in self._open.keys() - found.keys():
            print(f"{_clock(now)}  TOCSIN  over: {self._open.pop(name)[1]}")

    def _end(self) -> None:
        print(
            f"\nThe day is over; the node stays as it is until Ctrl-C. {len(self._open)} incidents are open. From a second terminal:"
        )
        for command in ("query xids", "query health", "export --since 1h --redact -o bad-day.zip"):
            self._try(command)
        print("docs/tour.md says what each of them shows.")

    def _try(self, command: str) -> None:
        program = Path(sys.executable).with_name("tocsin")
        where = "" if command.startswith("simulate ") else f" --storage.path {self._folder / 'state'}"
        print(f"       {program} {command}{where}", flush=True)

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=10) as answer:
            body: bytes = answer.read()
            return body.decode()


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
        *("--simulate", PROFILE, "--simulate.seed", "1", "--simulate.day", args.day, "--simulate.speed", str(args.speed)),
        *("--simulate.ago", f"{ago_s:.0f}s"),
        *("--detectors.off-trial", "all", "--web.listen-address", args.address, "--storage.path", str(folder / "state")),
    ]


def _clock(seconds: float) -> str:
    """A moment of the day: minutes and seconds since its begin.

    >>> _clock(95.2)
    ' 1:35'
    """
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    sys.exit(main())
