"""A line of a job's log becomes hits: who wrote it, by the shell around its message, and what
the patterns find in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from collector.foreign_text import printable
from collector.sources.bounds import int32
from collector.sources.joblog.lines import MAX_LINE, Line, unix_ns
from collector.sources.joblog.pattern import compiled
from collector.sources.joblog.table import PATTERNS
from pipeline.nccl.hit import Hit

MAX_TEXT = 512  # characters of a line that a hit keeps
MAX_HOST = 253  # characters of a host's name in DNS

# ncclDebugLog (debug.cc): a time since 2.26, the function since 2.30. Launchers put "[default3]:"
# (torchrun --tee) or "[1,7]<stderr>:" (Open MPI) directly before it, and a progress bar ends there.
_NCCL = compiled(
    r"(?:\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,32})\] "
    r")?(?<![^\s:|\]])(?P<host>[^\s:|\]]{1,253}):<pid:d>:<tid:d> \[<dev:i>\] (?:<file:S>:<line:d> "
    r"(?:\(<func:w>\) )?)?NCCL (?P<lvl>WARN|INFO) (?P<msg>.*)$"
)
# c10/util/Logging (glog's form), with the prefix of torch.distributed's launcher.
_C10D = compiled(
    r"(?:\[rank<rank:d>\]:)?\[(?P<sev>[IWEF])(?P<mmdd>\d{3,4})? ?(?P<hms>\d\d:\d\d:\d\d\.\d{1,9})? "
    r"?(?P<file>\w{1,64}\.[ch]pp):<line:d>\] (?P<msg>.*)$"
)
# What PyTorch puts before each line of an exception (distributed_c10d.py,
# _distributed_excepthook).
_RANKED = compiled(r"(?:^|[\s:])\[rank<rank:d>\]: (?P<msg>.*)$")
_GROUP = compiled(
    r"\[PG (?:ID <pgid:d> PG GUID )?(?P<guid>[^\s(\]]{1,128}) "
    r"?(?:\((?P<desc>[^)]{0,128})\))? ?Rank <rank:d>\]",
)


class Shell(NamedTuple):
    """What is around a message: time and host of its writer, as far as the line bears them."""

    message: str
    time_ns: int = 0
    host: str = ""
    pid: int = -1
    gpu: int = -1
    world_rank: int = -1


def hits(line: Line, origin: str = "") -> Iterator[Hit]:
    """What the patterns find in one line, made printable: a job may write what terminals obey.

    Never raises, and takes linear time, whatever stands in it.
    """
    shell = shell_of(line)
    for pattern in PATTERNS:
        fields = pattern.fields(shell.message)
        if fields is not None:
            yield _hit(pattern.name, shell, fields, line, origin)


_BY_NAME = {pattern.name: pattern for pattern in PATTERNS}


def _hit(name: str, shell: Shell, fields: Mapping[str, str], line: Line, origin: str) -> Hit:
    pattern = _BY_NAME[name]
    group = _GROUP.search(shell.message) if "[PG " in shell.message else None
    return Hit(
        name,
        pattern.layer,
        pattern.blame,
        time_ns=line.time_ns or shell.time_ns,
        host=shell.host,
        pid=shell.pid,
        gpu=shell.gpu,
        world_rank=shell.world_rank,
        group=printable(group["guid"]) if group else "",
        rank=int32(group["rank"]) if group else -1,
        fields=MappingProxyType({key: printable(text, MAX_LINE) for key, text in fields.items()}),
        text=printable(line.text.replace("\t", " "), MAX_TEXT),
        origin=printable(origin, MAX_LINE),
    )


def shell_of(line: Line) -> Shell:
    """The reporter of a line; of one without a shell the whole text is the message."""
    text = line.text
    if " NCCL " in text and (match := _NCCL.search(text)):
        stamp = unix_ns(match["ts"]) if match["ts"] else 0
        host = printable(match["host"], MAX_HOST)
        return Shell(match["msg"], stamp, host, int32(match["pid"]), int32(match["dev"]))
    if "pp:" in text and (match := _C10D.search(text)):
        return Shell(match["msg"], world_rank=int32(match["rank"]))
    if "[rank" in text and (match := _RANKED.search(text)):
        return Shell(match["msg"], world_rank=int32(match["rank"]))
    return Shell(text)
