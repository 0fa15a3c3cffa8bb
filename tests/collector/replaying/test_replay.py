"""Replay says of stored observations what the agents said when they were live: of one node, of
many, and of a log not sealed yet.
"""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.replaying.rejudge import Rejudged, rejudge
from collector.replaying.stored import Span, stored
from pipeline.judged import JudgedObservation
from pipeline.plain import plain
from tests.collector.replaying.kept import SETTINGS, judge, keep, lived

# exit code, the lines as documents, and what was said beside them
Replayed = tuple[int, list[dict[str, object]], str]


def said(judged: list[JudgedObservation]) -> dict[str, list[list[Any]]]:
    """Findings by host, in their order, as plain values: NaN is unlike itself."""
    hosts: dict[str, list[list[Any]]] = {}
    for one in judged:
        hosts.setdefault(one.observation.host, []).extend(map(plain, one.findings))
    return hosts


@pytest.fixture(scope="module")
def live() -> list[JudgedObservation]:
    """What the one of two agents said whose GPU is lost."""
    (host,) = {finding.device.host for one in lived(2) for finding in one.findings}
    return [one for one in lived(2) if one.observation.host == host]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, live: list[JudgedObservation]) -> str:
    """The store of that one; nothing writes to it any more."""
    root = tmp_path_factory.mktemp("node") / "store"
    keep(root, live)
    return str(root)


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> list[Rejudged]:
    """Both, replayed from one folder."""
    root = tmp_path_factory.mktemp("nodes") / "store"
    keep(root, lived(2))
    return list(rejudge(stored(root, Span()), judge))


@pytest.mark.slow
def test_many_nodes_replayed_say_what_their_agents_said(again: list[Rejudged]) -> None:
    """Two nodes' files in one folder: findings of each node are the same, in the same
    order, and there are some.
    """
    assert said([one.now for one in again]) == said(lived(2))
    assert sum(len(one.findings) for one in lived(2)) > 0
    assert not any(one.differs for one in again)


@pytest.mark.slow
def test_incidents_are_the_same_too(again: list[Rejudged]) -> None:
    """What people were told of is what they would be told of."""
    reported = [one.incidents for one in lived(2) if one.incidents]
    assert [one.now.incidents for one in again if one.now.incidents] == reported != []


@pytest.mark.slow
def test_what_a_running_agent_has_not_sealed_is_replayed_too(
    tmp_path: Path, live: list[JudgedObservation]
) -> None:
    """The first half is in files, the second still in the log: everything
    comes once, in its order.
    """
    half = len(live) // 2
    keep(tmp_path / "store", live[:half])
    keep(tmp_path / "store", live[half:], sealed=False)
    seen = [one.observation.seq for one in stored(tmp_path / "store", Span())]
    assert seen == [one.observation.seq for one in live]


@pytest.mark.slow
def test_another_detectors_finding_is_a_difference(node: str) -> None:
    """Where detectors say another severity than was stored, the observations that say
    so are those that differ.
    """
    again = list(rejudge(stored(Path(node), Span()), lambda: judge(disabled=("availability",))))
    differ = {one.now.observation.seq for one in again if one.differs}
    severe = {
        one.now.observation.seq
        for one in again
        if any(
            now.severity != then.severity
            for now, then in zip(one.now.findings, one.then, strict=True)
        )
    }
    assert differ == severe != set()


def replayed(*argv: str) -> Replayed:
    """Exit code, the lines as documents, and what was said beside them."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["replay", *argv, *SETTINGS])
    return code, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()


@pytest.fixture(scope="module")
def whole(node: str) -> Replayed:
    """A replay of all that there is."""
    return replayed("--from", node)


@pytest.mark.slow
def test_the_command_prints_findings_as_json_lines(
    whole: Replayed, live: list[JudgedObservation]
) -> None:
    """A line per finding and per incident, each with its type; a count of all at the end."""
    code, lines, err = whole
    findings = [line for line in lines if line["type"] == "finding"]
    assert code == 0
    assert [line["id"] for line in findings] == [
        finding.id for one in live for finding in one.findings
    ]
    assert f"{len(findings)} findings" in err


@pytest.mark.slow
def test_only_the_detectors_that_were_asked_for_are_heard(node: str) -> None:
    """--detectors availability finds the lost GPUs, and nobody else says anything;
    severities off trial are its own.
    """
    _, lines, _ = replayed("--from", node, "--detectors", "availability", "--off-trial")
    assert {line["detector"] for line in lines if line["type"] == "finding"} == {"availability"}


@pytest.mark.slow
def test_what_a_site_declared_is_compared(node: str) -> None:
    """A driver version that no GPU of the node has is told of the node; without it all is well."""
    asked = ("--from", node, "--detectors", "drift")
    assert replayed(*asked)[1] == []
    _, lines, _ = replayed(*asked, "--detectors.drift.declared", "gpu.driver_version=1.2.3")
    assert [line["fault"] for line in lines if line["type"] == "finding"] == [
        "drift/gpu_driver_version"
    ]


@pytest.mark.slow
def test_a_comparison_of_the_same_detectors_finds_nothing(node: str) -> None:
    """--compare is silent and successful where live and replay agree, and
    fails where they do not.
    """
    code, lines, err = replayed("--from", node, "--compare")
    assert (code, lines) == (0, [])
    assert "0 differ" in err
    code, lines, _ = replayed("--from", node, "--compare", "--detectors", "straggler")
    assert code == 1
    assert {line["type"] for line in lines} == {"difference"}


@pytest.mark.slow
def test_detectors_learn_from_before_and_only_the_span_is_told(
    node: str, whole: Replayed, live: list[JudgedObservation]
) -> None:
    """With --warm-up what lies before --since is judged and not printed: the lines of the last
    forty minutes are those of the whole replay.
    """
    since = live[-1].observation.time_ns // 10**9 - 2400
    moment = datetime.fromtimestamp(since, UTC).isoformat()
    lines = replayed("--from", node, "--since", moment, "--warm-up", "1d")[1]
    findings = [line for line in lines if line["type"] == "finding"]
    assert findings == [
        line for line in whole[1] if line["type"] == "finding" and float(str(line["time"])) >= since
    ]
    assert findings


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--from", "/nowhere/at/all"], "--from: /nowhere/at/all does not exist"),
        (
            ["--from", "/tmp", "--detectors", "magic"],
            "--detectors: 'magic' is none of availability",
        ),
        (["--from", "/tmp", "--since", "soon"], "--since, --until:"),
        (
            ["--from", "/tmp", "--since", "2026-11-20T08:00", "--until", "2026-11-20T07:00"],
            "does not lie before",
        ),
    ],
)
def test_what_makes_no_sense_is_named(argv: list[str], message: str) -> None:
    """The option and the value, before anything is read."""
    code, _, err = replayed(*argv)
    assert code == 2
    assert message in err


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    """Nothing kept is a failure, not silence."""
    code, lines, err = replayed("--from", str(tmp_path))
    assert (code, lines) == (1, [])
    assert "0 observations of 0 nodes" in err
