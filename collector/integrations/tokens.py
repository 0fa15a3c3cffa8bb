"""The cap on drained nodes, kept by the controller: numbered tokens, of which slurmctld
gives each to one node only.

A token is a reservation with a fixed name that never takes effect (it lies ten years ahead). Names
are unique in slurmctld, so of all nodes that ask for one at the same moment one gets it. A node is
drained only while it holds a slot, and there are no more slots than the cap: however many health
checks fire together, and wherever one of them dies, no more nodes than that are drained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Protocol

SLOT, HOUR, OFF = "tocsin_slot_", "tocsin_hour_", "tocsin_off"
HOUR_FORMAT = "%Y%m%d%H"


class Holder(Protocol):
    """Who keeps the tokens."""

    def tokens(self, prefix: str) -> dict[str, str]:
        """Names that begin so, and the node that holds each."""
        ...

    def take(self, token: str, node: str) -> bool:
        """Get a token; False if it is taken."""
        ...

    def drop(self, token: str) -> None:
        """Give it back."""
        ...


class Tokens:
    """Slots and hourly allowances for one node."""

    def __init__(self, holder: Holder, node: str) -> None:
        self._holder, self._node = holder, node

    def all_off(self) -> bool:
        """Whether the fleet's switch on the controller is set: a
        reservation named ``tocsin_off``.
        """
        return OFF in self._holder.tokens(OFF)

    def slot(self, most: int) -> str:
        """A slot of this node, one that it holds already or a free one;
        empty where all are taken.
        """
        taken = self._holder.tokens(SLOT)
        mine = [name for name, node in taken.items() if node == self._node]
        return (
            mine[0]
            if mine
            else self._first(
                f"{SLOT}{number}" for number in self._order(most) if f"{SLOT}{number}" not in taken
            )
        )

    def hour(self, most: int, now: float) -> str:
        """One of the allowances of this hour; empty where they are used up.

        Those of the hour before count too, and those of later hours up to a day: a clock that was
        set back gives nobody a second allowance. A node drops its own old ones, and others' after a
        day: one whose clock is ahead takes nobody's away that still counts.
        """
        at = datetime.fromtimestamp(now, UTC)
        this, before, old, later = (
            f"{HOUR}{(at - timedelta(hours=back)).strftime(HOUR_FORMAT)}_"
            for back in (0, 1, 24, -24)
        )
        taken = self._holder.tokens(HOUR)
        for name, node in taken.items():
            if name < (before if node == self._node else old):  # names sort as time does
                self._holder.drop(name)
        left = most - sum(before <= name < later and not name.startswith(this) for name in taken)
        return self._first(
            f"{this}{number:03}"
            for number in range(1, left + 1)
            if f"{this}{number:03}" not in taken
        )

    def drop_slots(self) -> None:
        """Give back every slot that this node holds."""
        for name, node in self._holder.tokens(SLOT).items():
            if node == self._node:
                self._holder.drop(name)

    def drop(self, token: str) -> None:
        """Give one back."""
        self._holder.drop(token)

    def _first(self, names: Iterable[str]) -> str:
        return next((name for name in names if self._holder.take(name, self._node)), "")

    def _order(self, most: int) -> list[int]:
        """Slots in an order of this node's own, so that many that ask at once do
        not all ask for the same.
        """
        first = int.from_bytes(
            hashlib.blake2b(self._node.encode(), digest_size=4).digest(), "big"
        ) % max(most, 1)
        return [(first + number) % most + 1 for number in range(most)]
