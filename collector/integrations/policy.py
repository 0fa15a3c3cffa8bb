"""What a site allows the integrations to do, from the agent's configuration
(``gates`` in docs/reference.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

GRAVE = {"page": ("page",), "ticket": ("ticket", "page")}


class Policy(NamedTuple):
    """Defaults that do nothing: what is not configured is not allowed."""

    drain: bool = False
    severity: str = "page"
    most_drained: int = 0
    most_per_hour: int = 0
    canaries: tuple[str, ...] = ()
    off_file: str = ""
    where: str = "gates.slurm"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Policy:
        """From the agent's answer. ValueError where a part has another form than it should."""
        slurm = document.get("slurm", {})
        try:
            return cls(
                drain=slurm["drain"] is True,
                severity=str(slurm["severity"]),
                most_drained=int(slurm["most_drained"]),
                most_per_hour=int(slurm["most_per_hour"]),
                canaries=tuple(map(str, slurm["canaries"])),
                off_file=str(document["off_file"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"cannot read the agent's integration settings: {error!r}") from error

    def forbids(self, node: str) -> str:
        """Why nothing may be done to this node, empty where something may."""
        switch = off(self.off_file)
        if switch:
            return switch
        if self.canaries and node not in self.canaries:
            return f"{node} is not a canary ({self.where}.canaries)"
        return ""

    def grave(self, severity: str) -> bool:
        """Whether an incident of this severity is a reason to drain."""
        return severity in GRAVE.get(self.severity, ())


def off(file: str) -> str:
    """Why the off switch holds, empty where it does not.

    A switch that cannot be looked at holds: a shared file system may be away.
    """
    if not file:
        return "no off switch is configured (gates.off_file)"
    try:
        os.stat(file)  # noqa: PTH116 - pathlib would triple what a health check imports
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot check for {file}: {error.strerror}"
    return f"{file} exists: integrations are off"
