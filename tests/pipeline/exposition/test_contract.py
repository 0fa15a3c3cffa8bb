"""Every field of the catalogue, native value in, sample out: the exact
number under the exact name.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeline.catalog import FACTS, FIELDS, KINDS, METRICS, Field
from pipeline.exposition import OPENMETRICS
from pipeline.exposition.families import info_metric
from pipeline.exposition.text import Family
from pipeline.frame import Device
from tests.fakes import FakeClock
from tests.pipeline.exposition.pages import families, frame, lines, samples, shown

HUGE = (2**53 + 1, 2**64 - 1)


def device(kind: str, number: int = 0) -> Device:
    """A device of a kind, all of whose facts are known."""
    facts = {fact.name: f"{fact.name}-{number}" for fact in FACTS if fact.kind == kind}
    return Device("n1", kind, f"{kind}-{number}", facts)


def identity(field: Field) -> dict[str, str]:
    """The labels a field's series must have: the kind's own and the constant ones."""
    kind = KINDS[field.kind]
    about = device(field.kind)
    return {
        label: about.id if fact == "@id" else about.attributes[fact] for label, fact in kind.labels
    } | dict(field.labels)


def text_of(field: Field, native: float) -> str:
    """The one line of a field's series on a page made of this value alone."""
    clock = FakeClock()
    page = shown(clock, frame(clock, field.kind, [(device(field.kind), {field.name: native})]))
    (line,) = lines(page, field.metric.name)
    ((labels, _),) = samples(page, field.metric.name).items()
    assert dict(labels) == identity(field)
    return line.rpartition(" ")[2]


PLAIN = [f for f in FIELDS if not f.states]


@pytest.mark.slow
@pytest.mark.parametrize("field", PLAIN, ids=lambda f: f"{f.kind}.{f.name}")
def test_a_value_is_shown_exactly_scaled(field: Field) -> None:
    """A value that no other field has comes out as the float nearest to its
    exact value in base units.
    """
    native = 3 * field.id + 1
    assert float(text_of(field, native)) == float(Fraction(native * field.times, field.per))


@pytest.mark.slow
@pytest.mark.parametrize("native", HUGE)
@pytest.mark.parametrize(
    "field", [f for f in PLAIN if f.type == "counter"], ids=lambda f: f"{f.kind}.{f.name}"
)
def test_counters_beyond_53_bits_keep_their_digits(field: Field, native: int) -> None:
    """Where no division is needed the text has every digit; elsewhere it is the nearest float."""
    text = text_of(field, native)
    if field.per == 1:
        assert text == str(native * field.times)
    else:
        assert float(text) == float(Fraction(native * field.times, field.per))


@pytest.mark.slow
@pytest.mark.parametrize(
    "field", [f for f in FIELDS if f.states], ids=lambda f: f"{f.kind}.{f.name}"
)
def test_a_state_is_one_series_per_state(field: Field) -> None:
    """1 for the state the device is in and 0 for each other; a state
    that was not read is absent.
    """
    clock = FakeClock()
    for code, name in field.states:
        page = shown(clock, frame(clock, field.kind, [(device(field.kind), {field.name: code})]))
        found = {
            dict(labels)[field.metric.labels[0]]: value
            for labels, value in samples(page, field.metric.name).items()
        }
        assert found == {other: float(other == name) for _, other in field.states}
    page = shown(clock, frame(clock, field.kind, [(device(field.kind), {field.name: None})]))
    assert samples(page, field.metric.name) == {}


@pytest.mark.parametrize("kind", sorted({f.kind for f in FACTS if f.info}))
def test_facts_are_labels_of_the_info_series(kind: str) -> None:
    """Each fact that is to be shown is a label of its kind's info series, none of the others is."""
    clock = FakeClock()
    page = shown(clock, frame(clock, kind, [(device(kind), {})]))
    ((labels, value),) = samples(page, info_metric(kind).name).items()
    wanted = {fact.name for fact in FACTS if fact.kind == kind and fact.info} | {
        label for label, _ in KINDS[kind].labels
    }
    assert (set(dict(labels)), value) == (wanted, 1.0)


def every_family() -> list[Family]:
    """All families of the catalogue, once each."""
    metrics = [f.metric for f in FIELDS] + list(METRICS) + [info_metric(kind) for kind in KINDS]
    return [Family(m.name, m.type, m.help) for m in dict.fromkeys(metrics)]


def test_a_family_is_described_once() -> None:
    """Two fields that share a family agree on type and HELP, and families differ in
    name, in OpenMetrics too.
    """
    names = [family.name for family in every_family()]
    assert sorted(set(names)) == sorted(names)
    other = [family.openmetrics_name()[0] for family in every_family()]
    assert sorted(set(other)) == sorted(other)


def test_a_full_page_is_openmetrics() -> None:
    """All fields of all kinds on two devices each make a page that the strict parser reads,
    counters typed as counters.
    """
    clock = FakeClock()
    frames = []
    for kind in KINDS:
        values = {f.name: f.states[0][0] if f.states else 7 for f in FIELDS if f.kind == kind}
        frames.append(frame(clock, kind, [(device(kind, number), values) for number in range(2)]))
    page = shown(clock, *frames)
    found = families(page, OPENMETRICS)
    wrong = [
        f.metric.name
        for f in FIELDS
        if f.type == "counter" and found[f.metric.name.removesuffix("_total")].type != "counter"
    ]
    assert not wrong


def test_series_of_one_family_differ() -> None:
    """No two fields of a kind share family and labels: a page never has a series twice."""
    keys = [(f.kind, f.metric.name, f.labels) for f in FIELDS]
    assert sorted(map(str, set(keys))) == sorted(map(str, keys))
