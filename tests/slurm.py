"""A real Slurm on one host: munged, slurmctld and a slurmd per node, all of Debian, for tests of
what speaks to a cluster.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.parts import missing, need
from tests.ports import free_ports
from tests.servers import Server
from tests.slurmdbd import Accounting
from tests.slurmdbd import fit as accounting_fit
from tests.wait import PATIENCE_S, until

GPUS = 8
CGROUPS = "/sys/fs/cgroup"
# of /dev/nvidia0; Slurm gives out character devices only, whether or not a
# driver stands behind them
NVIDIA_MAJOR = 195
CONFIGURATION = """\
ClusterName=tocsin
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmctldPidFile={directory}/slurmctld.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmdLogFile={directory}/slurmd-%n.log
SlurmdSpoolDir={directory}/spool-%n
StateSaveLocation={directory}/state
AuthType=auth/munge
AuthInfo=socket={directory}/munge/munge.sock
SlurmUser=root
SlurmdUser=root
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=1
MailProg=/bin/true
PrologFlags=Alloc
{nodes}
PartitionName=gpu Nodes={names} Default=YES State=UP
{more}
"""


def fit() -> None:
    """Skip, or in CI fail, where Debian's Slurm or the right to run it is missing."""
    for program, package in (
        ("munged", "munge"),
        ("slurmctld", "slurmctld"),
        ("slurmd", "slurmd"),
        ("scontrol", "slurm-client"),
    ):
        need(program, package)
    if not os.path.ismount(CGROUPS):
        missing(f"slurmd does not start without control groups: mount {CGROUPS}")


class Slurm:
    """A cluster that listens on 127.0.0.1 only.

    Node names are ``gpu01``, ``gpu02``, ...; each has 8 GPUs of type h100.

    ``nodes`` have a slurmd; ``names_only`` are nodes ``far001`` ... that the controller knows and
    nobody runs: they can be drained and counted. ``more`` are further lines of slurm.conf,
    ``{directory}`` in them is the cluster's folder. Needs root.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 2,
        names_only: int = 0,
        more: str = "",
        accounting: bool = False,
    ) -> None:
        self.directory = directory
        self.nodes = [f"gpu{number:02}" for number in range(1, nodes + 1)]
        self.far = [f"far{number:03}" for number in range(1, names_only + 1)]
        self.configuration = directory / "slurm.conf"
        self._stack = contextlib.ExitStack()
        self._servers: list[Server] = []
        self.accounting = Accounting(directory, *free_ports(2)) if accounting else None
        self._daemon = contextlib.ExitStack()  # of slurmdbd
        self._write(more + (self.accounting.slurm_conf() if self.accounting else ""))

    @property
    def environ(self) -> dict[str, str]:
        """What a process needs to speak to this cluster."""
        return {
            "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin",
            "SLURM_CONF": str(self.configuration),
        }

    def __enter__(self) -> Slurm:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(
            AssertionError, subprocess.TimeoutExpired
        ):  # a test may have ended the controller
            self._end_jobs()
        self._stack.close()

    def _end_jobs(self) -> None:
        """Jobs outlive the daemons that started them: their slurmstepd is nobody's child."""
        self.run("scancel", "--user=root")
        until(lambda: not self.run("squeue", "--noheader"), what="the jobs to end")

    def run(self, *argv: str, environ: Mapping[str, str] | None = None) -> str:
        """Output of a Slurm command, or AssertionError with what it complained of."""
        ran = subprocess.run(
            argv,
            env={**self.environ, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.returncode == 0, f"{argv}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def node(self, name: str) -> dict[str, str]:
        """What the controller knows of a node: ``State`` (``IDLE+DRAIN``), ``Reason`` with its
        author, ``BootTime`` ...
        """
        words = self.run("scontrol", "--oneliner", "show", "node", name).strip()
        reason = words.partition(" Reason=")[2]
        return {
            **dict(word.split("=", 1) for word in words.split() if "=" in word),
            "Reason": reason,
        }

    def drained(self) -> list[str]:
        """Names of the nodes that take no new job because somebody drained them."""
        return self.run("sinfo", "--noheader", "--Node", "--states=drain", "--format=%N").split()

    def reservations(self, prefix: str = "") -> list[str]:
        """Names of the reservations that begin so."""
        words = self.run("scontrol", "--oneliner", "show", "reservation").split()
        names = (word.partition("=")[2] for word in words if word.startswith("ReservationName="))
        return [name for name in names if name.startswith(prefix)]

    def job_state(self, job: str) -> str:
        """State of a job: PENDING, RUNNING, COMPLETED ..."""
        return dict(
            w.split("=", 1) for w in self.run("scontrol", "show", "job", job).split() if "=" in w
        )["JobState"]

    def submit(self, script: str, *options: str) -> str:
        """Id of a batch job that runs these shell lines."""
        return self.run(
            "sbatch", "--parsable", "--chdir=/", "--output=/dev/null", *options, f"--wrap={script}"
        ).strip()

    def account(self, *, answers: bool) -> None:
        """Start slurmdbd, or end it; jobs go on without it."""
        self._daemon.close()
        if answers and self.accounting is not None:
            self._daemon.enter_context(self.accounting.daemon())

    def kill(self, node: str) -> None:
        """End the slurmd of a node as a power cut would; steps of its jobs are not ended."""
        daemon = next(one for one in self._servers if one.name == f"slurmd of {node}")
        daemon.process.kill()
        daemon.process.wait(PATIENCE_S)

    @property
    def log(self) -> str:
        """What the controller and the node daemons wrote."""
        return "\n".join(
            path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log"))
        )

    def _write(self, more: str) -> None:
        for folder in ("state", "munge", "dev", *(f"spool-{name}" for name in self.nodes)):
            (self.directory / folder).mkdir()
        (self.directory / "munge" / "key").write_bytes(secrets.token_bytes(1024))
        (self.directory / "munge" / "key").chmod(0o400)
        host = socket.gethostname().partition(".")[0]
        port, *ports = free_ports(1 + len(self.nodes))
        known = [
            (
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={at} CPUs=16 "
                f"RealMemory=1000 Gres=gpu:h100:{GPUS} State=UNKNOWN"
            )
            for name, at in zip(self.nodes, ports, strict=True)
        ]
        if self.far:
            known.append(
                f"NodeName={_range(self.far)} NodeAddr=127.0.0.1 Port=1 CPUs=1 State=UNKNOWN"
            )
        self.configuration.write_text(
            CONFIGURATION.format(
                host=host,
                port=port,
                directory=self.directory,
                nodes="\n".join(known),
                names=",".join([*self.nodes, *([_range(self.far)] if self.far else [])]),
                more=more.replace("{directory}", str(self.directory)),
            ),
            encoding="utf-8",
        )
        for gpu in range(GPUS):
            os.mknod(
                self.directory / "dev" / f"nvidia{gpu}", 0o20600, os.makedev(NVIDIA_MAJOR, gpu)
            )
        gres = (
            f"NodeName={','.join(self.nodes)} Name=gpu Type=h100 "
            f"File={self.directory}/dev/nvidia[0-{GPUS - 1}]\n"
        )
        (self.directory / "gres.conf").write_text(gres, encoding="ascii")

    def _start(self) -> None:
        munge = self.directory / "munge"
        options = [
            f"--{what}={munge / name}"
            for what, name in (("key-file", "key"), ("socket", "munge.sock"), ("seed-file", "seed"))
        ]
        files = [f"--pid-file={munge / 'pid'}", f"--log-file={munge / 'log'}"]
        self._run(["munged", "--foreground", "--force", *options, *files])
        self._until((munge / "munge.sock").is_socket, "munged")
        if self.accounting is not None:
            self._stack.enter_context(self.accounting.database())
            self._stack.callback(self.account, answers=False)
            self.account(answers=True)
        self._run(["slurmctld", "-D", "-i"])
        self._until(self._answers, "slurmctld")
        for name in self.nodes:
            self._run(["slurmd", "-D", "-N", name], name=f"slurmd of {name}")
        self._until(
            lambda: all(self.node(n)["State"] == "IDLE" for n in self.nodes),
            "every slurmd to be idle",
        )

    def _until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a daemon; AssertionError with its last lines when one of them has ended."""
        until(condition, what, servers=self._servers)

    def _answers(self) -> bool:
        return (
            subprocess.run(
                ["scontrol", "ping"],
                env=self.environ,
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            ).returncode
            == 0
        )

    def _run(self, argv: Sequence[str], *, name: str = "") -> None:
        output = self.directory / f"output-{len(self._servers)}"
        server = Server(argv, output, name=name, env=self.environ)
        self._servers.append(self._stack.enter_context(server))


@contextlib.contextmanager
def slurm(
    *,
    nodes: int = 2,
    names_only: int = 0,
    more: str = "",
    accounting: bool = False,
    before: Callable[[Slurm], object] = lambda _: None,
) -> Iterator[Slurm]:
    """A running cluster in a folder of its own: its sockets' names must be short, and no
    parent writable for a group.

    ``accounting`` is a slurmdbd beside it. ``before`` is called when its configuration stands and
    nothing runs yet, to put scripts of ``more`` into its folder.
    """
    fit()
    if accounting:
        accounting_fit()
    with tempfile.TemporaryDirectory(
        prefix="slurm-", dir="/run", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)
        cluster = Slurm(
            Path(folder), nodes=nodes, names_only=names_only, more=more, accounting=accounting
        )
        before(cluster)
        with cluster:
            yield cluster


def _range(names: Sequence[str]) -> str:
    return f"{names[0][:3]}[{names[0][3:]}-{names[-1][3:]}]"
