"""The table of faults holds tests here too."""

from __future__ import annotations

from tests.gateway.faults.measured import measured

__all__ = ["measured"]
