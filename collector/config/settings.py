"""Every setting with its type, default and meaning: decoding, flags, environment and
docs/reference.md are made from these classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from collector.config.gates import Gates
from collector.config.section import Section
from collector.config.section import help_text as _help
from collector.config.units import Seconds
from pipeline.catalog import Profile
from pipeline.store.keep.policy import DAY_S, Policy
from pipeline.store.remote.upload_plan import Plan, Target

Compat = Literal["dcgm-4.8", "dcgm-4.9", "both"]
HostLabel = Literal["Hostname", "hostname"]
Level = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["logfmt", "json"]
# pipeline/catalog/device_job.py, PERSONAL: a test holds them equal.
Personal = Literal[
    "user",
    "account",
    "partition",
    "job_name",
    "namespace",
    "pod",
    "container",
    "claim",
    "claim_namespace",
]
# Every source has these three.
Enabled = Annotated[bool, _help("Read this source.")]
Period = Annotated[Seconds, _help("Time between two reads.")]
Deadline = Annotated[
    Seconds, _help("A read that takes longer counts as overdue; other sources are not affected.")
]


class Web(Section, frozen=True):
    """The HTTP server."""

    listen_address: Annotated[
        tuple[str, ...], _help("Addresses to listen on; `:9400` means all interfaces.")
    ] = ("127.0.0.1:9400",)
    telemetry_path: Annotated[str, _help("Path of the metrics.")] = "/metrics"
    # 16 as in dcgm-exporter 4.8.4 (--max-concurrent-scrapes).
    max_concurrent_scrapes: Annotated[
        int, Meta(ge=1, description="Concurrent scrapes; further ones are answered 503.")
    ] = 16
    config_file: Annotated[
        str,
        _help(
            "TLS, passwords and limits: a file in the format of Prometheus' exporters "
            "(`web.config.yml`), reloaded whenever it or a file that it names changes. "
            "See docs/security.md."
        ),
    ] = ""
    health_listen_address: Annotated[
        tuple[str, ...],
        _help(
            "Addresses of a second, plain listener for `/-/healthy`, `/-/ready` and `/health` "
            "alone: for probes without certificates. None by default."
        ),
    ] = ()
    runbook_url: Annotated[
        str,
        _help(
            "Link of each incident on the page and in the API to your runbook, such as "
            "`https://wiki.example.org/tocsin#{alert}`; no link while empty. Replaced: `{alert}` "
            "(as in the alerts' `runbook_url`), `{class}`, `{incident}`, `{host}`, "
            "`{kind}`, `{device}`, and for GPUs `{gpu}` (index) and `{uuid}`."
        ),
    ] = ""
    dashboard_url: Annotated[
        str,
        _help(
            "The same to a dashboard, such as "
            "`https://grafana.example.org/d/tocsin-gpu?var-instance={host}:9400&var-gpu={gpu}`."
        ),
    ] = ""
    agent_url: Annotated[
        str,
        _help(
            "Address of an agent's status page for the links of the gateway's page, such as "
            "`http://{host}:9400/`; no links while empty. Replaced: `{host}`."
        ),
    ] = ""
    tenants: Annotated[
        dict[str, str],
        _help(
            "For the gateway: map of user of `basic_auth_users` to the owners of the jobs that it "
            "may see, such as `ada: user:ada namespace:ml`; `*` is everything. Once it is set, a "
            "user that it does not name sees nothing. See docs/security.md."
        ),
    ] = field(default_factory=dict)
    history_url: Annotated[
        str,
        _help(
            "For the gateway: the store that its agents upload to (as `storage.upload.url`, with "
            "the other settings of `storage.upload`), from which it answers for jobs that ended "
            "and explains jobs. Empty: it does neither."
        ),
    ] = ""
    # As dcgm-exporter's --health-require-gpus (4.9, PR 744), off by default there too.
    health_require_gpus: Annotated[
        bool,
        _help(
            "`/health` answers 503 while no GPU answers the driver, so that a liveness probe sees "
            "it; off by default, because a node may have no GPU."
        ),
    ] = False


class Exposition(Section, frozen=True):
    """What /metrics shows."""

    profile: Annotated[Profile, _help("Which of the `tocsin_*` series to show.")] = "default"
    dcgm: Annotated[bool, _help("Also show the series of dcgm-exporter.")] = True
    compat: Annotated[Compat, _help("Which dcgm-exporter version's names and units to use.")] = (
        "dcgm-4.8"
    )
    hostname: Annotated[bool, _help("Add the host's name to the series of dcgm-exporter.")] = True
    hostname_label: Annotated[
        HostLabel, _help("Spelling of that label: `Hostname` up to 4.8.2, `hostname` later.")
    ] = "Hostname"
    counters_file: Annotated[
        str,
        _help(
            "Counters file in dcgm-exporter's CSV format; empty uses the one shipped with Tocsin."
        ),
    ] = ""
    devices: Annotated[
        str,
        _help("GPUs in dcgm-exporter's series, as its `-d`: `f`, `g:0,2-4`, `i:0.1`, `g:0+i`."),
    ] = "f"
    use_old_namespace: Annotated[
        bool, _help("Use the old label name `uuid` for `UUID`, as dcgm-exporter's `-o`.")
    ] = False
    replace_blanks_in_model_name: Annotated[
        bool, _help("Replace blanks in `modelName` with dashes, as `--rbmn`.")
    ] = False
    kubernetes: Annotated[
        bool, _help("Add pod, namespace and container to those series, as `-k`.")
    ] = False
    kubernetes_virtual_gpus: Annotated[
        bool,
        _help("Copy those of a shared GPU for each of its shares, as `--kubernetes-virtual-gpus`."),
    ] = False
    kubernetes_enable_dra: Annotated[
        bool, _help("Add resource claims to those series, as `--kubernetes-enable-dra`.")
    ] = False
    # Windows of 300000 ms and an interval of 30000 ms as in dcgm-exporter.
    xid_count_window: Annotated[Seconds, _help("Window of `DCGM_EXP_XID_ERRORS_COUNT`.")] = Seconds(
        300
    )
    clock_events_count_window: Annotated[
        Seconds, _help("Window of `DCGM_EXP_CLOCK_EVENTS_COUNT`.")
    ] = Seconds(300)
    collect_interval: Annotated[
        Seconds,
        _help("Time between the samples that `DCGM_EXP_CLOCK_EVENTS_COUNT` counts, as `-c`."),
    ] = Seconds(30)


class Nvml(Section, frozen=True):
    """GPUs, MIG instances and NVLinks through the driver's library."""

    enabled: Enabled = True
    period: Period = Seconds(1)
    deadline: Deadline = Seconds(5)
    call_deadline: Annotated[
        Seconds, _help("A driver call that takes longer marks its GPU as hung.")
    ] = Seconds(0.5)
    links_every: Annotated[
        int, Meta(ge=1, description="NVLinks are read with every n-th read.")
    ] = 5
    facts_period: Annotated[
        Seconds, _help("Time between two reads of what rarely changes: names, versions, addresses.")
    ] = Seconds(60)
    expected: Annotated[
        int, Meta(ge=0, description="GPUs that this node must have; 0 learns them.")
    ] = 0
    processes: Annotated[
        int,
        Meta(
            ge=0,
            le=32,
            description="Show the memory of so many processes of each GPU, with their names.",
        ),
    ] = 0


class Infiniband(Section, frozen=True):
    """InfiniBand and RoCE ports through sysfs and perfquery."""

    enabled: Enabled = True
    period: Period = Seconds(1)
    deadline: Deadline = Seconds(5)
    expected: Annotated[
        tuple[str, ...],
        _help("Ports that this node must have (`mlx5_0/1` or a GUID); empty learns them."),
    ] = ()
    ignore: Annotated[
        tuple[str, ...],
        _help("Ports to leave out (`mlx5_bond_0/1` or a device name), such as management."),
    ] = ()
    perfquery: Annotated[
        str, _help("Program that reads counters missing or saturated in sysfs; empty disables it.")
    ] = "perfquery"


class Kmsg(Section, frozen=True):
    """Kernel log: XIDs, SXIDs, link, PCIe and host faults."""

    enabled: Enabled = True
    period: Period = Seconds(1)
    deadline: Deadline = Seconds(5)


class Host(Section, frozen=True):
    """Slow facts of the node: kernel, drivers, clock offset, NUMA."""

    enabled: Enabled = True
    period: Period = Seconds(60)
    deadline: Deadline = Seconds(5)


class Joblog(Section, frozen=True):
    """Logs of jobs: what NCCL, PyTorch and launchers log about a stall. Nothing is read while paths
    is empty.
    """

    enabled: Enabled = True
    period: Period = Seconds(5)
    deadline: Deadline = Seconds(5)
    paths: Annotated[
        tuple[str, ...],
        _help(
            "Files to follow, as patterns with `*`: `/var/log/pods/*/*/*.log`, "
            "`/scratch/*/slurm-*.out`, the folder of `NCCL_DEBUG_FILE`. Below the part before the "
            "first `*` no link is followed."
        ),
    ] = ()


class Nccl(Section, frozen=True):
    """Training jobs that use NCCL: found below /proc, and queried through NCCL's RAS when a stall
    is suspected.
    """

    enabled: Enabled = True
    period: Period = Seconds(5)
    # Several RAS servers that are silent for 12 s each, and a child that reads dumps for 30 s.
    deadline: Deadline = Seconds(90)
    ras: Annotated[
        Literal["auto", "on", "off"],
        _help(
            "Query a job's RAS: `auto` on suspicion, `on` also once a minute, `off` never. "
            "Requires NCCL 2.29.2 or later."
        ),
    ] = "auto"
    monitor: Annotated[
        bool, _help("Keep a connection to the RAS event stream of such jobs open.")
    ] = False


class Jobs(Section, frozen=True):
    """Which job or pod holds which GPU: Kubernetes by the kubelet's socket, Slurm by its
    processes and its prolog's files.
    """

    enabled: Enabled = True
    period: Period = Seconds(1)
    deadline: Deadline = Seconds(5)
    kubernetes: Annotated[
        Literal["auto", "on", "off"],
        _help("Query the kubelet: `auto` once its socket exists, `on` always, `off` never."),
    ] = "auto"
    # The kubelet's path for all versions since 1.13; dcgm-exporter's default is the same.
    kubelet_socket: Annotated[str, _help("The kubelet's pod-resources socket.")] = (
        "/var/lib/kubelet/pod-resources/kubelet.sock"
    )
    resource_names: Annotated[
        tuple[str, ...],
        _help(
            "Further resources whose devices are GPUs, beside `nvidia.com/gpu` and "
            "`nvidia.com/mig-*`, as `--nvidia-resource-names`."
        ),
    ] = ()
    slurm: Annotated[bool, _help("Detect Slurm jobs below /proc.")] = True
    mapping_dir: Annotated[
        str,
        _help(
            "Folder with a file of jobs per GPU, as `--hpc-job-mapping-dir`: labels `hpc_job` in "
            "dcgm-exporter's series."
        ),
    ] = ""
    hide: Annotated[
        tuple[Personal, ...],
        _help(
            "Attributes removed before anything is shown or stored, in dcgm-exporter's series too: "
            "`user`, `account`, `partition`, `job_name`, `namespace`, `pod`, `container`, "
            "`claim`, `claim_namespace`."
        ),
    ] = ()


class Trainings(Section, frozen=True):
    """Which training each pod of this node belongs to, by the owners of the pod: asked of the API
    server with `gates.kubernetes.api`, `.token_file`, `.ca_file` and `.node`.
    """

    enabled: Enabled = False
    period: Period = Seconds(15)
    deadline: Deadline = Seconds(30)
    slurm_bridge_namespaces: Annotated[
        tuple[str, ...],
        _help(
            "Namespaces where slurm-bridge places pods: there the label or annotation "
            "`scheduler.slinky.slurm.net/slurm-jobid` is a pod's job. Admission must let nobody "
            "else set it."
        ),
    ] = ()


class Waits(Section, frozen=True):
    """What jobs wait for: pressure of their control groups, NFS, Lustre, disks."""

    enabled: Enabled = True
    period: Period = Seconds(15)
    deadline: Deadline = Seconds(5)


class Sources(Section, frozen=True):
    """What is read, and how often."""

    nvml: Nvml = field(default_factory=Nvml)
    infiniband: Infiniband = field(default_factory=Infiniband)
    kmsg: Kmsg = field(default_factory=Kmsg)
    host: Host = field(default_factory=Host)
    nccl: Nccl = field(default_factory=Nccl)
    joblog: Joblog = field(default_factory=Joblog)
    jobs: Jobs = field(default_factory=Jobs)
    trainings: Trainings = field(default_factory=Trainings)
    waits: Waits = field(default_factory=Waits)


class Upload(Section, frozen=True):
    """Sealed files to an object store or a shared directory, the files of a page within ten
    seconds. Off while url is empty.
    """

    url: Annotated[
        str,
        _help(
            "`s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, "
            "`abfss://container@account.dfs.core.windows.net/prefix`, or the absolute path of a "
            "shared directory that exists. All but a directory need `tocsin[objects]`."
        ),
    ] = ""
    endpoint: Annotated[
        str,
        _help("Address of an S3-compatible store (`https://...`); empty is the provider's own."),
    ] = ""
    region: Annotated[str, _help("Region of the bucket; empty uses the environment.")] = ""
    credentials_file: Annotated[
        str,
        _help(
            "File with the credentials: AWS' shared credentials file (s3), a service account's "
            "JSON (gs), an account key or a SAS token (az). Empty uses the identity of the "
            "instance or workload."
        ),
    ] = ""
    profile: Annotated[str, _help("Profile in AWS' shared credentials file.")] = "default"
    ca_file: Annotated[str, _help("Certificates (PEM) to trust in addition to the system's.")] = ""
    timeout: Annotated[
        Seconds, _help("A request that takes longer fails; the file is retried later.")
    ] = Seconds(20)
    run_time: Annotated[
        Seconds, _help("Time limit of one upload run, every 15 minutes or less; the rest waits.")
    ] = Seconds(30)
    run_bytes: Annotated[int, Meta(ge=1, description="Bytes that one upload run may send.")] = (
        256 << 20
    )
    most_pending_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description=(
                "Bytes that may wait for upload. Beyond that, files are dropped: the "
                "oldest measurements first, then events, findings and reads, files that belong to "
                "a page last."
            ),
        ),
    ] = 5 << 30

    @property
    def plan(self) -> Plan | None:
        """Settings for the sealing child; None if nothing is uploaded."""
        return (
            Plan(self.target, float(self.run_time), self.run_bytes, self.most_pending_bytes)
            if self.url
            else None
        )

    @property
    def target(self) -> Target:
        """How the store is reached."""
        how = (
            self.endpoint,
            self.region,
            self.credentials_file,
            self.profile,
            self.ca_file,
            float(self.timeout),
        )
        return Target(self.url, *how)


class Retention(Section, frozen=True):
    """How long tables are kept; 0 is forever. What is too old, or beyond the disk budget, is
    deleted every 15 minutes.
    """

    raw: Annotated[Seconds, _help("Measurements as they were read, and the table `reads`.")] = (
        Seconds(30 * DAY_S)
    )
    one_minute: Annotated[Seconds, _help("Roll-ups of one minute.")] = Seconds(396 * DAY_S)
    fifteen_minutes: Annotated[Seconds, _help("Roll-ups of fifteen minutes.")] = Seconds(0)
    events: Annotated[Seconds, _help("Events, findings, incidents and devices.")] = Seconds(0)


class Storage(Section, frozen=True):
    """What the agent keeps on disk."""

    path: Annotated[str, _help("Folder for what must survive a restart.")] = "/var/lib/tocsin"
    most_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description=(
                "Disk budget of the store: beyond it the oldest of the least valuable files are "
                "deleted, measurements before roll-ups before events. 0 is 20 GiB or 10 % of the "
                "disk, whichever is less."
            ),
        ),
    ] = 0
    retention: Retention = field(default_factory=Retention)
    upload: Upload = field(default_factory=Upload)
    cluster: Annotated[
        str,
        _help(
            "Name of the cluster in the store's file names, so that files of many "
            "nodes can share a directory."
        ),
    ] = "default"

    @property
    def policy(self) -> Policy:
        """Settings for the compacting child."""
        kept = self.retention
        return Policy(
            raw_s=float(kept.raw),
            minute_s=float(kept.one_minute),
            quarter_s=float(kept.fifteen_minutes),
            events_s=float(kept.events),
            max_bytes=self.most_bytes,
        )


class Bus(Section, frozen=True):
    """What the agent observes, to the gateways of its cluster over NATS JetStream. Off while
    servers is empty.
    """

    servers: Annotated[
        tuple[str, ...],
        _help(
            "Addresses of the servers, such as `tls://nats1.example.com:4222`; any one is enough. "
            "Needs `tocsin[bus]`."
        ),
    ] = ()
    cluster: Annotated[
        str, _help("Name of the cluster in the subjects; the gateway's must be the same.")
    ] = "default"
    credentials_file: Annotated[
        str,
        _help(
            "NATS credentials (a JWT and a seed, as `nsc generate creds` writes them). It should "
            "allow this host's own subject and nothing else: docs/bus.md."
        ),
    ] = ""
    ca_file: Annotated[
        str, _help("Certificates (PEM) that sign the servers'; empty uses the system's.")
    ] = ""
    cert_file: Annotated[
        str, _help("Certificate (PEM) of this host, where the servers ask for one.")
    ] = ""
    key_file: Annotated[str, _help("Its key (PEM).")] = ""
    period: Annotated[
        Seconds, _help("Time between two batches; events and incidents are sent within a second.")
    ] = Seconds(5)


class Gateway(Section, frozen=True):
    """The gateway of a cluster, `tocsin gateway`."""

    ingest_workers: Annotated[
        int,
        Meta(
            ge=0,
            le=16,
            description=(
                "Processes that decode what the agents send and write it into joined frames; 0 "
                "does it in the gateway's own. What is judged is the same. See docs/fleet.md."
            ),
        ),
    ] = 0


class Drift(Section, frozen=True):
    """Versions and modes that devices should have, compared with the declared values, not with the
    majority.
    """

    declared: Annotated[
        dict[str, str],
        _help(
            "Map of kind and fact to the value that all devices should have, such as "
            "`gpu.driver_version: 580.95.05`. Facts: `gpu.driver_version`, `gpu.vbios`, "
            "`gpu.inforom_image`, `gpu.ecc_mode_current`, `gpu.persistence_mode`, "
            "`gpu.mig_mode_current` (each 0 or 1), "
            "`ib_port.firmware`, `ib_port.mtu`, `gpu.power_limit` (watts, integer), `ib_port.gid` "
            "(its first four groups), `node.kernel`, `node.mlx5_driver`, `node.bios_version`."
        ),
    ] = field(default_factory=dict)


class Detectors(Section, frozen=True):
    """How readings are evaluated."""

    xid_table: Annotated[
        str,
        _help(
            "CSV file with the columns of `pipeline/xid/xid.csv`: its rows replace the built-in "
            "ones, code by code."
        ),
    ] = ""
    off_trial: Annotated[
        tuple[str, ...],
        _help(
            "Detectors in shadow mode (docs/detectors.md) that may alert: their findings keep "
            "their own severity; `all` is every one. Their false alarms on real fleets are not "
            "known yet."
        ),
    ] = ()
    on_trial: Annotated[
        tuple[str, ...],
        _help(
            "Detectors to run in shadow mode: their findings are recorded, never alert; `all` is "
            "every one. Overrides `off_trial`."
        ),
    ] = ()
    follow_labels: Annotated[
        bool,
        _help(
            "Whether a detector leaves shadow mode, and enters it again, when the labels of its "
            "incidents prove it (docs/labels.md). One in `on_trial` stays in it."
        ),
    ] = True
    calibration: Annotated[
        str,
        _help(
            "File of `tocsin learn calibration` by which the gateway lowers tickets that are "
            "hardly ever real to info (docs/learning.md). Empty: none are. Agents ignore it."
        ),
    ] = ""
    drift: Drift = field(default_factory=Drift)


class Topology(Section, frozen=True):
    """Location of the node: cluster, rack, leaf, rail. At most one of file, command and
    labels_file.
    """

    file: Annotated[str, _help("YAML, JSON or CSV file with one entry per host.")] = ""
    command: Annotated[
        tuple[str, ...], _help("Command and arguments that print one JSON object.")
    ] = ()
    labels_file: Annotated[
        str, _help("File of node labels in the format of the Kubernetes downward API.")
    ] = ""
    node_labels: Annotated[
        dict[str, str],
        _help("Map of attribute to node label, such as `rack: topology.example.com/rack`."),
    ] = field(default_factory=dict)
    period: Annotated[Seconds, _help("Time between two checks for changes.")] = Seconds(60)
    deadline: Annotated[Seconds, _help("A check that takes longer counts as overdue.")] = Seconds(
        15
    )


class Simulate(Section, frozen=True):
    """A simulated node instead of the hardware. Off by default."""

    profile: Annotated[
        str, _help("Profile of the simulated node, such as `hgx-h100`; empty reads the hardware.")
    ] = ""
    seed: Annotated[int, _help("Same seed, same node.")] = 0
    inject: Annotated[
        tuple[str, ...],
        _help("Faults, such as `ecc_storm@gpu3+60s`; see `tocsin simulate --list`."),
    ] = ()
    day: Annotated[
        str,
        _help("Scripted day of faults: `bad`, `quiet`, or the path of a TOML file; empty is none."),
    ] = ""
    # 60: beyond it one core no longer reads and judges in time what happens.
    speed: Annotated[
        int,
        Meta(
            ge=1,
            le=60,
            description=(
                "Speed-up of the simulated node and the agent's clock, for a rehearsal in minutes."
            ),
        ),
    ] = 1
    ago: Annotated[Seconds, _help("How far in the past the clock of a sped-up node starts.")] = (
        Seconds(0)
    )
    directory: Annotated[
        str, _help("Folder of the simulated node; empty is `simulated` below the storage path.")
    ] = ""


class Log(Section, frozen=True):
    """The agent's own log, on standard error."""

    level: Annotated[Level, _help("Lowest level that is logged.")] = "info"
    format: Annotated[LogFormat, _help("Format of a line.")] = "logfmt"


class Roots(Section, frozen=True):
    """Paths of the kernel's files: another folder in a container, or a saved tree for
    `tocsin read`.
    """

    rootfs: Annotated[str, _help("Folder that contains the others unless they are set.")] = "/"
    procfs: Annotated[str, _help("Empty is `proc` below rootfs.")] = ""
    sysfs: Annotated[str, _help("Empty is `sys` below rootfs.")] = ""
    dev: Annotated[str, _help("Empty is `dev` below rootfs.")] = ""
    kmsg: Annotated[str, _help("Kernel log: device or file. Empty is `kmsg` below dev.")] = ""

    def below(self, name: Literal["procfs", "sysfs", "dev"]) -> Path:
        """One of the roots as a path."""
        given = {"procfs": self.procfs, "sysfs": self.sysfs, "dev": self.dev}[name]
        return Path(
            given or Path(self.rootfs) / {"procfs": "proc", "sysfs": "sys", "dev": "dev"}[name]
        )

    @property
    def kernel_log(self) -> Path:
        """The kernel log."""
        return Path(self.kmsg) if self.kmsg else self.below("dev") / "kmsg"


class Config(Section, frozen=True):
    """Everything that can be set."""

    web: Web = field(default_factory=Web)
    exposition: Exposition = field(default_factory=Exposition)
    sources: Sources = field(default_factory=Sources)
    storage: Storage = field(default_factory=Storage)
    bus: Bus = field(default_factory=Bus)
    gateway: Gateway = field(default_factory=Gateway)
    detectors: Detectors = field(default_factory=Detectors)
    topology: Topology = field(default_factory=Topology)
    gates: Gates = field(default_factory=Gates)
    simulate: Simulate = field(default_factory=Simulate)
    log: Log = field(default_factory=Log)
    path: Roots = field(default_factory=Roots)
