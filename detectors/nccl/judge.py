"""All evidence about one job becomes one verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from detectors.nccl.case import Case
from detectors.nccl.clue import (
    COUNTERS_MOVED,
    FATAL_XID,
    GONE,
    LEFT,
    Clue,
    NodeTarget,
    PortTarget,
    RankTarget,
    Target,
    scores,
)
from detectors.nccl.communicators import Communicators
from detectors.nccl.ended import ended_clues
from detectors.nccl.identity import Identities, Who
from detectors.nccl.lines import Cancelled, Reported, before_the_end, progress, reported
from detectors.nccl.slow import slow_clues
from detectors.nccl.stuck import Stuck, stuck, unknown_ranks
from detectors.nccl.verdict import Cause, Culprit, Evidence, Phase, Stage, Verdict
from detectors.nccl.votes import addresses, network_clues
from pipeline.nccl.report import Process, Report

MAX_CANDIDATES = 8
MAX_EVIDENCE = 64
NAMED = 0.4  # a lower score names none
LEAD = 0.1  # by which the first must lead the next who is not tied to it
HALF = 0.4  # confidence of what only one report shows

# What outranks what, where several causes have evidence.
PRECEDENCE: tuple[Cause, ...] = (
    "process_lost",
    "hardware_fault",
    "order_mismatch",
    "host_hang",
    "straggler",
    "launch_order_deadlock",
    "init_hang",
    "in_flight",
    "storage",
    "global_host_phase",
    "slow_straggler",
    "slow_network",
)
# How sure a cause is that names nobody.
BY_ITSELF: dict[Cause, float] = {
    "order_mismatch": 0.8,
    "launch_order_deadlock": 0.8,
    "in_flight": 0.5,
    "init_hang": 0.5,
    "slow_network": 0.5,
}
STAGES: dict[Cause, Stage] = {
    "host_hang": "host",
    "order_mismatch": "launch",
    "launch_order_deadlock": "launch",
    "in_flight": "in_flight",
    "init_hang": "init",
}


def judge(case: Case) -> Verdict:
    """One verdict."""
    known = Identities()
    hits = before_the_end(case.hits)
    steps = progress(hits)
    reports = [*case.reports, *([steps] if steps else [])]
    communicators = Communicators(reports, known, live=case.live)
    graph = stuck(communicators, known)
    # before the lines, which may name a process by its id alone
    ended = ended_clues(case.ended, known, firm=graph.balanced or graph.victims > 0)
    lines = reported(hits, known)
    slow = slow_clues(communicators, reports, known)
    clues = [
        *graph.clues,
        *slow,
        *_lost(reports, known),
        *lines.clues,
        *network_clues(hits, addresses(case.hits)),
    ]
    if graph.balanced or any(
        clue.cause for clue in clues
    ):  # hardware explains a stall; it does not make one
        stuck_there = graph.balanced or any(clue.cause == "in_flight" for clue in clues)
        clues += _hardware(case, known, firm=stuck_there)
    clues += ended
    verdict = _verdict(case, clues, _Known(communicators, known, graph, lines))
    return _ended(verdict, lines.cancelled) if lines.cancelled else verdict


def foremost_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Verdicts of several jobs: the one that is surest and worst first."""
    ranks = {cause: i for i, cause in enumerate((*PRECEDENCE, "unknown", "no_evidence"))}
    return sorted(
        verdicts,
        key=lambda v: (v.phase != "confirmed", ranks.get(v.cause, len(ranks)), -v.confidence),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    communicators: Communicators
    identities: Identities
    graph: Stuck
    lines: Reported


def _lost(reports: Sequence[Report], identities: Identities) -> list[Clue]:
    """Processes that RAS calls missing or dead, in a report or in its stream of events."""
    found = []
    for report in reports:
        if not report.trusted:
            continue
        dead = [p.peer for p in report.peers if p.event == "PEER_DEAD"]
        for process, sure in [
            *((p, True) for p in (*dead, *report.dead)),
            *((p, False) for p in report.missing),
        ]:
            words = "is dead: it has not answered for a minute" if sure else "does not answer"
            text = f"process {process.pid} on node {process.host or process.address} {words}"
            found += [
                Clue("ras", text, GONE, target, "process_lost", report.origin)
                for target in _targets(process, identities)
            ]
    return found


def _hardware(case: Case, identities: Identities, *, firm: bool) -> list[Clue]:
    """``firm``: something says that the job may be stuck in the network,
    so that a port may be why.
    """
    ranks = {who.uuid: number for number, who in identities.all() if who.uuid}
    gpus = [
        Clue("kernel", fault.text, FATAL_XID, RankTarget(ranks[fault.uuid]), "hardware_fault")
        for fault in case.gpus
        if fault.uuid in ranks
    ]
    return gpus + [
        Clue("counters", f.text, COUNTERS_MOVED, PortTarget(f.host, f.port), "in_flight", firm=firm)
        for f in case.ports
    ]


def _targets(process: Process, identities: Identities) -> list[RankTarget | NodeTarget]:
    """Every rank of a process."""
    if process.pid < 0:
        return [NodeTarget(process.host or process.address)]
    whos = [Who(host=process.host, pid=process.pid, gpu=gpu) for gpu in process.gpus or (-1,)]
    return [RankTarget(identities.same([("process", w.host, w.pid, w.gpu)], w)) for w in whos]


def _ended(verdict: Verdict, by: Cancelled) -> Verdict:
    """The scheduler ended the job; what led to that still counts, for it often
    ends a job that was stalled.
    """
    end = Evidence(
        "scheduler", f"the scheduler ended the job{f': {by.why}' if by.why else ''}", 0.0, by.origin
    )
    return replace(verdict, phase="ended", evidence=(*verdict.evidence, end))


def _verdict(case: Case, clues: list[Clue], known: _Known) -> Verdict:
    """The foremost cause that has firm evidence, and its culprits."""
    clues = [*clues, *_unreported(known)]
    clues = _rooted(clues, known.identities)
    scored = scores(clues)
    cause = _foremost([c for c in clues if c.firm])
    phase: Phase = "confirmed"
    if cause is None:
        cause, phase = _foremost(clues), "suspect"
    of_cause = {c.target for c in clues if c.cause == cause}
    targets = [target for target in scored if target in of_cause]
    targets.sort(key=lambda t: -scored[t])
    culprits = _whole_nodes(
        [_culprit(t, scored[t], known.identities) for t in targets], cause, known.identities
    )
    named = [c for c in culprits if c.score > culprits[0].score - LEAD]
    tied = (
        len(named) > 1
        and all(c.source == "network" for c in clues if c.cause == cause and c.weight)
        and len({c.host for c in named}) > 1
    )
    frame = _frame(case, clues, known)
    if cause is None:
        doubt: Cause = "unknown" if known.graph.balanced or known.lines.victims else "no_evidence"
        return replace(frame, cause=doubt, stage=known.graph.stage)
    if phase == "suspect" or tied or (culprits and culprits[0].score < NAMED):
        best = max((c.score for c in culprits), default=BY_ITSELF.get(cause, 0.0))
        # one report, or two ends of one edge: candidates are listed, no culprit is named
        return replace(
            frame,
            cause="unknown",
            candidates=tuple(culprits[:MAX_CANDIDATES]),
            confidence=min(best, HALF),
        )
    confidence = max(named[0].score if named else 0.0, BY_ITSELF.get(cause, 0.0))
    stage = STAGES.get(cause, known.graph.stage)
    rest = tuple(culprits[len(named) :][:MAX_CANDIDATES])
    return replace(
        frame,
        cause=cause,
        phase=phase,
        stage=stage,
        culprits=tuple(named),
        candidates=rest,
        confidence=confidence,
    )


def _frame(case: Case, clues: Sequence[Clue], known: _Known) -> Verdict:
    """What is the same whatever the cause is."""
    graph, lines = known.graph, known.lines
    waits, where = graph.waits, graph.where
    began = [t for t in (lines.began_ns, where.since_ns if where and where.completing else 0) if t]
    return Verdict(
        "unknown",
        case.job,
        communicator=where.name if where else "",
        operation=(waits.operation if waits else "") or lines.operation,
        sequence=waits.sequence if waits and waits.sequence > 0 else lines.sequence,
        victims=max(graph.victims, lines.victims),
        evidence=_evidence(clues, graph),
        began_ns=min(began, default=0),
    )


def _foremost(clues: Iterable[Clue]) -> Cause | None:
    there = {c.cause for c in clues if c.cause and (c.target is not None or c.cause in BY_ITSELF)}
    return next((cause for cause in PRECEDENCE if cause in there), None)


def _unreported(known: _Known) -> list[Clue]:
    """Ranks without a report, where others wait: they may be those that never came, or their
    report is merely not at hand.
    """
    return [
        Clue(
            "absence",
            f"no report of rank {rank}, which belongs to {at.name}",
            LEFT,
            RankTarget(number),
            "host_hang",
            firm=False,
        )
        for at, rank in unknown_ranks(known.communicators)
        if (number := known.identities.of_world_rank(rank)) >= 0
    ]


def _rooted(clues: Iterable[Clue], identities: Identities) -> list[Clue]:
    """The clues with their targets by the numbers that the ranks have now: names may have turned
    out to be one rank's.
    """
    return [_root(clue, identities) for clue in clues]


def _root(clue: Clue, identities: Identities) -> Clue:
    if not isinstance(clue.target, RankTarget):
        return clue
    number = identities.root(clue.target.number)
    return clue if number == clue.target.number else replace(clue, target=RankTarget(number))


def _culprit(target: Target, score: float, identities: Identities) -> Culprit:
    if isinstance(target, RankTarget):
        who = identities.who(target.number)
        return Culprit(score, who.rank, who.host, who.pid, who.gpu, who.uuid, nvml=who.nvml)
    return Culprit(
        score, host=target.host, port=target.port if isinstance(target, PortTarget) else ""
    )


def _whole_nodes(
    culprits: list[Culprit], cause: Cause | None, identities: Identities
) -> list[Culprit]:
    """Where all ranks of a node are lost, and others are not, it is the node."""
    if cause != "process_lost":
        return culprits
    there = Counter(who.host for _, who in identities.all() if who.host)
    lost = Counter(c.host for c in culprits if c.pid >= 0)
    whole = {
        host for host, n in lost.items() if host and n > 1 and n == there[host] and len(there) > 1
    }
    nodes = [
        Culprit(max(c.score for c in culprits if c.host == host), host=host)
        for host in sorted(whole)
    ]
    return nodes + [c for c in culprits if c.host not in whole]


def _evidence(clues: Sequence[Clue], graph: Stuck | None = None) -> tuple[Evidence, ...]:
    """The heaviest first, each once."""
    by_text = {
        c.text: Evidence(c.source, c.text, c.weight, c.ref)
        for c in sorted(clues, key=lambda c: c.weight)
    }
    if graph and graph.balanced:
        text = (
            "all ranks have launched the same collectives and nothing moved between two reports: "
            "in flight, or busy elsewhere; RAS shows no more"
        )
        by_text.setdefault(text, Evidence("ras", text))
    return tuple(sorted(by_text.values(), key=lambda e: -e.weight))[:MAX_EVIDENCE]
