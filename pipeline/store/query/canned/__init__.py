"""Canned queries: the most frequent questions, right about resets, missing values and units."""

from __future__ import annotations

from pipeline.store.query.canned import device, events, gpus, jobs, links, nodes
from pipeline.store.query.canned.question import Question, UnknownDeviceError, resolve

QUESTIONS: dict[str, Question] = {
    "ecc": Question(gpus.ecc, gpus.draw_ecc),
    "links": Question(links.links, links.draw_links),
    "throttle": Question(gpus.throttle, gpus.draw_throttle),
    "xids": Question(events.xids, events.draw_xids),
    "gaps": Question(nodes.gaps, nodes.draw_gaps, about_devices=False),
    "device": Question(device.device, device.draw_device),
    "power": Question(gpus.power, gpus.draw_power),
    "temperature": Question(gpus.temperature, gpus.draw_temperature),
    "health": Question(events.health, events.draw_health),
    "reads": Question(nodes.reads, nodes.draw_reads, about_devices=False),
    "jobs": Question(jobs.jobs, jobs.draw_jobs),
    "nodes": Question(nodes.nodes, nodes.draw_nodes, about_devices=False),
}
"""By name; what each is about says pipeline/store/query/questions.py."""

__all__ = ["QUESTIONS", "Question", "UnknownDeviceError", "resolve"]
