"""How long something has lasted, as people say it."""

from __future__ import annotations


def span(seconds: float) -> str:
    """A duration in its two largest units.

    >>> span(59), span(61 * 60), span(2 * 86_400 + 5 * 3600), span(-3)
    ('59 s', '1 h 1 min', '2 d 5 h', '0 s')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{max(whole, 0)} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"
