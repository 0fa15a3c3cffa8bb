"""Which epoch of a device a stored row belongs to: boot, and driver load or reset where its
attributes have it (``epoch``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

Identity = tuple[str, str]  # host and id


class Epochs:
    """The epochs of all devices of a kind, from the table ``devices``: an attribute holds from its
    row on, until the next one.
    """

    def __init__(self, kind: str, devices: Iterable[pa.Table]) -> None:
        found: dict[tuple[str, Identity], list[tuple[int, str]]] = defaultdict(list)
        columns = ("boot_id", "host", "device", "seq", "kind", "attributes")
        for table in devices:
            for boot, host, device, seq, of, attributes in zip(
                *(table[c].to_pylist() for c in columns), strict=True
            ):
                if of == kind:
                    found[boot, (host, device)].append(
                        (seq, str(orjson.loads(attributes).get("epoch", "")))
                    )
        self._history = {key: sorted(set(changes)) for key, changes in found.items()}

    def numbers(
        self,
        device: NDArray[Any],
        identities: Sequence[Identity],
        boot: NDArray[Any],
        boots: Sequence[str],
        seq: NDArray[Any],
    ) -> NDArray[np.int64]:
        """A number per row, (row,), that changes where the device's boot or epoch does.

        ``device`` and ``boot`` are positions in ``identities`` and ``boots``; rows are ordered by
        device, then boot, then ``seq``.
        """
        known: dict[tuple[str, str], int] = {}
        result = np.zeros(len(seq), np.int64)
        edges = np.flatnonzero((np.diff(device) != 0) | (np.diff(boot) != 0)) + 1
        for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(seq)], strict=True):
            if start == stop:
                continue
            name = boots[int(boot[start])]
            history = [(-1, ""), *self._history.get((name, identities[int(device[start])]), [])]
            numbers = np.array(
                [known.setdefault((name, epoch), len(known)) for _, epoch in history], np.int64
            )
            result[start:stop] = numbers[
                np.searchsorted([s for s, _ in history], seq[start:stop], side="right") - 1
            ]
        return result
