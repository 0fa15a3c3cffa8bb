"""JSON of values whose texts may hold what UTF-8 cannot: half of a surrogate pair, as Python makes
it of a file's name or an argument that is not UTF-8, and as JSON can say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from pipeline.documents import printable


def sound_json(document: Any, option: int = 0) -> bytes:
    r"""The document as JSON, with ``?`` where a text cannot be written. TypeError for values that
    JSON does not have. ``option`` as of orjson.

    >>> sound_json(["node \udcff1", {"\ud800": 2}])
    b'["node ?1",{"?":2}]'
    """
    try:
        return orjson.dumps(document, option=option)
    except TypeError:
        return orjson.dumps(_sound(document), option=option)


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {_sound(key): _sound(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(each) for each in value]
    return value
