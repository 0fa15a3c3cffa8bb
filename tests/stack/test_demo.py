"""``make demo`` as a person runs it: it says what happens and what was told, and ends when it is told to."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.moto import free_port
from tests.sources import ROOT
from tests.wait import until

DAY = """\
title = "A short day"
lasts_s = 30
[[step]]
at_s = 10
fault = "gpu_lost@gpu2"
says = "GPU 2 falls off the bus."
look = "Seven GPUs answer."
"""


def test_the_demo_tells_the_day_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    """What fails, where to look, the incident with its next step, and a clean end that leaves no agent behind."""
    day, said = tmp_path / "day.toml", tmp_path / "said"
    day.write_text(DAY, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    argv = [sys.executable, "-u", str(ROOT / "tools" / "demo.py"), "--folder", str(tmp_path / "demo"), "--address", address]
    with said.open("wb") as output:
        demo = subprocess.Popen([*argv, "--day", str(day), "--speed", "5"], stdout=output, stderr=output, cwd=ROOT)
    try:
        until(lambda: "The day is over" in said.read_text() or demo.poll() is not None, "the end of the day", 90)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    finally:
        demo.kill()
    text = said.read_text()
    assert f"http://{address}/" in text
    assert "0:10  GPU 2 falls off the bus.\n       Look: Seven GPUs answer." in text
    assert re.search(r"TOCSIN  page: .*\n       Do: RESTART_BM\. ", text)
    assert re.search(r"tocsin explain [0-9a-f]{16} --storage.path", text)
    assert "msg=stopping" in (tmp_path / "demo" / "agent.log").read_text()


def test_a_demo_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The last words of the agent's log, not a trace of Python."""
    (tmp_path / "state").mkdir(parents=True)
    (tmp_path / "state" / "simulated").write_text("somebody's file")
    argv = [sys.executable, str(ROOT / "tools" / "demo.py"), "--folder", str(tmp_path), "--address", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "The agent ended. The last it said:" in done.stderr
    assert "Traceback" not in done.stderr.partition("The last it said:")[0]
