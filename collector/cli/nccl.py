"""``tocsin nccl``: why a job stands still, from what was saved of it; and what this
node's jobs give to look at.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.terminal import plain
from collector.config.load import load

if TYPE_CHECKING:
    from collector.cli.nccl_files import Saved
    from collector.config.settings import Roots as Trees
    from collector.nccl_settings.model import Problem
    from detectors.nccl.verdict import Verdict

NAME = "nccl"
USAGE = "nccl (explain FILE... | status) [options]"
HELP = (
    "Find the rank that a stalled job waits for, from saved RAS reports, Flight Recorder "
    "dumps, Inspector logs and job logs."
)
EXAMPLE = """\
Examples:
  tocsin nccl explain /tmp/nccl_trace_rank_*                 (Flight Recorder dumps of all ranks)
  tocsin nccl explain ras-1.json ras-2.json slurm-4711.out   (RAS reports at least 15 s apart)
  tocsin nccl explain --format json dumps/ | jq .class,.culprits
  kubectl logs trainer-0 | tocsin nccl explain -
  tocsin nccl status

If no rank can be named, the output lists what the files show and what is missing. Classes:
process_lost, hardware_fault, order_mismatch, host_hang, launch_order_deadlock, init_hang,
in_flight, slow_straggler, slow_network, unknown, no_evidence (docs/nccl.md). explain exits 0 if
at least one file was recognised, and 1 otherwise."""

FORMATS = ("text", "json")


def options(parser: Parser) -> None:
    """What to do, with which files, in which form."""
    what = parser.add_subparsers(prog="tocsin nccl", dest="action", metavar="ACTION", required=True)
    explain = what.add_parser(
        "explain", help="diagnose from files", description=HELP, allow_abbrev=False
    )
    explain.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a file, a directory of files, or - for standard input",
    )
    explain.add_argument("--format", choices=FORMATS, default="text", help="text (default) or json")
    add_settings(explain, only=("path",))
    status = what.add_parser(
        "status",
        usage="tocsin nccl status [--format text|json] [--path.procfs DIR]",
        help="list this node's NCCL processes, and settings that do not fit the node",
        description="List this node's NCCL processes, the data they provide, and their settings "
        "that do not fit the node.",
    )
    status.add_argument("--format", choices=FORMATS, default="text", help="text (default) or json")
    add_settings(status, only=("path",))


def run(args: argparse.Namespace) -> int:
    """Do it."""
    if args.action == "status":
        from collector.cli import nccl_status  # noqa: PLC0415 - explain needs no discovery

        path = load(inputs(args)).config.path
        return nccl_status.run(args.format, path.below("procfs"), path.below("sysfs"))
    return _explain(args.files, args.format, load(inputs(args)).config.path)


def _explain(paths: Sequence[str], form: str, trees: Trees) -> int:
    from collector.cli.nccl_files import STANDARD_INPUT, files_in, is_missing, read_saved  # noqa: PLC0415 - help needs no parsers
    from collector.facts.node import facts_of_host  # noqa: PLC0415
    from collector.nccl_settings.logs import LoggedSettings  # noqa: PLC0415
    from collector.nccl_settings.table import problems  # noqa: PLC0415
    from detectors.nccl.jobs import cases  # noqa: PLC0415
    from detectors.nccl.judge import foremost_first, judge  # noqa: PLC0415

    missing = [path for path in paths if path != STANDARD_INPUT and is_missing(path)]
    for path in missing:
        print(f"tocsin: {path}: no such file or folder", file=sys.stderr)
    if form == "text" and len(missing) == len(paths):
        return 1
    logged = LoggedSettings()
    saved = [read_saved(name, logged) for name in files_in(paths)]
    ranks = logged.ranks(facts_of_host(trees.below("procfs"), trees.below("sysfs")))
    settings = Settings(len(ranks), problems(ranks))
    found = cases([s.report for s in saved if s.report], [h for s in saved for h in s.hits])
    verdicts = foremost_first(judge(case) for case in found)
    write: dict[str, Callable[[Sequence[Verdict], Iterable[Saved], Settings], Iterator[str]]] = {
        "text": _text,
        "json": _json,
    }
    sys.stdout.writelines(write[form](verdicts, saved, settings))
    return 0 if any(s.understood for s in saved) else 1


class Settings(NamedTuple):
    """What is wrong with what logs show of a job's settings, and of how many ranks they do."""

    ranks: int
    problems: Sequence[Problem]


def _text(verdicts: Sequence[Verdict], saved: Iterable[Saved], settings: Settings) -> Iterator[str]:
    from collector.nccl_settings import words  # noqa: PLC0415
    from detectors.nccl.words import lines  # noqa: PLC0415

    for verdict in verdicts:
        yield from (f"{plain(line)}\n" for line in lines(verdict))
        yield "\n"
    if settings.problems:
        yield "Settings of the job, as it logged them:\n"
        found = words.lines(settings.problems, settings.ranks)
        yield from (f"  {plain(line)}\n" for line in found)
        yield "\n"
    for one in saved:
        parsed = ", ".join(
            f"{count} {_plural(what) if count != 1 else what}" for what, count in one.parsed.items()
        )
        yield (
            f"{plain(one.name)}: "
            f"{one.kind.replace('_', ' ') or 'not understood'}{f': {parsed}' if parsed else ''}\n"
        )
        for gone in one.discarded:
            what = f"{gone.what}{f' ({gone.count})' * (gone.count > 1)}: {gone.why}"
            yield f"  not used: {plain(what)}\n"


def _plural(word: str) -> str:
    """Of the words that parsers count: line, entry, match, rank, communicator, event."""
    return (
        f"{word[:-1]}ies"
        if word.endswith("y")
        else f"{word}es"
        if word.endswith("ch")
        else f"{word}s"
    )


def _json(verdicts: Sequence[Verdict], saved: Iterable[Saved], settings: Settings) -> Iterator[str]:
    """The verdict of the job that is worst off at the top; others, where files of several
    jobs were given, beside it.
    """
    from collector.nccl_settings.words import document  # noqa: PLC0415

    documents = [verdict.document() for verdict in verdicts]
    whole = {
        **documents[0],
        "settings": [document(one) for one in settings.problems],
        "files": [_file(one) for one in saved],
        "other_jobs": documents[1:],
    }
    yield json.dumps(whole, indent=2) + "\n"


def _file(one: Saved) -> dict[str, Any]:
    return {
        "file": one.name,
        "kind": one.kind,
        "parsed": one.parsed,
        "trusted": one.understood and (one.report is None or one.report.trusted),
        "discarded": [{"what": d.what, "why": d.why, "count": d.count} for d in one.discarded],
    }
