"""What a site's own series say of its nodes: its rules, drains and node states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from history.backtest import site
from history.importing import bring, find, site_log
from history.meaning.labels import LabelMap
from history.meaning.site_facts import fact_of
from history.site.series import Series
from history.site_log import MAX_SPANS, SiteLog
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, node, scrapes

pytestmark = pytest.mark.slow

MS_NS = 1_000_000


@pytest.mark.parametrize(
    ("name", "labels", "value", "said"),
    [
        ("ALERTS", {"alertname": "Hot", "alertstate": "firing", "Hostname": "n1"}, 1, "alert Hot"),
        ("ALERTS", {"alertname": "Hot", "alertstate": "pending", "Hostname": "n1"}, 1, ""),
        ("kube_node_spec_unschedulable", {"node": "n1", "instance": "ksm:8080"}, 1, "cordoned"),
        ("kube_node_spec_unschedulable", {"node": "n1"}, 0, ""),
        (
            "kube_node_spec_unschedulable",
            {"node": "infra-1", "exported_node": "n1"},
            1,
            "cordoned",
        ),
        (
            "kube_node_status_condition",
            {"node": "n1", "condition": "Ready", "status": "unknown"},
            1,
            "not ready",
        ),
        (
            "kube_node_status_condition",
            {"node": "n1", "condition": "Ready", "status": "true"},
            1,
            "",
        ),
        (
            "kube_node_status_condition",
            {"node": "n1", "condition": "GpuUnhealthy", "status": "true"},
            1,
            "GpuUnhealthy",
        ),
        ("slurm_node_status", {"node": "n1", "status": "drained"}, 1, "slurm drained"),
        ("slurm_node_status", {"node": "n1", "status": "idle"}, 1, ""),
        ("slurm_node_cpu_alloc", {"node": "n1", "status": "down*"}, 0, "slurm down*"),
        ("slurm_node_drain_reason_info", {"node": "n1", "reason": "NHC: x"}, 1, "slurm NHC: x"),
        ("slurm_node_info", {"node_name": "n1", "is_drain": "true"}, 1, "slurm drained"),
        ("slurm_node_info", {"node_name": "n1", "base_state": "ALLOCATED"}, 1, ""),
    ],
)
def test_what_a_series_says_of_its_node(
    name: str, labels: dict[str, str], value: float, said: str
) -> None:
    """By its value, or by its mere presence where the state is a label; the exporter that lists all
    nodes is none of them.
    """
    fact = fact_of({"__name__": name, **labels}, LabelMap())
    if fact is None or not fact.counts(value):
        assert not said
    else:
        assert fact.node == "n1"
        assert f"{fact.source} {fact.cause}".endswith(said)


def drained(times: list[int]) -> Recorded:
    """A site with a node that is cordoned at these times."""
    made = Recorded()
    node(made, "n1", scrapes(BEGIN_MS, BEGIN_MS + 2 * HOUR_MS))
    made.add("kube_node_spec_unschedulable", {"node": "n1"}, [(ms, 1.0) for ms in times])
    made.add("kube_node_spec_unschedulable", {"instance": "ksm"}, [(ms, 1.0) for ms in times[:3]])
    return made


def test_a_drain_is_one_span_over_hours_and_restarts(tmp_path: Path) -> None:
    """A gap beyond the lookback ends it; one that lasts to the end is open."""
    first = scrapes(BEGIN_MS + HOUR_MS // 2, BEGIN_MS + HOUR_MS + 600_000, 60_000)
    second = scrapes(BEGIN_MS + HOUR_MS * 3 // 2, BEGIN_MS + 2 * HOUR_MS, 60_000)
    span = (BEGIN_MS, BEGIN_MS + 2 * HOUR_MS)
    made = drained([*first, *second])
    found = find(made, *span, None)
    bring(made, found, tmp_path, (BEGIN_MS, BEGIN_MS + HOUR_MS))
    bring(made, found, tmp_path, span)
    log = site_log(tmp_path)
    assert log is not None
    assert log.spans == [
        ["n1", "kubernetes", "cordoned", first[0], first[-1]],
        ["n1", "kubernetes", "cordoned", second[0], second[-1]],
    ]
    assert log.nodeless == 3
    closed, still = site.entries(tmp_path, (), None, span[1] * MS_NS)  # type: ignore[arg-type]
    assert (closed.opened_ns, closed.closed_ns) == (first[0] * MS_NS, first[-1] * MS_NS)
    assert still.closed_ns == 0


def test_a_store_that_is_no_import_knows_nothing(tmp_path: Path) -> None:
    """An agent's own store."""
    assert site_log(tmp_path) is None
    assert site.entries(tmp_path, (), None, 0) == []  # type: ignore[arg-type]


def test_rules_that_flap_for_months_cost_bounded_memory() -> None:
    """What is beyond the limit is counted."""
    log = SiteLog(spans=[["n", "alert", str(i), 0, 0] for i in range(MAX_SPANS)])
    made = Recorded()
    labels = {"alertname": "Flaps", "alertstate": "firing", "Hostname": "n1"}
    made.add("ALERTS", labels, [(BEGIN_MS, 1.0)])
    for series in made.read("ALERTS", BEGIN_MS, BEGIN_MS + 1):
        log.take(series, LabelMap())
    assert (len(log.spans), log.dropped) == (MAX_SPANS, 1)


def test_times_of_an_hour_come_in_any_order() -> None:
    """Each GPU of a node has its own series of a rule, and each server its own of a cordon: what
    none of them shows is no part of a span, and what goes on in the next hour is one.
    """
    log, minute = SiteLog(), 60_000
    for gpu, begin, end in (("0", 50, 60), ("1", 5, 10), ("2", 7, 12), ("0", 60, 65)):
        times = np.arange(begin * minute, end * minute, minute)
        labels = {"alertname": "Hot", "alertstate": "firing", "Hostname": "n1", "gpu": gpu}
        log.take(Series({**labels, "__name__": "ALERTS"}, times, np.ones(len(times))), LabelMap())
    spans = sorted((begin // minute, last // minute) for *_, begin, last in log.spans)
    assert spans == [(5, 11), (50, 64)]
    assert SiteLog.of(log.document()) == log
