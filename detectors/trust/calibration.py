"""A learnt probability that an incident is real: parameters in a JSON file, nothing that executes.

Fitted offline (``tocsin learn calibration``) by logistic regression; applied here with one sum per
incident, so that neither agent nor gateway needs scikit-learn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import exp, isfinite
from pathlib import Path
from typing import Any, Self

from detectors.faults import fault_of
from detectors.trust.openings import Opening

FORMAT = "tocsin-calibration-1"
MAX_BYTES = 262_144  # some 5,000 weights; a file beyond it is none of ours
MAX_WEIGHT = 1e6
LOWERED = "ticket"  # what may be lowered; a page never is


class ModelError(ValueError):
    """A file that is no model of ours, or is damaged."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights of the numbers of an opening (detectors/trust/openings.py) in the log-odds that it
    is real. Numbers that it does not know weigh nothing.

    ``least``: tickets whose probability is below become records. ``faults``: those of which there
    were labels enough, as ``real`` and ``false`` counts; tickets of others stay as they are.
    ``never``: those of which so many labels were false, and none real, that all become records.
    """

    intercept: float
    weights: Mapping[str, float]
    least: float
    faults: Mapping[str, tuple[int, int]]
    never: tuple[str, ...] = ()

    def probability(self, numbers: Mapping[str, float]) -> float:
        """That an incident with these numbers is real.

        >>> Calibration(0.0, {"alike": -1.0}, 0.1, {}).probability({"alike": 0.0})
        0.5
        """
        odds = self.intercept + sum(
            self.weights.get(name, 0.0) * value for name, value in numbers.items()
        )
        return 1.0 / (1.0 + exp(-max(-700.0, min(700.0, odds))))

    def lowers(self, opening: Opening, probability: float) -> bool:
        """Whether an incident is only recorded. Never a page, never what a device reports of
        itself, never a fault with too few labels.
        """
        return (
            opening.severity == LOWERED
            and opening.fault in self.faults
            and not _is_broken(opening.fault)
            and (probability < self.least or opening.fault in self.never)
        )

    @property
    def hash(self) -> str:
        """SHA-256 of the parameters, hexadecimal."""
        return hashlib.sha256(_canonical(self._parameters()).encode()).hexdigest()

    def text(self) -> str:
        """As JSON on one line, with its hash."""
        return _canonical({"format": FORMAT, **self._parameters(), "sha256": self.hash})

    def _parameters(self) -> dict[str, Any]:
        """As they are hashed: files of before ``never`` have none."""
        found = asdict(self)
        return found if self.never else {k: v for k, v in found.items() if k != "never"}

    @classmethod
    def of(cls, text: str) -> Self:
        """From what ``text`` gave. ModelError says what is wrong."""
        if len(text) > MAX_BYTES:
            raise ModelError(f"longer than {MAX_BYTES} bytes")
        try:
            document = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"not JSON: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ModelError(f"format: expected {FORMAT}")
        try:
            made = cls(
                _number(document["intercept"]),
                {str(k): _number(v) for k, v in dict(document["weights"]).items()},
                _number(document["least"]),
                {str(k): (int(r), int(f)) for k, (r, f) in dict(document["faults"]).items()},
                tuple(str(fault) for fault in document.get("never", ())),
            )
        except KeyError as error:
            raise ModelError(f"{error.args[0]}: missing") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"a value of the wrong kind: {error}") from error
        if not 0.0 <= made.least < 1.0:
            raise ModelError("least: expected a probability below 1")
        if document.get("sha256") != made.hash:
            raise ModelError("sha256: does not match the parameters; the file was changed")
        return made


def _is_broken(fault: str) -> bool:
    """Whether a device certainly reported it of itself: no statistic says otherwise."""
    row = fault_of(fault)
    return row.certain and row.origin == "hardware" and not row.symptom


def read(path: Path) -> Calibration:
    """The model in a file. ModelError or OSError."""
    with path.open("rb") as file:
        head = file.read(MAX_BYTES + 1)
    try:
        return Calibration.of(head.decode())
    except UnicodeDecodeError as error:
        raise ModelError(f"not UTF-8: {error.reason}") from error


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, got {value!r:.40}")
    if not isfinite(value) or abs(value) > MAX_WEIGHT:
        raise ValueError(f"{value!r:.40} is out of range")
    return float(value)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _canonical(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
