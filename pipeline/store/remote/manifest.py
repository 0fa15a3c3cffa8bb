"""Manifests of a cluster's compacted hours: which files count, and which of the
nodes' files they replace.

``compacted/<table>/date=YYYY-MM-DD/hour=HH/manifest-<generation>.json`` beside the files that it
names. A manifest is put where none of its name is, after all its files: the newest one is the
truth, and a file that none names does not count. Late files add a *part* under the next generation;
what is written is never written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath

from pipeline.store.remote.objects import Objects

ROOT = "compacted"
AT_ONCE = 8  # requests; more only queue at the store
FORMAT = 1
_NAME = re.compile(r"manifest-(\d{6})\.json")


@dataclass(frozen=True, slots=True)
class Part:
    """What one run added: ``files`` (name to bytes) beside the manifest, made of ``sources`` (names
    in the nodes' own layout).

    ``damaged``: sources that could not be read, and why; they stay where they are. Those of a newer
    version are in neither.
    ``written_us``: unix time.
    """

    written_us: int
    files: Mapping[str, int]
    sources: tuple[str, ...]
    damaged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What counts in one hour of one table."""

    generation: int = 0
    parts: tuple[Part, ...] = ()

    @property
    def files(self) -> dict[str, int]:
        """Names of the files that count, with their bytes."""
        return {name: size for part in self.parts for name, size in part.files.items()}

    @property
    def covered(self) -> frozenset[str]:
        """Names of the nodes' files that must not be read beside them."""
        return frozenset(name for part in self.parts for name in (*part.sources, *part.damaged))

    def plus(self, part: Part) -> Manifest:
        """The next generation."""
        return Manifest(self.generation + 1, (*self.parts, part))

    def to_json(self) -> bytes:
        """For the store."""
        return json.dumps(
            {
                "format": FORMAT,
                "generation": self.generation,
                "parts": [asdict(part) for part in self.parts],
            }
        ).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """From the store. ValueError where it is none, or of a newer layout."""
        try:
            given = json.loads(text)
            if given["format"] > FORMAT:
                raise ValueError(
                    f"written by a newer version (layout {given['format']}, this "
                    f"one reads {FORMAT})"
                )
            parts = tuple(
                Part(p["written_us"], p["files"], tuple(p["sources"]), p["damaged"])
                for p in given["parts"]
            )
            return cls(int(given["generation"]), parts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no manifest of ours: {error!r}") from error


def name_of(generation: int) -> str:
    """Name of a manifest.

    >>> name_of(3), generation_of("manifest-000003.json"), generation_of("x.parquet")
    ('manifest-000003.json', 3, 0)
    """
    return f"manifest-{generation:06d}.json"


def generation_of(name: str) -> int:
    """Generation of a manifest's name, 0 for any other name."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else 0


def live_objects(store: Objects, prefix: str) -> list[tuple[str, int]]:
    """Objects below a table's folder (``gpu/``, ``gpu/date=.../``) that count, with their bytes:
    nodes' own and a cluster's compacted ones.

    Each row is in one of them. ValueError names a manifest that cannot be read.
    """
    return live_among(store, *listed(store, prefix))


Sized = list[tuple[str, int]]  # names of objects and their bytes


def listed(store: Objects, prefix: str) -> tuple[Sized, Sized]:
    """What lies below a table's folder in a cluster's compacted part, and of the nodes' own.

    In this order: an own file goes long after a manifest that covers it came.
    """
    return list(store.sizes(f"{ROOT}/{prefix}")), list(store.sizes(prefix))


def live_among(store: Objects, compacted: Sized, own: Sized) -> Sized:
    """Those objects that count of some hours, all of whose objects were ``listed``. Errors as
    ``live_objects``.
    """
    manifests = newest(store, [key for key, _ in compacted])
    covered = {
        f"{folder.removeprefix(ROOT)[1:]}/{name}"
        for folder, manifest in manifests.items()
        for name in manifest.covered
    }
    counts = [(key, size) for key, size in own if key.endswith(".parquet") and key not in covered]
    return counts + [
        (f"{folder}/{name}", size)
        for folder, manifest in manifests.items()
        for name, size in manifest.files.items()
    ]


def newest(store: Objects, keys: Iterable[str]) -> dict[str, Manifest]:
    """The newest manifest of each folder among these keys.

    ValueError names one that cannot be read, RefusedError as the store.
    """
    latest: dict[str, int] = {}
    for key in keys:
        path = PurePosixPath(key)
        generation = generation_of(path.name)
        if generation:
            latest[str(path.parent)] = max(generation, latest.get(str(path.parent), 0))

    def read(item: tuple[str, int]) -> Manifest:
        key = f"{item[0]}/{name_of(item[1])}"
        try:
            return Manifest.from_json(store.get(key))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error

    folders = sorted(latest.items())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {
            folder: one for (folder, _), one in zip(folders, pool.map(read, folders), strict=True)
        }
