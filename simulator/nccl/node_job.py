"""The job of a simulated node as NCCL shows it: its processes below /proc, and a RAS
server that answers for them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pipeline.clock import Clock
from simulator.files import put
from simulator.nccl.job import Comm, Job, Peer, Seat
from simulator.nccl.server import MANNERS, RasServer
from simulator.node import Node

NCCL = "2.30.7"
HOST = "10.77.0.1"  # what the job's RAS calls this node
COLLECTIVES_PER_STEP = 40
DEAD_AFTER_S = 60.0  # NCCL's own time until a peer that does not answer is dead
LIBRARY = f"/usr/lib/x86_64-linux-gnu/libnccl.so.{NCCL}"
ALL_REDUCE, ALL_GATHER = 4, 2  # in the order of NCCL's counters


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a reply needs, replaced whole: the server's threads read it while the node goes on."""

    number: int
    pids: tuple[int, ...]
    launched: int
    stuck: tuple[tuple[int, str, float], ...]  # GPU, how, seconds since


class NodeJob:
    """Renders the job that runs on a node. ``close`` lets go of the port; the files stay."""

    def __init__(self, proc: Path, node: Node, clock: Clock) -> None:
        self._proc, self._node, self._clock = proc, node, clock
        self._now = _Moment(-1, (), 0, ())
        self._progress, self._time_s = 0.0, node.time_s
        self._since: dict[int, float] = {}
        self._server = RasServer(self.job, clock)

    def render(self) -> None:
        """The processes of now, and how far they are."""
        node, job = self._node, self._node.workload.job
        pids = (
            tuple(job.pid + gpu for gpu in range(node.profile.gpu.count))
            if node.demand.processes
            else ()
        )
        if pids != self._now.pids:
            self._progress, self._since = 0.0, {}
            for gpu, pid in enumerate(pids):
                self._process(pid, gpu)
        self._server.manner = MANNERS[node.ras_manner]
        self._since = {gpu: self._since.get(gpu, node.time_s) for gpu in node.stuck}
        if node.demand.phase in {"train", "eval"} and not node.stuck:
            self._progress += (node.time_s - self._time_s) / job.step_s * COLLECTIVES_PER_STEP
        self._time_s = node.time_s
        stuck = tuple(
            (gpu, how, node.time_s - self._since[gpu]) for gpu, how in sorted(node.stuck.items())
        )
        self._now = _Moment(job.number, pids, int(self._progress), stuck)

    def job(self) -> Job:
        """The job as RAS has it: one communicator over all GPUs."""
        now = self._now
        peers = [Peer(HOST, pid, (gpu,)) for gpu, pid in enumerate(now.pids)]
        seats = [Seat(peer, peer.gpus[0], counts=[1, 0, 0, 0, now.launched]) for peer in peers]
        for gpu, how, since_s in now.stuck:
            if gpu < len(peers):
                _stick(seats[gpu], how, since_s)
        if any(how != "in_flight" for _, how, _ in now.stuck):
            for seat in seats:  # the others have entered the operation that never ends
                seat.counts[ALL_REDUCE] += seat.peer.life == "alive" and seat.gpu not in {
                    gpu for gpu, _, _ in now.stuck
                }
        return Job(
            peers,
            [Comm(0xC0DE_0000 + now.number, (1, 1 + now.number), seats)] if peers else [],
            NCCL,
        )

    def close(self) -> None:
        """Stop answering."""
        self._server.close()

    def _process(self, pid: int, gpu: int) -> None:
        """What /proc shows of one rank: which GPU and library it has mapped, its environment,
        and the port it listens on.
        """
        folder = self._proc / str(pid)
        age_s = max(self._node.time_s - self._node.workload.job.start_s, 0.0)
        started = max(round((self._clock.monotonic_ns() / 1e9 - age_s) * 100), 0)
        maps = (
            f"7f00-7f01 rw-s 00000000 00:05 900 /dev/nvidia{gpu}\n"
            "7f02-7f03 rw-s 00000000 00:05 901 /dev/nvidiactl\n"
        )
        address = (
            f"0100007F:{self._server.port:04X} 00000000:0000 0A 00000000:00000000 "
            "00:00000000 00000000"
        )
        put(
            folder,
            {
                "stat": f"{pid} (python3) S 1 {' '.join(['0'] * 17)} {started} 0 0",
                "status": f"Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t{pid}",
                "maps": f"{maps}7f04-7f05 r-xp 00000000 08:01 4711 {LIBRARY}",
                "cgroup": f"0::/system.slice/slurmstepd.scope/job_{1000 + self._node.workload.job.number}/step_0/user/task_0",  # noqa: E501 - no place to break
                "net/tcp": (
                    f"  sl  local_address rem_address   st\n   0: {address}  1000        0 "
                    f"{pid} 1 0000 100 0 0 10 0"
                ),
            },
        )
        size = self._node.profile.gpu.count
        environ = {
            "SLURM_JOB_ID": str(1000 + self._node.workload.job.number),
            "RANK": str(gpu),
            "WORLD_SIZE": str(size),
            "NCCL_RAS_ADDR": f"localhost:{self._server.port}",
        }
        (folder / "environ").write_bytes(
            b"\0".join(f"{name}={value}".encode() for name, value in environ.items())
        )
        (folder / "fd").mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / "fd" / "3").symlink_to(f"socket:[{pid}]")


def _stick(seat: Seat, how: str, since_s: float) -> None:
    """One rank that the others wait for, in one of the ways of the fault ``nccl_stall``."""
    if how == "stopped":
        seat.peer.life = "dead" if since_s >= DEAD_AFTER_S else "unresponsive"
    elif how == "mismatched":
        seat.counts[ALL_GATHER] += 1
