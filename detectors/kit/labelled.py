"""States of several things as one, each under its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.snapshot import State


def labelled(what: str, states: Iterable[tuple[str, State]]) -> dict[str, NDArray[Any]]:
    """States by name as one; no name has a line end in it. One without arrays is kept too."""
    return {
        f"{what}\n{name}\n{key}": array
        for name, state in states
        for key, array in ({"": np.zeros(0)} | dict(state)).items()
    }


def unlabelled(what: str, state: State) -> dict[str, dict[str, NDArray[Any]]]:
    """The states again, by name."""
    states: dict[str, dict[str, NDArray[Any]]] = {}
    for label, array in state.items():
        kind, _, rest = label.partition("\n")
        if kind == what:
            name, _, key = rest.partition("\n")
            own = states.setdefault(name, {})
            if key:
                own[key] = array
    return states
