"""The components of a detector's memory: they survive a restart together, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from detectors.kit.node_numbers import NodeNumbers
from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from pipeline.finding import Finding
from pipeline.interfaces import Current

Commit = Callable[[], None]


@runtime_checkable
class Component(Protocol):
    """Something that remembers.

    ``prepare`` checks a state, changes nothing, and returns what takes it over.

    It raises KeyError, ValueError, IndexError or TypeError where the state does not fit.
    """

    def state(self) -> State:
        """Everything it remembers, as arrays without Python objects."""
        ...

    def prepare(self, state: State) -> Commit:
        """What makes this its memory."""
        ...


class Stateful:
    """A detector whose memory is its attributes that are components.

    See detectors/kit/snapshot.py for what ``version`` means.

    >>> class Counting(Stateful):
    ...     def __init__(self) -> None:
    ...         self._numbers = Numbers(n=3)
    >>> Counting().state()
    {'numbers.n': array([3.])}
    """

    version = 1

    def components(self) -> Mapping[str, Component]:
        """Each under the name of its attribute; a detector with nested components adds them."""
        return {
            name.removeprefix("_"): value
            for name, value in vars(self).items()
            if isinstance(value, Component)
        }

    def state(self) -> State:
        """All components, each under its own name."""
        return {
            f"{name}.{key}": array
            for name, component in self.components().items()
            for key, array in component.state().items()
        }

    def current(self) -> list[Finding]:
        """Its open findings with the evidence that was last true, at their ``time_ns``."""
        components = self.components().values()
        return [one for part in components if isinstance(part, Current) for one in part.current()]

    def restore(self, state: State) -> None:
        """Take over a complete state; it raises where any component does not fit, and then nothing
        has changed.
        """
        commits = []
        for name, component in self.components().items():
            prefix = f"{name}."
            commits.append(
                component.prepare(
                    {
                        key.removeprefix(prefix): array
                        for key, array in state.items()
                        if key.startswith(prefix)
                    }
                )
            )
        for commit in commits:
            commit()


class Numbers:
    """Single numbers of a detector: what it pools over all devices.

    Used like a dictionary of floats. Where nodes are joined each node has its own, and they are
    arrays (node in sight,).

    >>> numbers = Numbers(s2=0.01)
    >>> numbers["s2"] += 1
    >>> other = Numbers(s2=0.0)
    >>> other.prepare(numbers.state())()
    >>> other["s2"]
    1.01
    """

    def __init__(self, **values: float) -> None:
        self._values = {name: float(value) for name, value in values.items()}
        self._of_nodes: NodeNumbers | None = None

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if self._of_nodes is None else self._of_nodes[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if self._of_nodes is None:
            self._values[name] = float(value)
        else:
            self._of_nodes[name] = value

    def join(self, roll: Roll) -> None:
        """Numbers of several nodes."""
        self._of_nodes = NodeNumbers(roll, **self._values)

    def state(self) -> State:
        """One array of one number each."""
        if self._of_nodes is not None:
            return self._of_nodes.state()
        return {name: np.array([value]) for name, value in self._values.items()}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError unless every number is there."""
        if self._of_nodes is not None:
            return self._of_nodes.prepare(state)
        values = {
            name: float(state[name].astype(np.float64).reshape(1)[0]) for name in self._values
        }
        return lambda: self._values.update(values)


def text_array(value: Any) -> NDArray[np.uint8]:
    """Lists, mappings, numbers and text as JSON in an array of bytes: for the few things that
    are no numbers per device.

    >>> from_text_array(text_array({"a": [1, None]}))
    {'a': [1, None]}
    """
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def from_text_array(array: NDArray[Any]) -> Any:
    """What ``text_array`` kept; ValueError where it is not that."""
    return json.loads(array.astype(np.uint8).tobytes())
