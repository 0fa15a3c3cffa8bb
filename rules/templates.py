"""Parts of alert descriptions as Prometheus templates: device, number, proposed action."""

from __future__ import annotations

from collections.abc import Mapping

INSTANCE = "{{ $labels.instance }}"
# Matchers of the alert's own node, and their arguments: two clusters may have nodes of one name.
OF_NODE, ITS_NODE = "cluster=%q,instance=%q", "$labels.cluster $labels.instance"
NODE = "{{ or $labels.node $labels.instance }}"

# The proposed action (pipeline/finding.py, Action) as an instruction. What CONTACT_SUPPORT asks for
# differs by class of fault and comes from the alert's row.
STEPS: Mapping[str, str] = {
    "COMPONENT_RESET": "Drain the node and reset the device",
    "RUN_FIELDDIAG": (
        "Drain the node, run the field diagnostic and replace the part (RMA) if it fails"
    ),
    "RESTART_VM": "Restart the virtual machine",
    "RESTART_BM": "Drain the node and power-cycle it",
    "REPLACE_VM": "Replace the virtual machine",
    "RUN_DCGMEUD": "Drain the node and run the DCGM diagnostics",
    "RESTART_APP": "Restart the job",
}
NO_STEP = "No action proposed"  # NONE and UNKNOWN


def _query(selector: str, *labels: str) -> str:
    """The last sample of a series, for five minutes: a lost GPU has no current readings."""
    quoted = f"last_over_time({selector}[5m])".replace('"', '\\"')
    return f'printf "{quoted}" {" ".join(f"$labels.{label}" for label in labels)} | query'


def _of_nvlink() -> str:
    """The GPU of an NVLink, whose name is the GPU's and the number of the link."""
    query = "last_over_time(tocsin_gpu_info{instance=%q,uuid=%q}[5m])".replace('"', '\\"')
    gpu = '(reReplaceAll "/.*" "" $labels.root_device)'
    return f'and (eq $labels.root_kind "nvlink") (printf "{query}" $labels.instance {gpu} | query)'


def _label(name: str) -> str:
    return f'{{{{ . | first | label "{name}" }}}}'


# Where service discovery gives it: rules/README.md.
RACK = "{{ with $labels.rack }}, rack {{ . }}{{ end }}"

# Kinds of devices as operators write them, where no info metric has the device's name.
KINDS = {
    "gpu": "GPU",
    "gpu_instance": "MIG instance",
    "nvlink": "NVLink",
    "nvswitch": "NVSwitch",
    "ib_port": "Port",
    "nvlink_domain": "NVLink domain",
}
KIND = (
    "{{ if "
    + "{{ else if ".join(
        f'eq $labels.root_kind "{kind}" }}}}{name}' for kind, name in KINDS.items()
    )
    + "{{ else }}{{ $labels.root_kind | title }}{{ end }}"
)

# GPU 2 on node1 (GPU-8a.., serial 1656.., rack R3); Port mlx5_3/1 on node1 (GUID 0xa1);
# NVLink 4 of GPU 2 on node1 (GPU-8a../4, serial 1656..);
# Job 4711 on node1.
DEVICE = (
    f"{{{{ with {_query('tocsin_gpu_info{instance=%q,uuid=%q}', 'instance', 'root_device')} }}}}"
    f"GPU {_label('gpu')} on {NODE} ({{{{ $labels.root_device }}}}, serial {_label('serial')}"
    f"{RACK})"
    "{{ else }}{{ with "
    f"{_query('tocsin_ib_port_info{instance=%q,port_guid=%q}', 'instance', 'root_device')} }}}}"
    f"Port {_label('device')}/{_label('port')} on {NODE} (GUID {{{{ $labels.root_device }}}}{RACK})"
    f"{{{{ else }}}}{{{{ with {_of_nvlink()} }}}}"
    f'NVLink {{{{ reReplaceAll ".*/" "" $labels.root_device }}}} of GPU {_label("gpu")} on {NODE} '
    f"({{{{ $labels.root_device }}}}, serial {_label('serial')}{RACK})"
    "{{ else }}"
    f"{KIND} "
    f'{{{{ $labels.root_device }}}}{{{{ if ne $labels.root_kind "node" }}}} on {NODE}{{{{ end }}}}'
    f"{RACK}{{{{ end }}}}{{{{ end }}}}{{{{ end }}}}"
)

# The same where the agent's node is not known.
DEVICE_ANYWHERE = (
    f"{{{{ with {_query('tocsin_gpu_info{uuid=%q}', 'root_device')} }}}}"
    f"GPU {_label('gpu')} on {{{{ $labels.host }}}} ({{{{ $labels.root_device }}}}, "
    f"serial {_label('serial')})"
    f"{{{{ else }}}}{{{{ with {_query('tocsin_ib_port_info{port_guid=%q}', 'root_device')} }}}}"
    f"Port {_label('device')}/{_label('port')} on {{{{ $labels.host }}}} "
    "(GUID {{ $labels.root_device }})"
    "{{ else }}"
    f"{KIND} {{{{ $labels.root_device }}}}"
    '{{ with $labels.host }}{{ if ne $labels.root_kind "node" }} on {{ . }}{{ end }}{{ end }}'
    "{{ end }}{{ end }}"
)


def labelled(series: str) -> str:
    """The action as ``proposed``, for the rule has its own, and the GPU under the label of the raw
    rules.
    """
    proposed = f'label_replace({series}, "proposed", "$1", "action", "(.*)")'
    return f'label_replace({proposed}, "gpu_uuid", "$1", "root_device", "(GPU-[^/]+).*")'


def _failed_gpus() -> str:
    """The failed GPUs of a node that is the root cause, or contains it, by number; else empty."""
    failed = f'last_over_time(tocsin_device_health{{{OF_NODE},kind="gpu",health="failed"}}[5m]) > 0'
    by_uuid = f'max by (uuid) (label_replace({failed}, "uuid", "$1", "device", "(.+)"))'
    # One for each GPU: its facts or the agent's pod may have changed within these minutes.
    info = "topk by (uuid) (1, last_over_time(tocsin_gpu_info{instance=%q}[5m]))"
    query = f"{by_uuid} * on (uuid) group_left (gpu) {info}".replace('"', '\\"')
    return (
        '{{ if match "^(node|rack|switch|nvlink_domain|cluster)$" $labels.root_kind }}'
        f'{{{{ with printf "{query}" {ITS_NODE} $labels.instance | query }}}}'
        ' Failed GPUs of the node:{{ range $i, $gpu := sortByLabel "gpu" . }}'
        "{{ if $i }},{{ end }} {{ $gpu.Labels.gpu }}{{ end }}.{{ end }}{{ end }}"
    )


FAILED_GPUS = _failed_gpus()


def of_gpu(metric: str, text: str, matchers: str = "") -> str:
    """A number of the GPU that is the root cause, in place of ``#``; empty where unknown."""
    query = _query(f"{metric}{{instance=%q,uuid=%q{matchers}}}", "instance", "root_device")
    return _number(query, text)


def of_node(metric: str, text: str) -> str:
    """The same for a number of the node."""
    return _number(_query(f"{metric}{{{OF_NODE}}}", "cluster", "instance"), text)


def of_port(metric: str, text: str, matchers: str = "") -> str:
    """The same for a number of the port, whose series are labelled by adapter and port number."""
    port = "last_over_time(tocsin_ib_port_info{instance=%q,port_guid=%q}[5m])"
    query = (
        f'printf "last_over_time({metric}{{instance=%q{_quoted(matchers)}}}[5m]) '
        f'and on (cluster, instance, device, port) {port}"'
        " $labels.instance $labels.instance $labels.root_device | query"
    )
    return _number(query, text)


def _quoted(matchers: str) -> str:
    """Matchers as they are written within a string of a template."""
    return matchers.replace('"', '\\"')


def by_class(other: str, texts: Mapping[str, str]) -> str:
    """The text of the first pattern that ``$labels.class`` matches, else ``other``."""
    cases = "{{ else if ".join(
        f'match "^({pattern})$" $labels.class }}}}{text}' for pattern, text in texts.items()
    )
    return f"{{{{ if {cases}{{{{ else }}}}{other}{{{{ end }}}}"


def _number(query: str, text: str) -> str:
    """``#`` is a whole number, ``~`` one with a prefix such as k or G."""
    value = text.replace("#", '{{ . | first | value | printf "%.0f" }}').replace(
        "~", "{{ . | first | value | humanize }}"
    )
    return f"{{{{ with {query} }}}} {value}{{{{ end }}}}"


def action(inspect: str, *, urgent: bool) -> str:
    """The proposed action as an instruction; without urgency it waits for the end of the jobs."""
    steps = {**STEPS, "CONTACT_SUPPORT": inspect}
    branches = "{{ else if ".join(
        f'eq $labels.proposed "{name}" }}}}{_when(step, urgent=urgent)}.'
        for name, step in steps.items()
    )
    return f"{{{{ if {branches}{{{{ else }}}}{NO_STEP}.{{{{ end }}}}"


def _when(step: str, *, urgent: bool) -> str:
    return step if urgent or not step.startswith("Drain") else f"{step} when its jobs have ended"
