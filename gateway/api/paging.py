"""Pages of a list: how many, and from where."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import orjson

from gateway.api.parameters import Parameter, Values
from gateway.api.problem import Problem
from gateway.api.schema import Schema, array, maybe, obj, text, time, whole

T = TypeVar("T")
MAX_LIMIT = 1000
UNKNOWN = "no page here has that cursor"

PARAMETERS = (
    Parameter("limit", "how many at most", least=1, most=MAX_LIMIT, default=100),
    Parameter(
        "cursor",
        "`next` of the page before, with the same other parameters",
        pattern="[A-Za-z0-9_=-]+",
        max_length=2048,
    ),
)


def schema(name: str, items: Schema, **more: Schema) -> Schema:
    """Of an answer with a page of ``items`` under ``name``."""
    return obj(
        time=time("when the answer was true"),
        total=whole("how many there are in all"),
        next=maybe(text("`cursor` of the next page; null: this is the last one")),
        **{name: array(items, most=MAX_LIMIT)},
        **more,
    )


def page(
    rows: Sequence[T], name_of: Callable[[T], str], values: Values
) -> tuple[list[T], str | None]:
    """The rows of this page, and the cursor of the next one.

    A page begins after the row that ended the one before; where that is gone, at its place.
    """
    begin = 0
    if values["cursor"] is not None:
        begin, last = _read(values["cursor"])
        begin = next((n + 1 for n, row in enumerate(rows) if name_of(row) == last), begin)
    found = list(rows[begin : begin + values["limit"]])
    end = begin + len(found)
    return found, _cursor(end, name_of(found[-1])) if found and end < len(rows) else None


def _cursor(begin: int, last: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([begin, last])).decode()


def _read(cursor: str) -> tuple[int, str]:
    try:
        match orjson.loads(base64.b64decode(cursor, altchars=b"-_", validate=True)):
            case [int(begin), str(last)] if 0 <= begin < 2**31:
                return begin, last
    except (binascii.Error, ValueError):
        pass
    raise Problem(404, "cursor: is none that an answer here gave", "cursor")


def answer(name: str, rows: list[Any], total: int, cursor: str | None, at: str) -> dict[str, Any]:
    """What ``schema`` describes."""
    return {"time": at, "total": total, "next": cursor, name: rows}
