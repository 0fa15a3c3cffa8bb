"""A real agent's findings are found again in what it kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.cli.main import main
from tests.agents import AgentProcess


@pytest.mark.slow
def test_live_and_replayed_findings_are_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU falls off the bus; the agent finds it, stops, and replay of its store finds the
    same, no more and no less.
    """
    store = tmp_path / "s"
    with AgentProcess(store, "--simulate", "hgx-h100").ready() as agent:
        assert main(["simulate", str(store / "simulated"), "--inject", "xid@gpu2:code=79"]) == 0
        agent.until(lambda: "fallen off the bus" in agent.log, what="the agent to find it")
        assert agent.stop() == 0
    capsys.readouterr()
    assert main(["replay", "--from", str(store)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "xid" in {line["detector"] for line in lines if line["type"] == "finding"}
    assert main(["replay", "--from", str(store), "--compare"]) == 0
    assert "0 differ" in capsys.readouterr().err
