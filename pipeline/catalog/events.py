"""Events: everything that can happen, with the attributes it carries.

An attribute that was not to be had is left out, never empty and never 0. The name of an attribute
means the same in every event.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.catalog import (
    kernel_hardware_events,
    kernel_host_events,
    nccl,
    nccl_events,
    nvml_events,
)
from pipeline.catalog.event_attributes import JOB, PCI, PID, PROCESS, Attribute
from pipeline.catalog.fields import EventKind

SCHEDULER: Attribute = (
    "scheduler",
    "who gave the GPUs: slurm, kubernetes; absent where the job's own processes tell of it",
)
USER: Attribute = ("user", "name of the user who did it")
SHADOW_MODE: tuple[Attribute, ...] = (
    ("detector", "name of the detector"),
    ("incident", "id of the incident whose label decided it; absent at the start of an agent"),
    ("reason", "labels and evidence that decided it"),
    ("hash", "SHA-256 of the labels that decided it, first 16 hexadecimal digits"),
)

EVENTS = (
    *kernel_hardware_events.EVENTS,
    *kernel_host_events.EVENTS,
    *nvml_events.EVENTS,
    EventKind(
        "clock_step",
        "The wall clock was stepped.",
        (("seconds", "size of the step, positive is forward"),),
    ),
    EventKind(
        "arrivals_begin",
        "From here on a gateway judged what it got from a host; stored by the gateway.",
        (
            ("boot_id", "boot of the host in which it was read"),
            ("observation", "number of the observation of that boot"),
            ("offset_ns", "added to the host's times, as its clock is wrong; absent means 0"),
            ("at_ns", "unix time at which it was judged, where that is not its own"),
        ),
    ),
    EventKind(
        "arrivals_end",
        "What a gateway judged of a host ends; the next begin says where it goes on.",
        (
            ("boot_id", "boot of the host in which it was read"),
            ("observation", "number of the observation of that boot"),
        ),
    ),
    EventKind(
        "gpu_process_started",
        "A process began to use a GPU.",
        (
            PID,
            PROCESS,
            ("gpu_instance", "MIG GPU instance id"),
            ("compute_instance", "MIG compute instance id"),
        ),
    ),
    EventKind(
        "gpu_process_ended",
        "A process no longer uses a GPU.",
        (
            PID,
            PROCESS,
            ("gpu_instance", "MIG GPU instance id"),
            ("compute_instance", "MIG compute instance id"),
        ),
    ),
    EventKind(
        "job_started",
        "A job took GPUs of this host. A job on many hosts starts once on each.",
        (
            JOB,
            ("gpus", "UUIDs of the GPUs it holds on this host, separated by blanks"),
            ("hosts", "number of hosts of the job"),
            ("name", "name its owner gave it; of a pod without what its controllers added"),
            ("user", "id of the user that it runs as; of a pod `namespace:` and its namespace"),
            SCHEDULER,
        ),
    ),
    EventKind(
        "job_ended",
        "A job gave back its GPUs of this host.",
        (
            JOB,
            ("outcome", "completed, failed or cancelled, as reported by the scheduler"),
            SCHEDULER,
        ),
    ),
    EventKind(
        "pod_ended",
        "A container of a training's pod ended; as the API server has it.",
        (
            JOB,
            ("pod", "namespace and name of the pod"),
            ("container", "name of the container"),
            ("reason", "OOMKilled, Error, Completed, ..."),
            ("pod_reason", "of the pod: Evicted, NodeLost, DeadlineExceeded, ..."),
            (
                "disruption",
                "reason of the condition DisruptionTarget, such as PreemptionByScheduler",
            ),
            ("exit_code", "exit code of the container, -1 where it is not said"),
            ("signal", "number of the signal that ended it"),
            ("deleted", "true if somebody had deleted the pod"),
        ),
    ),
    EventKind(
        "maintenance_started",
        (
            "A device, or all of a host, was taken out of service by an operator or the scheduler: "
            "until the end nothing on it is a fault."
        ),
        (("reason", "reason given"), ("seconds", "planned duration"), USER),
    ),
    EventKind("maintenance_ended", "The device is in service again.", (USER,)),
    EventKind(
        "incident_acknowledged",
        "An incident was acknowledged.",
        (("incident", "id of the incident"), ("note", "note of the acknowledgement"), USER),
    ),
    EventKind(
        "incident_labelled",
        (
            "An operator's verdict on an incident, or a finding without one, about its (root) "
            "device; a later one of the same id replaces it."
        ),
        (
            ("incident", "id of the incident or finding"),
            ("verdict", "real, false or unclear"),
            ("detectors", "names of its detectors, best evidence first, separated by blanks"),
            ("class", "class of its fault"),
            ("opened_ns", "unix time at which it opened"),
            ("cause", "what was found to be the cause"),
            USER,
        ),
    ),
    EventKind("shadow_mode_left", "By its labels a detector may page.", SHADOW_MODE),
    EventKind("shadow_mode_entered", "By its labels a detector may not page.", SHADOW_MODE),
    EventKind(
        "calibration_changed",
        (
            "From here on the gateway lowers tickets by this learnt model, or by none; stored by "
            "the gateway every ten minutes."
        ),
        (
            ("model", "the model, as its file has it; absent where there is none"),
            ("hash", "SHA-256 of its parameters, hexadecimal; absent where there is none"),
        ),
    ),
    EventKind(
        "preflight",
        "A node was checked before a job started.",
        (
            ("level", "quick, standard or deep"),
            ("outcome", "ok, problem or unknown"),
            ("severity", "page or ticket: the gravest of what did not pass"),
            ("seconds", "how long it took"),
            ("failed", "names of the checks that did not pass, separated by blanks"),
            ("reason", "the gravest in words"),
        ),
    ),
    EventKind(
        "preflight_measured",
        "A measurement of a GPU or node by preflight.",
        (
            ("measure", "what was measured: memory_bandwidth, matrix_multiply, ..."),
            ("value", "in bytes or operations per second"),
            ("model", "what tells peers: the product, of a node with the number of its GPUs"),
        ),
    ),
    EventKind(
        "repair_step",
        "A repair of a device reached a step (`tocsin repair`).",
        (
            ("incident", "id of the incident"),
            ("fault", "class of the fault that is repaired"),
            (
                "step",
                "suspected, drained, reset, checked, burning_in, returned, rma or stopped",
            ),
            ("act", "what was done last: reset, reboot or replace; absent before the first"),
            ("attempt", "how many acts there were"),
            ("helped", "true if the fault was gone after the act, at the end of a repair"),
            ("note", "why it failed or was stopped"),
            ("at_ns", "unix time of the step, where it was reported later"),
            USER,
        ),
    ),
    EventKind(
        "device_appeared",
        "A device answers that did not before.",
        (PCI, ("reason", "what is known of the cause")),
    ),
    EventKind(
        "device_gone", "A device no longer answers.", (PCI, ("reason", "the driver's message"))
    ),
    EventKind(
        "driver_hang",
        "A call into the driver did not return in time.",
        (("call", "name of the call"), ("seconds", "how long it was waited for"), PID),
    ),
    EventKind(
        "config_reloaded",
        "The configuration was read again.",
        (
            ("outcome", "taken or kept: the new one was taken, or refused and the old one kept"),
            ("reason", "why it was refused"),
        ),
    ),
    EventKind(
        "injected",
        "A fault was injected into a simulated node.",
        (
            ("fault", "name of the fault"),
            ("parameters", "as given"),
            ("seconds", "how long it lasts"),
        ),
    ),
    *nccl_events.EVENTS,
    *nccl.EVENTS,
)

_NAMES = {kind.name: frozenset(name for name, _ in kind.attributes) for kind in EVENTS}


def strange_attributes(kind: str, attributes: Iterable[str]) -> list[str]:
    """Names that an event of this kind may not carry, in order; KeyError for a kind the
    catalogue does not have.

    >>> strange_attributes("clock_step", ["seconds", "colour"])
    ['colour']
    """
    return [name for name in attributes if name not in _NAMES[kind]]
