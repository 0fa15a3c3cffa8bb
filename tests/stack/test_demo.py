"""``make demo`` as a user runs it: what it prints, how it ends, and why it cannot start."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from simulator.simulate import inject
from tests.ports import free_port
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

DAY = """\
title = "A short day"
lasts_s = 30
[[step]]
at_s = 10
fault = "gpu_lost@gpu2"
says = "GPU 2 falls off the bus."
look = "Seven GPUs answer."
"""


GPU_5 = re.compile(r"TOCSIN  page: [^:]*GPU 5[^:]*: ")


def _argv(folder: Path, address: str, *more: str) -> list[str]:
    demo = str(ROOT / "tools" / "demo.py")
    return [sys.executable, "-u", demo, "--folder", str(folder), "--address", address, *more]


@pytest.mark.slow
def test_the_demo_prints_the_day_and_goes_on_until_ctrl_c(tmp_path: Path) -> None:
    """Each fault and where to look, each incident with its device and next step, faults that are
    injected after the day, and a clean end that leaves no agent behind.
    """
    day, output, folder = tmp_path / "day.toml", tmp_path / "output", tmp_path / "demo"
    day.write_text(DAY, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    with output.open("wb") as file:
        demo = subprocess.Popen(
            _argv(folder, address, "--day", str(day), "--speed", "5"),
            stdout=file,
            stderr=file,
            cwd=ROOT,
        )

    def wait_for(text: str) -> None:
        until(lambda: text in output.read_text() or demo.poll() is not None, text)

    try:
        wait_for("The day is over")
        inject(folder / "state" / "simulated", "gpu_lost@gpu5")
        wait_for("FAULT   injected: gpu_lost@gpu5")
        until(lambda: GPU_5.search(output.read_text()) or demo.poll() is not None, "an alert")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE_S) == 0
    finally:
        demo.kill()
    text = output.read_text()
    assert f"http://{address}/" in text
    assert "0:10  FAULT   GPU 2 falls off the bus.\n       Look: Seven GPUs answer." in text
    assert re.search(r"TOCSIN  page: GPU 2: .*\n       Do: RESTART_BM\. ", text)
    assert GPU_5.search(text)
    assert re.search(r"tocsin explain [0-9a-f]{8} --storage.path", text)
    assert "msg=stopping" in (folder / "agent.log").read_text()


@pytest.mark.slow
def test_an_agent_that_listens_on_every_interface_is_asked_on_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`make demo ADDRESS=:9400` is for a browser on another machine; http://:9400 has no host."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    url_of = import_module("demo_terminal").url_of
    assert url_of(":9400") == "http://127.0.0.1:9400"
    assert url_of("gpu1:9400") == "http://gpu1:9400"


@pytest.mark.slow
def test_a_port_in_use_names_the_variable_to_set(tmp_path: Path) -> None:
    """Before anything is started or removed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        argv = _argv(tmp_path / "demo", address)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, (tmp_path / "demo").exists()) == (1, False)
    assert done.stderr == (
        f"make demo: {address} is in use, by another exporter or demo. "
        "Choose another: make demo ADDRESS=127.0.0.1:9401\n"
    )


@pytest.mark.slow
def test_a_day_that_does_not_exist_lists_those_there_are(tmp_path: Path) -> None:
    """In one line."""
    argv = _argv(tmp_path, f"127.0.0.1:{free_port()}", "--day", "worst")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "no day 'worst'; there are bad, " in done.stderr


@pytest.mark.slow
def test_make_demo_says_what_it_does_before_it_installs(tmp_path: Path) -> None:
    """The first line of output comes before the first command that takes time."""
    argv = ["make", "-n", "demo", f"VENV={tmp_path}/venv", "ADDRESS=127.0.0.1:9999"]
    # What a make that runs this test says to its children is not for this one.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd=ROOT, env=environ
    )
    first = done.stdout.splitlines()[0]
    assert first.startswith("echo")
    assert "127.0.0.1:9999" in first


@pytest.mark.slow
def test_a_demo_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The last words of the agent's log, not a trace of Python."""
    (tmp_path / "state").mkdir(parents=True)
    (tmp_path / "state" / "simulated").write_text("somebody's file")
    argv = _argv(tmp_path, f"127.0.0.1:{free_port()}")
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT
    )
    assert done.returncode == 1
    before, ended, _ = done.stderr.partition("The agent ended. The end of its log, ")
    assert (before, bool(ended)) == ("", True)
