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
NODES = (16, 400, 2_000, 12_500)
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
    runs = {run["nodes"]: run for run in found["runs"]}
    for nodes in sorted({*NODES, *runs}):
        yield _measured(runs[nodes]) if nodes in runs else _in_proportion(nodes, found["runs"])
    yield ""
    yield (
        f"A batch of a node takes {found['batch_us']:.0f} us of CPU to decode: "
        f"{1e6 / found['batch_us']:,.0f} a second and core."
    )
    yield ""


def _measured(run: Mapping[str, Any]) -> str:
    pace = "in real time" if run["pace"] == 1 else f"at {run['pace']:g} of real time"
    lags = run["lags_s"]
    return _row(run["nodes"], pace, run, 1.0, f"{max(lags):.0f} s, {lags[-1]:.0f} s")


def _in_proportion(nodes: int, runs: list[Mapping[str, Any]]) -> str:
    """By the run whose size is nearest."""
    nearest = min(runs, key=lambda run: max(run["nodes"] / nodes, nodes / run["nodes"]))
    return _row(
        nodes, f"no, in proportion to {nearest['nodes']:,}", nearest, nodes / nearest["nodes"], "-"
    )


def _row(nodes: int, how: str, run: Mapping[str, Any], by: float, lag: str) -> str:
    cores = {name: value * by for name, value in run["cores"].items()}
    steps = ", ".join(f"{cores[step]:.2f}" for step in STEPS)
    disk_gb = run["bytes_per_node_s"] * nodes * HOUR_S / 1e9
    return (
        f"| {nodes:,} | {how} | {disk_gb:.1f} GB, {cores['server']:.2f} | "
        f"{cores['gateway']:.2f} ({steps}) | {run['gib'] * by:.1f} GiB | {lag} | "
        f"{run['page_ms'] * by:.0f} ms |"
    )


if __name__ == "__main__":
    TARGET.write_text(fleet(), encoding="utf-8")
    print("fleet.md: tables of sizes and of faults")
