"""docs/scoring.md: every run of the test suite with its commit and figures; only appended to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.child import run

HEAD = """\
# Scoring log

Runs of the test suite, written by `tocsin score --suite test`: one row per run and scope, newest last,
including interrupted runs and runs with failures. *runs* is the number of runs in the figures.
`tocsin score --report DIR... --log FILE` adds a row for combined results of several runs. In *commit*,
`dirty` means uncommitted changes, and `code` is a hash of the code where the commit is unknown.
Faults have nominal magnitude; intervals are exact, 95 %. A dash means unknown, or nothing to count.

| day (UTC) | commit | seeds | scope | scenarios | runs | healthy GPU-months | false pages | per GPU-month | false tickets per GPU-month | recall, page-level | top-1 | straggler p90 s | hang p99 s | restart equivalent |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501 - text as it is used
UNKNOWN = "unknown"
FIGURES = 9  # columns
GIT_TIMEOUT_S = 20.0


def commit_of(root: Path) -> str:
    """Short commit of a checkout, followed by `` dirty`` where something is changed;
    ``unknown`` outside of one.
    """
    try:
        head = run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"], timeout_s=GIT_TIMEOUT_S
        )
        state = run(
            ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"],
            timeout_s=GIT_TIMEOUT_S,
        )
    except OSError:
        return UNKNOWN
    if head.returncode != 0 or state.returncode != 0:
        return UNKNOWN
    return head.stdout.decode().strip() + (" dirty" if state.stdout.strip() else "")


@dataclass(frozen=True, slots=True)
class Logged:
    """The columns of a row other than its figures: ``done`` runs of ``asked``, which is unknown for
    saved results.
    """

    day: str
    commit: str
    seeds: Sequence[int]
    scenarios: int
    done: int
    asked: int | None = None
    failed: int = 0

    @property
    def runs(self) -> str:
        """How many are in the figures.

        >>> Logged("", "", (), 0, done=37, asked=40, failed=2).runs
        '37 of 40, 2 failed'
        """
        asked = "" if self.asked is None else f" of {self.asked}"
        return f"{self.done}{asked}" + (f", {self.failed} failed" if self.failed else "")


def rows(report: Mapping[str, Any], run: Logged) -> list[str]:
    """One line of the table per scope; one of dashes where nothing was judged."""
    figures = {
        scope: _figures(summary)
        for scope, summary in report["summary"].items()
        if "recall_critical" in summary
    }
    about = (run.day, run.commit, _seeds(run.seeds)), (str(run.scenarios), run.runs)
    return [
        "| " + " | ".join((*about[0], scope, *about[1], *cells)) + " |\n"
        for scope, cells in (figures or {"-": ["-"] * FIGURES}).items()
    ]


def state_of(codes: Sequence[str], here: str, commit: str) -> str:
    """The code that made the results: the commit where it is the one checked out, else its hash.

    >>> state_of(["051501e2", "0c254b7c"], here="0c254b7c", commit="5203bc4")
    'code 051501e2, 5203bc4'
    """
    return ", ".join(
        commit if code == here and commit != UNKNOWN else f"code {code}" for code in codes
    )


def append(path: Path, lines: Sequence[str]) -> None:
    """Add lines at the end; the page is begun where there is none."""
    if not path.exists():
        path.write_text(HEAD, encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines)


def _figures(summary: Mapping[str, Any]) -> list[str]:
    pages, intervals = summary["false_pages_per_gpu_month"], summary["intervals"]
    recall, top1 = intervals["recall_critical"], intervals["attribution_top1"]
    return [
        f"{summary['healthy_gpu_months']:.1f}",
        str(summary["false_pages"]),
        "-"
        if pages["rate"] is None
        else f"{pages['rate']:.2g} ({pages['low95']:.2g}-{pages['high95']:.2g})",
        "-"
        if summary["false_tickets_per_gpu_month"] is None
        else f"{summary['false_tickets_per_gpu_month']:.2g}",
        *(
            f"{s['hits']}/{s['of']} ({s['low95']:.3f}-{s['high95']:.3f})" if s["of"] else "-"
            for s in (recall, top1)
        ),
        *(
            "-" if summary[name] is None else f"{summary[name]:.0f}"
            for name in ("straggler_delay_p90_s", "hang_delay_p99_s")
        ),
        {True: "yes", False: "no", None: "-"}[summary["restart_equivalent"]],
    ]


def _seeds(seeds: Sequence[int]) -> str:
    """Runs of seeds in short.

    >>> _seeds([1, 2, 3, 7])
    '1..3, 7'
    """
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(f"{part[0]}..{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
