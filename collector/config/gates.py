"""Settings of the scheduler integrations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from collector.config.section import Section
from collector.config.section import help_text as _help
from collector.config.units import Seconds

Report = Literal["off", "dry-run", "on"]
Gravity = Literal["page", "ticket"]
SERVICE_ACCOUNT = (
    "/var/run/secrets/kubernetes.io/serviceaccount"  # where every pod finds its own identity
)


class Slurm(Section, frozen=True):
    """What `tocsin check --format slurm` may do to this node on its controller."""

    drain: Annotated[
        bool,
        _help(
            "Drain this node for an open incident. Without it the command only "
            "prints what it would do."
        ),
    ] = False
    severity: Annotated[
        Gravity,
        _help(
            "Lowest severity to drain for. For a `ticket` only a node without jobs is drained, "
            "with either value."
        ),
    ] = "page"
    # A mistake about one rack must not cost more than two nodes before an operator has looked.
    most_drained: Annotated[
        int,
        Meta(
            ge=1,
            le=999,
            description="Nodes of the cluster that Tocsin may have drained at the same time.",
        ),
    ] = 2
    most_per_hour: Annotated[
        int,
        Meta(
            ge=1, le=999, description="Nodes of the cluster that Tocsin may drain within an hour."
        ),
    ] = 2
    canaries: Annotated[
        tuple[str, ...],
        _help("Slurm names of the nodes that may be drained; empty allows every node."),
    ] = ()
    proof: Annotated[
        tuple[str, ...],
        _help(
            "Command and arguments of the burn-in check that a repaired node must pass (exit "
            "code 0) before `tocsin check --return` resumes it, such as `dcgmi`, `diag`, `-r`, "
            "`3`. Without one, nodes are resumed manually only."
        ),
    ] = ()
    proof_deadline: Annotated[
        Seconds, _help("A burn-in check that takes longer counts as failed.")
    ] = Seconds(3600)

    @property
    def document(self) -> dict[str, Any]:
        """As the agent sends it to `tocsin check`; without the burn-in command, which root runs and
        reads from its own configuration only.
        """
        return {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if not name.startswith("proof")
        }


class Kubernetes(Section, frozen=True):
    """What the agent writes to its own Node object: the condition `TocsinGpuProblem`,
    and Events about incidents.
    """

    report: Annotated[Report, _help("`on` writes them; `dry-run` logs what would be written.")] = (
        "off"
    )
    node: Annotated[str, _help("Name of the Node; empty is $NODE_NAME, or the host's name.")] = ""
    api: Annotated[
        str, _help("Address of the API server; empty is the pod's own, from its environment.")
    ] = ""
    token_file: Annotated[str, _help("Token of the service account; read for every request.")] = (
        f"{SERVICE_ACCOUNT}/token"
    )
    ca_file: Annotated[str, _help("CA certificates (PEM) of the API server.")] = (
        f"{SERVICE_ACCOUNT}/ca.crt"
    )
    cordon: Annotated[
        bool,
        _help(
            "Treat a cordoned Node as out of service, like `tocsin maintenance`; noticed within "
            "five minutes."
        ),
    ] = False
    period: Annotated[Seconds, _help("Time between two checks for changes.")] = Seconds(10)


class NvSentinel(Section, frozen=True):
    """Incidents as NVSentinel's HealthEvents, marked to be stored only: it never acts on them."""

    socket: Annotated[
        str,
        _help(
            "Socket of its platform connector, such as `/var/run/nvsentinel/nvsentinel.sock`; "
            "empty disables it."
        ),
    ] = ""
    period: Annotated[Seconds, _help("Time between two checks for changes.")] = Seconds(10)


class Gates(Section, frozen=True):
    """Scheduler integrations. Nothing is written anywhere unless it is enabled here."""

    off_file: Annotated[
        str,
        _help(
            "While this file exists, or its folder cannot be read, all scheduler integrations of "
            "this node are off. On a shared file system it is one switch for the fleet."
        ),
    ] = "/etc/tocsin/gates.off"
    slurm: Slurm = field(default_factory=Slurm)
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    nvsentinel: NvSentinel = field(default_factory=NvSentinel)
