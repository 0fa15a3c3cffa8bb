"""What types cannot say: values that must fit each other or a form of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path as File
from typing import Any

from collector.config import address, owners
from collector.config.bus_checks import bus_problems
from collector.config.gates import Draining, Repair
from collector.config.links import template_fault
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from collector.config.tree import Path
from pipeline import plugin
from pipeline.dcgm import CountersError, SelectionError, load, parse_selection
from pipeline.store.remote.upload_plan import scheme
from pipeline.xid.table import read_rows

# Paths that mean something already (Prometheus' and dcgm-exporter's own).
RESERVED = ("/", "/-/healthy", "/-/ready", "/health", "/healthz")
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.@\\-]{0,254}")  # systemd.unit(5), "Description"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# the NVML sweep of 8 GPUs takes up to about 50 ms on hardware with slow getters; ticks
# it is late for are skipped
MIN_PERIOD_S = 0.05


def check(config: Config) -> Iterator[tuple[Path, str]]:
    """Path and problem of everything that does not fit."""
    yield from _web(config)
    yield from _periods(config)
    yield from _topology(config)
    yield from _store(config)
    yield from _retention(config)
    yield from _upload(config)
    yield from bus_problems(config.bus)
    yield from _dialect(config)
    yield from _detectors(config)
    yield from _declared(config)
    yield from _simulate(config)
    yield from _gates(config)
    for section in ("storage", "bus"):
        cluster = getattr(config, section).cluster
        if not _NAME.fullmatch(cluster):
            yield (
                (section, "cluster"),
                f"{cluster!r} is not a valid name: only letters, digits, `.`, `-`, `_`",
            )


def _web(config: Config) -> Iterator[tuple[Path, str]]:
    if not config.web.listen_address:
        yield ("web", "listen_address"), "at least one address is needed"
    for name in ("listen_address", "health_listen_address"):
        for text in getattr(config.web, name):
            try:
                address.parse(text)
            except ValueError as error:
                yield ("web", name), str(error)
    if config.web.config_file:
        yield from _web_config(File(config.web.config_file), config.web.tenants)
    elif config.web.tenants:
        yield ("web", "tenants"), "needs basic_auth_users in web.config_file: nobody else is known"
    for user, text in config.web.tenants.items():
        try:
            owners.parse(text)
        except ValueError as error:
            yield ("web", "tenants"), f"{user}: {error}"
    for name in ("runbook_url", "dashboard_url"):
        if fault := template_fault(getattr(config.web, name)):
            yield ("web", name), fault
    if fault := template_fault(config.web.agent_url, ("host",)):
        yield ("web", "agent_url"), fault
    if config.web.history_url:
        try:
            scheme(config.web.history_url)
        except ValueError as error:
            yield ("web", "history_url"), str(error)
    path = config.web.telemetry_path
    if (
        not path.startswith("/")
        or path in RESERVED
        or path.startswith(("/api/", "/incidents/"))
        or any(c in path for c in "?#{} ")
    ):
        yield ("web", "telemetry_path"), f"{path!r} is not a usable path such as /metrics"


def _web_config(file: File, tenants: Collection[str]) -> Iterator[tuple[Path, str]]:
    from collector.config.web.security import WebFile  # noqa: PLC0415 - only who has a web configuration pays for TLS

    try:
        users = WebFile(file, notice=len).security.users  # the agent reports what it serves itself
    except ConfigError as error:
        for problem in error.problems:
            yield ("web", "config_file"), problem
        return
    for user in tenants:
        if user not in users:
            yield ("web", "tenants"), f"{user}: is no user of basic_auth_users in {file}"


def _periods(config: Config) -> Iterator[tuple[Path, str]]:
    timed: dict[Path, Any] = {
        ("sources", name): getattr(config.sources, name)
        for name in type(config.sources).__struct_fields__
    }
    timed[("topology",)] = config.topology
    for path, section in timed.items():
        if section.period < MIN_PERIOD_S:
            yield (*path, "period"), f"{section.period} is shorter than the shortest period, 50ms"
        if section.deadline <= 0:
            yield (*path, "deadline"), "must be longer than 0"
    for pattern in config.sources.joblog.paths:
        if not pattern.startswith("/"):
            yield ("sources", "joblog", "paths"), f"{pattern!r} is not an absolute path"
    nvml = config.sources.nvml
    if not 0 < nvml.call_deadline < nvml.deadline:
        yield (
            ("sources", "nvml", "call_deadline"),
            f"{nvml.call_deadline} must lie between 0 and sources.nvml.deadline ({nvml.deadline})",
        )


def _dialect(config: Config) -> Iterator[tuple[Path, str]]:
    exposition = config.exposition
    try:
        parse_selection(exposition.devices)
    except SelectionError as error:
        yield ("exposition", "devices"), str(error)
    if exposition.counters_file:
        try:
            load(File(exposition.counters_file), exposition.compat)
        except CountersError as error:
            yield ("exposition", "counters_file"), str(error)
    for name in ("xid_count_window", "clock_events_count_window", "collect_interval"):
        if getattr(exposition, name) <= 0:
            yield ("exposition", name), "must be longer than 0"


def _declared(config: Config) -> Iterator[tuple[Path, str]]:
    declared = config.detectors.drift.declared
    if declared:
        from detectors.drift import mistakes  # noqa: PLC0415 - only who declares something pays for the detectors

        for mistake in mistakes(declared):
            yield ("detectors", "drift", "declared"), mistake


def _detectors(config: Config) -> Iterator[tuple[Path, str]]:
    if config.detectors.off_trial or config.detectors.on_trial:
        from detectors import DETECTORS  # noqa: PLC0415 - only who names some pays for the detectors

        for setting in ("off_trial", "on_trial"):
            for name in sorted(set(getattr(config.detectors, setting)) - {"all", *DETECTORS}):
                yield (
                    ("detectors", setting),
                    f"no detector {name!r}; known: all, {', '.join(DETECTORS)}",
                )
    if config.detectors.calibration:
        from detectors.trust.calibration import ModelError, read  # noqa: PLC0415 - likewise

        try:
            read(File(config.detectors.calibration))
        except (ModelError, OSError) as error:
            yield ("detectors", "calibration"), f"{config.detectors.calibration}: {error}"
    if not config.detectors.xid_table:
        return
    from detectors.xid import nvlink5  # noqa: PLC0415 - only who has a table of their own pays for the detectors

    try:
        for entry in read_rows(File(config.detectors.xid_table)).values():
            if entry.code in nvlink5.CODES:
                nvlink5.rules_of(entry.notes)
    except ValueError as error:
        yield ("detectors", "xid_table"), str(error)


def _simulate(config: Config) -> Iterator[tuple[Path, str]]:
    simulate = config.simulate
    if not simulate.profile:
        for name in ("inject", "day"):
            if getattr(simulate, name):
                yield (
                    ("simulate", name),
                    "faults can only be injected into a simulated node: also set simulate.profile",
                )
        if simulate.speed != 1 or simulate.ago:
            yield (
                ("simulate", "speed"),
                "only a simulated node can run faster: also set simulate.profile",
            )
        return
    problems = plugin.load("simulator.check:problems")
    for where, problem in problems(simulate.profile, simulate.inject, simulate.day):
        yield ("simulate", where), problem


def _gates(config: Config) -> Iterator[tuple[Path, str]]:
    slurm, kubernetes = config.gates.slurm, config.gates.kubernetes
    if not config.gates.off_file.startswith("/"):
        yield ("gates", "off_file"), f"{config.gates.off_file!r} is not an absolute path"
    yield from _draining(("gates", "slurm"), slurm)
    yield from _draining(("gates", "kubernetes", "draining"), kubernetes.draining)
    yield from _repair(config.gates.repair)
    if config.gates.hint.horizon < 1:
        yield ("gates", "hint", "horizon"), "must be at least 1s"
    for name, period in (
        ("kubernetes", kubernetes.period),
        ("nvsentinel", config.gates.nvsentinel.period),
    ):
        if period < 1:
            yield (
                ("gates", name, "period"),
                f"{period} is shorter than 1s, too often for a shared API server",
            )
    if config.gates.nvsentinel.socket and not config.gates.nvsentinel.socket.startswith("/"):
        yield (
            ("gates", "nvsentinel", "socket"),
            f"{config.gates.nvsentinel.socket!r} is not an absolute path",
        )
    if kubernetes.api and not kubernetes.api.startswith("https://"):
        yield (
            ("gates", "kubernetes", "api"),
            f"{kubernetes.api!r} is not an address such as https://10.96.0.1:443",
        )


def _draining(where: Path, draining: Draining) -> Iterator[tuple[Path, str]]:
    if draining.most_per_hour > draining.most_drained:
        yield (
            (*where, "most_per_hour"),
            f"{draining.most_per_hour} is more than most_drained ({draining.most_drained})",
        )
    if draining.proof_deadline <= 0:
        yield (*where, "proof_deadline"), "must be longer than 0"


def _repair(repair: Repair) -> Iterator[tuple[Path, str]]:
    where = ("gates", "repair")
    for name in ("bundles", "ticket_file", "ticket_token_file"):
        value = getattr(repair, name)
        if value and not value.startswith("/"):
            yield (*where, name), f"{value!r} is not an absolute path"
    if repair.ticket_url and not repair.ticket_url.startswith(("http://", "https://")):
        yield (*where, "ticket_url"), f"{repair.ticket_url!r} is not an http or https address"
    for name in ("check_deadline", "settle"):
        if getattr(repair, name) <= 0:
            yield (*where, name), "must be longer than 0"
    for service in repair.services:
        if not _UNIT.fullmatch(service):
            yield (*where, "services"), f"{service!r} is not the name of a unit"


def _topology(config: Config) -> Iterator[tuple[Path, str]]:
    topology = config.topology
    given = [name for name in ("file", "command", "labels_file") if getattr(topology, name)]
    if len(given) > 1:
        yield (
            ("topology", given[1]),
            f"only one of file, command and labels_file: topology.{given[0]} is set too",
        )
    if topology.node_labels and not topology.labels_file:
        yield ("topology", "node_labels"), "names labels of topology.labels_file, which is not set"


def _store(config: Config) -> Iterator[tuple[Path, str]]:
    try:
        scheme(config.storage.path)  # a URL is for commands that only read
    except ValueError as error:
        yield ("storage", "path"), str(error)


def _retention(config: Config) -> Iterator[tuple[Path, str]]:
    kept = config.storage.retention
    for name in ("one_minute", "fifteen_minutes"):
        age = getattr(kept, name)
        if age and not 0 < kept.raw <= age:
            yield (
                ("storage", "retention", name),
                (
                    f"{age} is shorter than storage.retention.raw ({kept.raw or 'forever'}): "
                    "roll-ups are kept at least as long"
                ),
            )


def _upload(config: Config) -> Iterator[tuple[Path, str]]:
    upload = config.storage.upload
    if not upload.url:
        return
    try:
        kind = scheme(upload.url)
    except ValueError as error:
        yield ("storage", "upload", "url"), str(error)
        return
    if kind == "directory" and (upload.credentials_file or upload.endpoint):
        name = "credentials_file" if upload.credentials_file else "endpoint"
        yield ("storage", "upload", name), f"has no effect for a directory ({upload.url})"
    if upload.endpoint and not upload.endpoint.startswith(("http://", "https://")):
        yield (
            ("storage", "upload", "endpoint"),
            f"{upload.endpoint!r} is not an address such as https://minio.example.com:9000",
        )
    for name in ("timeout", "run_time"):
        if getattr(upload, name) <= 0:
            yield ("storage", "upload", name), "must be longer than 0"
