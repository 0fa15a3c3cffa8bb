"""Where a RAS server listens, and why it gave no report."""

from __future__ import annotations

from dataclasses import dataclass


class RasError(OSError):
    """No report was available; ``cause`` is one word for a metric."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Address:
    """Where a RAS server listens.

    ``namespace`` is the file of its network namespace, empty for our own.
    """

    host: str
    port: int
    namespace: str = ""
