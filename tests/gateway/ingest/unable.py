"""An ingest worker that cannot start."""

from __future__ import annotations

from collections.abc import Sequence


def main(_: Sequence[str]) -> None:
    """Ends at once."""
    raise SystemExit(3)
