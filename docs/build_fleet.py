"""Writes two tables of docs/fleet.md (`make docs`): sizes, from docs/sizing.json, and faults, from
what their tests assert. The text stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.gateway.faults import table

DOCS = Path(__file__).resolve().parent
TARGET, SIZING = DOCS / "fleet.md", DOCS / "sizing.json"
HOUR_S = 3600
STEPS = ("read", "join", "judge")


def fleet() -> str:
    """The page with its tables written again."""
    text, found = TARGET.read_text(encoding="utf-8"), json.loads(SIZING.read_bytes())
    text = _between("faults", text, ["", *table.lines(), ""])
    return _between("sizing", text, _lines(found))


def _between(name: str, text: str, lines: Iterable[str]) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + "\n".join(lines) + "\n" + end + after


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield (
        f"Measured on {found['date']} at commit {found['commit']}: {found['machine']}, "
        f"{found['cores']} cores, Python {found['python']}, load {found['load']:.0f} at its begin."
    )
    yield ""
    yield (
        "| Nodes | Measured | NATS: disk per server for an hour, cores | Gateway: cores "
        "(read, join, judge) | Memory | Behind, at most and in the last ten seconds | "
        "CPU for a page |"
    )
    yield "|---|---|---|---|---|---|---|"
    yield from map(_row, sorted(found["runs"], key=lambda run: run["nodes"]))
    yield ""
    yield (
        f"A batch of a node takes {found['batch_us']:.0f} us of CPU to decode: "
        f"{1e6 / found['batch_us']:,.0f} a second and core."
    )
    yield ""


def _row(run: Mapping[str, Any]) -> str:
    """Of a size that was run: cost has a base, so no other size is in proportion to it."""
    pace = "in real time" if run["pace"] == 1 else f"at {run['pace']:g} of real time"
    cores, lags = run["cores"], run["lags_s"]
    steps = ", ".join(f"{cores[step]:.2f}" for step in STEPS)
    disk_gb = run["bytes_per_node_s"] * run["nodes"] * HOUR_S / 1e9
    return (
        f"| {run['nodes']:,} | {pace} | {disk_gb:.1f} GB, {cores['server']:.2f} | "
        f"{cores['gateway']:.2f} ({steps}) | {run['gib']:.1f} GiB | "
        f"{max(lags):.0f} s, {lags[-1]:.0f} s | {run['page_ms']:.0f} ms |"
    )


if __name__ == "__main__":
    TARGET.write_text(fleet(), encoding="utf-8")
    print("fleet.md: tables of sizes and of faults")
