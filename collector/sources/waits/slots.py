"""Numbers for what comes and goes: a job or a mount has one while it is there, so that what
keeps something of each number keeps a bounded amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Slots:
    """At most ``most`` at once; the number that has been free for longest is given next.

    >>> slots = Slots(2)
    >>> slots.place(["a", "b"]), slots.place(["b", "c", "d"])
    ({'a': 0, 'b': 1}, {'b': 1, 'c': 0})
    """

    def __init__(self, most: int) -> None:
        self._free = list(range(most))
        self._given: dict[str, int] = {}

    def place(self, keys: Iterable[str]) -> Mapping[str, int]:
        """The numbers of these; those that find none are left out."""
        here = list(dict.fromkeys(keys))
        gone = [key for key in self._given if key not in set(here)]
        self._free += (self._given.pop(key) for key in gone)
        for key in here:
            if key not in self._given and self._free:
                self._given[key] = self._free.pop(0)
        return {key: self._given[key] for key in here if key in self._given}
