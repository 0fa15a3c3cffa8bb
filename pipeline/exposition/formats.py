"""Which of the three text formats a scraper gets, and whether it takes gzip: content negotiation by
q-value (RFC 9110, 12.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """One exposition format: media type, its version, and the Content-Type to answer with."""

    media: str
    version: str
    openmetrics: bool = False

    @property
    def content_type(self) -> str:
        """Value of the Content-Type header."""
        return f"{self.media}; version={self.version}; charset=utf-8"


TEXT = Format("text/plain", "0.0.4")
TEXT_1 = Format("text/plain", "1.0.0")
OPENMETRICS = Format("application/openmetrics-text", "1.0.0", openmetrics=True)
OFFERED = (TEXT, TEXT_1, OPENMETRICS)  # the order of preference where a scraper does not mind


@dataclass(frozen=True, slots=True)
class _Range:
    media: str
    version: str
    q: float

    def specificity(self, offer: Format) -> int:
        """How closely this range names an offer, -1 where it does not."""
        if self.media == offer.media:
            if self.version in ("", offer.version):
                return 3 if self.version else 2
            return -1
        if self.media == offer.media.partition("/")[0] + "/*":
            return 1
        return 0 if self.media == "*/*" else -1


def negotiate(accept: str) -> Format:
    """The format for an Accept header; text 0.0.4 where nothing asked for can be had, as
    every Prometheus reads it.

    >>> negotiate("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5").media
    'application/openmetrics-text'
    >>> negotiate("application/openmetrics-text;q=0.1, */*").content_type
    'text/plain; version=0.0.4; charset=utf-8'
    """
    ranges = list(_ranges(accept))
    best, best_rank = TEXT, (0.0, -len(ranges))
    for offer in OFFERED:
        specificity, place = max(
            ((r.specificity(offer), -i) for i, r in enumerate(ranges)), default=(-1, 0)
        )
        if specificity < 0:
            continue
        rank = (ranges[-place].q, place)
        if rank[0] > 0 and rank > best_rank:
            best, best_rank = offer, rank
    return best


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header allows gzip.

    >>> (
    ...     accepts_gzip("deflate, gzip;q=0.5"),
    ...     accepts_gzip("gzip;q=0"),
    ...     accepts_gzip("identity"),
    ...     accepts_gzip("*"),
    ... )
    (True, False, False, True)
    """
    weights = {coding: q for coding, _, q in _elements(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _ranges(accept: str) -> Iterator[_Range]:
    for media, parameters, q in _elements(accept):
        yield _Range(media, parameters.get("version", ""), q)


def _elements(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Each element of a list header: name, parameters, q. An element that
    cannot be read is passed over.
    """
    for element in header[:4096].split(","):
        name, *pairs = (part.strip() for part in element.split(";"))
        if not name:
            continue
        parameters = {
            k.strip().lower(): v.strip().strip('"')
            for k, _, v in (pair.partition("=") for pair in pairs)
        }
        try:
            q = float(parameters.get("q", "1"))
        except ValueError:
            continue
        if 0 <= q <= 1:
            yield name.lower(), parameters, q
