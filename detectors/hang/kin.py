"""What jobs alike did before: a job that is submitted again is no stranger."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.hang.pauses import KINDS
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.observation import Event

Floats = NDArray[np.float64]
MAX_KEPT = 256  # the least recently seen leaves
MAX_LETTERS = 128  # of a name: users choose them


class Key(NamedTuple):
    """Jobs of one user, one name and one size are alike."""

    user: str
    name: str
    hosts: int


NOBODY = Key("", "", 0)  # of a job whose user is in doubt


def key_of(event: Event) -> Key | None:
    """The key of a job that started, None where its user or name is not reported: a job of another
    user must not teach anything about this one.
    """
    facts = event.attributes
    user, name, hosts = facts.get("user"), facts.get("name"), facts.get("hosts", 0)
    if not isinstance(user, str) or not isinstance(name, str) or not user or not name:
        return None
    return Key(user[:MAX_LETTERS], name[:MAX_LETTERS], hosts if isinstance(hosts, int) else 0)


class Kin:
    """Longest pauses and their number by kind, and the longest stop that copied to the host.

    >>> kin, key = Kin(), Key("ada", "train", 2)
    >>> kin.remember(key, np.ones(KINDS), np.ones(KINDS), 60.0)
    >>> [np.asarray(part).tolist() for part in kin.recall(key)]
    [[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0], 60.0]
    >>> kin.recall(Key("bob", "train", 2))[2]
    0.0
    """

    def __init__(self) -> None:
        self._of: dict[Key, tuple[Floats, Floats, float]] = {}

    def remember(self, key: Key, longest_s: Floats, number: Floats, moved_s: float) -> None:
        """What a job did until now."""
        old = self._of.pop(key, None)
        if old is not None:
            longest_s, number = np.fmax(longest_s, old[0]), np.fmax(number, old[1])
            moved_s = max(moved_s, old[2])
        self._of[key] = (longest_s.copy(), number.copy(), moved_s)
        while len(self._of) > MAX_KEPT:
            del self._of[next(iter(self._of))]

    def recall(self, key: Key | None) -> tuple[Floats, Floats, float]:
        """What jobs alike did, zeros where none is known."""
        return self._of.get(key, (np.zeros(KINDS), np.zeros(KINDS), 0.0))  # type: ignore[arg-type] # None is no key

    def alike(self, key: Key) -> Floats:
        """Seconds that pauses of other jobs of a user last, by kind: the second longest of those of
        each, so that one dump of a complete model teaches nothing; zeros where two are not known.

        >>> kin, keys = Kin(), [Key("ada", "train", hosts) for hosts in range(3)]
        >>> for key, longest in zip(keys, (60.0, 900.0, 6000.0), strict=True):
        ...     kin.remember(key, np.full(KINDS, longest), np.ones(KINDS), 0.0)
        >>> float(kin.alike(Key("ada", "tune", 9))[0]), float(kin.alike(keys[0])[0])
        (900.0, 900.0)
        """
        others = [
            longest
            for other, (longest, *_) in self._of.items()
            if other != key and other.user == key.user
        ]
        return np.asarray(np.sort(others, axis=0)[-2]) if len(others) > 1 else np.zeros(KINDS)

    def state(self) -> State:
        """All of it."""
        rows = [
            [*key, longest.tolist(), number.tolist(), moved]
            for key, (longest, number, moved) in self._of.items()
        ]
        return {"of": text_array(rows)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        of = {}
        for user, name, hosts, longest, number, moved in from_text_array(state["of"]):
            pair = np.array([longest, number], np.float64)
            if pair.shape != (2, KINDS):
                raise ValueError("pauses of jobs do not fit")
            of[Key(str(user), str(name), int(hosts))] = (pair[0], pair[1], float(moved))

        def commit() -> None:
            self._of = of

        return commit
