"""Labels decide which detectors may page, and nothing frees one without evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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


# Whoever labels may label in runs, correct what was said, label one device again and again, and
# have incidents of other detectors in between.
RUNS = st.lists(
    st.tuples(
        st.sampled_from(("real", "real", "real", "false", "unclear")),
        st.integers(1, 60),
        st.sampled_from(("new", "new", "new", "same device", "corrected", "other detector")),
    ),
    min_size=1,
    max_size=12,
)


def labels_of(runs: list[tuple[Verdict, int, str]]) -> Iterator[Label]:
    """Of what somebody did, one after the other."""
    number = 0
    for verdict, count, how in runs:
        for i in range(count):
            number += how != "corrected"
            one = label(i if how == "corrected" else 1000 + number, verdict)
            if how == "same device":
                one = replace(one, device="n1/gpu/GPU-1")
            elif how == "other detector":
                one = replace(one, detectors=("xid", "straggler"))
            yield one


def may_page(made: Ledger, *, installed: bool) -> bool:
    """Whether the rule of docs/labels.md lets a detector page, in exact numbers: real against
    others at odds of .98 to .9, to enter again real against false at odds of .6 to .8.
    """
    mode, entered = installed, 0
    evidence = Fraction(1)
    devices: set[str] = set()
    for one in made.labels.values():
        if one.detectors[0] != "straggler" or one.device in devices:
            continue
        devices.add(one.device)  # all of them opened within a week
        if mode and one.verdict != "unclear":
            evidence *= Fraction(3, 4) if one.verdict == "real" else Fraction(2)
        elif not mode:
            evidence *= Fraction(49, 45) if one.verdict == "real" else Fraction(1, 5)
        if evidence >= (20 if mode else 20 * 2**entered):
            entered += mode
            mode, evidence = not mode, Fraction(1)
    return mode


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(RUNS, st.booleans())
@example([("real", 36, "new"), ("false", 5, "new"), ("real", 45, "new")], False)
@example([("false", 40, "new"), ("real", 40, "corrected")], True)
@example([("real", 60, "same device"), ("real", 60, "other detector")], False)
def test_no_sequence_of_labels_lets_a_detector_page_outside_its_bound(
    runs: list[tuple[Verdict, int, str]], installed: bool
) -> None:
    """Whoever labels what, corrects or repeats: after each label it pages as the rule says, counted
    again in exact numbers.
    """
    made = Ledger()
    for one in labels_of(runs):
        made.take(one)
        assert pages(made, installed=installed) == may_page(made, installed=installed)


@pytest.mark.slow
def test_a_detector_of_true_precision_ninety_percent_is_hardly_ever_free() -> None:
    """One in twenty at most, looked at after each of 400 honest labels: exact chances of all
    sequences, none drawn.
    """
    share, ever = 0.9, 0.0
    weights = {PagingState(pages=False): 1.0}
    for number in range(400):
        after: dict[PagingState, float] = defaultdict(float)
        for state, weight in weights.items():
            chances: dict[Verdict, float] = {"real": share, "false": 1 - share}
            for verdict, chance in chances.items():
                one = replace(state.after(label(number, verdict)), changed_by="")
                after[one] += weight * chance
        ever += sum(weight for state, weight in after.items() if state.pages)
        weights = {
            state: weight
            for state, weight in after.items()
            if not state.pages and weight > 1e-9  # freed once is freed
        }
    assert 0.01 < ever <= 0.05


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
