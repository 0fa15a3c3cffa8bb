"""A text of a request to the agent's socket, checked: it is stored, sent and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_TEXT = 1000  # characters of a note, reason or cause


def request_text(request: Mapping[str, Any], key: str) -> str:
    """Without spaces around it; empty where it is missing. ValueError names the key."""
    value = request.get(key, "")
    if not isinstance(value, str) or len(value) > MAX_TEXT or "\0" in value:
        raise ValueError(f"{key}: expected text of at most {MAX_TEXT} characters")
    try:
        value.encode()
    except UnicodeError as error:  # an argument that is no UTF-8 has halves of surrogate pairs
        raise ValueError(f"{key}: expected text in UTF-8") from error
    return value.strip()
