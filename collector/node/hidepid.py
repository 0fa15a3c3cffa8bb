"""Whether /proc hides the processes of other users (hidepid=, proc(5)): they are not even counted,
so that a node full of jobs looks like one without any.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

MOUNTS = Path("/proc/self/mounts")
# As kernels before 5.8 show them, and as later ones do.
HIDES = {"1": "noaccess", "2": "invisible", "4": "ptraceable"}
ROOT = 0  # the group where gid= is not shown (fs/proc/root.c, proc_show_options)

_OCTAL = re.compile(r"\\([0-7]{3})")


class Hiding(NamedTuple):
    """``mode`` as new kernels spell it; ``group``: who is in it sees all processes, None where only
    CAP_SYS_PTRACE counts (fs/proc/base.c, has_pid_permissions).
    """

    mode: str
    group: int | None


def hiding(proc: Path, mounts: Path = MOUNTS) -> Hiding | None:
    """How the file system mounted at ``proc`` hides processes; None where it does not, or where
    that cannot be known.
    """
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    rows = [fields for line in text.splitlines() if len(fields := line.split(" ")) > 3]
    # The last of several at one place hides the others.
    at = [(kind, options) for _, point, kind, options, *_ in rows if _plain(point) == str(proc)]
    kind, options = at[-1] if at else ("", "")
    given = dict(option.partition("=")[::2] for option in options.split(","))
    mode = HIDES.get(given.get("hidepid", ""), given.get("hidepid", ""))
    if kind != "proc" or mode not in HIDES.values():
        return None
    gid = given.get("gid", "")
    return Hiding(mode, None if mode == "ptraceable" else int(gid) if gid.isdecimal() else ROOT)


def _plain(point: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), point)
