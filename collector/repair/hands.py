"""What a repair does to the machine, as an interface: the real one is in machine_hands.py, tests
have one in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from collector.repair.case import Case


class Hands(Protocol):
    """Texts that are returned say what went wrong; empty is success."""

    def blockers(self, uuid: str, services: Sequence[str]) -> list[str]:
        """Who holds a GPU, apart from these services of systemd; or why that cannot be known."""
        ...

    def stop(self, services: Sequence[str]) -> str:
        """Stop services that hold GPUs."""
        ...

    def start(self, services: Sequence[str]) -> str:
        """Start them again."""
        ...

    def persistence(self, uuid: str) -> bool:
        """Whether the driver is kept loaded for this GPU."""
        ...

    def set_persistence(self, uuid: str, *, on: bool) -> str:
        """Keep it loaded, or not."""
        ...

    def reset(self, uuid: str) -> str:
        """Reset one GPU."""
        ...

    def reboot(self) -> str:
        """Reboot the node; this process seldom sees the end of it."""
        ...

    def check(self) -> str:
        """Run the site's own check of the node."""
        ...

    def bundle(self, case: Case) -> str:
        """Collect what the vendor asks for; the folder, empty where none is made."""
        ...
