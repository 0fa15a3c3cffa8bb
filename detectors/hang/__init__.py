"""Jobs that stand still: told from telemetry alone, without a word of NCCL's or of the job's."""

from __future__ import annotations

from detectors.hang.detector import Hang

__all__ = ["Hang"]
