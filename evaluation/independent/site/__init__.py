"""A site drawn from published figures, by somebody who had read neither detectors nor simulator:
the ranges are those that traces, papers and vendors' guides give for real fleets.
"""

from __future__ import annotations

from evaluation.independent.site.families import FAMILIES

__all__ = ["FAMILIES"]
