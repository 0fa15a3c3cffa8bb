"""Lines that begin with a name that a user chose, so that no other row may read them: that of a
process (15 bytes, of any kind), of its file, or of a network device in a namespace of its own.

Each form is more than a name of its own can hold (15 bytes), so that no process that is called
like one hides a line about hardware in which the kernel names it. Forms: the printk calls of Linux
4.18 to 6.15 for x86-64, arm64 and riscv.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from collector.sources.kmsg.classes import CLASSES, NAME, LineClass

_INTERFACE = r"[^\s:]{1,15}"


class Form(NamedTuple):
    """A message, and the rows that are about it; ``needle`` is in each and spares the rest the
    expression.
    """

    needle: str
    expression: re.Pattern[str]
    rows: tuple[LineClass, ...]


def _rows(needle: str) -> tuple[LineClass, ...]:
    return tuple(row for row in CLASSES if row.needle == needle)


def _form(needle: str, expression: str, rows: tuple[LineClass, ...] = ()) -> Form:
    return Form(needle, re.compile(expression, re.DOTALL), rows)


_CRASH = tuple(row for row in CLASSES if row.kind == "segfault")
_FORMS = (
    # arch/x86/mm/fault.c, arch/powerpc/kernel/traps.c
    _form("]: segfault ", rf"{NAME}\[\d{{1,10}}\]: segfault (?:at |\(\d)", _CRASH),
    # arch/x86/kernel/traps.c, arch/x86/entry/vsyscall
    _form(" ip:", rf"(?:traps: )?{NAME}\[\d{{1,10}}\] [a-z].{{3,200}}? ip:[0-9a-f]", _CRASH),
    # arch/*/kernel/signal.c
    _form("bad frame in ", rf"{NAME}\[\d{{1,10}}\]:? bad frame in "),
    # arch/arm64/kernel/traps.c, arch/riscv/kernel/traps.c
    _form("]: unhandled ", rf"{NAME}\[\d{{1,10}}\]: unhandled [a-z]{{2}}"),
    _form("]: undefined instruction", rf"{NAME}\[\d{{1,10}}\]: undefined instruction"),
    # kernel/signal.c: since 6.4 the name of the file is first, of up to 255 bytes
    _form(
        ": potentially unexpected fatal signal ",
        r".{0,1024}: potentially unexpected fatal signal \d{1,3}\.?\s{0,4}$",
    ),
    # mm/oom_kill.c, mm/page_alloc.c
    _form(" invoked oom-killer: ", rf"{NAME} invoked oom-killer: "),
    _form(": page allocation ", rf"{NAME}: page allocation (?:failure|stalls)"),
    _form(": vmalloc ", rf"{NAME}: vmalloc (?:error: |size \d)"),
    # block/blk-core.c
    _form(
        ": attempt to access beyond ",
        rf"{NAME}: attempt to access beyond end of device",
        _rows("beyond end of device"),
    ),
    # fs/exec.c
    _form("' launched '", rf"process '{NAME}' launched '"),
    # fs/fs_context.c: an option of a mount in a user namespace
    _form(" parameter '", r"[\w.-]{1,32}: Unknown parameter '"),
    # fs/drop_caches.c, fs/proc/base.c, fs/hugetlbfs/inode.c, mm/mremap.c, kernel/exit.c
    _form(
        " (",
        rf"{NAME} \(\d{{1,10}}\):? (?:drop_caches: |/proc/\d|Using mlock |attempted to |used? )",
    ),
    _form(" uses obsolete (", rf"{NAME} uses obsolete \(PF_INET"),
    # net/core/dev.c, net/bridge/br_stp.c, drivers/net/team, drivers/net/bonding
    _form(": renamed from ", rf"{_INTERFACE}: renamed from "),
    _form(": port ", rf"{_INTERFACE}: port \d{{1,5}}\("),
    _form(": Port device ", rf"{_INTERFACE}: Port device "),
    _form(": (slave ", rf"{_INTERFACE}: \(slave ", _rows("link status definitely")),
)


def chosen(text: str) -> Form | None:
    """The form of a line that begins with such a name; None where it is the kernel's own.

    >>> form = chosen("NVRM: x[7]: segfault at 0 ip 0 sp 0 error 4 in NV_ERR_GPU_IS_LOST[1+2]")
    >>> [row.kind for row in form.rows]
    ['segfault', 'segfault']
    >>> chosen("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=[1]: segfault a, x") is None
    True
    """
    for form in _FORMS:
        if form.needle in text and form.expression.match(text):
            return form
    return None
