"""Nothing in a dashboard names a series or a label that does not exist."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dashboards.queries import DCGM_LABELS, FOREIGN, RECORDED, RENAMED, TARGET
from pipeline.catalog import FIELDS, METRICS
from tests.dashboards.panels import DASHBOARDS, Target, targets
from tests.dashboards.promql import bare, grouped, selectors, written
from tests.golden import FOLDER

# The page with every series of every kind of device, as promtool and Prometheus take it.
PAGE = (FOLDER / "exposition" / "every-series.prom").read_text(encoding="utf-8")
# XIDs are the agent's own count and stand beside a GPU's labels.
OF_GPU = {"tocsin_gpu_xid_errors_total", "tocsin_gpu_xid_last_seen_timestamp_seconds"}
TARGETS = list(targets())


def _known() -> dict[str, set[str]]:
    """Series to their labels: from the golden page, from the catalogue for what the agent says of
    itself, and dcgm-exporter's.
    """
    known: dict[str, set[str]] = {metric.name: set(metric.labels) for metric in METRICS}
    for name in OF_GPU:
        known[name] |= {"gpu", "uuid"}
    for family in text_string_to_metric_families(PAGE):
        for sample in family.samples:
            known.setdefault(sample.name, set()).update(
                RENAMED.get(label, label) for label in sample.labels
            )
    dcgm = {
        name for field in FIELDS for row in field.dcgm for name in (row.name, row.new_name) if name
    }
    known |= {name: set(DCGM_LABELS) for name in dcgm}
    known |= {name: set(labels) for name, labels in (FOREIGN | RECORDED).items()}
    for metric in METRICS:  # a label that Prometheus' own takes the name of
        known[metric.name] = {RENAMED.get(label, label) for label in known[metric.name]}
    return known


KNOWN = _known()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_series_and_label_of_a_query_exists(name: str) -> None:
    """Selectors, groupings and legends name only what is exported; and no series is named without a
    choice of cluster and node.
    """
    for target in TARGETS:
        if target.dashboard == name:
            _exists(target)


def _exists(target: Target) -> None:
    chosen = list(selectors(target.expr))
    assert chosen
    assert not bare(target.expr)
    labels = set(TARGET) | written(target.expr)
    for selector in chosen:
        assert selector.series in KNOWN
        assert selector.labels <= KNOWN[selector.series] | set(TARGET)
        assert "cluster" in selector.labels
        assert "instance" in selector.labels or selector.series in RECORDED
        labels |= KNOWN[selector.series]
    assert grouped(target.expr) <= labels
    assert set(re.findall(r"{{(\w+)}}", target.legend)) <= labels


def test_every_series_is_in_the_default_profile() -> None:
    """No panel needs a setting of the agents to have data."""
    full = {field.metric.name for field in FIELDS if field.profile == "full"} - {
        field.metric.name for field in FIELDS if field.profile != "full"
    }
    full |= {metric.name for metric in METRICS if metric.profile == "full"}
    assert not full & {selector.series for target in TARGETS for selector in selectors(target.expr)}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_series_of_a_variable_exists(name: str) -> None:
    """What the viewer may choose from is exported."""
    for variable in DASHBOARDS[name]["templating"]["list"]:
        if variable["type"] != "query":
            continue
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
        assert found, variable["definition"]
        series, label = found[1], found[2]
        for selector in selectors(series if "{" in series else f"{series}{{}}"):
            names = [selector.series] if selector.series else re.findall(r"DCGM_\w+", series)
            assert all(label in KNOWN[each] | set(TARGET) for each in names)
