"""Lines of the kernel that are no fault: single errors, servers that are back, planned boots,
processes that their own group killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from simulator.fleet import kernel_logs
from simulator.fleet.plan import Plan
from simulator.fleet.repair import boot
from simulator.fleet.topology import GPUS
from simulator.fleet.troubles import devices, hardware, kernel, storage
from simulator.fleet.troubles.trouble import LINE_S, Spelling, Words, lines
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

CORRECTED = (*hardware.CORRECTED, *hardware.CORRECTED_CPU, *hardware.CORRECTED_FIRMWARE)
# Each alone is daily life.
SINGLE: tuple[Spelling, ...] = (
    *kernel.SOFT,
    *kernel.HUNG,
    *kernel.RCU,
    *devices.AGAIN,
    *devices.TIMEOUTS,
    *devices.COMMANDS,
    *lines(
        storage.NVME_TIMEOUT,
        "python[{pid}]: segfault at 0 ip 00007f8cde62b2e0 sp 00007ffec74e0a30 error 6 in "
        "libnvidia-ml.so.1[12e0,7f8cde62b000+1000] likely on CPU 0",
        "mlx5_core {port} eth9: Link down",
        "bnxt_en 0000:5f:00.0 eth2: NIC Link is Down",
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping "
        "further processing",
        "NVRM: nvCheckOkFailedNoLog: Check failed: Object not found [NV_ERR_OBJECT_NOT_FOUND] "
        "(0x00000057) returned from status @ mem_multicast_fabric.c:1234",
        "pcieport {gpu_bridge}: AER: Corrected error message received from {gpu}",
        "md: data-check of RAID array {array}",
        "md: {array}: data-check done.",
        "nvme {nvme}: 32/0/0 default/read/poll queues",
        "EXT4-fs ({disk}): re-mounted 0b1c2d3e-0000-0000-0000-000000000000 r/w. Quota mode: none.",
        "EXT4-fs ({disk}): mounted filesystem with ordered data mode. Quota mode: none.",
        "I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "Buffer I/O error on dev sr0, logical block 0, async page read",
        "blk_update_request: I/O error, dev loop3, sector {n} op 0x0:(READ) flags 0x0",
    ),
)
STORM: tuple[Spelling, ...] = lines(
    "nvidia_read: {n} callbacks suppressed",
    'audit: type=1326 audit(1700000000.123:46): pid={pid} comm="NVRM: Xid" exe="/usr/bin/python3"',
    "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8080. Sending cookies.",
    "docker0: port 1(veth1a2b3c) entered blocking state",
    "NVRM: iovaspaceDestruct_IMPL: {n} left-over mappings in IOVAS 0x1b00",
    "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate",
    "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Data {{0x10000000, 0x10000000, 0x10000000}}",
)
SHORT_HEAT = (kernel.HOT[0], kernel.COOL)
CGROUPS = (
    "/system.slice/cron.service",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b1c2d3e.slice/cri-1.scope",
    "/user.slice/user-1000.slice",
    "/slurm/uid_1000/job_4242",
)
STOPPED = lines(
    "systemd-shutdown[1]: Syncing filesystems and block devices.", "reboot: Restarting system"
)
LATE = ("mlx5_core {port}: cmd[3]: ACCESS_REG(0x805) Async, Recovered after timeout",)


def lines_of_every_day(plan: Plan) -> None:
    """H43: single errors that were corrected, single stalls and timeouts, checks, storms of lines
    that say nothing.
    """
    for node in range(plan.topology.nodes):
        _often(plan, node, plan.draw("corrected_per_day"), partial(_one, of=CORRECTED))
        _often(plan, node, plan.draw("others_per_day"), partial(_one, of=SINGLE))
        _often(plan, node, plan.draw("storms_per_day"), partial(_storm, count=plan.pick("lines")))
        _often(plan, node, plan.draw("others_per_day") / 4, _heat)


def servers_back(plan: Plan) -> None:
    """H44: file servers that do not answer for some seconds, under jobs, on many nodes at once."""
    outages = [trouble for trouble in storage.SERVERS if trouble.ends]
    for at in _times(plan, plan.draw("outages_per_day")):
        trouble = outages[int(plan.rng.integers(len(outages)))]
        named = [text for text in trouble.spellings if _named(text)]
        texts, lasts = named[int(plan.rng.integers(len(named)))], plan.draw("outage_s")
        share, seed = plan.draw("nodes_share"), int(plan.rng.integers(1 << 32))
        for node in range(plan.topology.nodes):
            if plan.rng.random() < share:
                words = Words.seeded(seed, plan.topology.profile)
                plan.inject(
                    at, partial(_outage, node=node, words=words, of=(texts, trouble.ends), s=lasts)
                )


def planned_boots(plan: Plan) -> None:
    """H45: nodes are booted again as planned, mostly between jobs; their last lines are those of an
    orderly shutdown, or of trouble that had no consequence.
    """
    for node in range(plan.topology.nodes):
        for at in _times(plan, plan.draw("boots_per_month") / 30):
            plan.kill(plan.job(node, at), at - 2 * MINUTE)
            off, announced = plan.draw("off_minutes") * MINUTE, plan.rng.random() < 0.5
            plan.drain(node, at - 2 * MINUTE, at + off + 5 * MINUTE)
            words = Words(plan.rng, plan.topology.profile, int(plan.rng.integers(GPUS)))
            plan.inject(at, partial(_boot, node=node, words=words, off=off, said=announced))


def over_at_once(plan: Plan) -> None:
    """H46: adapters that recover, and processes that are killed by the limit of a group that has no
    GPU, under jobs.
    """
    for node in range(plan.topology.nodes):
        _often(plan, node, plan.draw("adapters_per_day"), _adapter)
        _often(plan, node, plan.draw("kills_per_day"), _kill)


Act = Callable[..., Process]


def _often(plan: Plan, node: int, per_day: float, act: Act) -> None:
    for at in _times(plan, per_day):
        words = Words(plan.rng, plan.topology.profile, int(plan.rng.integers(GPUS)))
        plan.inject(at, partial(act, node=node, words=words))


def _times(plan: Plan, per_day: float) -> list[float]:
    count = int(plan.rng.poisson(per_day * plan.end_s / DAY))
    drawn = plan.rng.uniform(HOUR, plan.end_s - HOUR, count)
    return [plan.on_grid(float(at)) for at in sorted(drawn)]


def _named(spelling: Spelling) -> bool:
    return any(word in spelling[0] for word in ("{server}", "{target}", "{mds}", "10.0.0.7 lost"))


def _write(world: FleetState, node: int, words: Words, texts: Spelling) -> None:
    kernel_logs.write(world, node, words.of(texts, world.rng), after_s=LINE_S)


def _one(world: FleetState, *, node: int, words: Words, of: Sequence[Spelling]) -> Process:
    _write(world, node, words, of[int(world.rng.integers(len(of)))])
    yield from ()


def _storm(world: FleetState, *, node: int, words: Words, count: int) -> Process:
    texts = STORM[int(world.rng.integers(len(STORM)))]
    for _ in range(3):
        _write(world, node, words, texts * (count // 3))
        yield MINUTE


def _heat(world: FleetState, *, node: int, words: Words) -> Process:
    _write(world, node, words, SHORT_HEAT[0])
    yield float(world.rng.uniform(1, 8 * MINUTE))
    _write(world, node, words, SHORT_HEAT[1])


def _outage(
    world: FleetState, *, node: int, words: Words, of: tuple[Spelling, Spelling], s: float
) -> Process:
    _write(world, node, words, of[0])
    yield s
    _write(world, node, words, of[1])


def _boot(world: FleetState, *, node: int, words: Words, off: float, said: bool) -> Process:
    if said:
        world.tell_node("jobs", node, "maintenance_started", {"reason": "update", "seconds": 3600})
    yield MINUTE
    yield from boot(world, node=node, off_s=off)
    last = (*STOPPED, *SINGLE)[int(world.rng.integers(len(STOPPED) + len(SINGLE)))]
    yield MINUTE / 2
    texts = words.of(last, world.rng)
    kernel_logs.write(world, node, texts, after_s=LINE_S, crashed_s=off)
    if said:
        yield 10 * MINUTE
        world.tell_node("jobs", node, "maintenance_ended")


def _adapter(world: FleetState, *, node: int, words: Words) -> Process:
    for _ in range(int(world.rng.integers(1, 3))):
        texts = (*devices.TIMEOUTS, *devices.COMMANDS)[int(world.rng.integers(5))]
        _write(world, node, words, texts)
        yield float(world.rng.uniform(1, MINUTE))
    _write(world, node, words, LATE if world.rng.random() < 0.5 else devices.RECOVERED)


def _kill(world: FleetState, *, node: int, words: Words) -> Process:
    group = CGROUPS[int(world.rng.integers(len(CGROUPS)))]
    named = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,"
        f"oom_memcg={group},task_memcg={group},task={{comm}},pid=4242,uid=1000"
    )
    kill = "Memory cgroup out of memory: Killed process 4242 ({comm}) total-vm:1kB, anon-rss:1kB"
    _write(world, node, words, (named, kill))
    yield from ()
