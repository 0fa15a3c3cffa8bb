"""Troubles of the kernel itself: lock-ups, stalls, tasks that wait, what runs out.

Wording: the printk calls of Linux 4.18 to 6.15.
"""

from __future__ import annotations

from simulator.fleet.troubles.trouble import Trouble, lines

SOFT = lines(
    "watchdog: BUG: soft lockup - CPU#{cpu} stuck for {seconds}s! [{comm}:{pid}]",
    "NMI watchdog: BUG: soft lockup - CPU#{cpu} stuck for {seconds}s! [{comm}:{pid}]",
    "BUG: soft lockup - CPU#{cpu} stuck for {seconds}s! [{comm}:{pid}]",
)
HUNG = lines(
    "INFO: task {comm}:{pid} blocked for more than 120 seconds.",
    "INFO: task {comm}:{pid} blocked in I/O wait for more than 241 seconds.",
)
RCU = lines(
    "rcu: INFO: rcu_sched self-detected stall on CPU",
    "INFO: rcu_sched self-detected stall on CPU",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {{ 12-... }} 21 jiffies",
    "rcu: rcu_sched kthread starved for 5251 jiffies! g1 f0x2 RCU_GP_WAIT_FQS(5) ->state=0x0",
)
PANIC = lines(
    "Kernel panic - not syncing: Fatal hardware error!",
    "Kernel panic - not syncing: Fatal exception in interrupt",
    "Kernel panic - not syncing: hung_task: blocked tasks",
    "Kernel panic - not syncing: Timeout: Not all CPUs entered broadcast exception handler",
    "Kernel panic - not syncing: System is deadlocked on memory",
    "Kernel panic - not syncing: softlockup: hung tasks",
)
HARD = lines(
    "watchdog: Watchdog detected hard LOCKUP on cpu {cpu}",
    "NMI watchdog: Watchdog detected hard LOCKUP on cpu {cpu}",
    "Watchdog detected hard LOCKUP on cpu {cpu}",
)
OOPS = lines(
    "BUG: unable to handle page fault for address: ffffc900{hex}",
    "BUG: unable to handle kernel paging request at ffffc900{hex}",
    "BUG: kernel NULL pointer dereference, address: 0000000000000010",
    "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010",
    "Oops: 0002 [#1] PREEMPT SMP NOPTI",
    "Internal error: Oops: 0000000096000004 [#1] SMP",
    "general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1]",
    "kernel BUG at mm/slub.c:305!",
    "BUG: Bad page state in process {comm}  pfn:{hex}",
    "BUG: Bad rss-counter state mm:00000000abcdef01 type:MM_ANONPAGES val:512",
    "BUG: scheduling while atomic: swapper/0/0/0x00000002",
    "BUG: KASAN: slab-out-of-bounds in nvme_pci_complete_rq+0x1/0x2 [nvme]",
)
WORKQUEUE = lines(
    "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for {seconds}s!",
    "BUG: workqueue lockup - pool cpus={cpu} flags=0x4 nice=-20 stuck for {seconds}s!",
)
STALLS = (SOFT[0][0], RCU[0][0], HUNG[0][0])
KERNEL = (
    Trouble(HARD, "page", halts="dies", chain=STALLS),
    Trouble(SOFT, "page", least=5, halts="waits", chain=STALLS[1:]),
    Trouble(SOFT, "ticket", least=2, repeats=False),
    Trouble(OOPS, "ticket"),
    Trouble(RCU, "ticket", least=3, chain=(HUNG[0][0],)),
    Trouble(WORKQUEUE, "ticket", least=3),
    Trouble(HUNG, "ticket", least=3),
)


KILL = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=step_0,mems_allowed=0-1,global_oom,"
    "task_memcg=/slurm/uid_1000/job_77/step_0,task={comm},pid={pid},uid=1000"
)
MEMORY_RAN_OUT = (
    (KILL, "Out of memory: Killed process {pid} ({comm}) total-vm:123456kB, anon-rss:98765kB"),
    ("Out of memory: Kill process {pid} ({comm}) score 900 or sacrifice child",),
    ("Out of memory: Killed process {pid} ({comm}) total-vm:1kB, anon-rss:1kB, file-rss:0kB",),
)
EXHAUSTED = lines(
    "VFS: file-max limit 1048576 reached",
    "nf_conntrack: nf_conntrack: table full, dropping packet",
    "nf_conntrack: nf_conntrack: table full in netns 4026531840, dropping packet",
    "neighbour: arp_cache: neighbor table overflow!",
    "neighbour: ndisc_cache: neighbour table overflow!",
    "TCP: out of memory -- consider tuning tcp_mem",
    "cgroup: fork rejected by pids controller in /system.slice/sshd.service",
)
HOT = lines(
    "mce: CPU{cpu}: Package temperature above threshold, cpu clock throttled (total events = {n})",
    "CPU{cpu}: Core temperature is above threshold, cpu clock is throttled (total events = {n})",
    "CPU{cpu}: Package temperature above threshold, cpu clock throttled (total events = {n})",
)
COOL = ("mce: CPU{cpu}: Package temperature/speed normal",)
RESOURCES = (
    Trouble(MEMORY_RAN_OUT, "ticket", quiet=True, halts="dies", needs_job=True),
    Trouble(EXHAUSTED, "ticket", quiet=True),
    Trouble(HOT, "ticket", wait_s=600.0, ends=COOL),
)
