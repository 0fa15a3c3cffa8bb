"""The query API: what every relative of Prometheus has.

Samples come from an instant query with a range selector: raw, at their true times.
``query_range`` would repeat the newest sample of the five minutes before each step, and so invent
readings where there were none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson

from history.site.http import Answer, Http, is_too_much
from history.site.series import Series, SiteError, TooMuchError, clean

OK = 200
# Thanos (pkg/store/proxy.go) says so of a time that none of its stores has, such as before their
# retention: there is nothing, and nothing of it is missing.
NO_STORE = "No StoreAPIs matched for this query"
# Of Thanos: one of two replicas, all stores or an error, raw samples and no means of five minutes.
# Others ignore what they do not know.
WHOLE = {"dedup": "true", "partial_response": "false", "max_source_resolution": "0s"}


def names(http: Http, begin_ms: int, end_ms: int) -> list[str]:
    """Names of all metrics that have series in a span, sorted."""
    path = "/api/v1/label/__name__/values"
    asked = {"start": seconds(begin_ms), "end": seconds(end_ms), **WHOLE}
    if http.only:
        asked["match[]"] = f"{{{_matchers(http.only)}}}"
    found = data(http, http.get(path, **asked))
    if not isinstance(found, list):
        raise SiteError(f"{http.url}{path}: answers with no list of names")
    return sorted(str(name) for name in found)


def read(http: Http, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
    """Series of a metric, a span's samples. SiteError, TooMuchError.

    Ranges are closed on both sides up to Prometheus 2, open on the left from 3 on: asked for is
    what covers the span both ways.
    """
    question = f"{selector(name, http.only)}[{end_ms - begin_ms}ms]"
    answer = http.get("/api/v1/query", query=question, time=seconds(end_ms - 1), **WHOLE)
    found = data(http, answer)
    if not isinstance(found, dict) or found.get("resultType") != "matrix":
        raise SiteError(f"{http.url}: expected a matrix of {name}")
    for one in found["result"]:
        pairs = one["values"]
        times = np.fromiter((round(pair[0] * 1000) for pair in pairs), np.int64, len(pairs))
        values = np.fromiter((float(pair[1]) for pair in pairs), np.float64, len(pairs))
        yield clean(one["metric"], times, values, (begin_ms, end_ms))


def data(http: Http, answer: Answer) -> Any:
    """What an answer of the API says. SiteError where it is an error, partial, or no answer of such
    an API at all (a login page).
    """
    try:
        document = orjson.loads(answer.body)
        status = document["status"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        raise SiteError(
            f"{http.url}: HTTP {answer.status}, {answer.kind}: no answer of Prometheus' API"
        ) from None
    if status != "success" or answer.status != OK:
        why = str(document.get("error", answer.words))
        kind = TooMuchError if is_too_much(why) else SiteError
        raise kind(f"{http.url}: {' '.join(why.split())[:200]}")
    if document.get("isPartial"):
        raise SiteError(f"{http.url}: a partial answer: a storage node is missing")
    warnings = [one for one in document.get("warnings") or () if one != NO_STORE]
    if warnings:  # a store or a remote that did not answer
        why = " ".join(str(warnings).split())[:200]
        raise SiteError(f"{http.url}: a partial answer: {why}")
    return document.get("data")


def selector(name: str, only: Mapping[str, str]) -> str:
    """A metric by its name, whatever characters it has, of series with some labels.

    >>> selector("up", {"cluster": "a"})
    '{__name__="up",cluster="a"}'
    """
    return f"{{{_matchers({'__name__': name, **only})}}}"


def _matchers(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(ESCAPED)}"' for name, value in labels.items())


ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def seconds(ms: int) -> str:
    """A time as the API takes it, to the millisecond.

    >>> seconds(1795266000001)
    '1795266000.001'
    """
    return f"{ms // 1000}.{ms % 1000:03d}"
