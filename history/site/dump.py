"""Blocks of a Prometheus on disk, by promtool's dump: lines of labels, value and time.

``promtool tsdb dump`` of 2.42 and later: ``{__name__="m", a="x"} 59 1795266000000``, values quoted
as Go quotes them. Stale markers and NaN both are ``NaN``. Read a snapshot, not the directory of a
running server: it locks it, and its head is in the log.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import orjson

from history.site.queries import ESCAPED
from history.site.series import Series, SiteError, TooMuchError, clean
from pipeline.child import run

TIMEOUT_S = 3600.0
MAX_BYTES = 256 << 20  # of the text of one question; beyond it is asked in halves
MIN_MS = 60_000
WAL = "wal"  # a snapshot has none
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:, |\})')
# A sample of a native histogram: behind the labels no value, but counts of buckets.
_HISTOGRAM = re.compile(r'\} \{count:[^"]*\} \d+$')
_GO = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Blocks:
    """A ``Site`` of the blocks below a folder; ``known`` are metrics that must not be missed,
    however rare. SiteError without promtool, or where there are no blocks.
    """

    def __init__(
        self, folder: Path, only: Mapping[str, str] | None = None, known: Collection[str] = ()
    ) -> None:
        self._only, self._known = only or {}, frozenset(known)
        self._folder, self.about, self.how = folder, str(folder), "blocks, by promtool"
        found = shutil.which("promtool")
        if found is None:
            raise SiteError("no promtool: it comes with Prometheus; blocks are read by its dump")
        self._promtool = found
        spans = sorted(self._spans())
        if not spans:
            raise SiteError(f"{folder}: no blocks (folders with a meta.json)")
        self.begin_ms, self.end_ms = spans[0][0], max(end for _, end in spans)
        self._names: list[str] | None = None

    def _spans(self) -> Iterator[tuple[int, int]]:
        for path in self._folder.glob("*/meta.json"):
            try:
                meta = orjson.loads(path.read_bytes())
                yield int(meta["minTime"]), int(meta["maxTime"])
            except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                raise SiteError(f"{path}: {error}") from None

    @property
    def _and(self) -> str:
        pairs = self._only.items()
        return "".join(f',{name}="{value.translate(ESCAPED)}"' for name, value in pairs)

    def names(self, begin_ms: int, end_ms: int) -> list[str]:
        """See ``Site``: of a minute in each of 24 equal parts of the span, as a dump has no index;
        of metrics that are ``known`` of the whole span.
        """
        if self._names is None:
            found: set[str] = set()
            step = max((end_ms - begin_ms) // 24, 3_600_000)
            for at in range(begin_ms, end_ms, step):
                lines = self._dump(f'{{__name__!=""{self._and}}}', at, min(at + 60_000, end_ms))
                found |= {labels["__name__"] for labels, _, _ in parsed(lines)}
            self._names = sorted(found | self._seen(self._known - found, begin_ms, end_ms))
        return self._names

    def _seen(self, names: frozenset[str], begin_ms: int, end_ms: int) -> set[str]:
        """Which of these metrics have samples in a span."""
        if not names:
            return set()
        any_of = "|".join(map(re.escape, sorted(names))).translate(ESCAPED)
        pieces = self._pieces(f'__name__=~"{any_of}"', begin_ms, end_ms)
        return {labels["__name__"] for lines in pieces for labels, _, _ in parsed(lines)}

    def _pieces(self, metric: str, begin_ms: int, end_ms: int) -> Iterator[Iterable[str]]:
        """The lines of a dump, of the whole span, or of its halves where that is too much."""
        try:
            lines = self._dump(f"{{{metric}{self._and}}}", begin_ms, end_ms)
        except TooMuchError:
            if end_ms - begin_ms <= MIN_MS:
                raise
            middle = (begin_ms + end_ms) // 2
            yield from self._pieces(metric, begin_ms, middle)
            yield from self._pieces(metric, middle, end_ms)
            return
        yield lines

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """See ``Site``."""
        for lines in self._pieces(f'__name__="{name}"', begin_ms, end_ms):
            yield from _series(lines, begin_ms, end_ms)

    def _dump(self, match: str, begin_ms: int, end_ms: int) -> Iterator[str]:
        if not (self._folder / WAL).is_dir():  # promtool looks for it where the blocks end before
            end_ms = min(end_ms, self.end_ms)
        if end_ms <= begin_ms:
            return iter(())
        span = [f"--min-time={begin_ms}", f"--max-time={end_ms - 1}"]
        argv = [self._promtool, "tsdb", "dump", *span, f"--match={match}", str(self._folder)]
        done = run(argv, timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES)
        if done.truncated:
            raise TooMuchError(f"{self.about}: more than {MAX_BYTES >> 20} MiB for {match}")
        if done.returncode != 0:
            why = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
            raise SiteError(f"{self.about}: promtool: {why}")
        return iter(done.stdout.decode("utf-8", "replace").splitlines())


def _series(lines: Iterable[str], begin_ms: int, end_ms: int) -> Iterator[Series]:
    """Series of one metric in a dump's lines, within a span (unix time, ms)."""
    parts: dict[str, tuple[dict[str, str], list[int], list[float]]] = {}
    for labels, value, ms in parsed(lines):
        key = repr(sorted(labels.items()))
        series = parts.setdefault(key, (labels, [], []))
        series[1].append(ms)
        series[2].append(value)
    for labels, times, values in parts.values():
        at = np.array(times, np.int64)
        yield clean(labels, at, np.array(values, np.float64), (begin_ms, end_ms))


def parsed(lines: Iterable[str]) -> Iterator[tuple[dict[str, str], float, int]]:
    """Labels, value and time in ms of each line of a dump; native histograms are left out.
    SiteError for one that is none.

    >>> list(parsed(['{__name__="m", a="x"} 59 1795266000000']))
    [({'__name__': 'm', 'a': 'x'}, 59.0, 1795266000000)]
    """
    labels_of: dict[str, dict[str, str]] = {}
    for line in lines:
        if not line:
            continue
        head, _, rest = line.rpartition("} ")
        try:
            value, ms = rest.split(" ")
            labels = labels_of.get(head)
            if labels is None:
                labels = labels_of[head] = _labels(head + "}")
            yield labels, float(value), int(ms)
        except (ValueError, KeyError):
            if _HISTOGRAM.search(line):
                continue
            raise SiteError(
                f"promtool's dump has a line that is no sample: {line[:80]!r}"
            ) from None


def _labels(text: str) -> dict[str, str]:
    found = {name: _unquoted(value) for name, value in _PAIR.findall(text)}
    if not found:
        raise ValueError(text)
    return found


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", lambda m: _GO.get(m[1], m[1]), value) if "\\" in value else value
