"""dcgm-exporter's flags and variables as they stand: what each means here, so that its command
lines and manifests keep working.

Names, variables and defaults: README and ``pkg/cmd/app.go`` of dcgm-exporter 4.8.4, and
--health-require-gpus of 4.9. A flag without meaning here is accepted and logged once, but for its
configuration file. Precedence is the same as ours: flag > environment > file > default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from collector.config.raw_setting import RawSetting
from collector.config.units import Seconds
from pipeline.dcgm import DEFAULT_FILE, LOWER_CASE_FILE

# refused: a flag that would be misunderstood if it were accepted.
Kind = Literal["text", "switch", "milliseconds", "interval", "refused"]

# strconv.ParseBool of Go.
TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")

# Detectors need a reading a second: dcgm-exporter's usual 30 s must not blind them.
MAX_PERIOD_S = 1.0
# It takes any interval; ours begin here (collector/config/checks.py).
MIN_INTERVAL = Seconds(0.05)

# Counters files that its image and packages bring along; where they are not, ours say the same.
ITS_OWN_FILES = {
    "/etc/dcgm-exporter/default-counters.csv": DEFAULT_FILE,
    "/etc/dcgm-exporter/dcp-metrics-included.csv": DEFAULT_FILE,
    "/etc/dcgm-exporter/1.x-compatibility-metrics.csv": LOWER_CASE_FILE,
}

NOT_YET = "not built yet"
API_SERVER = "only the API server knows labels and uids of pods"
# Its counters and intervals are settings that dcgm-exporter's users rely on: to go on without them
# would show other series than asked for, silently.
CONFIG_FILE = (
    "dcgm-exporter's YAML is not read: give its fields as a counters file (-f), its interval as "
    "-c, the rest as flags; Tocsin's own file is --config.file"
)
CONFIG_MAP = "counters are not read from the API server: mount the ConfigMap as a file and use -f"
DIRECT = "Tocsin reads the driver itself and needs no host engine"


class DcgmFlag(NamedTuple):
    """One flag: its spellings, variable, the setting it is, and what to say
    when it has no meaning here.

    ``values`` translates the words of dcgm-exporter into ours; a value that is not
    among them passes as it is. ``repeats``: given again it adds to what was given before.
    """

    names: tuple[str, ...]
    variable: str
    help: str
    kind: Kind = "text"
    setting: tuple[str, ...] = ()
    values: Mapping[str, object] | None = None
    repeats: bool = False

    @property
    def long(self) -> str:
        """The long name."""
        return next(name for name in self.names if name.startswith("--"))


def _flag(
    names: str,
    variable: str,
    help: str,  # noqa: A002 - argparse's word
    kind: Kind = "text",
    setting: str = "",
    **rest: object,
) -> DcgmFlag:
    variable = (
        variable.replace("E_", "DCGM_EXPORTER_", 1) if variable.startswith("E_") else variable
    )
    return DcgmFlag(
        tuple(names.split()),
        variable,
        help,
        kind,
        tuple(setting.split(".")) if setting else (),
        **rest,  # type: ignore[arg-type]
    )


_LOG_FORMATS = {"text": "logfmt", "json": "json"}
_DEVICES = "entities of GPU series"

FLAGS: tuple[DcgmFlag, ...] = (
    _flag("-f --collectors", "E_COLLECTORS", "counters file", setting="exposition.counters_file"),
    _flag("-a --address", "E_LISTEN", "address to listen on", setting="web.listen_address"),
    _flag(
        "-c --collect-interval",
        "E_INTERVAL",
        (
            "time between two reads, in milliseconds; GPUs are read every second "
            "all the same, or sooner"
        ),
        "interval",
        "exposition.collect_interval",
    ),
    _flag(
        "-k --kubernetes",
        "E_KUBERNETES",
        "labels pod, namespace and container",
        "switch",
        "exposition.kubernetes",
    ),
    _flag(
        "-o --use-old-namespace",
        "E_USE_OLD_NAMESPACE",
        "label uuid for UUID",
        "switch",
        "exposition.use_old_namespace",
    ),
    _flag("-d --devices", "E_DEVICES_STR", _DEVICES, setting="exposition.devices"),
    _flag("-s --switch-devices", "E_OTHER_DEVICES_STR", f"NVSwitches: {NOT_YET}"),
    _flag("-p --cpu-devices", "E_CPU_DEVICES_STR", f"Grace CPUs: {NOT_YET}"),
    _flag(
        "-m --configmap-data",
        "E_CONFIGMAP_DATA",
        CONFIG_MAP,
        "refused",
        values={"none": None, "": None},  # its default: the file
    ),
    _flag("-r --remote-hostengine-info", "DCGM_REMOTE_HOSTENGINE_INFO", DIRECT),
    _flag(
        "-n --no-hostname",
        "E_NO_HOSTNAME",
        "no host label",
        "switch",
        "exposition.hostname",
        values={"true": False, "false": True},
    ),
    _flag(
        "-x --xid-count-window-size",
        "E_XID_COUNT_WINDOW_SIZE",
        "in milliseconds",
        "milliseconds",
        "exposition.xid_count_window",
    ),
    _flag(
        "--clock-events-count-window-size",
        "E_CLOCK_EVENTS_COUNT_WINDOW_SIZE",
        "in milliseconds",
        "milliseconds",
        "exposition.clock_events_count_window",
    ),
    _flag(
        "--replace-blanks-in-model-name --rbmn",
        "E_REPLACE_BLANKS_IN_MODEL_NAME",
        "dashes in modelName",
        "switch",
        "exposition.replace_blanks_in_model_name",
    ),
    _flag(
        "--kubernetes-enable-pod-labels",
        "E_KUBERNETES_ENABLE_POD_LABELS",
        f"{API_SERVER}: {NOT_YET}",
        "switch",
    ),
    _flag(
        "--kubernetes-enable-pod-uid",
        "E_KUBERNETES_ENABLE_POD_UID",
        f"{API_SERVER}: {NOT_YET}",
        "switch",
    ),
    _flag(
        "--kubernetes-gpu-id-type", "E_KUBERNETES_GPU_ID_TYPE", "ids of every type are understood"
    ),
    _flag(
        "--kubernetes-pod-label-allowlist-regex",
        "E_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX",
        f"{API_SERVER}: {NOT_YET}",
    ),
    _flag(
        "--kubernetes-virtual-gpus",
        "KUBERNETES_VIRTUAL_GPUS",
        (
            "a copy of the series of a shared GPU for each of its shares, with the label vgpu; "
            "values are the GPU's, not a pod's"
        ),
        "switch",
        "exposition.kubernetes_virtual_gpus",
    ),
    _flag(
        "--kubernetes-enable-dra",
        "KUBERNETES_ENABLE_DRA",
        "labels of claims",
        "switch",
        "exposition.kubernetes_enable_dra",
    ),
    _flag(
        "--pod-resources-kubelet-socket",
        "DCGM_POD_RESOURCES_KUBELET_SOCKET",
        "the kubelet's socket",
        setting="sources.jobs.kubelet_socket",
    ),
    _flag(
        "--nvidia-resource-names",
        "NVIDIA_RESOURCE_NAMES",
        "further resources whose devices are GPUs, separated by commas",
        setting="sources.jobs.resource_names",
        repeats=True,
    ),
    _flag(
        "--hpc-job-mapping-dir",
        "DCGM_HPC_JOB_MAPPING_DIR",
        "label hpc_job, a copy per job",
        setting="sources.jobs.mapping_dir",
    ),
    _flag("--container-labels", "E_CONTAINER_LABELS", f"container labels: {NOT_YET}", "switch"),
    _flag(
        "--container-runtime-socket",
        "DCGM_CONTAINER_RUNTIME_SOCKET",
        f"container labels: {NOT_YET}",
    ),
    _flag(
        "--web-config-file --web.config.file",
        "E_WEB_CONFIG_FILE",
        "TLS, passwords and limits: the file of exporter-toolkit (web.config.yml)",
        setting="web.config_file",
    ),
    _flag(
        "--web-systemd-socket",
        "E_SYSTEMD_SOCKET",
        f"socket activation: {NOT_YET}; set the address instead",
        "switch",
    ),
    _flag("--web-read-timeout", "E_WEB_READ_TIMEOUT", "requests have Tocsin's own deadlines"),
    _flag("--web-write-timeout", "E_WEB_WRITE_TIMEOUT", "requests have Tocsin's own deadlines"),
    _flag(
        "--max-concurrent-scrapes",
        "E_MAX_CONCURRENT_SCRAPES",
        "scrapes at a time",
        setting="web.max_concurrent_scrapes",
    ),
    _flag(
        "--health-require-gpus",
        "E_HEALTH_REQUIRE_GPUS",
        "/health answers 503 while no GPU answers the driver",
        "switch",
        "web.health_require_gpus",
    ),
    _flag("--fake-gpus", "E_USE_FAKE_GPUS", "see --simulate", "switch"),
    _flag(
        "--debug",
        "E_DEBUG",
        "log level debug",
        "switch",
        "log.level",
        values={"true": "debug", "false": None},
    ),
    _flag(
        "--log-format", "E_LOG_FORMAT", "text or json", setting="log.format", values=_LOG_FORMATS
    ),
    _flag("--enable-dcgm-log", "E_ENABLE_DCGM_LOG", DIRECT, "switch"),
    _flag("--dcgm-log-level", "E_DCGM_LOG_LEVEL", DIRECT),
    _flag("--dump-enabled", "E_DUMP_ENABLED", "see tocsin read --format json", "switch"),
    _flag("--dump-directory", "E_DUMP_DIRECTORY", "see tocsin read --format json"),
    _flag("--dump-retention", "E_DUMP_RETENTION", "see tocsin read --format json"),
    _flag("--dump-compression", "E_DUMP_COMPRESSION", "see tocsin read --format json", "switch"),
    _flag("--disable-startup-validate", "DISABLE_STARTUP_VALIDATE", DIRECT, "switch"),
    _flag(
        "--enable-gpu-bind-unbind-watch",
        "E_ENABLE_GPU_BIND_UNBIND_WATCH",
        "GPUs are always watched",
        "switch",
    ),
    _flag(
        "--gpu-bind-unbind-poll-interval",
        "E_GPU_BIND_UNBIND_POLL_INTERVAL",
        "GPUs are always watched",
    ),
    _flag("--enable-pprof", "E_ENABLE_PPROF", "there is no Go runtime to profile", "switch"),
    _flag(
        "--config-file",
        "E_CONFIG_FILE",
        CONFIG_FILE,
        "refused",
    ),
    _flag(
        "--enable-exporter-metrics",
        "E_ENABLE_EXPORTER_METRICS",
        "the agent's own series are always there",
        "switch",
    ),
    _flag("--watch-max-keep-age", "E_WATCH_MAX_KEEP_AGE", DIRECT),
    _flag("--watch-max-keep-samples", "E_WATCH_MAX_KEEP_SAMPLES", DIRECT),
)


class Translated(NamedTuple):
    """What flags or variables mean: settings, what to tell the user, and what is refused."""

    settings: list[RawSetting]
    notices: list[str]
    refusals: list[str]


def from_environ(environ: Mapping[str, str], flags: Iterable[DcgmFlag] = ()) -> Translated:
    """What dcgm-exporter's variables mean.

    An empty variable is not set, as templates leave them; nor is one whose flag is among those of
    the command line: everything that it would set is the flag's.
    """
    overridden = {flag.long for flag in flags}
    return translate(
        (flag, environ[flag.variable], flag.variable)
        for flag in FLAGS
        if environ.get(flag.variable) and flag.long not in overridden
    )


def translate(given: Iterable[tuple[DcgmFlag, str, str]]) -> Translated:
    """What flags with their values and where each was given mean; of several of one flag the last
    counts, or all of them where it repeats.
    """
    last: dict[str, Translated] = {}
    refusals: list[str] = []
    for flag, value, origin in given:
        before = last.get(flag.long)
        try:
            last[flag.long] = _translated(flag, _typed(flag, value), origin)
        except ValueError as error:
            refusals.append(f"{origin}: {error}")
            continue
        if flag.repeats and before:
            last[flag.long] = _joined(before, last[flag.long])
    return Translated(
        [setting for one in last.values() for setting in one.settings],
        [notice for one in last.values() for notice in one.notices],
        refusals,
    )


def _translated(flag: DcgmFlag, typed: object, origin: str) -> Translated:
    """What one flag means."""
    if flag.kind == "interval" and isinstance(typed, Seconds):
        return _interval(flag, typed, origin)
    if typed in ITS_OWN_FILES and not Path(str(typed)).exists():
        return _shipped(flag, str(typed), origin)
    if flag.setting and typed is not None:
        text = isinstance(typed, str)
        return Translated([RawSetting(flag.setting, typed, origin, text=text)], [], [])
    if flag.setting or not typed:  # a switch that is off asks for nothing
        return Translated([], [], [])
    said = f"{origin} is accepted and has no effect here: {flag.help}"
    return Translated([], [said], [])


def _interval(flag: DcgmFlag, asked: Seconds, origin: str) -> Translated:
    """Samples of the dialect at an interval, and readings where the interval is shorter than
    theirs.
    """
    taken = max(asked, MIN_INTERVAL) if asked else asked  # 0 is no interval for either
    notices = (
        [f"{origin}: {asked} is shorter than the shortest interval; it is {taken}"]
        if taken != asked
        else []
    )
    paths = [flag.setting]
    if taken < MAX_PERIOD_S:
        paths.append(("sources", "nvml", "period"))
    return Translated([RawSetting(path, taken, origin) for path in paths], notices, [])


def _shipped(flag: DcgmFlag, file: str, origin: str) -> Translated:
    """Our own file in the place of one that comes with dcgm-exporter and is not there."""
    ours = ITS_OWN_FILES[file]
    path = "" if ours == DEFAULT_FILE else str(ours)
    said = f"{origin}: there is no {file}; the counters that come with Tocsin are shown"
    return Translated([RawSetting(flag.setting, path, origin)], [said], [])


def _joined(before: Translated, after: Translated) -> Translated:
    """The values of a flag that was given again, as one list."""
    settings = [
        new._replace(value=f"{old.value},{new.value}")
        for old, new in zip(before.settings, after.settings, strict=True)
    ]
    return Translated(settings, after.notices, [])


def _typed(flag: DcgmFlag, value: str) -> object:
    if flag.kind == "refused":
        if value in (flag.values or ()):
            return None
        raise ValueError(f"{value}: {flag.help}")
    if flag.kind == "switch":
        if value not in (*TRUE, *FALSE):
            raise ValueError(f"expected true or false, got {value!r}")
        word = "true" if value in TRUE else "false"
        return (flag.values or {}).get(word, value in TRUE)
    if flag.kind in ("milliseconds", "interval"):
        if not (value.isascii() and value.isdigit()):
            raise ValueError(f"expected a number of milliseconds, got {value!r}")
        return Seconds(int(value) / 1000)
    return (flag.values or {}).get(value, value)


def names() -> Sequence[str]:
    """All spellings."""
    return [name for flag in FLAGS for name in flag.names]
