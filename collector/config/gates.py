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


class Draining(Section, frozen=True):
    """Whether a node may be drained for an open incident, and how many at a time."""

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
        _help("Names of the nodes that may be drained; empty allows every node."),
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


class Slurm(Draining, frozen=True):
    """What `tocsin check --format slurm` may do to this node on its controller."""


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
    namespace: Annotated[
        str, _help("Namespace of the Leases by which `tocsin repair` counts its drained nodes.")
    ] = "tocsin"
    draining: Draining = field(default_factory=Draining)


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


Scheduler = Literal["slurm", "kubernetes", "nvsentinel"]


class Repair(Section, frozen=True):
    """What `tocsin repair` may do to this node. Each step has a switch of its own, and all are off.

    Limits, canaries and the burn-in check are those of the scheduler's draining.
    """

    scheduler: Annotated[
        Scheduler,
        _help(
            "Who drains the node: Slurm, Kubernetes, or NVSentinel, which hands nodes over by its "
            "ExternalRemediationRequest."
        ),
    ] = "slurm"
    reset: Annotated[bool, _help("Reset a GPU of a drained node while nothing holds it.")] = False
    reboot: Annotated[bool, _help("Reboot a drained node.")] = False
    return_to_service: Annotated[
        bool, _help("Run the burn-in check on a repaired node and resume it if it passes.")
    ] = False
    check: Annotated[
        tuple[str, ...],
        _help(
            "Command and arguments that must exit with 0 after a repair, before the burn-in check; "
            "empty asks the agent alone."
        ),
    ] = ()
    check_deadline: Annotated[Seconds, _help("A check that takes longer counts as failed.")] = (
        Seconds(300)
    )
    max_attempts: Annotated[
        int, Meta(ge=1, le=9, description="Resets and reboots for one fault of one device.")
    ] = 3
    again_within: Annotated[
        Seconds,
        _help(
            "A fault that returns to a device this soon after a repair needs the next stronger one."
        ),
    ] = Seconds(7 * 86400)
    settle: Annotated[
        Seconds, _help("How long after a repair the agent may still report the fault.")
    ] = Seconds(1800)
    services: Annotated[
        tuple[str, ...],
        _help(
            "Units of systemd that hold GPUs, such as `tocsin`, `nvidia-dcgm`, "
            "`nvidia-persistenced`: stopped for a reset and started again on every path."
        ),
    ] = ()
    bundles: Annotated[
        str, _help("Folder for the vendor's bundles, one per repair; empty makes none.")
    ] = "/var/lib/tocsin/bundles"
    bug_report_deadline: Annotated[
        Seconds, _help("Time for `nvidia-bug-report.sh`, where it is installed; `0` skips it.")
    ] = Seconds(600)
    ticket_url: Annotated[
        str, _help("Webhook that receives the ticket of each repair as JSON (POST).")
    ] = ""
    ticket_token_file: Annotated[str, _help("Bearer token for the webhook.")] = ""
    ticket_file: Annotated[str, _help("File to append the tickets to, one JSON line each.")] = ""
    ticket_mail: Annotated[str, _help("Address to mail the tickets to.")] = ""
    mail_server: Annotated[str, _help("SMTP server for the mail, `host` or `host:port`.")] = (
        "localhost"
    )


class Hint(Section, frozen=True):
    """What `tocsin hint` may tell jobs that ask for it."""

    enabled: Annotated[
        bool,
        _help("Write the files, send the signals and post to the ports that jobs asked for."),
    ] = False
    horizon: Annotated[
        Seconds, _help("How long a hint holds; a process gets one for a fault within that time.")
    ] = Seconds(3600)


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
    repair: Repair = field(default_factory=Repair)
    hint: Hint = field(default_factory=Hint)
