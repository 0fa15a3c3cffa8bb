"""What the whole agent costs a node beside Debian's node_exporter: memory and CPU at one read a
second, all detectors and the store on.

Both run at the same time over the same minutes, scraped every five seconds, with as many series:
node_exporter has its usual collectors and the agent's page as a file, and is not asked to read
hardware once a second, judge it and keep it. The node is a simulated HGX H100 (8 GPUs, 8 ports, 144
NVLinks); the process that simulates it is not the agent's and not counted. The driver child is
counted; what a real driver burns inside it is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import create_server

from benchmarks._processes import cpu_s, driver_of, pss_mib, rss_mib
from tests.agents import AgentProcess
from tests.parts import need
from tests.servers import Server

MAIN_GOAL, BOTH_GOAL, CPU_GOAL = 2.6, 4.0, 1.0  # times node_exporter
SCRAPE_S = 5.0
SETTLE_S = 10.0  # first reads and first scrapes are not what a day is like


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of a stretch of time; resident and proportional memory (MiB) at its end."""

    cpu_s: float
    rss: float = 0.0
    pss: float = 0.0


@contextlib.contextmanager
def node_exporter(folder: Path, page: bytes) -> Iterator[tuple[int, str]]:
    """Process id and address of node_exporter with its usual collectors and a page of ours."""
    folder.mkdir()
    (folder / "page.prom").write_bytes(page)
    with create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    program = need("prometheus-node-exporter", "prometheus-node-exporter")
    argv = [program, f"--web.listen-address={address}", f"--collector.textfile.directory={folder}"]
    with Server(argv, folder / "log") as server:
        yield server.process.pid, address


def scrape(address: str) -> None:
    """Ask for a page, as Prometheus does."""
    request = urllib.request.Request(
        f"http://{address}/metrics", headers={"Accept-Encoding": "gzip"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - loopback
        answer.read()


def children_s(pid: int) -> float:
    """CPU seconds of the children that a process has taken leave of: sealing, compacting
    (proc(5), cutime and cstime).
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def measure(seconds: float, folder: Path) -> dict[str, Cost]:
    """What the agent, its children and node_exporter cost over so many seconds."""
    with contextlib.ExitStack() as stack:
        agent = stack.enter_context(
            AgentProcess(folder / "state", "--simulate", "hgx-h100")
        ).ready()
        page = agent.get()[1].encode()
        peer, peer_address = stack.enter_context(node_exporter(folder / "textfile", page))
        time.sleep(SETTLE_S)
        pids = {"agent": agent.process.pid, "driver child": driver_of(agent), "node_exporter": peer}
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        ended = children_s(agent.process.pid)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            scrape(agent.address)
            scrape(peer_address)
            time.sleep(SCRAPE_S)
        costs = {
            name: Cost(cpu_s(pid) - before[name], rss_mib(pid), pss_mib(pid))
            for name, pid in pids.items()
        }
        return costs | {"children that ended": Cost(children_s(agent.process.pid) - ended)}


def main() -> int:
    """Print the costs and what they are beside the peer's; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="a seal comes every 900 s: 960 has one in it"
    )
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="whole-agent-") as folder:
        costs = measure(seconds, Path(folder))
    print(f"{seconds:.0f} s, load {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores")
    for name, cost in costs.items():
        print(
            f"  {name:20} {cost.cpu_s / seconds * 1000:6.1f} ms of CPU a second, {cost.rss:6.1f} "
            f"MiB resident, {cost.pss:6.1f} MiB proportional"
        )
    peer = costs.pop("node_exporter")
    ratios = {
        "CPU of the whole agent": (
            sum(cost.cpu_s for cost in costs.values()) / peer.cpu_s,
            CPU_GOAL,
        ),
        "memory of the agent": (costs["agent"].rss / peer.rss, MAIN_GOAL),
        "memory with the driver child": (
            (costs["agent"].pss + costs["driver child"].pss) / peer.pss,
            BOTH_GOAL,
        ),
    }
    for name, (ratio, goal) in ratios.items():
        print(f"  {name}: {ratio:.2f}x node_exporter (goal {goal}x)")
    return int(any(ratio > goal for ratio, goal in ratios.values()))


if __name__ == "__main__":
    sys.exit(main())
