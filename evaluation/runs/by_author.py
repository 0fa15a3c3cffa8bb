"""Worlds of other authors beside the suite, class by class: whether recall holds where nobody knew
the detectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from evaluation.independent import WORLDS
from evaluation.metrics.figures import recall
from evaluation.metrics.match import Case
from evaluation.runs.run import OURS, SHIPPED, case_from
from evaluation.runs.suite import MAGNITUDES


def by_author(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per scope, candidate of ours and class that such worlds have, at nominal magnitude:
    ``recall`` there and ``suite``, that of the suite's faults that this scope can know.
    """
    theirs: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    own: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for result in results:
        if result["job"]["magnitude"] != MAGNITUDES[0]:
            continue
        other = result["job"]["scenario"] in WORLDS
        for part in result["results"]:
            if part["contestant"] not in (OURS, SHIPPED):
                continue
            if not other and part["scope"] == "node" and result["needs"] == "fleet":
                continue
            for case in map(case_from, part["cases"]):
                key = part["scope"], part["contestant"], case.fault
                (theirs if other else own)[key].append(case)
    return [
        {"scope": scope, "contestant": who, "class": fault}
        | {"recall": recall(cases).document(), "suite": recall(own[key]).document()}
        for key, cases in sorted(theirs.items())
        for scope, who, fault in [key]
    ]
