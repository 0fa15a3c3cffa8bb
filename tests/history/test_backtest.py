"""What would have alerted on a history, beside what the site knew."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.config.error import ConfigError
from detectors import PAGES
from detectors.paging import PROVED
from evaluation.metrics.intervals import poisson_interval
from history.backtest import forms, known
from history.backtest.figures import BUDGET, by_detector, candidates, proves
from history.backtest.judged import MAX_STEP_NS, MONTH_S, Alert, History, judged
from history.backtest.known import Known
from history.backtest.report import sections
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident, Severity
from pipeline.frame import Device, frame_of
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation

pytestmark = pytest.mark.slow

BEGIN_NS = 1_795_266_000 * SECOND_NS
HOUR_NS = 3600 * SECOND_NS
SHADOW = min(set(PAGES) - PROVED)
HOSTILE = '<script>alert("x")</script>|[y](javascript:z)\n&'


def seen(
    at_ns: int, *severities: Severity, host: str = "n1", detector: str = "xid", gpus: int = 2
) -> JudgedObservation:
    """One read of a node, and an incident as it was at the time in each of these severities."""
    devices = [Device(host, "gpu", f"GPU-{host}-{i}") for i in range(gpus)]
    values: dict[str, float | int | None] = {"power_milliwatts": 400_000}
    frame = frame_of("gpu", [(device, values) for device in devices], at_ns, at_ns)
    observation = Observation("nvml", host, "b", at_ns // SECOND_NS, at_ns, at_ns, 0, (frame,))
    findings, incidents = [], []
    for severity in severities:
        finding = Finding(
            detector, devices[0], f"{detector}/x", "onset", severity, at_ns, at_ns, HOSTILE
        )
        findings.append(finding)
        incidents.append(
            Incident(
                f"i-{host}",
                devices[0],
                f"{detector}/x",
                severity,
                "NONE",
                at_ns,
                (finding.id,),
                HOSTILE,
            )
        )
    return JudgedObservation(observation, tuple(findings), tuple(incidents))


def reads(seconds: Iterator[int] | range, host: str = "n1") -> list[JudgedObservation]:
    """Reads without a finding."""
    return [seen(BEGIN_NS + s * SECOND_NS, host=host) for s in seconds]


def test_gpu_months_count_the_time_in_which_gpus_were_watched() -> None:
    """Two GPUs for an hour at 15 s; a gap of a day counts as five minutes, the lookback."""
    history = judged(reads(range(0, 3601, 15)))
    assert history.gpu_months == pytest.approx(2 * 3600 / MONTH_S)
    gap = judged([*reads(range(0, 3601, 15)), *reads(range(90_000, 93_601, 15))])
    wanted = 2 * (2 * 3600 + MAX_STEP_NS / SECOND_NS) / MONTH_S
    assert gap.gpu_months == pytest.approx(wanted)


def test_an_incident_is_one_alert_as_urgent_as_it_ever_was() -> None:
    """Who was paged stays paged; what is only recorded is no alert."""
    one = [seen(BEGIN_NS + i * SECOND_NS, s) for i, s in enumerate(("ticket", "page", "record"))]  # type: ignore[arg-type]
    history = judged(one)
    assert [alert.severity for alert in history.alerts] == ["page"]
    assert not judged([seen(BEGIN_NS, "record")]).alerts


def test_what_alerts_as_installed_is_counted_apart() -> None:
    """A detector in shadow mode would not have alerted."""
    history = judged([seen(BEGIN_NS, "page"), seen(BEGIN_NS, "page", host="n2", detector=SHADOW)])
    assert [(alert.detectors, alert.installed) for alert in history.alerts] == [
        (("xid",), True),
        ((SHADOW,), False),
    ]
    summary = sections(history, None)[0].sentences
    assert "As installed: 1 page, 0 tickets." in summary
    assert "With every detector allowed to alert: 2 pages, 0 tickets." in summary


def test_what_so_much_history_can_prove_is_said() -> None:
    """Nothing found in a GPU-month proves little."""
    history = judged(reads(range(0, 3601, 15)))
    assert proves(history.gpu_months) > BUDGET
    text = forms.markdown(sections(history, None))
    assert f"{proves(history.gpu_months):.4f}" in text
    assert "too short" in text


def test_a_detector_is_proposed_only_where_its_upper_bound_meets_the_budget() -> None:
    """Enough GPU-months without a page; with one page it is not, and one that alerts already is
    none to propose.
    """
    history = judged(reads(range(0, 3601, 15)))
    history.columns |= {(shown.kind, shown.column) for p in PAGES.values() for shown in p.shows}
    assert candidates(by_detector(history, None)) == []
    history.gpu_seconds = 1.01 * poisson_interval(0, 1.0)[1] / BUDGET * MONTH_S
    proposed = candidates(by_detector(history, None))
    assert SHADOW in proposed
    assert not set(proposed) & PROVED
    paged = judged([seen(BEGIN_NS, "page", detector=SHADOW)]).alerts
    history.alerts += paged
    assert SHADOW not in candidates(by_detector(history, None))


def test_a_detector_without_anything_to_judge_is_not_counted_as_silent() -> None:
    """Its columns, or its source, are named as lacking."""
    history = judged(reads(range(0, 3601, 15)))
    found = {one.name: one for one in by_detector(history, None)}
    assert not found["fec_tail"].is_judged
    assert "nccl" in found["nccl"].lacks
    assert not found["nccl"].is_judged
    assert found["power"].is_judged
    table = next(part.table for part in sections(history, None) if part.title == "By detector")
    assert table is not None
    names = {row[0] for row in table.rows}
    assert "power" in names
    assert not {"nccl", "fec_tail", "host"} & names


def of_alert(opened_s: int, host: str = "n1") -> Alert:
    """A page about a node."""
    return judged([seen(BEGIN_NS + opened_s * SECOND_NS, "page", host=host)]).alerts[0]


@pytest.mark.parametrize(
    ("opened_s", "host", "belongs"),
    [
        (0, "n1", True),
        (-23 * 3600, "n1", True),
        (-25 * 3600, "n1", False),
        (3599, "n1", True),
        (3601, "n1", False),
        (0, "n2", False),
    ],
)
def test_an_alert_belongs_to_a_fault_of_its_node_near_its_time(
    opened_s: int, host: str, belongs: bool
) -> None:
    """From a day before the site's own entry to its end."""
    fault = Known("n1", BEGIN_NS, BEGIN_NS + HOUR_NS, "GPU")
    alert = of_alert(opened_s, host)
    assert known.explained(alert, [fault], BEGIN_NS + 2 * HOUR_NS) is belongs
    (match,) = known.matches([fault], [alert], BEGIN_NS + 2 * HOUR_NS)
    assert match.lead_s == (-opened_s if belongs else None)


def test_a_fault_that_is_still_open_lasts_to_the_end() -> None:
    """No time of closing."""
    fault = Known("n1", BEGIN_NS, 0, "")
    assert known.explained(of_alert(7_000), [fault], BEGIN_NS + 2 * HOUR_NS)


def test_known_faults_are_read_from_a_csv_file(tmp_path: Path) -> None:
    """Times as ISO 8601 or unix seconds; columns in any order, others are left alone."""
    path = tmp_path / "drains.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["cause", "node", "user", "opened", "closed"])
        writer.writerow(["Xid, again", "n2", "bob", "2026-11-21T18:00:00+01:00", ""])
        writer.writerow(["", "n1", "", str(BEGIN_NS // SECOND_NS), "2026-11-22 17:00:00"])
    found = known.read(path)
    assert sorted((one.node, one.cause) for one in found) == [("n1", ""), ("n2", "Xid, again")]
    assert [one.opened_ns for one in found] == sorted(one.opened_ns for one in found)
    assert {one.node: one.closed_ns for one in found}["n2"] == 0


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("a,b\n1,2\n", "node"),
        ("node,cause\nn1,x\n", "opened"),
        ("node,opened\nn1,yesterday\n", "line 2: opened"),
        ("node,opened\n,0\n", "line 2: node"),
        ("node,opened,closed\nn1,100,50\n", "line 2: closed"),
        ("node,opened\nn1\n", "line 2: opened"),
        ("", "node"),
    ],
)
def test_a_wrong_file_of_known_faults_is_refused_with_line_and_column(
    content: str, named: str, tmp_path: Path
) -> None:
    """And its name."""
    path = tmp_path / "drains.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(named)) as error:
        known.read(path)
    assert "drains.csv" in str(error.value)


def full() -> tuple[History, list[Known]]:
    """A history with hostile words everywhere."""
    history = judged([*reads(range(0, 3601, 15)), seen(BEGIN_NS, "page"), seen(BEGIN_NS, "ticket")])
    return history, [Known("n1", BEGIN_NS + HOUR_NS // 2, 0, HOSTILE)]


def test_no_word_of_a_label_is_markup_in_a_report() -> None:
    """A drain's reason, a summary: in HTML and in Markdown."""
    history, faults = full()
    parts = sections(history, faults)
    page = forms.html(parts, {})
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    text = forms.markdown(parts)
    assert "<script" not in text
    assert "[y](" not in text.replace("\\[y](", "")
    for line in text.splitlines():
        if line.startswith("| 20"):
            heads = {len(p.table.heads) for p in parts if p.table}
            assert len(re.findall(r"(?<!\\)\|", line)) - 1 in heads


def test_a_page_of_a_report_needs_nothing_from_elsewhere() -> None:
    """No script, no address, and a policy that allows none."""
    history, faults = full()
    page = forms.html(sections(history, faults), {"i-n1": "<svg></svg>"})
    assert "<svg></svg>" in page
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|src=|url\(|https?://", page)


def test_the_json_form_has_every_alert_and_every_table() -> None:
    """And is JSON."""
    history, faults = full()
    document = json.loads(json.dumps(forms.document(history, sections(history, faults))))
    (alert,) = document["alerts"]
    assert alert["incident"] == "i-n1"
    assert alert["detectors"] == ["xid"]
    titles = [section["title"] for section in document["sections"]]
    assert "Faults that the site knew" in titles
    assert document["gpu_months"] == history.gpu_months
