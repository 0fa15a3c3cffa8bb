"""Tickets of a site become labels, of incidents without a ticket too."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.config.error import ConfigError
from collector.control import Control
from detectors.trust import ledger
from history.labels import stored, tickets
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.store.query.file_store import ChangingError
from pipeline.store.query.store import Store
from pipeline.store.remote.objects import RefusedError
from tests.pipeline.store.stored import store_events

pytestmark = pytest.mark.slow  # imports polars

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def incident(name: str, host: str, hours: float, severity: str = "page") -> dict[str, Any]:
    """A row of the store."""
    return {
        "id": name,
        "host": host,
        "device_kind": "gpu",
        "device": f"GPU-{host}",
        "fault": "straggler/slow",
        "severity": severity,
        "opened": BEGIN + timedelta(hours=hours),
        "detectors": ["straggler"],
    }


def read(folder: Path, text: str) -> list[Any]:
    """Tickets of a file."""
    path = folder / "tickets.csv"
    path.write_text(text)
    return tickets.read(path)


TICKETS = f"""node,opened,closed,cause,verdict
n1,{(BEGIN + timedelta(hours=10)).isoformat()},{(BEGIN + timedelta(hours=20)).isoformat()},RMA,
n2,{(BEGIN + timedelta(hours=50)).isoformat()},,nothing found,FALSE
"""


def test_an_incident_gets_the_verdict_of_the_ticket_of_its_node(tmp_path: Path) -> None:
    """Those in the time of the file without one get the verdict on the rest; what an operator has
    labelled stays, and what only was recorded is no alert.
    """
    rows = [
        incident("a", "n1", 9),
        incident("b", "n1", 21),
        incident("c", "n2", 49),
        incident("d", "n3", 12),
        incident("e", "n3", 12, "record"),
        incident("f", "n3", 500),
        incident("g", "n1", 9),
    ]
    found = list(tickets.requests(read(tmp_path, TICKETS), rows, {"g"}, "unclear"))
    verdicts = {one["about"]["incident"]: (one["verdict"], one["cause"]) for one in found}
    assert verdicts == {
        "a": ("real", "RMA"),
        "b": ("unclear", "no ticket"),
        "c": ("false", "nothing found"),
        "d": ("unclear", "no ticket"),
    }
    about = found[0]["about"]
    assert about["opened_ns"] == round(rows[0]["opened"].timestamp()) * 10**9
    assert about["detectors"] == ["straggler"]
    assert len(list(tickets.requests(read(tmp_path, TICKETS), rows, set(), "none"))) == 3


def test_a_ticket_may_have_the_short_name_of_its_node(tmp_path: Path) -> None:
    """Where one node alone has it; an incident of no node has no ticket."""
    rows = [incident("a", "n1.example.org", 9), incident("b", "", 49)]
    found = tickets.requests(read(tmp_path, TICKETS), rows, set(), "unclear")
    assert [(one["about"]["incident"], one["verdict"]) for one in found] == [
        ("a", "real"),
        ("b", "unclear"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node,opened,verdict\nn1,0,perhaps\n", "line 2: verdict"),
        ("node,opened\nn1,soon\n", "line 2: opened"),
        ("opened\n0\n", "no column 'node'"),
        ('node,opened\n"n1,0\n', "line 2: opened"),
    ],
)
def test_a_wrong_file_of_tickets_is_refused_with_line_and_column(
    text: str, words: str, tmp_path: Path
) -> None:
    """And nothing is labelled."""
    with pytest.raises(ConfigError, match=re.escape(words)):
        read(tmp_path, text)


def test_labels_that_precision_wrote_are_read_back(tmp_path: Path) -> None:
    """As requests for another agent."""
    path = tmp_path / "labels.csv"
    path.write_text(
        "incident,verdict,detectors,device,class,opened_ns,cause,user\n"
        "i1,false,straggler xid,n1/gpu/GPU-1,slow,5,,ada\n"
    )
    (request,) = tickets.labels(path)
    assert request == {
        "verdict": "false",
        "cause": "",
        "about": {
            "incident": "i1",
            "host": "n1",
            "kind": "gpu",
            "device": "GPU-1",
            "class": "slow",
            "detectors": ["straggler", "xid"],
            "opened_ns": 5,
        },
    }
    path.write_text("incident,verdict\n")
    with pytest.raises(ConfigError, match="no column 'detectors'"):
        list(tickets.labels(path))


def test_a_label_that_is_refused_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one of a detector that the agent's version does not have; the exit code is 1."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        about = request["about"]
        if about["detectors"] == ["retired"]:
            raise ValueError("about.detectors: expected names of detectors")
        return {"incident": about["incident"], "detector": "xid", "changes": []}

    rows_of = ("a", "xid"), ("b", "retired"), ("c", "xid")
    head = "incident,verdict,detectors,device,class,opened_ns,cause\n"
    rows = (f"{name},real,{of},n1/gpu/GPU-1,slow,5,\n" for name, of in rows_of)
    (tmp_path / "labels.csv").write_text(head + "".join(rows))
    control = Control(tmp_path, answer)
    argv = ["--labels", str(tmp_path / "labels.csv"), "--storage.path", str(tmp_path)]
    assert main(["label", *argv]) == 1
    control.close()
    done = capsys.readouterr()
    assert done.out.endswith("incident c of xid: real\n2 incidents labelled, 1 refused\n")
    assert done.err == "tocsin: b: about.detectors: expected names of detectors\n"


def test_a_store_has_as_many_labels_as_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One agent keeps MAX_LABELS in memory; those of a fleet are more, and none is left out."""
    monkeypatch.setattr(ledger, "MAX_LABELS", 2)
    facts: dict[str, str | int] = {"verdict": "real", "detectors": "xid", "class": "gpu_lost"}
    labels = [
        Event(
            10**18 + n,
            0,
            Device("n1", "gpu", f"GPU-{n}"),
            "incident_labelled",
            facts | {"incident": name},
        )
        for n, name in enumerate("abca")
    ]
    store_events(tmp_path, labels)
    assert list(stored.ledger_of(Store(tmp_path)).labels) == ["a", "b", "c"]


@pytest.mark.parametrize("error", [ChangingError("ask again"), RefusedError("denied", "403")])
def test_a_store_that_does_not_answer_is_one_line(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And exit code 1, no trace."""

    def refused(_store: object) -> None:
        raise error

    monkeypatch.setattr(stored, "ledger_of", refused)
    read(tmp_path, TICKETS)
    path = str(tmp_path / "tickets.csv")
    assert main(["label", "--tickets", path, "--storage.path", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"tocsin: {error}\n"
