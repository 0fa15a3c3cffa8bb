"""The living simulation: it writes by the clock, takes faults on its socket, and nothing
said to it there stops it.
"""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import ItemsView, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from collector.control import MAX_LINE, Control, request
from simulator.nvml_client import open_client
from simulator.simulate import inject, simulate, status
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.slow  # each makes a simulated node or a store


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """The directory of a simulation that lives sixty times as fast as the clock."""
    # longer than a socket's address may be
    stop, directory = Event(), tmp_path / ("long" * 40) / "node"
    thread = Thread(
        target=simulate, args=(directory, "gb200"), kwargs={"seed": 1, "speed": 60.0, "stop": stop}
    )
    thread.start()
    try:
        until((directory / "ready").exists, "the simulation")
        yield directory
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert not (directory / "ready").exists()
    assert not (directory / "control.sock").exists()


def _send(directory: Path, raw: bytes) -> dict[str, object]:
    folder = os.open(directory, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(f"/proc/self/fd/{folder}/control.sock")
        os.close(folder)
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        answer: dict[str, object] = json.loads(client.makefile("rb").readline())
    return answer


def test_it_lives(running: Path) -> None:
    """Energy grows while it runs, with no one asking."""
    nvml = open_client(running)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    first = nvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    until(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) > first, "energy")


def test_faults_are_injected_while_it_runs(running: Path) -> None:
    """An injection is answered with what it does, and shows in the kernel log and in the status."""
    assert inject(running, "gpu_lost@gpu2") == {
        "spec": "gpu_lost@gpu2",
        "targets": ["gpu2"],
        "delay_s": 0.0,
    }
    until(lambda: "fallen off the bus" in (running / "dev/kmsg").read_text(), "the kernel line")
    faults = status(running)["faults"]
    assert [(f["spec"], f["target"], f["acting"]) for f in faults] == [
        ("gpu_lost@gpu2", "gpu2", True)
    ]


def test_refused_fault_says_why(running: Path) -> None:
    """The client raises the simulation's words."""
    with pytest.raises(ValueError, match="no target 'gpu7'"):
        inject(running, "gpu_lost@gpu7")


def test_socket_is_for_its_owner_alone(running: Path) -> None:
    """Its mode lets no one else connect."""
    assert stat.S_IMODE((running / "control.sock").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"hello\n",
        b"\xff\xfe\x00\n",
        b"[]\n",
        b"null\n",
        b'{"command": "inject"}\n',
        b'{"command": "inject", "spec": 7}\n',
        b'{"command": "inject", "spec": "' + b"x" * 5000 + b'"}\n',
        b'{"command": "format"}\n',
        b'{"command": ["inject"]}\n',
        b"[" * 50_000 + b"\n",
        b"x" * (MAX_LINE + 10_000),
    ],
)
def test_garbage_on_the_socket_is_refused_and_survived(running: Path, raw: bytes) -> None:
    """Whatever is said, the answer is an error and the next request is served."""
    try:
        answer = _send(running, raw)
    except (BrokenPipeError, ConnectionResetError):
        assert len(raw) > MAX_LINE  # cut off while it was still talking
    else:
        assert answer["ok"] is False
        assert answer["error"]
    assert status(running)["profile"] == "gb200"


def test_no_simulation_is_a_connection_error(tmp_path: Path) -> None:
    """The message names the directory."""
    with pytest.raises(ConnectionError, match="no simulation is running in"):
        inject(tmp_path, "oom_kill")


def test_silent_client_does_not_block_others_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that connects and says nothing is dropped after a moment."""
    monkeypatch.setattr("collector.control.PATIENCE_S", 0.05)
    control = Control(tmp_path, lambda message: {"echo": message["say"]})
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(tmp_path / "control.sock"))
        assert request(tmp_path, {"say": "hello"}) == {"echo": "hello"}
    control.close()


def test_who_goes_without_an_answer_is_named(tmp_path: Path) -> None:
    """An agent that is killed in between is no broken document."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "control.sock"))
        server.listen()

        def leaves() -> None:
            client, _ = server.accept()
            with client:
                client.recv(MAX_LINE)

        thread = Thread(target=leaves)
        thread.start()
        with pytest.raises(ConnectionError, match=r"the agent in .* ended before it answered"):
            request(tmp_path, {"say": "hello"}, what="agent")
        thread.join()


def test_who_speaks_too_late_hears_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a node without a free core a command may be dropped before it has said what it wants."""

    class Late(dict[str, str]):
        def items(self) -> ItemsView[str, str]:  # type: ignore[override] # dict_items has no public name
            assert request(tmp_path, {"say": "hello"}) == {
                "echo": "hello"
            }  # one client at a time: by now the first was dropped
            return super().items()

    monkeypatch.setattr("collector.control.PATIENCE_S", 0.05)
    control = Control(tmp_path, lambda message: {"echo": message["say"]})
    with pytest.raises(ValueError, match="timed out"):
        request(tmp_path, Late(say="too late"))
    control.close()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"profile": "dgx"}, "no profile"),
        ({"inject": ["melt@gpu0"]}, "no fault"),
        ({"speed": 0.0}, "speed must be"),
    ],
)
def test_mistakes_at_start_write_nothing(
    tmp_path: Path, bad: dict[str, object], message: str
) -> None:
    """Profile, faults and speed are checked before the directory is made."""
    arguments: dict[str, object] = {"profile": "gb200", "stop": Event(), **bad}
    with pytest.raises(ValueError, match=message):
        simulate(tmp_path / "node", **arguments)  # type: ignore[arg-type] # the point is what happens to wrong ones
    assert not (tmp_path / "node").exists()
