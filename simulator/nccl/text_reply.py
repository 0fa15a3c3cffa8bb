"""A job as NCCL's text report, byte for byte: src/ras/client_support.cc of 2.26 to 2.30."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from simulator.nccl.job import IN_PROGRESS, OPERATIONS, STATUSES, Comm, Job, Peer, Seat

MAX_LISTED, MAX_SHARE = 10, 0.25  # of a set, in a plain STATUS; VERBOSE lists below a half
VERBOSE_SHARE = 0.5
ERRORS = ("INCOMPLETE", "ERROR", "MISMATCH")
RESULTS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
FIRST_UNPRINTED = 7  # codes from here on have no line of their own
HEAD = (
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
)

Member = tuple[int, Seat]


def render_text(job: Job, *, verbose: bool = False) -> str:
    """The whole reply to STATUS, or VERBOSE STATUS."""
    places = 3 if job.version >= (2, 28, 7) else 2
    text = (
        f"NCCL version {job.nccl} compiled with CUDA {job.cuda // 1000}.{job.cuda % 1000 // 10}\n"
        f"CUDA runtime version {job.cuda}, driver version {job.cuda}\n\n"
        f"Job summary\n===========\n\n{_summary(job.peers)}\n"
        f"Communicators... ({job.collection_s:.{places}f}s)\n=============\n\n"
    )
    if not job.comms:
        return text + "No communicator data collected!\n\nErrors\n======\n\nWarnings\n========\n\n"
    groups = _groups(job.comms)
    rows = "".join(_row(number, group) for number, group in enumerate(groups))
    named = [
        (f"#{g}-{i} ({comm.hash:016x})", comm)
        for g, group in enumerate(groups)
        for i, comm in enumerate(group)
    ]
    errors = "".join(
        [
            *_lost(job.peers, verbose),
            *(item for name, comm in named for item in _errors(name, comm, verbose)),
        ]
    )
    warnings = "".join(
        [_timeouts(job.timeouts), *(_mismatch(name, comm, verbose) for name, comm in named)]
    )
    return f"{text}{HEAD}{rows}\nErrors\n======\n\n{errors}Warnings\n========\n\n{warnings}"


def _summary(peers: Sequence[Peer]) -> str:
    nodes: dict[str, list[Peer]] = {}
    for peer in peers:
        nodes.setdefault(peer.host, []).append(peer)
    processes, gpus = len(peers), sum(len(p.gpus) for p in peers)
    shapes = Counter(
        (len(on_node), tuple(sorted({len(p.gpus) for p in on_node}))) for on_node in nodes.values()
    )
    if len(shapes) == 1 and len(next(iter(shapes))[1]) == 1:
        ((per_node, (per_process,)),) = shapes
        return (
            "  Nodes  Processes         GPUs  Processes     GPUs\n"
            "(total)   per node  per process    (total)  (total)\n"
            f"{len(nodes):7d}  {per_node:9d}  {per_process:11d}  {processes:9d}  {gpus:7d}\n"
        )
    total = (
        "\n  Nodes  Processes         GPUs\n"
        "(total)    (total)      (total)\n"
        f"{len(nodes):7d}  {processes:9d}  {gpus:11d}\n"
    )
    by_shape = sorted(shapes.items(), key=lambda item: (-item[1], item[0]))
    if all(len(per_process) == 1 for _, per_process in shapes):
        rows = "".join(f"{count:7d}  {n:9d}  {g[0]:11d}\n" for (n, g), count in by_shape)
        return f"  Nodes  Processes         GPUs\n          per node  per process\n{rows}{total}"
    by_node = sorted(
        Counter(len(on_node) for on_node in nodes.values()).items(),
        key=lambda item: (-item[1], item[0]),
    )
    by_process = sorted(
        Counter(len(p.gpus) for p in peers).items(), key=lambda item: (-item[1], item[0])
    )
    return (
        "  Nodes  Processes\n          per node\n"
        + "".join(f"{count:7d}  {n:9d}\n" for n, count in by_node)
        + "\n         Processes         GPUs\n                    per process\n"
        + "".join(f"         {count:9d}  {n:11d}\n" for n, count in by_process)
        + total
    )


def _groups(comms: Sequence[Comm]) -> list[list[Comm]]:
    """Communicators alike in size, nodes, status and errors; the largest first, and in a group
    those with most ranks missing.
    """
    groups: dict[tuple[int, int, int, int], list[Comm]] = {}
    for comm in sorted(comms, key=lambda c: (len(c.present), c.hash)):
        groups.setdefault(_key(comm), []).append(comm)
    return [group for _, group in sorted(groups.items(), reverse=True)]


def _key(comm: Comm) -> tuple[int, int, int, int]:
    nodes = len({seat.peer.host for _, seat in comm.present})
    status = max((STATUSES.index(seat.status) for _, seat in comm.present), default=0)
    return len(comm.seats), nodes, status, sum(4 >> ERRORS.index(e) for e in _kinds(comm))


def _kinds(comm: Comm) -> list[str]:
    kinds = ["INCOMPLETE"] if any(seat.peer.life != "alive" for seat in comm.seats) else []
    kinds += (
        ["ERROR"]
        if any(_failed(s.init_state) or _failed(s.async_error) for _, s in comm.present)
        else []
    )
    differs = (
        len({s.status for _, s in _answering(comm)}) > 1
        or len({tuple(s.counts) for _, s in comm.present}) > 1
    )
    return kinds + (["MISMATCH"] if differs else [])


def _row(number: int, group: Sequence[Comm]) -> str:
    size, nodes, status, _ = _key(group[0])
    per_node = [
        n for comm in group for n in Counter(seat.peer.host for _, seat in comm.present).values()
    ] or [0]
    spread = (
        str(min(per_node)) if min(per_node) == max(per_node) else f"{min(per_node)}-{max(per_node)}"
    )
    present = len(
        {(seat.peer.host, seat.peer.pid, seat.gpu) for comm in group for _, seat in comm.present}
    )
    errors = ",".join(_kinds(group[0])) or "OK"
    return (
        f"{number:5d}  {len(group):8d}  {nodes:8d}  {spread:>8s}  {size:8d}  {present:8d}  "
        f"{STATUSES[status]:>8s}  {errors:>6s}\n"
    )


def _lost(peers: Sequence[Peer], verbose: bool) -> Iterator[str]:
    for life in ("unresponsive", "dead"):
        gone = [peer for peer in peers if peer.life == life]
        if gone:
            one = len(gone) == 1
            process = "process" if one else "processes"
            if life == "dead":
                verb = "is" if one else "are"
                head = (
                    f"DEAD\n  {len(gone)} job {process} {verb} considered dead (unreachable "
                    "via the RAS network)\n"
                )
            else:
                head = f"INCOMPLETE\n  Missing communicator data from {len(gone)} job {process}\n"
            yield (
                head
                + "".join(
                    f"  {process_words(p)}\n" for p in gone if _listed(len(gone), None, verbose)
                )
                + "\n"
            )


def process_words(peer: Peer) -> str:
    """A process as reports and events name it."""
    nvml = ",".join(map(str, peer.nvml))
    plural = "s" if len(peer.gpus) > 1 else ""
    gpus = ",".join(map(str, peer.gpus))
    return (
        f"Process {peer.pid} on node {peer.host} managing GPU{plural} "
        f"{gpus}{f' (NVML {nvml})' if nvml else ''}"
    )


def _errors(name: str, comm: Comm, verbose: bool) -> Iterator[str]:
    missing = [(r, s) for r, s in enumerate(comm.seats) if s.peer.life != "alive"]
    if missing:
        text = (
            f"{name} INCOMPLETE\n  Missing communicator data from {len(missing)} "
            f"{_ranks(missing)}\n"
        )
        yield text + _list(missing, None, verbose) + "\n"
    parts = [
        _failures("Initialization", comm, lambda s: s.init_state, verbose),
        _failures("Asynchronous", comm, lambda s: s.async_error, verbose),
    ]
    if any(parts):
        yield f"{name} ERROR\n{''.join(parts)}\n"


def _failures(kind: str, comm: Comm, code_of: Callable[[Seat], int], verbose: bool) -> str:
    failed = [(r, s) for r, s in comm.present if _failed(code_of(s))]
    if not failed:
        return ""
    text = f"  {kind} error{'s' if len(failed) > 1 else ''} on {len(failed)} {_ranks(failed)}\n"
    sets = _sets(failed, lambda s: -code_of(s))
    for code, members in sets:
        if -code < FIRST_UNPRINTED:
            text += _set(
                members, f"reported {RESULTS[-code]}", f"reported {RESULTS[-code]}", None, verbose
            )
    return text


def _timeouts(count: int) -> str:
    if not count:
        return ""
    plural = "s" if count > 1 else ""
    return (
        f"TIMEOUT\n  Encountered {count} communication timeout{plural} while gathering "
        "communicator data\n\n"
    )


def _mismatch(name: str, comm: Comm, verbose: bool) -> str:
    size, text = len(comm.seats), ""
    answering = _answering(comm)
    if len({seat.status for _, seat in answering}) > 1:
        text += "  Communicator ranks have different status\n"
        for value, members in _sets(answering, lambda s: STATUSES.index(s.status)):
            status = STATUSES[value]
            text += _set(members, f"have status {status}", f"has status {status}", size, verbose)
    for row, operation in enumerate(OPERATIONS):
        if len({seat.counts[row] for _, seat in comm.present}) > 1:
            text += f"  Communicator ranks have different {operation} operation counts\n"
            for count, members in _sets(comm.present, partial(_count, row)):
                done = (
                    f"launched up to operation {count}" if count else "not launched any operations"
                )
                text += _set(members, f"have {done}", f"has {done}", size, verbose)
            text += "\n"
    return f"{name} MISMATCH\n{text}" if text else ""


def _count(row: int, seat: Seat) -> int:
    return seat.counts[row]


def _sets(
    members: Sequence[Member], value: Callable[[Seat], int]
) -> list[tuple[int, list[Member]]]:
    """Members by value: the largest set first, then the highest value."""
    found: dict[int, list[Member]] = {}
    for rank, seat in members:
        found.setdefault(value(seat), []).append((rank, seat))
    return sorted(found.items(), key=lambda item: (-len(item[1]), -item[0]))


def _set(members: Sequence[Member], many: str, one: str, base: int | None, verbose: bool) -> str:
    if len(members) == 1:
        ((rank, seat),) = members
        return f"  Rank {rank} {one} -- {_place(seat)}\n"
    return f"  {len(members)} ranks {many}\n{_list(members, base, verbose)}"


def _list(members: Sequence[Member], base: int | None, verbose: bool) -> str:
    if not _listed(len(members), base, verbose):
        return ""
    return "".join(f"  Rank {rank} -- {_place(seat)}\n" for rank, seat in members)


def _listed(count: int, base: int | None, verbose: bool) -> bool:
    if count == 1:
        return True
    if verbose:
        return base is None or count < VERBOSE_SHARE * base
    return count <= MAX_LISTED and (base is None or count <= MAX_SHARE * base)


def _place(seat: Seat) -> str:
    nvml = seat.peer.nvml_of(seat.gpu)
    index = f" (NVML {nvml})" if nvml != seat.gpu else ""
    return f"GPU {seat.gpu}{index} managed by process {seat.peer.pid} on node {seat.peer.host}"


def _answering(comm: Comm) -> list[Member]:
    return [(rank, seat) for rank, seat in enumerate(comm.seats) if seat.peer.life == "alive"]


def _failed(code: int) -> bool:
    return code not in (0, IN_PROGRESS)


def _ranks(members: Sequence[Member]) -> str:
    return "ranks" if len(members) > 1 else "rank"
