"""A site drawn from published figures: the ranges are those that traces, papers and vendors' guides
give for real fleets. Its author had read neither detectors nor the simulator's physics; what was
changed after its first results were seen is in docs/scores.md. What GPUs do in I07 to I09 is of a
second author, after results had been seen on worlds of that author's own.
"""

from __future__ import annotations

from evaluation.independent.site.families import FAMILIES

__all__ = ["FAMILIES"]
