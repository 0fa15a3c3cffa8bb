"""Lines that the kernel prints with a name that a tenant chose: of a process, a file or a network
device of its own namespace.

Forms: the printk calls of Linux 4.18 to 6.15 for x86-64, arm64 and riscv.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_COMM = 15  # TASK_COMM_LEN - 1, as bytes; a network device's name is no longer (IFNAMSIZ)
MAX_FILE = 255


class Form(NamedTuple):
    """A message with ``{comm}`` and ``{file}``, and the kinds of event that it may be by itself."""

    text: str
    kinds: frozenset[str] = frozenset()

    def line(self, comm: str, file: str) -> str:
        """The message about these names."""
        return self.text.replace("{comm}", comm[:MAX_COMM]).replace(
            "{file}", file.replace("/", "_")[:MAX_FILE]
        )


_CRASH = frozenset({"segfault"})
CRASHES = tuple(
    Form(text, _CRASH)
    for text in (
        (
            "{comm}[14638]: segfault at 0 ip 000055d0c0ffe000 sp 00007ffc12345678 error 4 in "
            "{file}[115b,55d0c0ffe000+1000] likely on CPU 3 (core 3, socket 0)"
        ),
        "{comm}[7]: segfault at 0 ip 401136 sp 7ffc1234 error 4 in {file}[401000+1000]",
        "{comm}[14638] trap invalid opcode ip:401136 sp:7ffc12345678 error:0 in {file}[401000+1]",
        "traps: {comm}[14638] trap int3 ip:401136 sp:7ffc12345678 error:0 in {file}[401000+1000]",
        (
            "traps: {comm}[14638] general protection fault ip:401136 sp:7ffc12345678 error:0 in "
            "{file}[401000+1000]"
        ),
        (
            "{comm}[14638] bad frame in sigreturn frame:00000000f0f0f0f0 ip:401136 sp:7ffc12345678 "
            "orax:ffffffffffffffff in {file}[401000+1000]"
        ),
        (
            "{comm}[14638] vsyscall attempted with vsyscall=none ip:ffffffffff600000 cs:33 "
            "sp:7ffc12345678 ax:0 si:0 di:0"
        ),
        (
            "{comm}[14638]: unhandled exception: DABT (lower EL), ESR 0x0000000092000006, level 2 "
            "translation fault in {file}[115b,aaaad0c0f000+1000]"
        ),
        (
            "{comm}[14638]: unhandled level 2 translation fault (11) at 0x00000000, esr "
            "0x92000006, in {file}[aaaad0c0f000+1000]"
        ),
        "{comm}[14638]: bad frame in do_compat_sigreturn: pc=00401136 sp=f0f0f0f0",
        "{comm}[14638]: undefined instruction: pc=0000aaaad0c0f000",
        (
            "{comm}[14638]: unhandled signal 11 code 0x1 at 0x0000000000000000 in "
            "{file}[115b,2aaad0c0f000+1000]"
        ),
        "{file}: {comm}: potentially unexpected fatal signal 11.",
        "{comm}/14638: potentially unexpected fatal signal 11.",
    )
)
OTHERS = tuple(
    Form(text)
    for text in (
        "{comm} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=1000",
        (
            "{comm}: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), "
            "nodemask=(null),cpuset={file},mems_allowed=0-1"
        ),
        (
            "{comm}: vmalloc error: size 4096, page order 0, failed to allocate pages, mode:0xcc2"
            "(GFP_KERNEL|__GFP_HIGHMEM), nodemask=(null),cpuset={file},mems_allowed=0-1"
        ),
        "{comm}: attempt to access beyond end of device\nloop7: rw=0, sector=8, nr_sectors = 8",
        "{comm} (14638): drop_caches: 3",
        "{comm} (14638): Using mlock ulimits for SHM_HUGETLB is obsolete",
        "{comm} (14638): /proc/1/oom_adj is deprecated, please use /proc/1/oom_score_adj instead.",
        "{comm} uses obsolete (PF_INET,SOCK_PACKET)",
        "process '{comm}' launched '{file}' with NULL argv: empty string added",
        "tmpfs: Unknown parameter '{file}'",
        "overlayfs: failed to resolve '{file}': -2",
        "CPU: 3 PID: 14638 Comm: {comm} Not tainted 6.8.0-57-generic #59-Ubuntu",
        'audit: type=1701 audit(1737434504.285:41): uid=1000 comm="{comm}" exe="/x/{file}" sig=11',
        "warning: `{comm}' uses 32-bit capabilities (legacy support in use)",
        '"{comm}" (14638) uses deprecated CP15 Barrier instruction at 0x401136',
        "futex_wake_op: {comm} tries to shift op by -1; fix this program",
    )
)
OWN = (
    Form("INFO: task {comm}:14638 blocked for more than 120 seconds.", frozenset({"hung_task"})),
    Form(
        (
            "Memory cgroup out of memory: Killed process 14638 ({comm}) total-vm:1kB, "
            "anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:1000"
        ),
        frozenset({"oom_kill"}),
    ),
)
# A form of a kernel of the future: the rows have to withstand it by themselves.
UNKNOWN = Form("{comm}[14638] is something new at 0x401136 sp 00007ffc12345678 in {file}[115b,1+1]")
PROCESSES = (*CRASHES, *OTHERS, *OWN, UNKNOWN)
# In a network namespace of its own a user names its devices.
DEVICES = (
    Form("{comm}: renamed from {file}"),
    Form("{comm}: (slave {file}): Enslaving as a backup interface with an up link"),
    Form("{comm}: port 1({file}) entered blocking state"),
    Form("{comm}: Port device {file} added"),
)
