"""Labels decide which detectors may page, and nothing frees one without evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.trust.evidence import demand, leave_evidence
from detectors.trust.ledger import (
    APART_NS,
    MAX_LABELS,
    VERDICTS,
    Label,
    Ledger,
    PagingState,
    Verdict,
)

HOUR_NS = 3_600 * 10**9


def label(number: int, verdict: Verdict = "real", *, device: str = "", at_ns: int = 1) -> Label:
    """Of an incident of a device of its own."""
    where = device or f"n{number}/gpu/GPU-{number}"
    return Label(f"i{number}", verdict, ("straggler",), where, "straggler/slow", at_ns)


def ledger(*labels: Label) -> Ledger:
    """With these, in their order."""
    made = Ledger()
    for one in labels:
        made.take(one)
    return made


def pages(made: Ledger, *, installed: bool = False) -> bool:
    """Whether the detector may page."""
    return made.tally("straggler", pages=installed).state.pages


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(VERDICTS), max_size=150), st.booleans())
def test_no_sequence_of_labels_frees_a_detector_without_its_evidence(
    verdicts: list[Verdict], installed: bool
) -> None:
    """Where a label lets it page, the labels since it last entered shadow mode are the evidence
    that is asked for, unclear ones against it.
    """
    standing = PagingState(installed)
    real = others = entered = 0
    for number, verdict in enumerate(verdicts):
        after = standing.after(label(number, verdict))
        real, others = real + (verdict == "real"), others + (verdict != "real")
        if after.pages and not standing.pages:
            assert leave_evidence(real, others) >= demand(entered)
        if after.pages != standing.pages:
            entered += standing.pages
            real = others = 0
            assert (after.real, after.false, after.unclear) == (0, 0, 0)
        standing = after
    assert standing.entered == entered


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(VERDICTS)), max_size=80),
    st.integers(0, 30),
    st.sampled_from(VERDICTS),
)
def test_a_corrected_label_counts_as_if_it_had_been_right_from_the_beginning(
    given_labels: list[tuple[int, Verdict]], corrected: int, verdict: Verdict
) -> None:
    """The order is that of the first labels."""
    wrong = ledger(*(label(number, said) for number, said in given_labels))
    wrong.take(label(corrected, verdict))
    last = {**dict(given_labels), corrected: verdict}
    order = dict.fromkeys([number for number, _ in given_labels] + [corrected])
    right = ledger(*(label(number, last[number]) for number in order))
    assert wrong.tally("straggler", pages=False) == right.tally("straggler", pages=False)


def test_real_incidents_of_one_device_do_not_free_a_detector() -> None:
    """Of one device one label a week counts."""
    same = ledger(*(label(i, device="n1/gpu/GPU-1", at_ns=i * HOUR_NS) for i in range(100)))
    assert not pages(same)
    assert same.tally("straggler", pages=False).real == 1
    assert same.tally("straggler", pages=False).incidents == 100
    weekly = ledger(*(label(i, device="n1/gpu/GPU-1", at_ns=i * APART_NS) for i in range(100)))
    assert pages(weekly)


def test_unclear_labels_keep_a_detector_in_shadow_mode_and_silence_none() -> None:
    """Not to know is no proof of either."""
    assert pages(ledger(*(label(i) for i in range(36))))
    assert not pages(ledger(*(label(i, "unclear" if i % 9 == 8 else "real") for i in range(200))))
    assert pages(ledger(*(label(i, "unclear") for i in range(200))), installed=True)


def test_a_detector_that_was_silenced_is_asked_for_twice_the_evidence() -> None:
    """And for twice as much again the next time."""
    silenced = [label(i, "false") for i in range(5)]
    freed = [label(100 + i) for i in range(36)]
    made = ledger(*silenced, *freed)
    assert not pages(made, installed=True)
    for i in range(9):
        made.take(label(200 + i))
    assert pages(made, installed=True)


def test_labels_count_for_the_detector_of_the_first_evidence_only() -> None:
    """Another that joined the incident is not judged by it."""
    made = ledger(*(replace(label(i), detectors=("xid", "straggler")) for i in range(60)))
    assert made.tally("straggler", pages=False).incidents == 0
    assert made.pages({"xid"}, ("xid", "straggler")) == {"xid"}


def test_labels_beyond_the_limit_are_refused() -> None:
    """Those that are kept stay, and can be corrected."""
    made = ledger(*(label(i) for i in range(MAX_LABELS)))
    with pytest.raises(ValueError, match=str(MAX_LABELS)):
        made.take(label(MAX_LABELS))
    made.take(label(0, "false"))
    assert made.labels["i0"].verdict == "false"
