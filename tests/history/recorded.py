"""A history as a site has it: in memory, or in real servers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from history.site.http import Http
from history.site.series import Series, SiteError, clean
from tests.parts import Part, need
from tests.ports import free_port
from tests.servers import Server
from tests.wait import PATIENCE_S

PREFIX = "--web.route-prefix="
Samples = Sequence[tuple[int, float]]  # unix time in ms, value


@dataclass
class Recorded:
    """Series by labels, as a site that can be asked and as text for real servers."""

    series: list[tuple[Mapping[str, str], Samples]] = field(default_factory=list)
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    about: str = "memory"
    how: str = "in memory"

    def add(self, name: str, labels: Mapping[str, str], samples: Samples) -> None:
        """A series."""
        self.series.append(({"__name__": name, **labels}, samples))

    def names(self, begin_ms: int, end_ms: int) -> list[str]:
        """See ``history.site.series.Site``."""
        return sorted(
            {
                labels["__name__"]
                for labels, samples in self.series
                if any(begin_ms <= ms < end_ms for ms, _ in samples)
            }
        )

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """See ``history.site.series.Site``."""
        self.asked.append((name, begin_ms, end_ms))
        for labels, samples in self.series:
            if labels["__name__"] == name:
                times = np.array([ms for ms, _ in samples], np.int64)
                values = np.array([value for _, value in samples], np.float64)
                yield clean(labels, times, values, (begin_ms, end_ms))

    def text(self, unit_ms: int) -> str:
        """The samples in Prometheus' text form, times in units of so many milliseconds; a family's
        lines together, as OpenMetrics demands.
        """
        lines = []
        for labels, samples in sorted(self.series, key=lambda one: one[0]["__name__"]):
            inside = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items() if k != "__name__")
            lines += [
                f"{labels['__name__']}{{{inside}}} {value} {ms / unit_ms:.15g}"
                for ms, value in samples
            ]
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _answers(url: str) -> bool:
    try:
        return Http(url, sleep=lambda _: None).get("").status == 200
    except SiteError:
        return False


@contextmanager
def prometheus(
    recorded: Recorded,
    folder: Path,
    part: Part = need,
    options: Sequence[str] = (),
    config: str = "",
) -> Iterator[str]:
    """A real Prometheus whose blocks hold the history; its URL. ``config`` as YAML below global."""
    text, data = folder / "history.om", folder / "data"
    text.write_text(recorded.text(1000) + "# EOF\n")
    promtool = part("promtool", "prometheus")
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    with serving(data, folder, part, options, config) as url:
        yield url


@contextmanager
def serving(
    data: Path, folder: Path, part: Part = need, options: Sequence[str] = (), config: str = "{}"
) -> Iterator[str]:
    """A real Prometheus on these blocks; its URL."""
    file = folder / "prometheus.yml"
    file.write_text(f"global: {config or '{}'}\n")
    url = f"http://127.0.0.1:{free_port()}"
    argv = [
        part("prometheus", "prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={url.removeprefix('http://')}",
        *options,
    ]
    prefix = next((o.partition("=")[2] for o in options if o.startswith(PREFIX)), "")
    url += prefix
    with Server(argv, folder / "prometheus.log") as server:
        server.until(lambda: _answers(f"{url}/-/ready"), "Prometheus to be ready")
        yield url


@contextmanager
def victoria(recorded: Recorded, folder: Path, prefix: str = "") -> Iterator[str]:
    """A real VictoriaMetrics that has the history; its URL, below a path where one is given."""
    address = f"127.0.0.1:{free_port()}"
    argv = [
        need("victoria-metrics", "victoria-metrics"),
        f"-storageDataPath={folder / 'victoria'}",
        f"-httpListenAddr={address}",
        "-retentionPeriod=100y",
        "-search.latencyOffset=0s",
        "-memory.allowedBytes=128MB",
        f"-http.pathPrefix={prefix}",
    ]
    url = f"http://{address}{prefix}"
    with Server(argv, folder / "victoria.log") as server:
        server.until(lambda: _answers(f"{url}/health"), "VictoriaMetrics to be ready")
        body = recorded.text(1).encode()
        Http(url).post("/api/v1/import/prometheus", body, {})
        Http(url).get("/internal/force_flush")
        yield url
