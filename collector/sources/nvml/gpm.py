"""GPM: what the units of a GPU or MIG instance did between two samples (Hopper and later).

Runs in the driver child.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.sources.nvml.library import GONE, UNSUPPORTED, Library, NvmlError
from collector.sources.nvml.wire import ENTRY

# nvmlGpmMetric_t is 40 bytes (id, return code, value, three pointers; on 64 bits, and NVML exists
# for nothing else) behind a head of 24 (version, count, two samples); nvml.h.
_HEAD = 24


def _entry(code: int) -> bytes:
    """That of a metric that was not read."""
    return bytes(4) + code.to_bytes(4, "little") + bytes(32)


class GpmReader:
    """The metrics of one GPU, or of a GPU instance where ``instance`` is not negative.

    ``columns`` are those that are supported.

    Two samples are kept; the first reading gives nothing. What is unsupported is found out once.
    """

    def __init__(
        self,
        library: Library,
        gpu: int,
        handle: Any,
        metrics: Mapping[str, int],
        instance: int = -1,
    ) -> None:
        self._all = metrics
        self.columns = list(metrics)
        self._metrics = list(metrics.values())
        self._library = library
        self._gpu, self._handle, self._instance = gpu, handle, instance
        self._samples: list[Any] = []
        self._taken = False
        self._known = False
        self._request: Any = None
        self._asked: list[int] = []  # metrics whose ids stand in the request

    def read(self) -> bytes:
        """Entries of nvmlGpmMetric_t, one per column; empty before the second sample and
        where GPM is not supported. Where it fails, as while a profiler has the counters, each entry
        has the reason, and it is read again.
        """
        if not self.columns:
            return b""
        try:
            if not self._sample():
                return b""
        except NvmlError as error:
            self._taken = False  # what comes next does not follow the older sample
            if error.code in UNSUPPORTED:
                self._keep([])
            return self._failed(error)
        try:
            return self._between(self._metrics) if self._known else self._first()
        except NvmlError as error:
            return self._failed(error)

    def _failed(self, error: NvmlError) -> bytes:
        """Entries that say why there are no values."""
        if error.code in GONE:
            raise error
        return b"" if error.code in UNSUPPORTED else _entry(error.code) * len(self.columns)

    def _sample(self) -> bool:
        """Take a sample in place of the older one; True where there are two."""
        if not self._samples:
            self._samples = [
                self._library.call("nvmlGpmSampleAlloc", gpu=self._gpu) for _ in range(2)
            ]
        self._samples.reverse()
        if self._instance < 0:
            self._library.call("nvmlGpmSampleGet", self._handle, self._samples[1], gpu=self._gpu)
        else:
            self._library.call(
                "nvmlGpmMigSampleGet", self._handle, self._instance, self._samples[1], gpu=self._gpu
            )
        second, self._taken = self._taken, True
        return second

    def _between(self, metrics: list[int]) -> bytes:
        """Entries of these metrics between the two samples."""
        if self._request is None or self._request.numMetrics != len(metrics):
            self._request = self._library.nvml.c_nvmlGpmMetricsGet_t()
            self._request.version = self._library.nvml.NVML_GPM_METRICS_GET_VERSION
            self._request.numMetrics = len(metrics)
            self._asked = []
        if self._asked != metrics:
            self._asked = list(metrics)
            for at, metric in enumerate(metrics):
                self._request.metrics[at].metricId = metric
        self._request.sample1, self._request.sample2 = self._samples
        self._library.call("nvmlGpmMetricsGet", self._request, gpu=self._gpu)
        return bytes(memoryview(self._request).cast("B")[_HEAD : _HEAD + ENTRY.size * len(metrics)])

    def _first(self) -> bytes:
        """All metrics; those that this GPU or driver does not have are dropped.

        One by one where it refuses them together.
        """
        try:
            entries = self._between(self._metrics)
        except NvmlError as error:
            if error.code not in UNSUPPORTED:
                raise
            entries = b"".join(self._alone(metric) for metric in self._metrics)
        size = ENTRY.size
        rows = [entries[at : at + size] for at in range(0, len(entries), size)]
        keep = [
            at
            for at, row in enumerate(rows)
            if int.from_bytes(row[4:8], "little", signed=True) not in UNSUPPORTED
        ]
        self._keep(keep)
        return b"".join(rows[at] for at in keep)

    def _alone(self, metric: int) -> bytes:
        try:
            return self._between([metric])
        except NvmlError as error:
            if error.code in GONE:
                raise
            return _entry(error.code)

    def _keep(self, places: list[int]) -> None:
        self.columns = [self.columns[at] for at in places]
        self._metrics = [self._metrics[at] for at in places]
        self._known, self._request = True, None

    def ask_again(self) -> None:
        """Ask for the metrics that were refused once more in the next reading."""
        if len(self._metrics) < len(self._all):
            self.columns, self._metrics = list(self._all), list(self._all.values())
            self._known, self._request = False, None

    def close(self) -> None:
        """Give the samples back."""
        for sample in self._samples:
            try:
                self._library.call("nvmlGpmSampleFree", sample, gpu=self._gpu)
            except NvmlError:
                break
        self._samples = []
