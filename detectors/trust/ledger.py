"""The labels of incidents, and by them which detectors may page.

A pure function of the log of labels: a label that is corrected changes everything after it, as if
it had been right from the beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from detectors.trust.evidence import demand, enter_evidence, leave_evidence, precision_interval

Verdict = Literal["real", "false", "unclear"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
# Incidents of one device are hardly independent: of 38,905 events of a fleet over 90 % came from
# four GPUs (Delta). The first label of a device counts, then none for a week.
APART_NS = 7 * 86_400 * 10**9
MAX_LABELS = 20_000  # 4 MB of memory and file; a label beyond is refused


@dataclass(frozen=True, slots=True)
class Label:
    """An operator's verdict on an incident: the detectors whose findings it had, best evidence
    first; root device as ``host/kind/id``; class of fault; when it opened (unix ns).
    """

    incident: str
    verdict: Verdict
    detectors: tuple[str, ...]
    device: str
    fault: str
    opened_ns: int
    cause: str = ""
    user: str = ""
    labelled_ns: int = 0

    @property
    def detector(self) -> str:
        """The one whose precision it counts for: that of the first evidence."""
        return self.detectors[0] if self.detectors else ""


@dataclass(frozen=True, slots=True)
class PagingState:
    """What a detector may do: may it page, how often did it enter shadow mode again, and the
    labels since the last change. ``changed_by`` is the incident whose label changed it last.
    """

    pages: bool
    entered: int = 0
    real: int = 0
    false: int = 0
    unclear: int = 0
    changed_by: str = ""

    @property
    def evidence(self) -> float:
        """For a change: of what is asked for, ``demanded``."""
        if self.pages:
            return enter_evidence(self.real, self.false)
        return leave_evidence(self.real, self.false + self.unclear)

    @property
    def demanded(self) -> float:
        """The evidence at which it changes."""
        return demand(0 if self.pages else self.entered)

    def after(self, label: Label) -> PagingState:
        """One label later. An unclear one counts as false against leaving shadow mode, and not at
        all for entering it.
        """
        grown = replace(self, **{label.verdict: getattr(self, label.verdict) + 1})
        if grown.evidence < grown.demanded:
            return grown
        return PagingState(not self.pages, self.entered + self.pages, changed_by=label.incident)


@dataclass(frozen=True, slots=True)
class Tally:
    """All labels of a detector that count, and what it may do."""

    state: PagingState
    real: int
    false: int
    unclear: int
    incidents: int
    """Labelled ones, those that do not count included."""

    @property
    def interval(self) -> tuple[float, float]:
        """Of its precision, valid at any time of looking; unclear ones left out."""
        return precision_interval(self.real, self.false)


@dataclass(slots=True)
class Ledger:
    """Labels in the order in which their incidents were first labelled."""

    labels: dict[str, Label] = field(default_factory=dict)

    def take(self, label: Label) -> None:
        """A label, or another verdict on an incident that has one: it keeps its place. ValueError
        where there are too many.
        """
        if label.incident not in self.labels and len(self.labels) >= MAX_LABELS:
            raise ValueError(f"{MAX_LABELS} incidents are labelled; no more are kept")
        self.labels[label.incident] = label

    def counted(self, detector: str) -> Iterator[Label]:
        """Labels that count for a detector: of one device one a week, by when incidents opened."""
        last: dict[str, int] = {}
        for label in self.labels.values():
            if label.detector != detector:
                continue
            before = last.get(label.device)
            if before is None or abs(label.opened_ns - before) >= APART_NS:
                last[label.device] = label.opened_ns
                yield label

    def tally(self, detector: str, *, pages: bool) -> Tally:
        """Of a detector that begins as one that may page, or not."""
        state = PagingState(pages)
        found: dict[Verdict, int] = dict.fromkeys(VERDICTS, 0)
        for label in self.counted(detector):
            found[label.verdict] += 1
            state = state.after(label)
        incidents = sum(label.detector == detector for label in self.labels.values())
        return Tally(state, found["real"], found["false"], found["unclear"], incidents)

    def pages(self, installed: Collection[str], detectors: Iterable[str]) -> frozenset[str]:
        """Which of some detectors may page by all labels; ``installed`` do without any."""
        return frozenset(
            name for name in detectors if self.tally(name, pages=name in installed).state.pages
        )
