"""What a line of the kernel log says happened, before it is known to which device and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.observation import Value


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """``kind`` and ``facts`` are in the words of the catalogue of events; ``pci`` is in lower case,
    empty where none is named.
    """

    kind: str
    pci: str = ""
    facts: Mapping[str, Value] = field(default_factory=dict)
