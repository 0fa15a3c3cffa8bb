"""The result of a preflight: as the answer that `tocsin check` renders, as text, and as what the
agent is asked to store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from collector.integrations.agent_client import Answer, Problem
from collector.integrations.formats import FORMATS, Reply
from collector.preflight.model import RANK, Machine, Outcome
from collector.preflight.standard import Measured


@dataclass(frozen=True)
class Report:
    """``outcomes`` did not pass; ``measured`` are results of the level standard."""

    level: str
    machine: Machine
    seconds: float
    outcomes: Sequence[Outcome]
    measured: Sequence[Measured] = ()

    @property
    def state(self) -> str:
        """problem, unknown or ok: what could not be checked is never a failure."""
        severities = {one.severity for one in self.outcomes}
        if severities & {"page", "ticket"}:
            return "problem"
        return "unknown" if severities else "ok"

    @property
    def ordered(self) -> list[Outcome]:
        """The gravest first."""
        return sorted(self.outcomes, key=lambda one: -RANK[one.severity])

    @property
    def reason(self) -> str:
        """The gravest in one sentence."""
        if not self.outcomes:
            return f"preflight {self.level} passed on {len(self.machine.gpus)} GPUs"
        return sentence(self.ordered[0])


def sentence(one: Outcome) -> str:
    """Part, fact, action.

    >>> sentence(Outcome("gpu_pcie", "page", "GPU 3", "PCIe x8 of x16", "reseat the GPU"))
    'GPU 3: PCIe x8 of x16. Reseat the GPU.'
    """
    action = f". {one.action[:1].upper()}{one.action[1:]}." if one.action else "."
    return f"{one.part}: {one.why.rstrip('.?')}{action}"


def answer(report: Report) -> Answer:
    """As the running agent would answer, so that formats and exit codes are those of `check`."""
    problems = tuple(
        Problem("", one.severity, "UNKNOWN", one.check, "", "", one.part, one.why, False)
        for one in report.ordered
        if one.severity != "unknown"
    )
    return Answer(
        report.machine.host,
        report.state,
        report.reason,
        problems=problems,
        document=MappingProxyType(document(report)),
    )


def document(report: Report) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "host": report.machine.host,
        "verdict": report.state,
        "level": report.level,
        "seconds": round(report.seconds, 3),
        "reason": report.reason,
        "checks": [one._asdict() for one in report.ordered],
        "measured": [one._asdict() for one in report.measured],
    }


def request(report: Report) -> dict[str, Any]:
    """What the agent stores of it."""
    failed = sorted({one.check for one in report.outcomes if one.severity != "unknown"})
    return {
        "command": "preflight",
        "level": report.level,
        "outcome": report.state,
        "severity": answer(report).worst,
        "seconds": report.seconds,
        "reason": report.reason[:300],
        "failed": " ".join(failed),
        "measured": [one._asdict() for one in report.measured],
    }


def text(report: Report) -> Reply:
    """Lines for people: 0 ok, 1 a problem, 2 unknown."""
    return Reply("\n".join(_lines(report)), {"ok": 0, "problem": 1}.get(report.state, 2))


def slurm(report: Report) -> Reply:
    """For a prolog, whose failure drains the node and sends the job back to the queue: 1 for a
    page only.
    """
    code = int(answer(report).worst == "page")
    return Reply(f"tocsin: {'refused: ' if code else ''}{report.reason}", code)


def _lines(report: Report) -> Iterator[str]:
    host = report.machine.host
    yield f"{report.state}: preflight {report.level} of {host}, {report.seconds:.1f} s"
    for one in report.ordered:
        yield f"  {one.severity}: {sentence(one)}"
    for result in report.measured:
        yield f"  {result.device} {result.measure} {result.value:.4g}"
    if not report.outcomes:
        yield f"  {len(report.machine.gpus)} GPUs, {len(report.machine.ports)} ports: no problem"


def of_answer(form: str) -> Callable[[Report], Reply]:
    """A format of `tocsin check`."""
    return lambda report: FORMATS[form](answer(report))


FORMS: Mapping[str, Callable[[Report], Reply]] = {
    "text": text,
    "slurm": slurm,
    **{form: of_answer(form) for form in FORMATS},
}
