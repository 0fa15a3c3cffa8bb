"""Worlds of other authors, by id: written without a look at simulator or detectors
(evaluation/independent/interface.py says how).
"""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.independent import site
from evaluation.independent.interface import Family

WORLDS: Mapping[str, Family] = {**site.FAMILIES}
