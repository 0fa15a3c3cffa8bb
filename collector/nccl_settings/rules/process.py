"""Limits of the process, and settings that are left over from tuning or debugging."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from collector.facts.processes import SHM
from collector.nccl_settings.model import Checks, Rank, some
from collector.sources.nccl.discovery.setting_names import OF_A_RANK

DOCKER_SHM_BYTES = 64 << 20  # what docker and containerd give a container by default
MIN_FILES = 65_536  # one socket or so per peer and channel
STACK_SAFE = (2, 28)  # threads of NCCL took the limit as their size before (release notes)
TUNING = (
    *("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE"),
    *("NCCL_NTHREADS", "NCCL_TOPO_FILE", "NCCL_LAUNCH_MODE"),
)
LOUD = {"INFO", "TRACE"}


def memlock(rank: Rank) -> Checks:
    """Adapters pin memory: a limit makes the registration fail."""
    limits = rank.process.limits
    if rank.process.pins or not limits.known or limits.memlock is None:
        return
    if rank.taken and rank.uses_verbs:
        yield (
            "wrong",
            f"locked memory is limited to {_bytes(limits.memlock)}: ibv_reg_mr fails",
            (
                "ulimit -l unlimited (LimitMEMLOCK=infinity of slurmd or containerd), or in a pod "
                "the capability IPC_LOCK"
            ),
        )


def shared_memory(rank: Rank) -> Checks:
    """A container with the default size of /dev/shm."""
    size = rank.process.shm
    if size is not None and size <= DOCKER_SHM_BYTES:
        yield (
            "wrong",
            f"{SHM} has {_bytes(size)}: set-up fails with 'failed to extend' for many ranks",
            f"docker run --shm-size=16g, or an emptyDir with medium Memory at {SHM}",
        )


def open_files(rank: Rank) -> Checks:
    """A low limit of open files."""
    limits = rank.process.limits
    if limits.known and limits.nofile is not None and limits.nofile < MIN_FILES:
        yield (
            "check",
            f"only {limits.nofile} files may be open: too few for sockets to many ranks",
            f"ulimit -n {MIN_FILES} or more",
        )


def stack(rank: Rank) -> Checks:
    """An unlimited stack under NCCL before 2.28."""
    limits = rank.process.limits
    if limits.known and limits.stack is None and rank.version and rank.version < STACK_SAFE:
        yield (
            "wrong",
            "ulimit -s is unlimited: NCCL before 2.28 may crash when it starts threads",
            "ulimit -s 8192",
        )


def left_over(rank: Rank) -> Checks:
    """Settings for tuning and debugging."""
    for name in TUNING:
        if name in rank.settings:
            yield (
                "check",
                f"{rank.shown(name)}: overrides what NCCL chooses for this machine and version",
                f"unset {name}, or measure that it helps",
            )
    if rank.settings.get("NCCL_DEBUG", "").upper() in LOUD:
        yield "check", f"{rank.shown('NCCL_DEBUG')}: logs much and slows", "export NCCL_DEBUG=WARN"
    if rank.number("CUDA_LAUNCH_BLOCKING") not in (None, 0):
        yield (
            "slow",
            f"{rank.shown('CUDA_LAUNCH_BLOCKING')}: every kernel is waited for",
            "unset CUDA_LAUNCH_BLOCKING",
        )


def versions(ranks: Sequence[Rank]) -> Checks:
    """Ranks with different NCCL."""
    by_version = _groups((".".join(map(str, r.version)), r) for r in ranks if r.version)
    if len(by_version) > 1:
        listed = "; ".join(f"{version}: {some(names, 3)}" for version, names in by_version.items())
        yield (
            "wrong",
            f"NCCL versions differ among ranks ({listed}): set-up fails or hangs",
            "run one image on all nodes",
        )


def unlike(ranks: Sequence[Rank]) -> Checks:
    """Ranks with different settings."""
    names = sorted({name for rank in ranks for name in rank.settings} - OF_A_RANK)
    for name in names:
        groups = _groups(
            (rank.settings.get(name, "(not set)"), rank)
            for rank in ranks
            if rank.complete or name in rank.settings
        )
        if len(groups) > 1:
            listed = "; ".join(f"{value}: {some(who, 3)}" for value, who in groups.items())
            yield (
                "wrong" if name.startswith("NCCL_") else "check",
                f"{name} differs among ranks ({listed}): set-up may fail or hang",
                f"export {name} alike on all nodes, in the job script",
            )


def _groups(pairs: Iterable[tuple[str, Rank]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for value, rank in pairs:
        found[value].append(rank.name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
