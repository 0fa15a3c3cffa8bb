"""Canned questions: what people ask a store most, right about resets, missing values and units."""

from __future__ import annotations

from pipeline.store.canned import device, events, gpus, links, nodes
from pipeline.store.canned.question import Question, UnknownDeviceError, resolve

QUESTIONS: dict[str, Question] = {
    q.name: q
    for q in (
        Question("ecc", "memory errors and replaced rows per GPU", gpus.ecc, gpus.draw_ecc),
        Question("links", "state, errors and traffic of ports, and NVLinks with errors", links.links, links.draw_links),
        Question("throttle", "seconds in which clocks were held back, by reason", gpus.throttle, gpus.draw_throttle),
        Question("xids", "XIDs per GPU and code, each counted once", events.xids, events.draw_xids),
        Question("gaps", "when a source gave nothing, and why", nodes.gaps, nodes.draw_gaps, about_devices=False),
        Question("device", "everything about one device", device.device, device.draw_device),
        Question("power", "power, limit and energy per GPU", gpus.power, gpus.draw_power),
        Question("temperature", "temperatures, margin and time slowed by heat per GPU", gpus.temperature, gpus.draw_temperature),
        Question("health", "events and findings per device", events.health, events.draw_health),
        Question(
            "reads", "reads by source and outcome, and how long they took", nodes.reads, nodes.draw_reads, about_devices=False
        ),
        Question("nodes", "what there is: nodes, GPUs, ports, versions", nodes.nodes, nodes.draw_nodes, about_devices=False),
    )
}

__all__ = ["QUESTIONS", "Question", "UnknownDeviceError", "resolve"]
