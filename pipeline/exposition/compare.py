"""Two pages of metrics side by side: which families, devices, labels and units of one the
other lacks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isclose, isfinite
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Place = tuple[tuple[str, str], ...]  # the labels that name a device, with their values

# Labels that name a device; the first one that both pages have joins their series.
IDENTITIES = ("UUID", "uuid", "gpu_uuid", "gpu", "device")
# What names a part of it: MIG instances and NVLinks carry the UUID of their GPU.
PARTS = ("GPU_I_ID", "nvlink")
# What dashboards and rules select a device by, beside its identity: the values must be the same.
ABOUT = (
    "gpu",
    "device",
    "pci_bus_id",
    "modelName",
    "model_name",
    "GPU_I_PROFILE",
    "Hostname",
    "hostname",
)
# A ratio within this of 1 is the same unit: two scrapes are never of one instant.
SAME_UNIT = 0.5
UNITS = (1e-9, 1e-6, 1e-3, 1e-2, 1e2, 1e3, 1024.0, 1e6, 1024.0**2, 1e9)
TOLERANCE = 0.25


@dataclass(slots=True)
class Page:
    """Samples by name, and the lines that no parser reads. dcgm-exporter up to 4.8.2 does not
    escape: one bad line costs itself.
    """

    samples: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    unreadable: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs: ``kind`` is missing, added, labels or unit; ``text`` says it
    with the names and numbers.
    """

    kind: str
    name: str
    text: str


def parse(text: str) -> Page:
    """A page, line by line; HELP and TYPE are left aside (dcgm-exporter types
    some gauges as counters).
    """
    page = Page()
    for line in text.split("\n"):  # a label may have what else ends a line of text
        if not line.strip() or line.startswith("#"):
            continue
        try:
            samples = [
                s for family in text_string_to_metric_families(line + "\n") for s in family.samples
            ]
        except ValueError:
            page.unreadable.append(line)
            continue
        for sample in samples:
            page.samples[sample.name][frozenset(sample.labels.items())] = float(sample.value)
    return page


def not_an_exposition(page: Page, text: str) -> str:
    """What a page is instead of an exposition; empty where it is one.

    >>> not_an_exposition(parse("<html>"), "<html>"), not_an_exposition(parse("up 1"), "up 1")
    ('an HTML page', '')
    """
    series = sum(map(len, page.samples.values()))
    comments = any(line.startswith(("# HELP ", "# TYPE ", "# EOF")) for line in text.split("\n"))
    if len(page.unreadable) <= series and (series or comments):
        return ""
    first = text.lstrip()[:1]
    kinds = {"": "an empty page", "<": "an HTML page", "{": "JSON", "[": "JSON"}
    return kinds.get(first, f"text that begins with {text.strip()[:40]!r}")


def differences(theirs: Page, ours: Page, *, ignore: Iterable[str] = ()) -> Iterator[Difference]:
    """What a reader of their page would miss on ours.

    ``ignore`` are labels that may differ, such as the host's.
    """
    ignored = frozenset(ignore)
    for name in sorted(theirs.samples):
        if name not in ours.samples:
            yield Difference(
                "missing", name, f"{len(theirs.samples[name])} series are not on the other page"
            )
            continue
        yield from _family(name, theirs.samples[name], ours.samples[name], ignored)
    for name in sorted(ours.samples.keys() - theirs.samples.keys()):
        if name.startswith("DCGM_"):
            yield Difference(
                "added", name, f"{len(ours.samples[name])} series that the first page does not have"
            )


def _family(
    name: str, theirs: Mapping[Labels, float], ours: Mapping[Labels, float], ignored: frozenset[str]
) -> Iterator[Difference]:
    lacking = sorted((_names(theirs) - _names(ours)) - ignored)
    more = sorted((_names(ours) - _names(theirs)) - ignored)
    if lacking or more:
        text = "; ".join(
            f"{word} {', '.join(labels)}"
            for word, labels in (("lacks", lacking), ("adds", more))
            if labels
        )
        yield Difference("labels", name, text)
    identity = next((i for i in IDENTITIES if i in _names(theirs) and i in _names(ours)), None)
    if identity is None:
        return
    parts = (identity, *(part for part in PARTS if part not in ignored))
    left, right = _by(parts, theirs), _by(parts, ours)
    for place in sorted(left.keys() - right.keys()):
        yield Difference("missing", name, f"no series with {_words(place)}")
    both = sorted(left.keys() & right.keys())
    compared = (_names(theirs) & _names(ours)) - ignored  # another name is reported above
    for label in (label for label in ABOUT if label in compared):
        if text := _other_values(label, [(place, left[place], right[place]) for place in both]):
            yield Difference("labels", name, text)
    factor = _unit([(max(left[place].values()), max(right[place].values())) for place in both])
    if factor != 1.0:
        yield Difference("unit", name, f"values are about {factor:g} times those of the first page")


def _names(series: Iterable[Labels]) -> set[str]:
    return {label for labels in series for label, _ in labels}


def _by(
    parts: Iterable[str], series: Mapping[Labels, float]
) -> dict[Place, Mapping[Labels, float]]:
    """The series of each device; several where a page copies them per job. Series
    without the first of the labels ``parts`` are of no device.
    """
    identity, *_ = parts
    found: dict[Place, dict[Labels, float]] = defaultdict(dict)
    for labels, value in series.items():
        known = dict(labels)
        if identity in known:
            place = tuple((part, known[part]) for part in parts if known.get(part))
            found[place][labels] = value
    return dict(found)


def _other_values(
    label: str, devices: Iterable[tuple[Place, Iterable[Labels], Iterable[Labels]]]
) -> str:
    """How the values of a label differ over devices, each with its series on both pages: the first
    device in words, the others counted. Empty where they do not.
    """
    found = [
        (place, _values(label, theirs), _values(label, ours))
        for place, theirs, ours in devices
        if _values(label, theirs) != _values(label, ours)
    ]
    if not found:
        return ""
    place, theirs, ours = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    values = f"{label}={' and '.join(ours)} instead of {' and '.join(theirs)}"
    return f"{values} for {_words(place)}{more}"


def _values(label: str, series: Iterable[Labels]) -> list[str]:
    """The values of a label in quotes; an absent one is empty, as in PromQL."""
    return sorted({f'"{dict(labels).get(label, "")}"' for labels in series})


def _words(place: Place) -> str:
    return ", ".join(f'{label}="{value}"' for label, value in place)


def _unit(pairs: list[tuple[float, float]]) -> float:
    """The factor between two units, 1.0 where they are the same or are unknown."""
    ratios = [b / a for a, b in pairs if a and b and isfinite(a) and isfinite(b)]
    if not ratios:
        return 1.0
    ratio = median(ratios)
    if isclose(ratio, 1.0, rel_tol=SAME_UNIT):
        return 1.0
    return next((u for u in UNITS if isclose(ratio, u, rel_tol=TOLERANCE)), 1.0)
