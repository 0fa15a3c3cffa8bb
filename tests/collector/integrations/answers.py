"""An agent for gates: it answers `check` on its socket, as told, and may
be changed while it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collector.control import Control

LOST = {
    "id": "5a2e173dd20e2d3d",
    "severity": "page",
    "action": "RESTART_BM",
    "class": "gpu_lost",
    "kind": "gpu",
    "device": "GPU-03",
    "name": "GPU 3",
    "serial": "1652859266991",
    "since": "2026-11-20T13:00:00+00:00",
    "summary": "The driver has lost the GPU: it no longer answers on the PCI bus.",
    "acknowledged": False,
}
REASON = (
    "tocsin:gpu_lost GPU 3 (GPU-03, serial 1652859266991, incident 5a2e173d): "
    "The driver has lost the GPU: it no longer answers on the PCI bus."
)
OTHERS = [
    {"kind": "gpu", "id": f"GPU-{number:02}", "epoch": "580.95#0"}
    for number in range(8)
    if number != 3
]
ALL = [*OTHERS, {"kind": "gpu", "id": "GPU-03", "epoch": "580.95#0"}]
SLURM = {
    "drain": True,
    "severity": "page",
    "most_drained": 2,
    "most_per_hour": 2,
    "canaries": [],
}


def document(
    *problems: dict[str, Any], off_file: str = "/nowhere/gates.off", **changed: Any
) -> dict[str, Any]:
    """The answer of an agent about which these incidents stand; ``slurm`` changes what
    its configuration allows.
    """
    slurm = SLURM | changed.pop("slurm", {})
    state = "problem" if problems else "ok"
    base = {
        "host": "gpu01",
        "time": "2026-11-20T13:30:00+00:00",
        "verdict": state,
        "reason": problems[0]["summary"] if problems else "no problems found on this node",
        "severity": problems[0]["severity"] if problems else None,
        "out_of_service": None,
        "open": [problem["id"] for problem in problems],
        "incidents": list(problems),
        "boot_id": "8c1f0000-first",
        "simulated": "",
        "parts": OTHERS if problems else ALL,
        "gates": {"off_file": off_file, "slurm": slurm},
    }
    return base | changed


class Agent:
    """Listens in a storage path of its own. Use as a context."""

    def __init__(self, root: Path, answer: dict[str, Any]) -> None:
        root.mkdir(exist_ok=True)
        self.root, self.answer = root, answer
        self.asked: list[dict[str, Any]] = []
        self._control = Control(root, self._answer)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        return self.answer

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
