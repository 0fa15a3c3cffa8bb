"""Text that a job, a container or a remote machine wrote, for logs and events."""

from __future__ import annotations

MAX_LENGTH = 200  # characters


def printable(text: str, most: int = MAX_LENGTH) -> str:
    r"""Foreign text, cut and without control characters, for a log line or an event.

    >>> printable("a\x1b[31mb\n", 5)
    'a?[31'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:most])
