"""Exit codes and lines of each format: what is documented is what schedulers and monitors get."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.cli import main
from tests.collector.integrations.answers import LOST, Agent, document
from tests.sources import ROOT
from tests.wait import PATIENCE_S

TICKET = document(LOST | {"severity": "ticket"})
PAGE = document(LOST)
OK = document()
BLIND = document(LOST, verdict="unknown", reason="no fresh readings of gpu")
OUT = document(LOST, out_of_service="new firmware")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """A listening one."""
    with Agent(tmp_path, OK) as one:
        yield one


def check(agent: Agent, form: str, answer: dict[str, Any]) -> int:
    """Exit code of a format for an answer."""
    agent.answer = answer
    return main(["check", "--agent", str(agent.root), "--format", form])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "codes"),
    [
        ("json", {"ok": 0, "ticket": 1, "page": 1, "blind": 2, "out": 1}),
        ("nagios", {"ok": 0, "ticket": 1, "page": 2, "blind": 3, "out": 0}),
        ("npd", {"ok": 0, "ticket": 0, "page": 1, "blind": 2, "out": 0}),
        ("nhc", {"ok": 0, "ticket": 0, "page": 1, "blind": 0, "out": 0}),
        ("slurm", {"ok": 0, "ticket": 0, "page": 0, "blind": 0, "out": 0}),
    ],
)
def test_exit_codes(
    agent: Agent, form: str, codes: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/integrations.md has them; whatever it is, one line is printed."""
    answers = {"ok": OK, "ticket": TICKET, "page": PAGE, "blind": BLIND, "out": OUT}
    for name, answer in answers.items():
        answer["gates"]["slurm"]["drain"] = False
        assert (name, check(agent, form, answer)) == (name, codes[name])
        assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("form", "code"), [("json", 2), ("nagios", 3), ("npd", 2), ("nhc", 0), ("slurm", 0)]
)
def test_an_agent_that_is_down_is_unknown(
    tmp_path: Path, form: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a problem of the node."""
    assert main(["check", "--agent", str(tmp_path), "--format", form]) == code
    assert "no agent is running in" in capsys.readouterr().out or form == "npd"


@pytest.mark.parametrize(
    "answer",
    [
        {"verdict": "ok"},
        PAGE | {"verdict": "fine"},
        PAGE | {"incidents": [{}]},
        PAGE | {"gates": {"slurm": {"drain": True}}},
        PAGE | {"parts": [7]},
    ],
    ids=[
        "half",
        "another word",
        "an incident without words",
        "half a policy",
        "a part that is a number",
    ],
)
def test_an_answer_that_cannot_be_understood_is_unknown(
    agent: Agent, answer: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent of another version, or somebody in its place."""
    assert check(agent, "json", answer) == 2
    assert json.loads(capsys.readouterr().out)["verdict"] == "unknown"


def test_nagios_names_the_part_and_the_cause(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the form of its plug-ins, performance data behind the bar."""
    check(agent, "nagios", document(LOST | {"summary": "a | b"}))
    assert capsys.readouterr().out == "TOCSIN CRITICAL - GPU 3: gpu_lost: a / b | incidents=1\n"


def test_npd_fits_its_eighty_characters(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    """What node-problem-detector would cut is cut here, behind the part and the class."""
    check(agent, "npd", document(LOST, LOST | {"id": "2", "severity": "ticket"}))
    said = capsys.readouterr().out.rstrip("\n")
    assert said.startswith("GPU 3: gpu_lost (+1): The driver has lost")
    assert len(said) == 80


def test_json_keeps_what_is_for_the_gate_to_itself(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict and the incidents; neither parts nor permissions."""
    check(agent, "json", PAGE)
    assert json.loads(capsys.readouterr().out).keys() & {
        "parts",
        "silent",
        "gates",
        "incidents",
        "verdict",
    } == {"incidents", "verdict"}


def test_an_answer_over_http_allows_nothing(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anybody on the node could have listened on that port while the agent was down: it is shown,
    and no controller is asked.
    """
    from http.server import BaseHTTPRequestHandler, HTTPServer  # noqa: PLC0415 - this test alone serves HTTP
    from threading import Thread  # noqa: PLC0415

    class Liar(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(PAGE).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Liar) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        code = main(
            [
                "check",
                "--agent",
                f"http://127.0.0.1:{server.server_address[1]}",
                "--format",
                "slurm",
            ]
        )
        thread.join()
    assert (code, capsys.readouterr().out) == (0, f"tocsin: problem: {LOST['summary']}\n")
    assert not (agent.root / "gate.json").exists()


@pytest.mark.slow
def test_a_check_of_a_well_node_imports_little(agent: Agent) -> None:
    """It is started on every node of a cluster every few minutes: no settings, no
    arrays, no HTTP, no processes.
    """
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from collector.cli import main; "
        "main(sys.argv[1:]); print(*sys.modules)"
    )
    argv = [
        sys.executable,
        "-I",
        "-c",
        code,
        "check",
        "--agent",
        str(agent.root),
        "--format",
        "slurm",
    ]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    heavy = {
        "dataclasses",
        "msgspec",
        "numpy",
        "yaml",
        "aiohttp",
        "http.client",
        "subprocess",
        "ssl",
        "logging",
        "asyncio",
        "pipeline.catalog",
    }
    assert heavy & set(ran.stdout.split()) == set()
