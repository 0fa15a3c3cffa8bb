"""What a calibration learns from labelled incidents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.learning.measure_calibration import table
from benchmarks.learning.worlds import Opened
from detectors.trust.openings import Opening
from history.learning.calibrate import MIN_EACH, NEVER_REAL, TooFewLabelsError, calibrate
from history.learning.examples import Example, apart, examples

pytestmark = pytest.mark.slow  # imports scikit-learn
HOUR_NS = 3600 * 10**9


def fleet(number: int, seed: int) -> list[Opened]:
    """Tickets of stalls, real where they are far from usual, false where they are near; and every
    tenth the other way round where that may not matter.
    """
    rng = np.random.default_rng(seed)
    found = []
    for i in range(number):
        real = bool(rng.random() < 0.3)
        value = float(np.exp(rng.normal(3.0 if real else 0.5, 0.6)))
        at_ns = (1 + i * 30) * HOUR_NS
        opening = Opening("hang", "hang/rank_stuck", "ticket", "job", f"n{i}", at_ns, value, 1.0)
        found.append(Opened(opening, f"n{i}/job/{i}", real))
    return found


def labelled(found: list[Opened]) -> list[Example]:
    """All of them."""
    return list(examples((one.opening, one.real, one.device) for one in found))


def test_half_of_the_false_tickets_go_and_no_real_one_where_a_number_tells_them_apart() -> None:
    """On incidents that it has not seen."""
    (row,) = table({"a": fleet(60, 1)}, {"b": fleet(200, 2), "c": fleet(200, 3)})
    assert row["labels"] == 60
    assert row["false_avoided"]["low95"] > 0.5
    assert row["real_kept"]["value"] > 0.95
    assert row["brier"]["with"] < row["brier"]["without"]


def test_the_same_labels_give_the_same_model() -> None:
    """Two gateways that learn alike judge alike."""
    once, again = (calibrate(labelled(fleet(60, 1))) for _ in range(2))
    assert once.hash == again.hash


def cases() -> Iterator[tuple[list[Example], str]]:
    """Labels from which nothing can be learnt, and what is missing."""
    every = labelled(fleet(100, 1))
    real = [one for one in every if one.real]
    false = [one for one in every if not one.real]
    yield [], "0 of 0 labelled incidents are real"
    yield real, f"0 of {len(real)} labelled incidents are false"
    yield false + real[: MIN_EACH - 1], f"{MIN_EACH - 1} of"


@pytest.mark.parametrize(("found", "words"), list(cases()), ids=["none", "one verdict", "too few"])
def test_too_few_labels_are_refused_with_how_many_are_needed(
    found: list[Example], words: str
) -> None:
    """Of each verdict."""
    with pytest.raises(TooFewLabelsError, match=words):
        calibrate(found)


def test_a_fault_with_hardly_any_label_is_not_lowered() -> None:
    """Whatever is learnt of others."""
    found = labelled(fleet(60, 1))
    other = Opening("waste", "waste", "ticket", "gpu", "n1", HOUR_NS)
    model = calibrate([*found, *labelled([Opened(other, "n1/gpu/1", real=False)])])
    assert not model.lowers(other, 0.0)


def test_a_fault_whose_labels_were_all_false_is_never_real_from_fourteen_on() -> None:
    """Without any label of a real incident, of which a probability would need fifteen."""
    found = [one for one in labelled(fleet(60, 1)) if not one.real]
    model = calibrate(found[:NEVER_REAL], never_real=True)
    assert model.never == ("hang/rank_stuck",)
    assert model.lowers(found[0].opening, model.probability(found[0].numbers))
    with pytest.raises(TooFewLabelsError):
        calibrate(found[: NEVER_REAL - 1], never_real=True)
    with pytest.raises(TooFewLabelsError):  # where it is not asked for
        calibrate(found[:NEVER_REAL])


def test_one_real_label_keeps_a_fault_from_being_never_real() -> None:
    """However many are false."""
    every = labelled(fleet(100, 1))
    false, real = ([one for one in every if one.real is verdict] for verdict in (False, True))
    with pytest.raises(TooFewLabelsError):
        calibrate([*false[:NEVER_REAL], real[0]], never_real=True)


def test_incidents_of_one_device_within_a_week_are_one_observation() -> None:
    """They are hardly independent; another fault is another observation."""
    found = labelled(fleet(3, 1))
    same = [Example(one.opening, one.numbers, one.real, "n0/gpu/0") for one in found]
    assert len(apart(same)) == 1
    assert len(apart(found)) == 3
