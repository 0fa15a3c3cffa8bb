"""What types cannot say: values that must fit each other or a form of their own."""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.settings import Config
from collector.config.tree import Path

# Paths that mean something already (Prometheus' and dcgm-exporter's own).
RESERVED = ("/", "/-/healthy", "/-/ready", "/health", "/healthz")
SHORTEST_PERIOD_S = 0.1  # the NVML sweep of 8 GPUs takes up to about 50 ms on hardware with slow getters


def check(config: Config) -> Iterator[tuple[Path, str]]:
    """Path and problem of everything that does not fit."""
    yield from _web(config)
    yield from _periods(config)
    yield from _topology(config)
    if config.simulate.inject and not config.simulate.profile:
        yield ("simulate", "inject"), "faults are injected into a simulated node only: set simulate.profile too"


def address(text: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:9400``, ``:9400`` (all interfaces, host is empty) or ``[::1]:9400``; ValueError otherwise."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address stands in brackets, as in [::1]:9400")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no host:port, such as 127.0.0.1:9400 or :9400")
    return host, int(port)


def _web(config: Config) -> Iterator[tuple[Path, str]]:
    if not config.web.listen_address:
        yield ("web", "listen_address"), "at least one address is needed"
    for text in config.web.listen_address:
        try:
            address(text)
        except ValueError as error:
            yield ("web", "listen_address"), str(error)
    path = config.web.telemetry_path
    if not path.startswith("/") or path in RESERVED or path.startswith("/api/") or any(c in path for c in "?#{} "):
        yield ("web", "telemetry_path"), f"{path!r} is no free path, such as /metrics"


def _periods(config: Config) -> Iterator[tuple[Path, str]]:
    for name in ("nvml", "infiniband", "kmsg", "host"):
        source = getattr(config.sources, name)
        if source.period < SHORTEST_PERIOD_S:
            yield ("sources", name, "period"), f"{source.period} is shorter than the shortest period, 100ms"
        if source.deadline <= 0:
            yield ("sources", name, "deadline"), "must be longer than 0"
    nvml = config.sources.nvml
    if not 0 < nvml.call_deadline < nvml.deadline:
        yield (
            ("sources", "nvml", "call_deadline"),
            f"{nvml.call_deadline} must lie between 0 and sources.nvml.deadline ({nvml.deadline})",
        )


def _topology(config: Config) -> Iterator[tuple[Path, str]]:
    topology = config.topology
    given = [name for name in ("file", "command", "labels_file") if getattr(topology, name)]
    if len(given) > 1:
        yield ("topology", given[1]), f"only one of file, command and labels_file: topology.{given[0]} is set too"
    if topology.node_labels and not topology.labels_file:
        yield ("topology", "node_labels"), "names labels of topology.labels_file, which is not set"
