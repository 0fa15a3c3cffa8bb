"""The text report, of NCCL 2.24 to 2.30 and of whatever comes after: a line that is not
understood is counted and kept.

It is never requested of a live job (policy.py); users save and paste it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from collector.foreign_text import printable
from collector.sources.bounds import clipped, int32
from collector.sources.nccl.ras.ledger import Endpoint, Entry
from collector.sources.nccl.ras.words import ADDRESS_UNKNOWN, OPERATIONS, RESULTS, STATES
from collector.sources.nccl.sanitize import FormatError, Unread
from pipeline.nccl.member import WHOLE
from pipeline.nccl.report import Discard, Group, Process, Report, Unlisted

MAX_LINE = 4096  # characters
MAX_LINES = 200_000  # a job of 1,024 ranks that names every one in every communicator stays below
MAX_REFUSALS = 20
TABLES = ("INCOMPLETE", "ERROR", "MISMATCH")


def parse_text(text: str, origin: str = "") -> Report:
    """The report in a text.

    What looks cut or impossible gives a report with ``distrust``;
    FormatError where it is no report.
    """
    reader = _Reader(origin)
    if text.count("\n") >= MAX_LINES:
        raise FormatError(f"a RAS report of more than {MAX_LINES} lines")
    *lines, fragment = text.split("\n")
    for line in lines:
        reader.feed(line.removesuffix("\r"))
    return reader.end(fragment)


class _Reader:
    """One pass over the lines.

    The lines below a head belong to ``entry`` (a communicator) or
    ``lost`` (processes of the job).
    """

    def __init__(self, origin: str) -> None:
        self.report = Report("ras", origin)
        self.section = ""
        self.groups: dict[int, Group] = {}
        self.entries: dict[tuple[int, int], Entry] = {}
        self.entry: Entry | None = None
        self.lost: list[Process] | None = None
        self.missing: list[Process] = []
        self.dead: list[Process] = []
        self.operation = WHOLE
        self.refused: list[Discard] = []
        self.unread = Unread()
        self.understood = 0

    def feed(self, line: str) -> None:
        """One line without its end."""
        if not line.strip(" ="):
            return
        for pattern, take in _LINES if len(line) <= MAX_LINE else ():
            if match := pattern.fullmatch(line):
                take(self, match)
                self.understood += 1
                return
        self.unread.add(line)

    def end(self, fragment: str) -> Report:
        """The report.

        ``fragment`` is a last line without its end: it may be incomplete, so
        nothing is read from it.
        """
        if not self.report.nccl:
            raise FormatError("no RAS report: no line names the NCCL version")
        dead = {(p.host, p.pid) for p in self.dead}
        sizes = {number: group.size for number, group in self.groups.items()}
        cut = (Discard(printable(fragment), "cut off"),) if fragment else ()
        doubts = self._doubts(complete=not fragment)
        return replace(
            self.report,
            distrust="; ".join(doubts[:5]),
            communicators=tuple(
                e.communicator(sizes.get(e.group, 0), dead) for e in self.entries.values()
            ),
            groups=tuple(self.groups.values()),
            missing=tuple(self.missing),
            dead=tuple(self.dead),
            parsed=(
                ("line", self.understood),
                ("communicator", sum(g.communicators for g in self.groups.values())),
            ),
            discarded=(*self.refused, *self.unread.discards("not understood"), *cut),
        )

    def _doubts(self, *, complete: bool) -> list[str]:
        doubts = [] if complete and self.section == "Warnings" else ["the report is cut off"]
        for number, group in self.groups.items():
            if not group.size or not group.communicators:
                doubts.append(
                    f"group {number} has no ranks: NCCL to 2.28 makes such rows up when "
                    "it walks out of bounds"
                )
                continue
            for kind in group.errors:
                described = sum(
                    e.group == number and kind in e.heads for e in self.entries.values()
                )
                if described != group.communicators:
                    doubts.append(
                        f"group {number} has {group.communicators} communicators {kind} and "
                        f"{described} are described"
                    )
        for entry in self.entries.values():
            doubts += entry.doubts()
            if entry.group not in self.groups:
                doubts.append(f"#{entry.group}-{entry.index} is in no row of the table")
        return doubts

    # One method per kind of line. Groups of a match are digits or terms that the pattern has
    # bounded.

    def banner(self, match: re.Match[str]) -> None:
        self.report = replace(self.report, nccl=match[1])

    def job(self, match: re.Match[str]) -> None:
        if self.section == "Job summary":
            # uniform: nodes, processes per node, GPUs per process, processes, GPUs;
            # total: nodes, processes, GPUs
            numbers = [int32(n) for n in match[0].split()]
            if len(numbers) in (3, 5):
                self.report = replace(
                    self.report, nodes=numbers[0], processes=numbers[3 if len(numbers) == 5 else 1]
                )

    def heading(self, match: re.Match[str]) -> None:
        self.section = match["name"]
        self.entry = self.lost = None
        if match["seconds"]:
            self.report = replace(self.report, collection_seconds=float(match["seconds"]))

    def row(self, match: re.Match[str]) -> None:
        number, communicators, nodes, size, present = (int32(match[i]) for i in range(1, 6))
        errors = tuple(e for e in match[7].split(",") if e != "OK")
        self.groups[number] = Group(
            communicators, nodes, size, present, STATES.get(match[6], "unknown"), errors
        )

    def head(self, match: re.Match[str]) -> None:
        number, index = int32(match[1]), int32(match[2])
        self.entry = self.entries.setdefault((number, index), Entry(number, index, match[3]))
        self.entry.heads.setdefault(match[4], 0)
        self.entry.head = match[4]
        self.lost, self.operation = None, WHOLE

    def job_head(self, match: re.Match[str]) -> None:
        self.entry = None
        self.lost = {"DEAD": self.dead, "INCOMPLETE": self.missing}.get(match[0])

    def timeouts(self, match: re.Match[str]) -> None:
        self.report = replace(self.report, timeouts=int32(match[1]))

    def process(self, match: re.Match[str]) -> None:
        if self.lost is not None:
            gpus = tuple(int32(n) for n in match[3].split(",") if n.strip().isdecimal())
            self.lost.append(Process(match[2], int32(match[1]), gpus))

    def missing_ranks(self, match: re.Match[str]) -> None:
        self._begin(Unlisted(int32(match[1]), state="unresponsive"))

    def failures(self, match: re.Match[str]) -> None:
        if self.entry:
            self.entry.failures += int32(match[1])

    def operations(self, match: re.Match[str]) -> None:
        self.operation = WHOLE if match[1] == "collective" else match[1]

    def rank_set(self, match: re.Match[str]) -> None:
        self._begin(self._status_of(int32(match["n"]), match["what"]))

    def single(self, match: re.Match[str]) -> None:
        self._begin(self._status_of(1, match["what"]))
        self._name(int32(match["rank"]), match["place"])

    def rank(self, match: re.Match[str]) -> None:
        self._name(int32(match["rank"]), match["place"])

    def old_ranks(self, match: re.Match[str]) -> None:
        """2.24 and 2.25 list missing ranks, and those without the communicator, by number alone."""
        ranks = [int32(n) for n in match[2].split(",") if n.strip().isdecimal()]
        if (
            match[1] == "missing"
            and self.entry
            and self.entry.sets
            and not self.entry.sets[-1].named
        ):
            self.entry.sets.pop()  # the line above counted the same ranks
        self._begin(Unlisted(len(ranks), state="unresponsive" if match[1] == "missing" else "left"))
        for rank in ranks:
            self._name(rank, "")

    def refusal(self, match: re.Match[str]) -> None:
        if len(self.refused) < MAX_REFUSALS:
            self.refused.append(Discard(printable(match[0]), "a command was refused"))

    def nothing(self, match: re.Match[str]) -> None:
        """A line that only repeats others."""

    def _begin(self, status: Unlisted) -> None:
        if self.entry:
            self.entry.begin(status)

    def _name(self, rank: int, place: str) -> None:
        if (
            self.entry
            and self.entry.sets
            and (where := _PLACE.fullmatch(place or ""))
            and where["pid"]
        ):
            nvml = int32(where["nvml"]) if where["nvml"] else int32(where["gpu"])
            host = "" if where["host"] == ADDRESS_UNKNOWN else where["host"]
            self.entry.name(rank, Endpoint(int32(where["gpu"]), nvml, int32(where["pid"]), host))
        elif self.entry and self.entry.sets:
            self.entry.name(rank, Endpoint())

    def _status_of(self, ranks: int, what: str) -> Unlisted:
        """What one line reports of a set: ``status X``, ``reported ERR``,
        ``launched up to operation K``, ``not launched any ...``.
        """
        verb, _, rest = what.partition(" ")
        if verb == "status":
            return Unlisted(ranks, state=STATES.get(rest, "unknown"))
        if verb == "reported":
            return Unlisted(ranks, error=RESULTS.get(rest, RESULTS["Unexpected error"]))
        count = what.rpartition(" ")[2]
        return Unlisted(
            ranks,
            self.operation,
            clipped(int(count)) if count.isdecimal() and len(count) <= 20 else 0,
        )


_N = r"(\d{1,18})"
_PLACE = re.compile(
    r"GPU (?P<gpu>\d{1,9})(?: \(NVML (?P<nvml>\d{1,9})\))? managed by process (?P<pid>\d{1,10}) on "
    r"node (?P<host>\S{1,64})|\[process information not found\]|"
)
_DONE = r"(?:launched up to operation \d{1,18}|not launched any operations)"
_OPERATION = "|".join(
    (*OPERATIONS, "collective")
)  # "collective": one count for all operations, 2.24 and 2.25
_KINDS = "|".join(TABLES)

_LINES: tuple[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], None]], ...] = tuple(
    (re.compile(pattern), take)
    for pattern, take in (
        (r"  Rank (?P<rank>\d{1,9}) -- (?P<place>.*)", _Reader.rank),
        (
            (
                r"  Rank (?P<rank>\d{1,9}) (?:has )?(?P<what>status [A-Z]+|reported [A-Za-z "
                rf"]+?|{_DONE})(?: -- (?P<place>.*))?"
            ),
            _Reader.single,
        ),
        (
            (
                r"  (?P<n>\d{1,9}) ranks? (?:have |has )?(?P<what>status [A-Z]+|reported "
                rf"[A-Za-z ]+|{_DONE})"
            ),
            _Reader.rank_set,
        ),
        (rf"#{_N}-{_N} \(([0-9a-f]{{1,16}})\) ({_KINDS})", _Reader.head),
        (rf" *{_N} +{_N} +{_N} +\d+(?:-\d+)? +{_N} +{_N} +([A-Z]+) +([A-Z,]+)", _Reader.row),
        (rf"  Missing communicator data from {_N} ranks?", _Reader.missing_ranks),
        (rf"  (?:Initialization|Asynchronous) errors? on {_N} ranks?", _Reader.failures),
        (
            rf"  Communicator ranks have different ({_OPERATION}) operation counts",
            _Reader.operations,
        ),
        (r"  Communicator ranks have different status", _Reader.nothing),
        (r"  The (missing|unknown) ranks?: ([\d, ]+)", _Reader.old_ranks),
        (
            (
                r"  Process (\d{1,10}) on node (\S{1,64}) managing GPUs? ([\d, "
                r"]+?)(?: \(NVML [\d, ]+\))?"
            ),
            _Reader.process,
        ),
        (r"  Missing communicator data from \d+ job process(?:es)?", _Reader.nothing),
        (
            r"  \d+ job process(?: is|es are) considered dead \(unreachable via the RAS network\)",
            _Reader.nothing,
        ),
        (r"  \[could not find information on \d+ process(?:es)?\]", _Reader.nothing),
        (
            rf"  Encountered {_N} communication timeouts? while gathering communicator data",
            _Reader.timeouts,
        ),
        (r"INCOMPLETE|DEAD|TIMEOUT", _Reader.job_head),
        (r"NCCL version (\S{1,32}) compiled with CUDA \S+", _Reader.banner),
        (r"CUDA runtime version -?\d+, driver version -?\d+", _Reader.nothing),
        (
            (
                r"(?P<name>Job summary|Errors|Warnings|Communicators)(?:\.\.\.(?: "
                r"\((?P<seconds>\d{1,9}\.\d+)s\))?)?"
            ),
            _Reader.heading,
        ),
        (r" *\d{1,9}(?: +\d{1,9}){1,4}", _Reader.job),
        (r"(?:\(total\)|per node|per process|Nodes|Processes|GPUs| )++", _Reader.nothing),
        (r"Group +Comms +Nodes +Ranks +Ranks +Ranks +Status +Errors", _Reader.nothing),
        (r" +# +in group +per comm +per node +per comm +in group", _Reader.nothing),
        (r"No communicator data collected!", _Reader.nothing),
        (r"OK|SERVER PROTOCOL \d+", _Reader.nothing),
        (r"ERROR: .*", _Reader.refusal),
        (r"The outlier nodes?:|  Node \S+ running process(?:es)? [\d, ]+", _Reader.nothing),
    )
)
