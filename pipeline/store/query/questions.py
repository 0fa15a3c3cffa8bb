"""Names of the canned questions. Here, as the command line lists them without loading what answers them (pipeline/store/canned)."""

from __future__ import annotations

QUESTIONS = {
    "ecc": "memory errors and replaced rows per GPU",
    "links": "state, errors and traffic of ports, and NVLinks with errors",
    "throttle": "seconds in which clocks were held back, by reason",
    "xids": "XIDs per GPU and code, each counted once",
    "gaps": "when a source gave nothing, and why",
    "device": "everything about one device",
    "power": "power, limit and energy per GPU",
    "temperature": "temperatures, margin and time slowed by heat per GPU",
    "health": "events and findings per device",
    "reads": "reads by source and outcome, and how long they took",
    "jobs": "which job or pod held which GPU, and when",
    "nodes": "what there is: nodes, GPUs, ports, versions",
}
