"""Jobs of this node by their control group: how long their tasks wait.

``read``: a file of the job's control group (cgroup v2) and what is taken from it. Names as those of
cAdvisor (container_pressure_*), which reads the same files.
"""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric

KIND = "job_group"
MAXIMUM = 1e6  # of pressure: microseconds of a second

KINDS = (
    Kind(
        KIND,
        (("job", "job"),),
        "A job that holds GPUs of this node, by its control group: all of its tasks here.",
        fleeting=True,
    ),
)


def _field(number: int, name: str, shown: str, text: str, read: str) -> Field:
    """Each is a share of the time: a second has at most a million microseconds of it."""
    return Field(
        number,
        name,
        KIND,
        "counter",
        Metric(f"tocsin_job_{shown}_seconds_total", "counter", text),
        read,
        per=10**6,
        maximum_per_second=MAXIMUM,
    )


FIELDS = (
    _field(
        9101,
        "pressure_cpu_some_microseconds",
        "pressure_cpu_waiting",
        "Time in which some task of the job on this node waited for a processor.",
        "cpu.pressure some total",
    ),
    _field(
        9102,
        "pressure_io_some_microseconds",
        "pressure_io_waiting",
        "Time in which some task of the job on this node waited for input or output.",
        "io.pressure some total",
    ),
    _field(
        9103,
        "pressure_memory_full_microseconds",
        "pressure_memory_stalled",
        "Time in which all tasks of the job on this node waited for memory.",
        "memory.pressure full total",
    ),
    Field(
        9104,
        "cpu_throttled_microseconds",
        KIND,
        "counter",
        Metric(
            "tocsin_job_cpu_throttled_seconds_total",
            "counter",
            (
                "Time for which the job's limit of processors (cpu.max) held its tasks back, added "
                "up over processors."
            ),
        ),
        "cpu.stat throttled_usec",
        per=10**6,
    ),
)

FACTS = (Fact("job", KIND, "The job, as `tocsin_device_job_info` has it.", "source", info=False),)
