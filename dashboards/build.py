"""Write the dashboards' JSON files: `make dashboards`.

A test fails where what is committed differs.
"""

from __future__ import annotations

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import (
    agents,
    dcgm,
    fabric,
    fleet,
    gateway,
    gpu,
    gpu_time,
    job,
    memory,
    node,
    store,
    thermal,
    waste,
)
from dashboards.grafana import dashboard
from dashboards.panels import Dashboard

HERE = Path(__file__).parent
ALL: tuple[Dashboard, ...] = (
    fleet.FLEET,
    node.NODE,
    gpu.GPU,
    fabric.FABRIC,
    job.JOB,
    memory.MEMORY,
    thermal.THERMAL,
    waste.WASTE,
    agents.AGENTS_THEMSELVES,
    store.STORE,
    gateway.GATEWAY,
    gpu_time.GPU_TIME,
    dcgm.DCGM,
)


def files() -> dict[Path, str]:
    """Every file that is built, and its text: sorted keys, so that a difference is a change."""
    return {HERE / f"{each.uid.removeprefix('tocsin-')}.json": _text(each) for each in ALL}


def _text(of: Dashboard) -> str:
    return (
        json.dumps(dashboard(of), cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False)
        + "\n"
    )


def main() -> None:
    """Write them all."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
