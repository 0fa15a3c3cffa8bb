"""Replay says of stored observations what the agents said when they were live: of one node, of
many, and of a log not sealed yet.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.replaying.rejudge import rejudge
from collector.replaying.stored import Span, stored
from pipeline.judged import JudgedObservation
from pipeline.plain import plain
from tests.collector.replaying.kept import SETTINGS, judge, keep, lived


def said(judged: list[JudgedObservation]) -> dict[str, list[list[Any]]]:
    """Findings by host, in their order, as plain values: NaN is unlike itself."""
    hosts: dict[str, list[list[Any]]] = {}
    for one in judged:
        hosts.setdefault(one.observation.host, []).extend(map(plain, one.findings))
    return hosts


@pytest.mark.slow
def test_many_nodes_replayed_say_what_their_agents_said(tmp_path: Path) -> None:
    """Two nodes' files in one folder: findings of each node are the same, in the same
    order, and there are some.
    """
    live = lived(2)
    keep(tmp_path / "store", live)
    again = list(rejudge(stored(tmp_path / "store", Span()), judge))
    assert said([one.now for one in again]) == said(live)
    assert sum(len(one.findings) for one in live) > 0
    assert not any(one.differs for one in again)


@pytest.mark.slow
def test_incidents_are_the_same_too(tmp_path: Path) -> None:
    """What people were told of is what they would be told of."""
    live = lived(1)
    keep(tmp_path / "store", live)
    again = [one.now for one in rejudge(stored(tmp_path / "store", Span()), judge)]
    assert [one.incidents for one in again if one.incidents] == [
        one.incidents for one in live if one.incidents
    ]


@pytest.mark.slow
def test_what_a_running_agent_has_not_sealed_is_replayed_too(tmp_path: Path) -> None:
    """The first half is in files, the second still in the log: everything
    comes once, in its order.
    """
    live = lived(1)
    half = len(live) // 2
    keep(tmp_path / "store", live[:half])
    keep(tmp_path / "store", live[half:], sealed=False)
    seen = [one.observation.seq for one in stored(tmp_path / "store", Span())]
    assert seen == [one.observation.seq for one in live]


@pytest.mark.slow
def test_another_detectors_finding_is_a_difference(tmp_path: Path) -> None:
    """Where detectors say another severity than was stored, the observations that say
    so are those that differ.
    """
    live = lived(1)
    keep(tmp_path / "store", live)
    again = list(
        rejudge(stored(tmp_path / "store", Span()), lambda: judge(disabled=("availability",)))
    )
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


def replayed(
    capsys: pytest.CaptureFixture[str], *argv: str
) -> tuple[int, list[dict[str, object]], str]:
    """Exit code, the lines as documents, and what was said beside them."""
    code = main(["replay", *argv])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


@pytest.mark.slow
def test_the_command_prints_findings_as_json_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line per finding and per incident, each with its type; a count of all at the end."""
    keep(tmp_path / "store", lived(1))
    code, lines, err = replayed(capsys, "--from", str(tmp_path / "store"), *SETTINGS)
    findings = [line for line in lines if line["type"] == "finding"]
    assert code == 0
    assert [line["id"] for line in findings] == [
        finding.id for one in lived(1) for finding in one.findings
    ]
    assert f"{len(findings)} findings" in err


@pytest.mark.slow
def test_only_the_detectors_that_were_asked_for_are_heard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--detectors availability finds the lost GPUs, and nobody else says anything;
    severities off trial are its own.
    """
    keep(tmp_path / "store", lived(1))
    _, lines, _ = replayed(
        capsys,
        "--from",
        str(tmp_path / "store"),
        "--detectors",
        "availability",
        "--off-trial",
        *SETTINGS,
    )
    assert {line["detector"] for line in lines if line["type"] == "finding"} == {"availability"}


@pytest.mark.slow
def test_what_a_site_declared_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A driver version that no GPU of the node has is told of the node; without it all is well."""
    keep(tmp_path / "store", lived(1))
    asked = ("--from", str(tmp_path / "store"), "--detectors", "drift", *SETTINGS)
    assert replayed(capsys, *asked)[1] == []
    _, lines, _ = replayed(capsys, *asked, "--detectors.drift.declared", "gpu.driver_version=1.2.3")
    assert [line["fault"] for line in lines if line["type"] == "finding"] == [
        "drift/gpu_driver_version"
    ]


@pytest.mark.slow
def test_a_comparison_of_the_same_detectors_finds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--compare is silent and successful where live and replay agree, and
    fails where they do not.
    """
    keep(tmp_path / "store", lived(1))
    code, lines, err = replayed(capsys, "--from", str(tmp_path / "store"), "--compare", *SETTINGS)
    assert (code, lines) == (0, [])
    assert "0 differ" in err
    code, lines, _ = replayed(
        capsys,
        "--from",
        str(tmp_path / "store"),
        "--compare",
        "--detectors",
        "straggler",
        *SETTINGS,
    )
    assert code == 1
    assert {line["type"] for line in lines} == {"difference"}


@pytest.mark.slow
def test_detectors_learn_from_before_and_only_the_span_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --warm-up what lies before --since is judged and not printed: the last hour's lines are
    those of the whole replay.
    """
    keep(tmp_path / "store", lived(1))
    since = lived(1)[-1].observation.time_ns // 10**9 - 3600
    whole = [
        line
        for line in replayed(capsys, "--from", str(tmp_path / "store"), *SETTINGS)[1]
        if line["type"] == "finding"
    ]
    moment = datetime.fromtimestamp(since, UTC).isoformat()
    argv = ("--from", str(tmp_path / "store"), "--since", moment, "--warm-up", "1d", *SETTINGS)
    lines = [line for line in replayed(capsys, *argv)[1] if line["type"] == "finding"]
    assert lines == [line for line in whole if float(str(line["time"])) >= since]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--from", "/nowhere/at/all"], "--from: /nowhere/at/all does not exist"),
        (
            ["--from", "/tmp", "--detectors", "magic"],
            "--detectors: 'magic' is none of availability",
        ),
        (["--from", "/tmp", "--since", "soon"], "--since, --until, --warm-up:"),
        (
            ["--from", "/tmp", "--since", "2026-11-20T08:00", "--until", "2026-11-20T07:00"],
            "does not lie before",
        ),
    ],
)
def test_what_makes_no_sense_is_named(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option and the value, before anything is read."""
    assert main(["replay", *argv]) == 2
    assert message in capsys.readouterr().err


def test_an_empty_folder_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing kept is a failure, not silence."""
    code, lines, err = replayed(capsys, "--from", str(tmp_path))
    assert (code, lines) == (1, [])
    assert "0 observations of 0 nodes" in err
