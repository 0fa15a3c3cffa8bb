"""A case is explained from what the store has: rule, numbers, reference, next step, and a
picture of the evidence.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.cli.main import main
from detectors import PAGES
from pipeline.finding import Finding, Incident
from tests.collector.replaying.kept import keep, lived

pytestmark = pytest.mark.slow  # each makes a simulated node or a store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node one of whose GPUs was lost."""
    root = tmp_path_factory.mktemp("explained") / "store"
    keep(root, lived(1))
    return root


@pytest.fixture(scope="module")
def incident() -> Incident:
    """What people were told."""
    return next(incident for one in lived(1) for incident in one.incidents)


@pytest.fixture(scope="module")
def finding() -> Finding:
    """What the incident began with."""
    return next(finding for one in lived(1) for finding in one.findings)


def explained(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    code = main(["explain", *argv])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), captured.err


def test_an_incident_says_who_is_blamed_and_why(
    store: Path, incident: Incident, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its summary, the device to blame, the action and the reason for it."""
    code, text, _ = explained(capsys, incident.id, "--storage.path", str(store))
    assert code == 0
    for part in (
        incident.summary,
        incident.root.id,
        incident.action,
        incident.reason,
        incident.severity,
    ):
        assert " ".join(part.split()) in text


def test_every_finding_of_an_incident_is_there_with_its_evidence(
    store: Path, incident: Incident, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids, summaries and lines of evidence of all its findings, in the order of first evidence."""
    _, text, _ = explained(capsys, incident.id, "--storage.path", str(store))
    reported = [
        finding for one in lived(1) for finding in one.findings if finding.id in incident.findings
    ]
    for finding in reported:
        for part in (finding.id[:8], finding.summary, *finding.evidence):
            assert " ".join(part.split()) in text
    places = [
        text.index(f"finding {finding.id[:8]}")
        for finding in sorted(reported, key=lambda one: one.onset_ns)
    ]
    assert places == sorted(places)


ESCAPES = "\x1b]52;c;cm0gLXJm\x07\x9b2J\u202e\n"


def test_stored_text_writes_nothing_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Summaries, devices, reasons and evidence may quote what a job wrote; so may an error."""
    judged = [
        one._replace(
            findings=tuple(
                replace(f, evidence=(*f.evidence, ESCAPES), summary=f.summary + ESCAPES)
                for f in one.findings
            ),
            incidents=tuple(
                replace(i, summary=i.summary + ESCAPES, reason=i.reason + ESCAPES)
                for i in one.incidents
            ),
        )
        for one in lived(1)
    ]
    keep(tmp_path / "store", judged)
    for which in ("latest", "ffffffff"):
        main(["explain", which, "--storage.path", str(tmp_path / "store")])
    captured = capsys.readouterr()
    printed = (captured.out + captured.err).split("\n")
    assert sum("52;c;cm0gLXJm" in line for line in printed) >= 3
    assert all(line.isprintable() for line in printed)


def test_latest_is_the_incident_that_opened_last(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No id has to be copied; ids are shown short."""
    newest = max((one for lives in lived(1) for one in lives.incidents), key=_opened)
    code, text, _ = explained(capsys, "latest", "--storage.path", str(store))
    assert (code, text.startswith(f"Incident {newest.id[:8]}: ")) == (0, True)
    assert newest.id not in text


def test_latest_of_a_store_without_incidents_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no error of the command line: exit code 1."""
    code, _, err = explained(capsys, "latest", "--storage.path", str(tmp_path))
    assert (code, "the store has no incident" in err) == (1, True)


def _opened(incident: Incident) -> tuple[int, str]:
    return incident.opened_ns, incident.id


def test_a_finding_brings_the_rule_of_its_detector(
    store: Path, finding: Finding, capsys: pytest.CaptureFixture[str]
) -> None:
    """Formula, source and next step are those of the detector's page; the
    beginning of an id is enough.
    """
    _, text, _ = explained(capsys, finding.id[:10], "--storage.path", str(store))
    page = PAGES[finding.detector]
    for part in (
        page.formula,
        *page.sources,
        page.next_step,
        f"docs/detectors.md#{finding.detector}",
    ):
        assert " ".join(part.split()) in text


def test_the_plot_shows_the_columns_that_were_judged(
    store: Path, finding: Finding, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A well-formed SVG with a panel per column of the page that has a height."""
    file = tmp_path / "evidence.svg"
    assert explained(capsys, finding.id, "--storage.path", str(store), "--plot", str(file))[0] == 0
    words = {element.text for element in ET.parse(file).getroot().iter()}  # noqa: S314 - written by the code under test
    assert any(word and word.startswith("power_watts") for word in words)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["ffffffff"], 1, "no incident or finding 'ffffffff'; the newest: "),
        ([""], 1, "several have an id that begins with ''"),
        (["ab", "--plot", "evidence.png"], 2, "--plot: evidence.png does not end in .svg"),
    ],
)
def test_what_is_not_there_is_named(
    argv: Sequence[str], code: int, message: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what there is instead."""
    found, _, err = explained(capsys, *argv, "--storage.path", str(store))
    assert (found, message in err) == (code, True)


def test_a_store_that_does_not_exist_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    """The setting is named."""
    assert explained(capsys, "ab", "--storage.path", "/nowhere/at/all")[0] == 2
