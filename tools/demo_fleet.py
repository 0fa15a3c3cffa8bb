"""Plays a scripted day of sixteen nodes in two racks on one machine, and prints what happens and
what the gateways report: `make demo-fleet`.

Four processes: a NATS server, two gateways, and one that sends what the agents of all nodes would.
Time runs faster, so that a day is over in minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demo_terminal import (
    LOOK_S,
    UP_S,
    Processes,
    Terminal,
    catch_ends,
    ended,
    obstacle,
    refuse,
    say,
    url_of,
)

from collector.config.address import parse
from collector.web.verdict import title
from simulator.fleet.scripted import DAYS, NODES, FleetDay

CLUSTER = "demo"
STEP_S = 10  # between two readings of a node, as in the scenarios (docs/scores.md)
BATCH_S = 30  # between two batches of a host
TOOLS = Path(__file__).parent
MARKER = "fleet-demo"  # in a folder that a demo made, and may remove
SERIES = re.compile(
    r"^(tocsin_fleet_leader|tocsin_fleet_tick_timestamp_seconds) (\S+)$", re.MULTILINE
)


def main() -> int:
    """Start everything, print the day, and leave it running until Ctrl-C."""
    args = _arguments()
    if args.day not in DAYS:
        return refuse("demo-fleet", f"DAY: no day {args.day!r}; there are {', '.join(DAYS)}")
    try:
        host, port = parse(args.address)
    except ValueError as error:
        return refuse("demo-fleet", f"ADDRESS: {error}")
    addresses = [f"{host}:{port + number}" for number in range(2)]
    hint = f"make demo-fleet ADDRESS={host}:{port + 10}"
    if why := next(filter(None, (obstacle(each, hint) for each in addresses)), ""):
        return refuse("demo-fleet", why)
    folder = args.folder.absolute()
    if folder.exists() and not (folder / MARKER).is_file() and any(folder.iterdir()):
        return refuse("demo-fleet", f"{folder} holds something else. Choose a folder: DEMO=.demo2")
    catch_ends()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with ended(processes):
            return Demo(DAYS[args.day], folder, addresses, args.speed, processes).run()
    except KeyboardInterrupt:
        print("\nThe demo ends. The gateways' stores stay in", folder)
        return 0


class Demo:
    """Starts the processes, each with a log of its own."""

    def __init__(
        self,
        day: FleetDay,
        folder: Path,
        addresses: Sequence[str],
        speed: int,
        processes: dict[str, subprocess.Popen[bytes]],
    ) -> None:
        self._day, self._folder, self._addresses, self._speed = day, folder, addresses, speed
        self._processes = processes

    def run(self) -> int:
        """Until something ends."""
        server = self._server()
        if not server:
            return refuse("demo-fleet", f"the NATS server did not start: {self._folder}/nats.log")
        # The whole day lies in the past by the time it is over.
        ago_s = self._day.day.lasts_s * (1 - 1 / self._speed)
        since_ns = time.monotonic_ns()
        times = [
            *("--speed", str(self._speed), "--since", str(since_ns), "--ago", f"{ago_s:.0f}"),
            *("--server", server, "--cluster", CLUSTER),
        ]
        begin_ns = time.time_ns() - round(ago_s * 1e9)
        player = [*times, "--day", self._day.day.name, "--begin", str(begin_ns)]
        pace = ["--step", str(STEP_S), "--batch", str(BATCH_S)]
        self._start("player", "fleet_player.py", *player, *pace)
        for number, address in enumerate(self._addresses, 1):
            name = f"gateway{number}"
            self._start(name, "fast_gateway.py", *times, *self._settings(name, address))
        urls = [url_of(address) for address in self._addresses]
        terminal = FleetTerminal(self._day, self._folder, urls, self._speed, self._processes)
        terminal.begin_s = begin_ns / 1e9
        return terminal.run()

    def _settings(self, name: str, address: str) -> list[str]:
        return [
            *("--web.listen-address", address, "--storage.path", str(self._folder / name)),
            *("--bus.period", f"{BATCH_S}s", "--detectors.off-trial", "all"),
            *("--source.nvml.period", f"{STEP_S}s", "--source.infiniband.period", f"{STEP_S}s"),
        ]

    def _server(self) -> str:
        """Its address, on a port of its choice; empty where it did not start."""
        ports = self._folder / "nats"
        ports.mkdir()
        config = self._folder / "nats.conf"
        store = json.dumps(str(ports / "js"))
        config.write_text(
            f"host: 127.0.0.1\nport: -1\nports_file_dir: {json.dumps(str(ports))}\n"
            f"jetstream {{ store_dir: {store} }}\n",
            encoding="utf-8",
        )
        program = Path(sys.executable).with_name("nats-server")
        server = self._run("nats", [str(program), "-c", str(config)])
        until = time.monotonic() + UP_S
        while server.poll() is None and time.monotonic() < until:
            for file in ports.glob("*.ports"):
                try:
                    return str(json.loads(file.read_text(encoding="utf-8"))["nats"][0])
                except ValueError:  # half of it is written
                    break
            time.sleep(LOOK_S)
        return ""

    def _start(self, name: str, program: str, *arguments: str) -> None:
        self._run(name, [sys.executable, str(TOOLS / program), *arguments])

    def _run(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = self._processes[name] = subprocess.Popen(argv, stdout=log, stderr=log)
        return process


class FleetTerminal(Terminal):
    """The day of a fleet. A gateway may be killed: the other one reports."""

    begin_s = 0.0  # of the day, unix

    def __init__(
        self, day: FleetDay, folder: Path, urls: Sequence[str], speed: int, processes: Processes
    ) -> None:
        super().__init__(day.day, folder, urls[0], speed, processes)
        self._urls = urls
        self._leader = ""

    def _starting(self) -> str:
        return f"Starting NATS, two gateways and {NODES} simulated nodes ..."

    def _dead(self) -> str:
        gone = [name for name, process in self._processes.items() if process.poll() is not None]
        gateways = [name for name in gone if name.startswith("gateway")]
        return gone[0] if len(gateways) == len(self._urls) or gateways != gone else ""

    def _ready(self) -> None:
        for url in self._urls:
            self._get("/metrics", url)

    def _look(self) -> tuple[float, Mapping[str, Any]]:
        """By the gateway that holds the lease. OSError where none does."""
        for url in self._urls:
            try:
                series = dict(SERIES.findall(self._get("/metrics", url)))
                if float(series.get("tocsin_fleet_leader", 0)) and self._judged(series) >= 0:
                    self._lead(url)
                    return self._judged(series), self._json("/api/v1/incidents")
            except OSError:
                continue
        raise OSError("no gateway holds the lease")

    def _judged(self, series: Mapping[str, str]) -> float:
        return float(series.get("tocsin_fleet_tick_timestamp_seconds", 0)) - self.begin_s

    def _lead(self, url: str) -> None:
        if url != self._leader:
            if self._leader:
                say(f"\nThe gateway {self._leader} is silent: {url} reports now.")
            self._leader = self._url = url

    def _store(self, _: Mapping[str, Any]) -> Path:
        return self._folder / f"gateway{self._urls.index(self._leader) + 1}"

    def _device(self, row: Mapping[str, Any], _: Mapping[str, Any]) -> str:
        return title({"name": f"{row['kind']} {row['device']}", "host": ""} | dict(row))

    def _begin(self) -> None:
        say(f"{self._day.title}: {NODES} simulated HGX H100 in two racks, and 8 leaf switches.")
        for number, url in enumerate(self._urls, 1):
            say(f"  gateway {number}  {url}/  {url}/metrics  process {self._pid(number)}")
        say(f"  stores     {self._folder}")
        minutes = max(1, self._day.lasts_s / 60 / self._speed)
        say(
            f"The fleet's clock runs {self._speed} times as fast: the day is over in "
            f"{minutes:.0f} minutes. Ctrl-C ends the demo."
        )
        say(f"First fault at {int(self._day.steps[0].at_s) // 60} min: detectors learn until then.")
        say("Both gateways judge, one reports. Kill it, and the other reports within five seconds.")

    def _pid(self, number: int) -> int:
        return self._processes[f"gateway{number}"].pid

    def _end(self) -> None:
        say(
            f"\nThe day is over: {len(self._open)} incidents are open. The gateways serve until "
            "Ctrl-C. From a second terminal:"
        )
        self._try("", "query health", self._folder / "gateway1")
        say("docs/fleet.md says how a gateway is installed.")


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--address", default="127.0.0.1:9400")
    parser.add_argument("--day", default="bad")
    parser.add_argument("--speed", type=int, default=60)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
