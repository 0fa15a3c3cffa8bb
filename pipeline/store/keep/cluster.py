"""Compaction for a cluster: the closed hours of all nodes in an object store or shared
directory become few large files.

Written below a root of its own, each hour with a manifest (see manifest.py); then, when readers
have had time, the nodes' own files of that hour go. Two compactors do no harm: the manifest that
comes first counts, the other's files are garbage and are removed.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from pipeline.store.files.columns import holds, of_sources
from pipeline.store.files.layout import HOUR_US, cluster_file, day_us, hour_of, owner_of
from pipeline.store.files.merge import merge
from pipeline.store.files.parquet import (
    DiskError,
    ForeignError,
    NewerFileError,
    Writer,
    columns_in,
    conform,
    opened,
)
from pipeline.store.files.schema import BEGIN, TABLES, schema
from pipeline.store.keep.changes import changes_only
from pipeline.store.remote.manifest import ROOT, Manifest, Part, generation_of, name_of, newest
from pipeline.store.remote.objects import Objects

log = logging.getLogger("tocsin.store")

# after an hour's end: normally sealed within a quarter of an hour and sent within another; later
# ones add a part
GRACE_US = HOUR_US
# after a manifest covers them, nodes' files go: readers of an older manifest have long finished
EXPIRE_US = 48 * HOUR_US
# a file that no manifest names is of a run that was killed, or lost a race
ORPHAN_US = 24 * HOUR_US
NEVER_US = 1 << 62
TARGET_BYTES = 256 << 20  # of a file: 128 to 512 MB suit Spark and Trino
# of sources merged at a time: small tables of many nodes share their row groups
BATCH_BYTES = 8 << 20


@dataclass(slots=True)
class Merged:
    """What a run did: hours that got a new generation, files written with their bytes, sources
    merged, damaged, expired, of a newer version.
    """

    hours: int = 0
    files: int = 0
    size: int = 0
    sources: int = 0
    expired: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    newer: list[str] = field(default_factory=list)

    def add(self, other: Merged) -> None:
        """What was done elsewhere."""
        self.hours += other.hours
        self.files += other.files
        self.size += other.size
        self.sources += other.sources
        self.damaged |= other.damaged
        self.newer += other.newer


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of a table that is to be compacted: its folder, its manifest as it was found, and
    the sources that this does not cover.
    """

    table: str
    folder: str
    manifest: Manifest
    fresh: tuple[str, ...]


@dataclass(slots=True)
class _Table:
    """What there is of a table: names below the root, its manifests and the nodes' own files, both
    by the folder of their hour.
    """

    compacted: list[str]
    manifests: dict[str, Manifest]
    raw: dict[str, list[str]]


# What adds hours: in this process, or elsewhere. Each hour stands for itself.
Add = Callable[[Sequence[Hour]], Iterable[Merged]]


class Cluster:
    """The compactor of one store.

    ``now_us`` is unix time; ``scratch`` a local folder with room for a few files.
    """

    def __init__(self, store: Objects, now_us: int, scratch: Path) -> None:
        self._store, self._now_us, self._scratch = store, now_us, scratch
        self._run = uuid.uuid4().hex[:12]

    def compact(self, add: Add | None = None) -> Merged:
        """Compact what is closed and new, by ``add`` where another does it; remove what is expired.

        RefusedError where the store refuses.
        """
        done, tables = Merged(), dict[str, _Table]()
        for table in TABLES:
            try:
                tables[table] = self._found(table)
            except ValueError as error:
                # a manifest that cannot be read: the table is left alone until an operator has
                # looked
                log.warning("%s is not compacted: %s", table, error)
                done.damaged[table] = str(error)
        for found in tables.values():  # first: on a full disk nothing can be added
            for folder, keys in sorted(found.raw.items()):
                self._expire(found.manifests.get(folder, Manifest()), keys, done)
            self._clean(found.compacted, found.manifests)
        hours = [hour for table, found in tables.items() for hour in self._closed(table, found)]
        for added in (add or self._here)(hours):
            done.add(added)
        if done.newer:
            log.warning(
                "%d files of a newer version wait for a newer compactor, the first is %s",
                len(done.newer),
                done.newer[0],
            )
        return done

    def _here(self, hours: Sequence[Hour]) -> Iterator[Merged]:
        return map(self.add, hours)

    def _found(self, table: str) -> _Table:
        compacted = list(self._store.names(f"{ROOT}/{table}/"))
        raw: dict[str, list[str]] = defaultdict(list)
        for key in self._store.names(f"{table}/"):
            if key.endswith(".parquet") and _hour_us(key) is not None:
                raw[f"{ROOT}/{PurePosixPath(key).parent}"].append(key)
        return _Table(compacted, newest(self._store, _unfinished(compacted, raw)), raw)

    def _closed(self, table: str, found: _Table) -> Iterator[Hour]:
        """Hours that are over and have new sources."""
        for folder, keys in sorted(found.raw.items()):
            manifest = found.manifests.get(folder, Manifest())
            fresh = [key for key in keys if PurePosixPath(key).name not in manifest.covered]
            if fresh and (_hour_us(keys[0]) or 0) + HOUR_US + GRACE_US <= self._now_us:
                yield Hour(table, folder, manifest, tuple(fresh))

    def add(self, hour: Hour) -> Merged:
        """Merge new sources of an hour into a part of the next generation; those of a newer version
        stay new.

        A run that is killed leaves files that no manifest names, which `compact` removes a day
        later.
        """
        table, folder, manifest = hour.table, hour.folder, hour.manifest
        generation, files, done = manifest.generation + 1, dict[str, int](), Merged()
        with TemporaryDirectory(dir=self._scratch) as place:
            merged = self._merged(table, hour.fresh, Path(place), done)
            for number, (path, size) in enumerate(merged):
                name = cluster_file(generation, number, self._now_us, self._run)
                self._store.put(f"{folder}/{name}", path)
                path.unlink()
                files[name] = size
            left = {*done.damaged, *done.newer}
            names = [name for key in hour.fresh if (name := PurePosixPath(key).name) not in left]
            if not names and not done.damaged:
                return done
            after = manifest.plus(Part(self._now_us, files, tuple(names), done.damaged))
            if not self._put(f"{folder}/{name_of(generation)}", after, Path(place)):
                return Merged()
        for name, why in done.damaged.items():
            log.warning("not moved: %s: %s", name, why)
        done.hours, done.files, done.sources = 1, len(files), len(names)
        done.size = sum(files.values())
        return done

    def _put(self, key: str, manifest: Manifest, place: Path) -> bool:
        """Whether a manifest counts now: its name may be taken by another compactor, or by this
        one, whose first answer was lost. Where it does not count, the files it alone names go.
        """
        document, folder = place / "manifest", PurePosixPath(key).parent
        document.write_bytes(manifest.to_json())
        if self._store.put(key, document):
            return True
        there = self._store.get(key)
        if there == document.read_bytes():
            return True
        log.warning("%s: another compactor got there first", folder)
        for name in manifest.parts[-1].files:
            if name.encode() not in there:
                self._store.remove(f"{folder}/{name}")
        return False

    def _merged(
        self, table: str, keys: Sequence[str], place: Path, done: Merged
    ) -> Iterator[tuple[Path, int]]:
        """Files of about TARGET_BYTES made of these sources, nodes in the order of their names;
        each is the caller's to remove.
        """
        number, file, path, columns = 0, None, place, of_sources(table, [])
        for batch in self._fetched(table, keys, place, done):
            needed = of_sources(table, [columns_in(source, table) for source in batch])
            if file is not None and (
                path.stat().st_size >= TARGET_BYTES or not holds(file.columns, needed)
            ):
                file.close()
                yield path, path.stat().st_size
                file = None
            if file is None:
                # so that it soon has those of all nodes
                columns = of_sources(table, [columns, needed])
                path = place / f"{number}.parquet"
                file, number = Writer(table, path, columns, level=3), number + 1
            if table == "devices":
                file.write(changes_only(batch))
            else:
                merge(batch, table, file, place / "scratch")
        if file is not None:
            file.close()
            yield path, path.stat().st_size

    def _fetched(
        self, table: str, keys: Iterable[str], place: Path, done: Merged
    ) -> Iterator[list[Path]]:
        """Local copies of the sources that can be merged, whole nodes together,
        about BATCH_BYTES at a time; the others are entered in ``done``.
        """
        batch: list[Path] = []
        owner = ""
        for key in sorted(keys, key=lambda key: (owner_of(PurePosixPath(key).name), key)):
            path = place / PurePosixPath(key).name
            if (
                batch
                and owner_of(path.name) != owner
                and sum(p.stat().st_size for p in batch) >= BATCH_BYTES
            ):
                yield batch
                _remove(batch)
                batch = []
            owner = owner_of(path.name)
            path.write_bytes(self._store.get(key))
            if _can_merge(path, table, done):
                batch.append(path)
            else:
                path.unlink()
        if batch:
            yield batch
            _remove(batch)

    def _expire(self, manifest: Manifest, keys: Iterable[str], done: Merged) -> None:
        old = {
            name
            for part in manifest.parts
            if part.written_us + EXPIRE_US <= self._now_us
            for name in part.sources
        }
        for key in keys:
            if PurePosixPath(key).name in old:
                self._store.remove(key)
                done.expired += 1

    def _clean(self, compacted: Iterable[str], manifests: dict[str, Manifest]) -> None:
        """Remove, when they are a day old, manifests that a newer one followed,
        and files that none names.
        """
        for key in compacted:
            path = PurePosixPath(key)
            manifest = manifests.get(str(path.parent))
            if (
                manifest is None
                or path.name in manifest.files
                or generation_of(path.name) == manifest.generation
            ):
                continue
            since_us = (
                manifest.parts[-1].written_us
                if generation_of(path.name)
                else _written_us(path.name)
            )
            if since_us + ORPHAN_US <= self._now_us:
                self._store.remove(key)


def _unfinished(compacted: Sequence[str], raw: Mapping[str, object]) -> list[str]:
    """Names in the hours that may have something to add or to remove: those with nodes' files,
    which stay longer than anything that no manifest names, and those with several manifests. The
    others are thousands, and each is a request.
    """
    manifests = Counter(
        str(path.parent) for path in map(PurePosixPath, compacted) if generation_of(path.name)
    )
    hours = {*raw, *(folder for folder, count in manifests.items() if count > 1)}
    return [key for key in compacted if str(PurePosixPath(key).parent) in hours]


def _can_merge(path: Path, table: str, done: Merged) -> bool:
    """Whether a source can be merged, every page is looked at; entered in ``done`` where it is
    damaged, no file of ours, or of a newer layout or catalogue: one node's file must not stop the
    merging of others. OSError where the disk fails here.
    """
    try:
        with opened(path, table) as file:
            if not set(file.schema_arrow.names) <= set(schema(table).names):
                raise NewerFileError(path, "has columns of a newer catalogue")
            for group in range(file.num_row_groups):
                rows = conform(file.read_row_group(group), table)
                if any(rows[column].null_count for column, *_ in BEGIN):
                    raise ForeignError(path, "has rows without a time, host, device or number")
    except DiskError:  # of the copy: the source may be whole
        raise
    except NewerFileError:
        done.newer.append(path.name)
        return False
    except ForeignError as error:
        done.damaged[path.name] = str(error).partition(": ")[2]
        return False
    return True


def _written_us(name: str) -> int:
    """When a file of ours was written, by its name; never, for any other file."""
    seconds = name.rpartition("-")[2].partition("_")[0]
    return int(seconds) * 1_000_000 if seconds.isdigit() else NEVER_US


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink()


def _hour_us(key: str) -> int | None:
    """Begin of the hour that a key lies in, None where it lies in none."""
    folder = Path(key).parent
    hour, day = hour_of(folder), day_us(folder.parent)
    return None if hour is None or day is None else day + hour * HOUR_US
