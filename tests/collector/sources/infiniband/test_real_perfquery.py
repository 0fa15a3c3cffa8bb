"""The real perfquery of infiniband-diags over a simulated fabric (ibsim and opensm), asked by
the source as on a node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.infiniband import InfinibandSource
from pipeline.frame import Frame
from pipeline.observation import Reading
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.infiniband.sysfs import GUID, Sysfs, counter_files
from tests.fakes import FakeClock
from tests.parts import need
from tests.servers import Server
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.integration

PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
FABRIC = Path(__file__).parents[3] / "data" / "infiniband" / "fabric-hdr.net"
NODE = '"H-0000000000000201"[1]'  # node02's port in the fabric file
NODES = tuple(f"node{i:02}" for i in range(8))


class Fabric:
    """ibsim with opensm: two leaves, eight hosts with one port each."""

    def __init__(self, folder: Path) -> None:
        for program, package in (
            ("ibsim", "ibsim-utils"),
            ("opensm", "opensm"),
            ("ibstat", "infiniband-diags"),
        ):
            need(program, package)
        self.folder = folder
        self.socket = f"tocsin-{uuid.uuid4().hex[:12]}"
        self.log = folder / "ibsim.log"
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        self._environment = {"PATH": path, "IBSIM_SOCKNAME": self.socket}
        self._servers: list[Server] = []
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self.simulator = self._run(
            ["ibsim", "-s", "-N", "64", "-S", "8", str(FABRIC)],
            self.log,
            self._environment,
            stdin=subprocess.PIPE,
        )
        self.simulator.until(lambda: "Network simulator ready" in self.simulator.log, "ibsim")
        folder = str(self.folder)
        manager = {"SIM_SET_ISSM": "1", "OSM_CACHE_DIR": folder, "OSM_TMP_DIR": folder}
        self._run(
            ["opensm", "-f", f"{folder}/opensm.log"],
            self.folder / "opensm.output",
            self.client("node00") | manager,
        )
        until(
            lambda: "State: Active" in self.run("node02", "ibstat"),
            "opensm",
            servers=self._servers,
        )

    def _run(
        self,
        argv: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
    ) -> Server:
        server = Server(argv, log, env=env, cwd=self.folder, stdin=stdin)
        self._servers.append(server)
        return server

    def client(self, node: str) -> dict[str, str]:
        """Environment that makes a tool run on a node of the fabric."""
        return self._environment | {"LD_PRELOAD": PRELOAD, "SIM_HOST": f"{node} mlx5_0"}

    def run(self, node: str, *argv: str) -> str:
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=self.client(node),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        ).stdout

    def say(self, command: str) -> None:
        """A line on the simulator's console."""
        assert self.simulator.process.stdin is not None
        self.simulator.process.stdin.write(f"{command}\n".encode())
        self.simulator.process.stdin.flush()

    def set(self, counter: str, value: int, group: str = "PortCounters") -> None:
        self.say(f"PerformanceSet {NODE} {group}.{counter}={value}")

    def perfquery(self, node: str = "node02") -> str:
        """A program that is perfquery on that node. It writes a line per start."""
        program = self.folder / f"perfquery-{node}"
        variables = " ".join(
            f"{name}='{value}'" for name, value in self.client(node).items() if name != "PATH"
        )
        real = need("perfquery", "infiniband-diags")
        program.write_text(
            "#!/bin/sh\n"
            f'cd {self.folder} && echo "$@" >> starts-{node} && exec env {variables} {real} "$@"\n'
        )
        program.chmod(0o755)
        return str(program)

    def starts(self, node: str = "node02") -> list[str]:
        """Arguments of every start so far."""
        file = self.folder / f"starts-{node}"
        return file.read_text().splitlines() if file.exists() else []

    def close(self) -> None:
        for server in reversed(self._servers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.process.pid, signal.SIGCONT)
            server.process.kill()
            server.end()


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Fabric]:
    """A fabric of its own for each test."""
    folder = tmp_path / "fabric"
    folder.mkdir()
    running = Fabric(folder)
    yield running
    running.close()


class Node:
    """The source on a node of the fabric.

    The simulator renders no counters in /sys: ours has the port without them.
    """

    def __init__(self, folder: Path, program: str, *, lid: int = 5, **settings: float) -> None:
        self.tree = Sysfs(folder / "sys")
        port = self.tree.add("ibsim0", guid=GUID)
        for file in counter_files("sysfs").values():
            (port / file).unlink()
        self.tree.write(port / "lid", hex(lid))
        self.clock = FakeClock()
        inventory = Inventory("node02", State(None))
        self.source = InfinibandSource(
            self.tree.root,
            "node02",
            self.clock,
            inventory,
            SelfMetrics(),
            perfquery=program,
            **settings,  # type: ignore[arg-type]
        )

    def settle(self) -> None:
        """Until no question is on its way: the next job of the one thread
        that asks has been reached.
        """
        self.source._agents._thread.submit(lambda: None).result(PATIENCE_S)

    def until(self, condition: Callable[[Frame, Reading], bool], what: str) -> Frame:
        """Read, five seconds of the agent's clock apart, until something shows."""

        def shown() -> Frame | None:
            self.clock.advance(5)
            reading = self.source.read()
            return reading.frames[0] if condition(reading.frames[0], reading) else None

        frame = until(shown, what)
        assert frame is not None
        return frame


@pytest.fixture
def node(fabric: Fabric, tmp_path: Path) -> Iterator[Node]:
    """The source on node02."""
    made = Node(tmp_path, fabric.perfquery())
    yield made
    made.source.close()


def test_counters_of_a_real_port(fabric: Fabric, node: Node) -> None:
    """Errors and 64-bit data that the fabric holds are in the frame."""
    fabric.set("SymbolErrorCounter", 123)
    fabric.set("LinkDownedCounter", 2)
    fabric.set("PortXmitWait", 4_000_000_000)
    fabric.set("PortXmitData", 1_234_567_890_123, "PortCountersExtended")
    frame = node.until(
        lambda f, _: (
            f.value("transmit_words", 0) is not None and f.value("symbol_errors", 0) is not None
        ),
        "counters",
    )
    assert frame.value("symbol_errors", 0) == 123
    assert frame.value("link_downed", 0) == 2
    assert frame.value("transmit_wait_ticks", 0) == 4_000_000_000
    assert (frame.value("transmit_words", 0) or 0) >= 1_234_567_890_123


def test_saturated_counters(fabric: Fabric, node: Node) -> None:
    """Counters at their end read as the maximum of the width the catalogue states, which is how
    they are known to be stuck.
    """
    for counter in (
        "SymbolErrorCounter",
        "LinkDownedCounter",
        "LocalLinkIntegrityErrors",
        "PortRcvErrors",
    ):
        fabric.set(counter, 99_999)
    frame = node.until(lambda f, _: f.value("symbol_errors", 0) is not None, "counters")
    for row in frame.schema.counters:
        if row.name in (
            "symbol_errors",
            "link_downed",
            "local_link_integrity_errors",
            "receive_errors",
        ):
            assert frame.value(row.name, 0) == 2**row.width - 1


def test_what_the_device_refuses_is_asked_once(fabric: Fabric, node: Node) -> None:
    """The simulated device has no extended speeds: ten minutes of asking for the
    other sets ask for it once.
    """
    node.until(lambda f, _: f.value("transmit_words", 0) is not None, "counters")
    for _ in range(10):
        before = len(fabric.starts())
        node.clock.advance(60)
        node.until(lambda *_: len(fabric.starts()) >= before + 2, "the next questions")  # noqa: B023 - called at once
    assert len([line for line in fabric.starts() if line.startswith("-T")]) == 1


def test_an_unlinked_port_is_not_asked(fabric: Fabric, node: Node) -> None:
    """While the port is down nothing is sent; when it is back its values are."""
    node.until(lambda f, _: f.value("transmit_words", 0) is not None, "counters")
    fabric.say(f"Unlink {NODE}")
    node.tree.state(1, 2, "ibsim0")
    node.source.read()
    node.settle()
    before = len(fabric.starts())
    for _ in range(60):
        node.clock.advance(5)
        frame = node.source.read().frames[0]
    assert len(fabric.starts()) == before
    assert frame.value("transmit_words", 0) is None
    fabric.say(f"ReLink {NODE}")
    until(lambda: "State: Active" in fabric.run("node02", "ibstat"), "the link")
    node.tree.state(4, 5, "ibsim0")
    node.until(
        lambda f, _: f.value("transmit_words", 0) is not None, "counters after the link came back"
    )


def test_an_answer_from_another_lid_is_not_taken(fabric: Fabric, tmp_path: Path) -> None:
    """Where /sys and the fabric disagree about the LID the answer is nobody's, and that is told."""
    node = Node(tmp_path, fabric.perfquery(), lid=9)
    frame = node.until(
        lambda _, r: any(u.reason == "perfquery_garbage" for u in r.unread), "the reason"
    )
    assert not frame.observed.any()
    node.source.close()


def test_a_perfquery_that_hangs(fabric: Fabric, tmp_path: Path) -> None:
    """With the fabric standing still perfquery hangs forever: it is ended, reads go on, and it
    answers again afterwards.
    """
    node = Node(tmp_path, fabric.perfquery(), perfquery_timeout_s=0.5)
    node.until(lambda f, _: f.value("transmit_words", 0) is not None, "counters")
    os.kill(fabric.simulator.process.pid, signal.SIGSTOP)
    node.clock.advance(60)
    frame = node.until(
        lambda _, r: any(u.reason == "perfquery_timeout" for u in r.unread), "the deadline"
    )
    assert frame.value("state", 0) == 4
    node.source.close()


def test_perfquery_on_a_node_without_a_device(fabric: Fabric, tmp_path: Path) -> None:
    """A perfquery that cannot open the device is a reason, not a healthy port."""
    program = tmp_path / "perfquery"
    program.write_text(
        f'#!/bin/sh\nexec {need("perfquery", "infiniband-diags")} "$@"\n'
    )  # without the preload: no device here
    program.chmod(0o755)
    node = Node(tmp_path, str(program))
    frame = node.until(
        lambda _, r: any(u.reason == "perfquery_no_answer" for u in r.unread), "the reason"
    )
    assert not frame.observed.any()
    node.source.close()


def test_eight_nodes_at_once(fabric: Fabric, tmp_path: Path) -> None:
    """Eight ports are asked side by side, each answers for itself by its own LID."""
    lids = dict(zip(NODES, (1, 4, 5, 6, 7, 8, 9, 10), strict=True))
    nodes = [Node(tmp_path / name, fabric.perfquery(name), lid=lid) for name, lid in lids.items()]
    fabric.set("SymbolErrorCounter", 77)
    for each in nodes:
        each.until(lambda f, _: f.value("symbol_errors", 0) is not None, "counters")
    found = {
        name: each.source.read().frames[0].value("symbol_errors", 0)
        for name, each in zip(NODES, nodes, strict=True)
    }
    assert found == {name: 77 if name == "node02" else 0 for name in NODES}
    for each in nodes:
        each.source.close()


def test_asking_raises_no_errors_in_the_fabric(fabric: Fabric, node: Node) -> None:
    """Ten minutes of asking leave PortRcvSwitchRelayErrors of the leaf's port where it was: we
    never ask a LID that is not there.
    """
    node.until(lambda f, _: f.value("transmit_words", 0) is not None, "counters")
    for _ in range(10):
        before = len(fabric.starts())
        node.clock.advance(60)
        node.until(lambda *_: len(fabric.starts()) > before, "the next question")  # noqa: B023 - called at once
    leaf = fabric.run("node02", need("perfquery", "infiniband-diags"), "2", "3")
    assert "PortRcvSwitchRelayErrors:........0" in leaf
