"""Names of the canned questions.

Here, as the command line lists them without loading what answers them
(pipeline/store/query/canned).
"""

from __future__ import annotations

QUESTIONS = {
    "ecc": "memory errors and replaced rows per GPU",
    "links": "state, errors and traffic of ports, and NVLinks with errors",
    "throttle": "time with reduced clocks, by reason",
    "xids": "XIDs per GPU and code, each counted once",
    "gaps": "gaps in the data, and their causes",
    "device": "everything about one device",
    "power": "power, limit and energy per GPU",
    "temperature": "temperatures, margin and thermal throttling per GPU",
    "health": "events and findings per device",
    "reads": "reads by source and outcome, and their durations",
    "jobs": "GPU allocations of jobs and pods",
    "nodes": "inventory: nodes, GPUs, ports, versions",
}
