"""The severities of findings and incidents as users read them."""

from __future__ import annotations

SHOWN = {"record": "info"}


def shown_severity(severity: str) -> str:
    """The word for pages and terminals. Labels, APIs, logs and the store keep the value.

    >>> [shown_severity(severity) for severity in ("page", "ticket", "record")]
    ['page', 'ticket', 'info']
    """
    return SHOWN.get(severity, severity)
