"""Attributes of devices as they were at each observation, from the table ``devices``."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import orjson

from pipeline.frame import Attributes, Device
from pipeline.store.decode.groups import Piece
from pipeline.store.decode.reads import scope_of

# boot, source, kind, host of the device, id
Key = tuple[int, str, str, str, str]
Facts = tuple[list[int], list[str]]  # numbers of the observations that changed them, and to what
HARDWARE = ("gpu", "ib_port")  # kinds whose ids no two machines share


class Devices:
    """Devices of some hours: a row per change, the newest at or before an observation counts.

    ``boot`` gives the number of a boot by a file's scope, boot id and host, negative for none.
    """

    def __init__(self, pieces: Iterable[Piece], boot: Callable[[str, str, str], int]) -> None:
        self._facts: dict[Key, Facts] = {}
        self._made: dict[tuple[str, str, str, str], Device] = {}
        self._changes: dict[tuple[int, str, str], list[int]] = defaultdict(list)
        self._hardware: dict[int, set[str]] = defaultdict(set)
        rows: list[tuple[int, Key, str]] = []
        for piece in pieces:
            columns = (
                piece.rows[name].to_pylist()
                for name in ("seq", "boot_id", "source", "kind", "host", "device", "attributes")
            )
            scope = scope_of(piece)
            rows += (
                (seq, (boot(scope, boot_id, host), source, kind, host, device), attributes)
                for seq, boot_id, source, kind, host, device, attributes in zip(
                    *columns, strict=True
                )
            )
        rows.sort(key=lambda row: row[0])
        for seq, key, attributes in rows:
            self._add(seq, key, attributes)

    def _add(self, seq: int, key: Key, attributes: str) -> None:
        seqs, texts = self._facts.setdefault(key, ([], []))
        if texts and texts[-1] == attributes:
            return
        if key[2] in HARDWARE:
            self._hardware[key[0]].add(key[4])
        seqs.append(seq)
        texts.append(attributes)
        self._changes[key[:3]].append(seq)

    def hardware(self, boot: int) -> frozenset[str]:
        """GPUs and ports that a boot has seen."""
        return frozenset(self._hardware.get(boot, ()))

    def changes(self, boot: int, source: str, kind: str) -> list[int]:
        """Numbers of the observations with which an attribute changed, rising."""
        return self._changes.get((boot, source, kind), [])

    def at(self, key: Key, seq: int, host: str) -> Device:
        """A device as the observation with this number had it, on a host of this name."""
        seqs, texts = self._facts.get(key, ([], []))
        place = bisect_right(seqs, seq)
        text = texts[place - 1] if place else "{}"
        made = (host, key[2], key[4], text)
        if made not in self._made:
            self._made[made] = Device(host, key[2], key[4], _attributes(text))
        return self._made[made]


@lru_cache(maxsize=1 << 14)
def _attributes(text: str) -> Attributes:
    found: Mapping[str, str] = orjson.loads(text)
    return found
