"""Finds out what answers at a URL, and the best way to read it."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import orjson

from history.site import export, queries, remote_read, streamed
from history.site.http import Http
from history.site.series import OtherWayError, Series, SiteError, TooMuchError

MIN_MS = 60_000  # below this a question is not halved any more


class Asked:
    """A site that is asked over HTTP. A question that is too much for it is asked in halves; one
    that cannot be asked in the best ``way`` is asked by ``fallback``, and all after it.
    """

    def __init__(
        self, http: Http, way: ModuleType, how: str, fallback: ModuleType | None = None
    ) -> None:
        self._http, self._way, self._fallback = http, way, fallback
        self.about, self.how = http.url, how

    def names(self, begin_ms: int, end_ms: int) -> list[str]:
        """See ``Site``."""
        return queries.names(self._http, begin_ms, end_ms)

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """See ``Site``."""
        try:
            yield from list(self._way.read(self._http, name, begin_ms, end_ms))
        except OtherWayError:
            if self._fallback is None:
                raise
            self._way, self._fallback = self._fallback, None
            yield from self.read(name, begin_ms, end_ms)
        except TooMuchError:
            if end_ms - begin_ms <= MIN_MS:
                raise
            middle = (begin_ms + end_ms) // 2
            yield from self.read(name, begin_ms, middle)
            yield from self.read(name, middle, end_ms)


WAYS: tuple[tuple[ModuleType, str], ...] = (
    (streamed, "remote read, streamed"),
    (remote_read, "remote read"),
    (export, "export"),
)


def site_of(http: Http, now_ms: int) -> Asked:
    """The site at a URL, SiteError where there is none: something else, or nothing, answers."""
    answer = http.get("/api/v1/status/buildinfo")
    try:
        version = str((orjson.loads(answer.body).get("data") or {}).get("version", ""))
    except (orjson.JSONDecodeError, AttributeError):
        raise SiteError(
            f"{http.url}: HTTP {answer.status}, {answer.kind}: neither Prometheus nor a relative"
        ) from None
    who = f"Prometheus {version}" if version else "a relative of Prometheus"
    for way, words in WAYS:
        if way.is_offered(http, now_ms):
            fallback = remote_read if way is streamed else None
            return Asked(http, way, f"{who}, by {words}", fallback)
    queries.names(http, now_ms - 1000, now_ms)
    return Asked(http, queries, f"{who}, by queries")
