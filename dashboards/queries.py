"""Selectors made from the catalogue: a series or a label that nothing exports cannot be named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from pipeline.catalog import KINDS, Metric, facts_of, field
from pipeline.catalog.agent import XID_ERRORS, XID_LAST_SEEN

# What Prometheus adds to every series of a target; `cluster` and `node` only where service
# discovery gives them (rules/README.md).
TARGET = ("cluster", "node", "instance", "job")
# What the viewer chose. An absent label `cluster` equals the empty one, which `.*` takes.
CHOSEN = {"cluster": "=~$cluster", "instance": "=~$instance"}
# A label of ours that Prometheus' own takes the name of is renamed by the scrape
# (honor_labels: false, its default).
RENAMED = {"job": "exported_job"}
# Labels beyond its own that a metric of the agent has because it is shown with a device.
_OF_GPU = ("gpu", "uuid")
_WITH_DEVICE = {XID_ERRORS.name: _OF_GPU, XID_LAST_SEEN.name: _OF_GPU}

# Series that are not ours, and their labels: of Prometheus, of every program with a Prometheus
# client, of node_exporter (infiniband).
_PORT = ("device", "port")
FOREIGN: dict[str, tuple[str, ...]] = {
    "up": (),
    "process_cpu_seconds_total": (),
    "process_resident_memory_bytes": (),
    "process_start_time_seconds": (),
    "node_infiniband_state_id": _PORT,
    "node_infiniband_rate_bytes_per_second": _PORT,
    "node_infiniband_symbol_error_total": _PORT,
    "node_infiniband_link_downed_total": _PORT,
}
# What dcgm-exporter puts on every series of a GPU, and on every container's.
DCGM_LABELS = ("gpu", "UUID", "device", "modelName", "Hostname", "pci_bus_id")

# GPUs by the cause of what becomes of their time: recordings of rules/gpu_time.py, and their
# labels. They count all nodes of a cluster: no node can be chosen.
GPUS_BY_CAUSE, GPUS_BY_TEAM = "cluster:tocsin_gpus:by_cause", "team:tocsin_gpus:by_cause"
GPUS_COUNTED, FAILURES = "cluster:tocsin_gpus:count", "cluster:tocsin_failures:increase1h"
RECORDED: dict[str, tuple[str, ...]] = {
    GPUS_BY_CAUSE: ("cause",),
    GPUS_BY_TEAM: ("team", "cause"),
    GPUS_COUNTED: (),
    FAILURES: (),
}

_OPERATOR = re.compile(r"^(=~|!=|!~|=)?(.*)$", re.DOTALL)


def measured(kind: str, name: str, **matchers: str) -> str:
    """Selector of one field of the catalogue, with the labels that tell it
    from its family's others.

    A matcher's value may begin with its operator (``state="!=ok"``). KeyError for a field,
    ValueError for a label that does not exist.

    >>> measured("gpu", "temperature_celsius", gpu="=~$gpu")
    'tocsin_gpu_temperature_celsius{cluster=~"$cluster", instance=~"$instance", sensor="core", gpu=~"$gpu"}'
    """  # noqa: E501 - an example or a table
    row = field(kind, name)
    known = (*(label for label, _ in KINDS[kind].labels), *row.metric.labels)
    return _selector(row.metric.name, known, dict(row.labels), matchers)


def family(kind: str, name: str, **matchers: str) -> str:
    """Selector of the whole family that a field belongs to: all reasons, directions, modes ...

    >>> family("gpu", "temperature_celsius", sensor="!=core")
    'tocsin_gpu_temperature_celsius{cluster=~"$cluster", instance=~"$instance", sensor!="core"}'
    """
    row = field(kind, name)
    known = (
        *(label for label, _ in KINDS[kind].labels),
        *row.metric.labels,
        *(label for label, _ in row.labels),
    )
    return _selector(row.metric.name, known, {}, matchers)


def own(metric: Metric, **matchers: str) -> str:
    """Selector of one of the agent's own series.

    >>> own(XID_ERRORS, xid="79")
    'tocsin_gpu_xid_errors_total{cluster=~"$cluster", instance=~"$instance", xid="79"}'
    """
    return _selector(
        metric.name, (*metric.labels, *_WITH_DEVICE.get(metric.name, ())), {}, matchers
    )


def facts(kind: str, **matchers: str) -> str:
    """Selector of the series that carries a kind's slow facts as labels."""
    known = (
        *(label for label, _ in KINDS[kind].labels),
        *(fact.name for fact in facts_of(kind) if fact.info),
    )
    return _selector(f"tocsin_{kind}_info", known, {}, matchers)


def foreign(name: str, **matchers: str) -> str:
    """Selector of a series that is not ours. ValueError where it is none of FOREIGN.

    >>> foreign("up", job="=~.*tocsin.*")
    'up{cluster=~"$cluster", instance=~"$instance", job=~".*tocsin.*"}'
    """
    if name not in FOREIGN:
        raise ValueError(f"{name} is not among {', '.join(FOREIGN)}")
    return _selector(name, FOREIGN[name], {}, matchers)


def recorded(name: str, **matchers: str) -> str:
    """Selector of a series that a recording rule makes of a cluster.

    >>> recorded(GPUS_BY_CAUSE, cause="lost")
    'cluster:tocsin_gpus:by_cause{cluster=~"$cluster", cause="lost"}'
    """
    return _selector(name, RECORDED[name], {}, matchers, {"cluster": CHOSEN["cluster"]})


def dialect(kind: str, name: str, of: Callable[[str], str] = str, **matchers: str) -> str:
    """A field as dcgm-exporter shows it, or what a function ``of`` makes of it: in base units,
    under whichever generation's name.

    ValueError for a field that dcgm-exporter does not show.

    >>> dialect("gpu", "sm_clock_megahertz", gpu="0")[:70]
    '(DCGM_FI_DEV_SM_CLOCK{cluster=~"$cluster", instance=~"$instance", job='
    """
    row = field(kind, name)
    shown = dict.fromkeys(
        (each, Fraction(of.per * row.times, of.times * row.per))
        for of in row.dcgm
        for each in (of.name, of.new_name)
    )
    terms = [
        _scaled(of(_selector(each, DCGM_LABELS, {"job": "=~$job"}, matchers)), scale)
        for each, scale in shown
        if each
    ]
    if not terms:
        raise ValueError(f"dcgm-exporter has no series of {kind} {name}")
    return f"({' or '.join(terms)})"


def _scaled(selector: str, scale: Fraction) -> str:
    """Exact: scales are whole numbers or one over a whole number."""
    if scale == 1:
        return selector
    return (
        f"{selector} * {scale.numerator}"
        if scale.denominator == 1
        else f"{selector} / {scale.denominator}"
    )


def _selector(
    name: str,
    known: tuple[str, ...],
    constant: dict[str, str],
    matchers: dict[str, str],
    chosen: Mapping[str, str] = CHOSEN,
) -> str:
    for label in matchers:
        if RENAMED.get(label, label) in RENAMED.values():
            continue
        if label not in (*known, *TARGET):
            raise ValueError(
                f"{name} has no label {label!r}: it has {', '.join(known) or 'none of its own'}"
            )
    return (
        f"{name}"
        f"{{{', '.join(_matcher(*each) for each in {**chosen, **constant, **matchers}.items())}}}"
    )


def _matcher(label: str, wanted: str) -> str:
    operator, text = _OPERATOR.findall(wanted)[0]
    return f'{label}{operator or "="}"{text}"'
