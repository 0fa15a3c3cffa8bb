"""VictoriaMetrics' export: a JSON document in each line, with raw samples.

It has no remote read. A series may come in several lines; a stale marker is null, of older
versions the bare word NaN, which is no JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from history.site import queries
from history.site.http import Http
from history.site.series import Series, SiteError, TooMuchError, clean

PATH = "/api/v1/export"
OK = 200
VALUES = b'"values":['
WORDS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}


def read(http: Http, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
    """Series of a metric, a span's samples. SiteError."""
    answer = http.get(
        PATH,
        **{
            "match[]": queries.selector(name, http.only),
            "start": queries.seconds(begin_ms),
            "end": queries.seconds(end_ms - 1),
        },
    )
    if answer.status != OK:
        kind = TooMuchError if answer.is_too_much else SiteError
        raise kind(f"{http.url}{PATH}: HTTP {answer.status}: {answer.words}")
    parts: dict[tuple[tuple[str, str], ...], list[Any]] = {}
    for line in answer.body.splitlines():
        one = _document(line, http.url)
        parts.setdefault(tuple(sorted(one["metric"].items())), []).append(one)
    for labels, found in parts.items():
        times = np.concatenate([np.array(one["timestamps"], np.int64) for one in found])
        values = np.concatenate([_numbers(one["values"]) for one in found])
        order = np.argsort(times, kind="stable")
        yield clean(dict(labels), times[order], values[order], (begin_ms, end_ms))


def is_offered(http: Http, now_ms: int) -> bool:
    """Whether the site has this interface."""
    try:
        return not list(read(http, "tocsin_import_asks", now_ms - 1000, now_ms))
    except SiteError:
        return False


def _document(line: bytes, url: str) -> Any:
    try:
        one = _loaded(line)
        if len(one["values"]) == len(one["timestamps"]):
            return one
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    raise SiteError(f"{url}{PATH}: a line that is no series: {line[:80]!r}")


def _loaded(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # a bare word among the values; a label may hold it too
        begin = line.find(VALUES)
        end = line.find(b"]", begin)
        values = line[begin:end].replace(b"NaN", b"null")
        return orjson.loads(line[:begin] + values + line[end:])


def _numbers(values: list[Any]) -> Any:
    plain = [np.nan if v is None else WORDS[v] if isinstance(v, str) else v for v in values]
    return np.array(plain, np.float64)
