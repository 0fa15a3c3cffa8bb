"""An answer that says what was wrong with the request (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from gateway.api import schema

MEDIA = "application/problem+json"
MAX_DETAIL = 500

PROBLEM = schema.named(
    "Problem",
    schema.obj(
        type=schema.text("always `about:blank`: the status says it"),
        title=schema.text("the status in words"),
        status=schema.whole("the HTTP status"),
        detail=schema.text("one sentence, about this request"),
        optional={"parameter": schema.text("the parameter that it is about")},
    ),
)


class Problem(Exception):  # noqa: N818 - it is an answer, not a fault of ours
    """Ends a request. ``parameter`` names the one that it is about, where there is one."""

    def __init__(self, status: int, detail: str, parameter: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.parameter = status, detail, parameter

    def document(self) -> Mapping[str, Any]:
        """What the client reads."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail[:MAX_DETAIL],
            **({"parameter": self.parameter} if self.parameter else {}),
        }
