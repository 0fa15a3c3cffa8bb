"""Lists of CPUs as the kernel prints them (cpuset(7), FORMATS: List format)."""

from __future__ import annotations

import re

MAX_CPU = 8192  # CONFIG_NR_CPUS of distributions
_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


def cpu_list(text: str) -> frozenset[int]:
    r"""The numbers in a list; none where it is anything else.

    >>> sorted(cpu_list("0-2,8\n")), cpu_list("all"), cpu_list("0-99999")
    ([0, 1, 2, 8], frozenset(), frozenset())
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return frozenset()
        first, last = int(match[1]), int(match[2] or match[1])
        if last > MAX_CPU or first > last:
            return frozenset()
        found.update(range(first, last + 1))
    return frozenset(found)
