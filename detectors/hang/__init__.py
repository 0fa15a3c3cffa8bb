"""Stalled jobs, found from telemetry alone, without reports of NCCL or of the job."""

from __future__ import annotations

from detectors.hang.detector import Hang

__all__ = ["Hang"]
