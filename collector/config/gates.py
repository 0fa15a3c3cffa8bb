"""Settings of the gates to schedulers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from collector.config.section import Section
from collector.config.section import says as _says
from collector.config.units import Seconds

Report = Literal["off", "dry-run", "on"]
Gravity = Literal["page", "ticket"]
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # where every pod finds its own identity


class Slurm(Section, frozen=True):
    """What `tocsin check --format slurm` may do to this node on its controller."""

    drain: Annotated[bool, _says("Drain this node for an open incident. Without it the command only says what it would do.")] = (
        False
    )
    severity: Annotated[
        Gravity, _says("Least severity to drain for. For a `ticket` only a node without jobs is drained, whatever stands here.")
    ] = "page"
    # One rack's worth of mistakes must not cost more than two nodes before a person has looked.
    most_drained: Annotated[
        int, Meta(ge=1, le=999, description="Nodes of the cluster that may be drained by Tocsin at the same time.")
    ] = 2
    most_per_hour: Annotated[
        int, Meta(ge=1, le=999, description="Nodes of the cluster that Tocsin may drain within an hour.")
    ] = 2
    canaries: Annotated[tuple[str, ...], _says("Nodes that may be drained, by their Slurm names; empty is every node.")] = ()
    proof: Annotated[
        tuple[str, ...],
        _says(
            "Command and arguments of the check under load that a repaired node must pass (exit code 0) before `tocsin check --return` "
            "resumes it, such as `dcgmi`, `diag`, `-r`, `3`. Without one a person resumes."
        ),
    ] = ()
    proof_deadline: Annotated[Seconds, _says("A check under load that takes longer has failed.")] = Seconds(3600)

    @property
    def document(self) -> dict[str, Any]:
        """As the agent tells it to `tocsin check`; without the proof, which root runs and takes from nobody else."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if not name.startswith("proof")}


class Kubernetes(Section, frozen=True):
    """What the agent writes to its own Node object: the condition `TocsinGpuProblem`, and Events about incidents."""

    report: Annotated[Report, _says("`dry-run` logs what would be written.")] = "off"
    node: Annotated[str, _says("Name of the Node; empty is $NODE_NAME, or the host's name.")] = ""
    api: Annotated[str, _says("Address of the API server; empty is the pod's own, from its environment.")] = ""
    token_file: Annotated[str, _says("Token of the service account; it is read again for every request.")] = (
        f"{SERVICE_ACCOUNT}/token"
    )
    ca_file: Annotated[str, _says("Certificates (PEM) that the API server is checked against.")] = f"{SERVICE_ACCOUNT}/ca.crt"
    cordon: Annotated[
        bool, _says("A cordoned Node is out of service, as by `tocsin maintenance`; it is noticed within five minutes.")
    ] = False
    period: Annotated[Seconds, _says("Time between two looks at what changed.")] = Seconds(10)


class NvSentinel(Section, frozen=True):
    """Incidents as NVSentinel's HealthEvents, marked to be stored only: it never acts on them."""

    socket: Annotated[
        str, _says("Socket of its platform connector, such as `/var/run/nvsentinel/nvsentinel.sock`; empty tells it nothing.")
    ] = ""
    period: Annotated[Seconds, _says("Time between two looks at what changed.")] = Seconds(10)


class Gates(Section, frozen=True):
    """What schedulers are told of this node. Nothing is written anywhere unless it is switched on here."""

    off_file: Annotated[
        str,
        _says(
            "While this file exists, or cannot be looked for, no gate of this node does anything. On a shared file system it is one "
            "switch for the whole fleet."
        ),
    ] = "/etc/tocsin/gates.off"
    slurm: Slurm = field(default_factory=Slurm)
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    nvsentinel: NvSentinel = field(default_factory=NvSentinel)
