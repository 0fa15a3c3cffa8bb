"""What one report does not show by itself: whether it agrees with the one before it.

NVIDIA/nccl#2346: a report made while a communicator is set up may lose a communicator, or ranks of
one, that are healthy. A loss that no teardown announced is accepted only when the next report has
it too.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.nccl.report import Communicator, Report

Key = tuple[str, str]
Loss = frozenset[tuple[Key, int]]

_CLOSING = ("finalize", "abort")
EVERYONE = -1  # the complete communicator


class Continuity:
    """Compares each trusted report of one job with the one before."""

    def __init__(self) -> None:
        self._before: dict[Key, Communicator] = {}
        self._doubted: Loss = frozenset()

    def check(self, report: Report) -> Report:
        """The report, with ``distrust`` where it lost healthy ranks and no second report has
        confirmed that.
        """
        if not report.trusted:
            return report
        now = {c.key: c for c in report.communicators}
        loss = self._loss(now)
        if loss and loss != self._doubted:
            self._doubted = loss
            names = ", ".join(sorted({key[0] for key, _ in loss})[:3])
            return replace(
                report,
                distrust=(
                    f"ranks of {names} are gone without a teardown: accepted when a "
                    "second report agrees"
                ),
            )
        self._before, self._doubted = now, frozenset()
        return report

    def _loss(self, now: dict[Key, Communicator]) -> Loss:
        alive = {(m.host, m.pid) for c in now.values() for m in c.members if not m.gone}
        lost = set()
        for key, before in self._before.items():
            if any(m.state in _CLOSING for m in before.members):
                continue
            healthy = {
                m.rank for m in before.members if m.state == "ok" and (m.host, m.pid) in alive
            }
            if key not in now:
                lost |= {(key, EVERYONE)} if healthy else set()
            elif not any(m.state in _CLOSING for m in now[key].members):
                lost |= {
                    (key, m.rank)
                    for m in now[key].members
                    if m.state == "left" and m.rank in healthy
                }
        return frozenset(lost)
