"""The kernel itself: panic, oops, lock-ups, stalls, hung tasks; what ran out."""

from __future__ import annotations

from collector.sources.control_group import group_of, pod_in
from collector.sources.kmsg.classes.model import COMM, Facts, LineClass, line

_OOPS = "arch/x86/mm/fault.c, arch/x86/kernel/dumpstack.c, arch/arm64/kernel/traps.c"
_RCU = r"(?:rcu: )?INFO: (?P<reason>rcu_\w{1,32} "


def _oops(expression: str, begins: str, reason: str, source: str = _OOPS) -> LineClass:
    return line("kernel_oops", source, begins, expression, reason=reason)


def _exhausted(expression: str, begins: str, resource: str, source: str) -> LineClass:
    return line("resource_exhausted", source, begins, expression, resource=resource)


def _own_limit(facts: Facts) -> Facts:
    """The limit of a job, a pod or a user's session is no want of the node."""
    path = f"0::{facts['cgroup']}"
    job = group_of(path)
    if not job and not pod_in(path) and not str(facts["cgroup"]).startswith("/user.slice/"):
        return facts
    named: Facts = {"job": job.job} if job and job.job else {}
    return {**facts, **named, "resource": "processes of a job"}


CLASSES: tuple[LineClass, ...] = (
    line(
        "kernel_panic",
        "kernel/panic.c",
        "Kernel",
        r"Kernel panic - not syncing: (?P<reason>[^\n]{1,120})",
    ),
    _oops(
        r"BUG: unable to handle (?:page fault|kernel paging request|kernel NULL pointer)",
        "BUG:",
        "page fault",
    ),
    _oops(r"BUG: kernel NULL pointer dereference", "BUG:", "NULL pointer"),
    _oops(r"Unable to handle kernel .{1,80}? at virtual address", "Unable", "page fault"),
    _oops(
        r"Oops: (?:[^\n\[]{10,120}?: [0-9a-f]{1,16}|(?:Oops: )?[0-9a-f]{4,16}) \[#\d{1,6}\](?!\[)",
        "Oops:",
        "oops",
    ),
    _oops(r"Internal error: Oops", "Internal", "oops"),
    _oops(r"general protection fault", "general", "general protection"),
    _oops(r"kernel BUG at [^\s\[]{1,200}:\d{1,6}!", "kernel", "assertion"),
    _oops(
        r"BUG: Bad page (?:state|map) in process (?P<process>.{0,64}?) {1,4}p(?:fn|te|md):",
        "BUG:",
        "bad page",
        "mm/page_alloc.c",
    ),
    _oops(r"BUG: Bad (?:rss-counter|page cache)", "BUG:", "bad page", "mm/memory.c"),
    _oops(
        rf"BUG: scheduling while atomic: {COMM}/(?P<pid>\d{{1,10}})/",
        "BUG:",
        "scheduling while atomic",
        "kernel/sched/core.c",
    ),
    _oops(
        r"BUG: (?:(?:KASAN|KFENCE): [a-z-][a-z -]{4,60} in |"
        r"(?:[\w#]{2,12} )?stack guard page was hit)",
        "BUG:",
        "memory access",
    ),
    line(
        "hard_lockup",
        "kernel/watchdog_perf.c",
        "watchdog: NMI Watchdog",
        r"(?:NMI )?(?:watchdog: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,5})",
    ),
    line(
        "soft_lockup",
        "kernel/watchdog.c",
        "watchdog: BUG: NMI",
        r"(?:NMI )?(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck for "
        rf"(?P<seconds>\d{{1,8}})s! \[{COMM}:(?P<pid>\d{{1,10}})\]",
    ),
    line(
        "workqueue_stall",
        "kernel/workqueue.c",
        "BUG:",
        r"BUG: workqueue lockup - pool .{1,120}? stuck for (?P<seconds>\d{1,8})s",
    ),
    line(
        "rcu_stall",
        "kernel/rcu/tree_stall.h",
        "rcu: INFO:",
        _RCU + r"self-detected stall) on CPU",
    ),
    line(
        "rcu_stall",
        "kernel/rcu/tree_stall.h",
        "rcu: INFO:",
        _RCU + r"detected (?:expedited )?stalls) on CPUs/tasks",
    ),
    line(
        "rcu_stall",
        "kernel/rcu/tree_stall.h",
        "rcu:",
        r"rcu: (?P<reason>rcu_\w{1,32} kthread starved)",
    ),
    line(
        "hung_task",
        "kernel/hung_task.c",
        "INFO:",
        rf"INFO: task {COMM}:(?P<pid>\d{{1,10}}) blocked (?:in I/O wait )?for more than "
        r"(?P<seconds>\d{1,10}) seconds",
    ),
    _exhausted(
        r"VFS: file-max limit (?P<limit>\d{1,20}) reached", "VFS:", "open files", "fs/file_table.c"
    ),
    _exhausted(
        r"(?:nf_conntrack: )?nf_conntrack: table full[^,]{0,60}, dropping packet",
        "nf_conntrack:",
        "connection tracking",
        "net/netfilter/nf_conntrack_core.c",
    ),
    _exhausted(
        r"(?:neighbour: )?\w{1,16}: [Nn]eighbou?r table overflow",
        "neighbour: arp_cache: ndisc_cache:",
        "neighbour table",
        "net/core/neighbour.c",
    ),
    _exhausted(r"TCP: out of memory", "TCP:", "TCP memory", "net/ipv4/tcp.c"),
    _exhausted(
        r"cgroup: fork rejected by pids controller in (?P<cgroup>[^\n]{1,400})",
        "cgroup:",
        "processes",
        "kernel/cgroup/pids.c",
    )._replace(complete=_own_limit),
    line(
        "kernel_log_suppressed",
        "kernel/printk, lib/ratelimit.c",
        "",
        r"(?:printk: )?(?P<by>[^:]{1,64}): (?P<records>\d{1,10}) (?:output lines suppressed "
        r"due to ratelimiting|callbacks suppressed)",
        needle=" suppressed",
    ),
)
