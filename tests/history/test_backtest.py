"""What would have alerted on a history, beside what the site knew."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from collector.cli.main import main
from collector.config.error import ConfigError
from detectors import PAGES
from detectors.paging import PROVED
from history.backtest import forms, known, sacctmgr, truths
from history.backtest.configuration import candidates, offenders, proposal
from history.backtest.figures import BUDGET, by_detector, proves, recall
from history.backtest.judgeable import Judgeable, judgeable
from history.backtest.judged import MAX_STEP_NS, MONTH_S, Alert, History, judged
from history.backtest.known import Known
from history.backtest.report import Backtest, sections
from history.backtest.truths import Fault
from history.backtest.words import rate
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident, Severity
from pipeline.frame import Device, frame_of
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation
from pipeline.store.query.coverage import Coverage

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


def test_an_incident_that_became_less_urgent_has_its_end_and_later_evidence() -> None:
    """As the page had it, with the findings and the end that came when it was a ticket only."""
    paged = seen(BEGIN_NS, "page")
    later = seen(BEGIN_NS + HOUR_NS, "ticket", detector="ecc")
    (one,), (last,) = paged.incidents, later.incidents
    ended = replace(
        last,
        findings=(*one.findings, *last.findings),
        cleared_ns=BEGIN_NS + HOUR_NS,
        ended="replaced",
    )
    (alert,) = judged([paged, later._replace(incidents=(ended,))]).alerts
    assert (alert.severity, alert.incident.fault) == ("page", "xid/x")
    assert (alert.incident.cleared_ns, alert.incident.ended) == (BEGIN_NS + HOUR_NS, "replaced")
    assert alert.detectors == ("xid", "ecc")


def every(history: History) -> History:
    """The same, where every detector could judge."""
    history.judgeable = [Judgeable(name, 1, 1, ()) for name in PAGES]
    return history


def months(history: History, number: float) -> History:
    """The same, watched for so long."""
    history.gpu_ns = round(number * MONTH_S * SECOND_NS)
    return history


def test_what_alerts_as_installed_is_counted_apart() -> None:
    """A detector in shadow mode would not have alerted."""
    history = judged([seen(BEGIN_NS, "page"), seen(BEGIN_NS, "page", host="n2", detector=SHADOW)])
    assert [(alert.detectors, alert.installed) for alert in history.alerts] == [
        (("xid",), True),
        ((SHADOW,), False),
    ]
    summary = sections(Backtest(history, None))[0].sentences
    assert "As installed Tocsin would have sent 1 page and 0 tickets." in summary
    assert "With every detector allowed to alert: 2 pages and 0 tickets." in summary


def test_what_so_much_history_can_prove_is_said() -> None:
    """Nothing found in a GPU-month proves little; 2,000 GPU-months prove the budget."""
    history = judged(reads(range(0, 3601, 15)))
    assert proves(history.gpu_months) > BUDGET
    text = forms.markdown(sections(Backtest(history, None)))
    assert "cannot prove that budget" in text
    assert f"{rate(proves(history.gpu_months))} per GPU-month" in text
    assert "takes 1997 GPU-months" in text
    enough = forms.markdown(sections(Backtest(months(history, 2000), None)))
    assert "long enough to prove that budget" in enough


def test_a_detector_is_proposed_only_where_its_upper_bound_meets_the_budget() -> None:
    """Enough GPU-months without a page of which the site knew no fault; with one it is not, and one
    that alerts already is none to propose. One that cannot judge proves nothing by its silence.
    """
    history = every(months(judged(reads(range(0, 3601, 15))), 1990))
    assert candidates(by_detector(history, None)) == ()
    months(history, 2000)
    proposed = candidates(by_detector(history, None))
    assert SHADOW in proposed
    assert not set(proposed) & PROVED
    page = judged([seen(BEGIN_NS, "page", detector=SHADOW)]).alerts
    history.alerts += page
    assert SHADOW not in candidates(by_detector(history, None))
    confirmed = [Fault((Known("n1", BEGIN_NS, 0, ""),), False)]
    assert SHADOW in candidates(by_detector(history, confirmed))
    history.judgeable = [Judgeable(name, 0, 1, ("x",)) for name in PAGES]
    assert candidates(by_detector(history, None)) == ()


def test_a_detector_whose_pages_break_the_budget_is_named() -> None:
    """By its lower bound; one page in a few months is no proof."""
    history = every(months(judged([seen(BEGIN_NS, "page")]), 30))
    assert offenders(by_detector(history, None)) == ("xid",)
    assert offenders(by_detector(months(history, 1), None)) == ("xid",)
    assert offenders(by_detector(months(history, 40), None)) == ()


def test_no_detector_is_to_be_disabled_where_no_record_of_faults_is_given() -> None:
    """All pages are unknown then, those of real faults too; reboots alone are no such record."""
    far = [seen(BEGIN_NS + i * HOUR_NS, host="n9") for i in range(31)]
    history = every(months(judged([*far, seen(BEGIN_NS, "page")]), 30))
    reboot = Fault((Known("n9", BEGIN_NS, 1, "another boot", "reboot"),), False)
    drain = Fault((Known("n9", BEGIN_NS, 1, "ecc", "slurm"),), False)
    assert proposal(history, None).disable == proposal(history, [reboot]).disable == ()
    assert proposal(history, [reboot, drain]).disable == ("xid",)


def test_what_is_proposed_is_counted_on_time_that_did_not_choose_it() -> None:
    """Pages of the last third are said, and do not choose."""
    far = [seen(BEGIN_NS + i * HOUR_NS, host="n9") for i in range(31)]
    late = seen(BEGIN_NS + 29 * HOUR_NS, "page", detector=SHADOW)
    made = proposal(every(months(judged([*far, late]), 3100)), None)
    assert SHADOW in made.enable
    assert (made.pages, made.unknown) == (1, 1)
    early = seen(BEGIN_NS + HOUR_NS, "page", detector=SHADOW)
    assert SHADOW not in proposal(every(months(judged([*far, early]), 3100)), None).enable
    document = yaml.safe_load(made.text("why"))
    assert document["detectors"]["off_trial"] == list(made.enable)


def test_a_detector_without_what_it_needs_is_not_judged() -> None:
    """Its columns, source or cadence are named; it is in no count."""
    found = Coverage(
        {"n1": {"gpu.state", "gpu.temperature_celsius"}, "n2": {"gpu.temperature_celsius"}},
        {"gpu": 60.0},
        {"n1": {"dcgm-exporter"}},
    )
    able = {one.name: one for one in judgeable(found)}
    assert able["availability"].words.startswith("judged on 1 of 2 nodes; elsewhere needs gpu.st")
    assert "the source nccl" in able["nccl"].words
    assert "a reading every 30 s (here 60 s)" in able["thermal_rack"].words
    assert "gpu.power_milliwatts or gpu.energy" in able["thermal_rack"].words
    history = judged(reads(range(0, 3601, 15)))
    history.judgeable = list(able.values())
    parts = {part.title: part for part in sections(Backtest(history, None))}
    table = parts["By detector"].table
    assert table is not None
    assert "availability" in {row[0] for row in table.rows}
    assert not {"nccl", "fec_tail", "host"} & {row[0] for row in table.rows}
    assert parts["Not judged"].table is not None
    assert len(parts["Not judged"].table.rows) > 20


def test_a_part_that_a_detector_cannot_see_is_said_beside_what_it_judged() -> None:
    """An exporter's gauge has the last XID; a kernel log has them all."""
    columns = {"n1": {"gpu.state", "gpu.row_remap_failed"}}
    coarse = Coverage(columns, {"gpu": 15.0}, {"n1": {"dcgm-exporter"}})
    able = {one.name: one for one in judgeable(coarse)}
    assert able["xid"].is_judged
    assert able["xid"].words.endswith("before the next scrape: needs the source kmsg")
    assert able["ecc"].words.startswith("judged, except uncorrectable errors before a reset")
    assert "gpu.ecc_uncorrected_volatile" in able["ecc"].words
    history = judged(reads(range(0, 3601, 15)))
    history.judgeable = list(able.values())
    (table,) = (
        part.table for part in sections(Backtest(history, None)) if part.title == "Not judged"
    )
    assert table is not None
    assert {"xid", "ecc"} <= {row[0] for row in table.rows}
    summary = sections(Backtest(history, None))[0].sentences
    able_now = sum(one.is_judged for one in able.values())
    assert any(one.startswith(f"{able_now} of {len(able)} detectors") for one in summary)
    columns["n1"].add("gpu.ecc_uncorrected_volatile")
    logged = Coverage(columns, {"gpu": 15.0}, {"n1": {"dcgm-exporter", "kmsg"}})
    words = {one.name: one.words for one in judgeable(logged)}
    assert words["xid"] == words["ecc"] == "judged"


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
    fault = Fault((Known("n1", BEGIN_NS, BEGIN_NS + HOUR_NS, "GPU"),), False)
    alert = of_alert(opened_s, host)
    assert truths.is_explained(alert, [fault], BEGIN_NS + 2 * HOUR_NS) is belongs
    found = truths.matches([fault], [alert], BEGIN_NS + 2 * HOUR_NS)
    assert found[0].lead_s == (-opened_s if belongs else None)
    assert (recall(found).found, recall(found).faults) == (int(belongs), 1)


def test_a_fault_that_is_still_open_lasts_to_the_end() -> None:
    """No time of closing."""
    fault = Fault((Known("n1", BEGIN_NS, 0, ""),), False)
    assert truths.is_explained(of_alert(7_000), [fault], BEGIN_NS + 2 * HOUR_NS)


def test_one_fault_counts_once_whoever_knew_it() -> None:
    """A drain, its ticket and the reboot of one node are one fault; a week later is another."""
    history = judged([*reads(range(0, 100, 50)), seen(BEGIN_NS + 300 * HOUR_NS)])
    entries = [
        Known("n1", BEGIN_NS + 2 * HOUR_NS, BEGIN_NS + 9 * HOUR_NS, "RMA"),
        Known("n1", BEGIN_NS + HOUR_NS, BEGIN_NS + 5 * HOUR_NS, "Xid", "slurm"),
        Known("n1", BEGIN_NS + 8 * HOUR_NS, BEGIN_NS + 9 * HOUR_NS, "another boot", "reboot"),
        Known("n1", BEGIN_NS + HOUR_NS, BEGIN_NS + 5 * HOUR_NS, "GpuHot", "alert"),
        Known("n1", BEGIN_NS + 200 * HOUR_NS, 0, "", "kubernetes"),
        Known("n7", BEGIN_NS + 2 * HOUR_NS, 0, "not ours"),
    ]
    first, second = truths.faults(entries, history)
    assert first.sources == ("slurm", "ticket", "reboot")
    assert first.opened_ns == BEGIN_NS + HOUR_NS
    assert (second.sources, first.is_planned) == (("kubernetes",), False)


def test_planned_work_is_no_fault_to_find() -> None:
    """By its words, or by the number of nodes within minutes; it explains alerts all the same."""
    hosts = [f"n{i}" for i in range(6)]
    history = judged([seen(BEGIN_NS + i * HOUR_NS, host=h) for h in hosts for i in (0, 90)])
    roll_out = [Known(h, BEGIN_NS + i * SECOND_NS, 0, "cordoned", "k") for i, h in enumerate(hosts)]
    assert all(one.is_planned for one in truths.faults(roll_out, history))
    words = truths.faults([Known("n1", BEGIN_NS, 0, "firmware upgrade")], history)
    assert words[0].is_planned
    assert truths.is_explained(of_alert(60), words, BEGIN_NS + HOUR_NS)
    assert not truths.faults(roll_out[:4], history)[0].is_planned


@pytest.mark.parametrize(
    "cause",
    [
        "Node unexpectedly rebooted",
        "unexpected reboot",
        "unplanned outage",
        "Unscheduled power loss",
        "prolog: dispatch failed",
    ],
)
def test_what_no_operator_planned_is_a_fault_to_find(cause: str) -> None:
    """Slurm's own reason of a node that crashed is no announced reboot."""
    history = judged(reads(range(0, 3601, 15)))
    (found,) = truths.faults([Known("n1", BEGIN_NS, 0, cause)], history)
    assert not found.is_planned


def test_reboots_and_labels_of_a_history_are_known_too() -> None:
    """Another boot of a node; a verdict `real`; not a boot that is not known."""
    reads_of = [seen(BEGIN_NS + i * HOUR_NS) for i in range(4)]
    boots = ("boot0", "b1", "b2", "b2")
    again = [
        one._replace(observation=replace(one.observation, boot_id=boot))
        for one, boot in zip(reads_of, boots, strict=True)
    ]
    about: dict[str, str | int] = {
        "incident": "i",
        "verdict": "real",
        "opened_ns": BEGIN_NS,
        "cause": "RMA",
    }
    label = Event(BEGIN_NS, 0, Device("n1", "gpu", "g"), "incident_labelled", about)
    labelled = replace(again[3].observation, events=(label,))
    history = judged([*again[:3], again[3]._replace(observation=labelled)])
    assert [one.time_ns for one in history.reboots] == [BEGIN_NS + 2 * HOUR_NS]
    (known_label,) = truths.labels(history)
    assert (known_label.node, known_label.opened_ns, known_label.cause) == ("n1", BEGIN_NS, "RMA")


SACCTMGR = """NodeName|Start|End|State|Reason|User
|2026-11-21T13:00:00|2026-11-21T14:00:00||Cluster Registered TRES|root(0)
gpu-1|2026-11-21T14:00:00|2026-11-21T15:30:00|DOWN*|Not responding|slurm(64030)
gpu-2|2026-11-21T14:00:00|Unknown|DRAIN|NHC: check_dcgm | pipe|root(0)
gpu-3|2026-11-21T14:00:00|2026-11-21T15:30:00|IDLE+MAINTENANCE||root(0)
"""


def test_slurms_own_list_of_events_is_read(tmp_path: Path) -> None:
    """With its head or without; times are local; what takes no node away is left out."""
    path = tmp_path / "events.txt"
    head, _, rows = SACCTMGR.partition("\n")
    for text in (SACCTMGR, rows, f"{head.replace('Start|End', 'TimeStart|TimeEnd')}\n{rows}"):
        path.write_text(text)
        assert sacctmgr.looks_like(path)
        down, drain = sacctmgr.read(path, ZoneInfo("Europe/Berlin"))
        assert (down.node, down.cause, down.source) == ("gpu-1", "Not responding", "slurm")
        assert down.opened_ns == BEGIN_NS
        assert down.closed_ns == BEGIN_NS + 5400 * SECOND_NS
        assert (drain.node, drain.closed_ns) == ("gpu-2", 0)
    path.write_text("gpu-1|soon|Unknown|DOWN||\n")
    with pytest.raises(ConfigError, match="line 1: Start: 'soon' is no time"):
        sacctmgr.read(path)


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


def test_a_file_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    """Blanks around cells, empty rows at the end, ends of lines of other programs in free text."""
    path = tmp_path / "drains.csv"
    rows = "node,opened,closed,cause\r\nn1 , 2026-11-21 13:00 ,,rack\u2028A\x0b7\r\n,,,\r\n,,,\r\n"
    path.write_bytes(rows.encode())
    (found,) = known.read(path)
    assert (found.node, found.opened_ns, found.cause) == ("n1", BEGIN_NS, "rack\u2028A\x0b7")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("a,b\n1,2\n", "node"),
        ("node,opened\nn1,1795266000000\n", "'1795266000000' is neither a time"),
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


@pytest.mark.slow  # the command imports much
@pytest.mark.parametrize("option", ["--output", "--write"])
def test_a_file_in_a_folder_that_is_not_there_is_refused_before_the_work(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour of judging, and an import that nothing keeps, would be lost for a wrong name."""
    file = tmp_path / "missing" / "report.html"
    assert main(["backtest", "--from", str(tmp_path), option, str(file)]) == 2
    assert capsys.readouterr().err == f"tocsin: {option}: folder {file.parent} does not exist\n"


def full() -> Backtest:
    """A history with hostile words everywhere."""
    history = judged([*reads(range(0, 3601, 15)), seen(BEGIN_NS, "page"), seen(BEGIN_NS, "ticket")])
    entries = [Known("n1", BEGIN_NS + HOUR_NS // 2, 0, HOSTILE)]
    rules = [Known("n1", BEGIN_NS, 0, HOSTILE, "alert")]
    faults = truths.faults(entries, history)
    return Backtest(every(history), faults, rules, proposal(history, faults))


def test_an_alert_about_a_job_alone_is_not_held_against_what_is_known_of_nodes() -> None:
    """A program's fault is in no list of drains: precision leaves it out, in words too."""
    made = full()
    job = replace(made.history.alerts[0].incident, id="i-job", root=Device("", "job", "7"))
    made.history.alerts.append(Alert(replace(job, severity="ticket"), ("xid",)))
    parts = {part.title: part for part in sections(made)}
    assert "Of 1 alert about nodes, 1 are about a fault" in " ".join(parts["Summary"].sentences)
    assert "1 alert about a job alone" in " ".join(parts["Summary"].sentences)
    detectors, alerts = parts["By detector"].table, parts["Alerts"].table
    assert detectors is not None
    assert next(row for row in detectors.rows if row[0] == "xid")[6] == "1 of 1"
    assert alerts is not None
    assert [row[-1] for row in alerts.rows] == ["yes", "of no node"]


def test_no_word_of_a_label_is_markup_in_a_report() -> None:
    """A drain's reason, a rule's name, a summary: in HTML and in Markdown."""
    parts = sections(full())
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
    page = forms.html(sections(full()), {"i-n1": "<svg></svg>"})
    assert "<svg></svg>" in page
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|src=|url\(|https?://", page)


def test_the_json_form_has_every_alert_fault_and_table() -> None:
    """And is JSON."""
    made = full()
    document = json.loads(json.dumps(forms.document(made, sections(made))))
    (alert,) = document["alerts"]
    assert alert["incident"] == "i-n1"
    assert alert["detectors"] == ["xid"]
    assert document["faults"][0]["cause"] == HOSTILE
    titles = [section["title"] for section in document["sections"]]
    assert {"Faults that the site knew", "The site's own rules", "Configuration"} < set(titles)
    assert document["gpu_months"] == made.history.gpu_months
