"""What the agent and its uploading child say to each other: the plan on the command line, the
report on standard output.

Plain values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics

# Why a store did not take something, as a metric's label.
CAUSES = {
    "throttled": "it asked for fewer requests (429, 503)",
    "server_error": "its own error (5xx)",
    "timeout": "no answer in time",
    "unreachable": "no connection, or it broke",
    "denied": "the credentials are missing, wrong, expired or not enough (401, 403)",
    "clock_skew": "this node's clock is too far off for its signatures to count",
    "no_bucket": "the bucket, container or directory does not exist",
    "conflict": "another object of a different size has the name",
    "local": "the file itself could not be read",
    "configuration": "the settings are wrong, or the package obstore is missing",
    "other": "something else",
}

_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "file": "directory",
    "": "directory",
}


@dataclass(frozen=True, slots=True)
class Target:
    """How a store is reached.

    ``url``: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``,
    ``abfss://container@account.dfs.core.windows.net/prefix``, or an absolute directory.
    ``credentials_file``: AWS' shared credentials file (of it ``profile``), Google's service account
    JSON, or a file that holds an Azure account key or SAS token; empty: what the environment and
    the instance identity give.
    """

    url: str
    endpoint: str = ""
    region: str = ""
    credentials_file: str = ""
    profile: str = "default"
    ca_file: str = ""
    timeout_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to upload to, and how much of the node it may take.

    ``run_s`` and ``run_bytes`` bound one run; ``most_pending_bytes`` is what may wait before the
    least valuable is given up.
    """

    target: Target
    run_s: float = 30.0
    run_bytes: int = 256 << 20
    most_pending_bytes: int = 5 << 30

    def to_json(self) -> str:
        """As the child's argument. It holds paths of credentials, never credentials."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """From the child's argument."""
        given = json.loads(text)
        return cls(Target(**given.pop("target")), **given)


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did and what is left.

    ``retry_s``: when it wants to run again, seconds from its end; None when nothing waits.

    ``oldest_s`` is the unix time at which the oldest waiting file was sealed, 0 when nothing waits;
    ``error`` says why the run ended early.
    """

    sent_files: int = 0
    sent_bytes: int = 0
    given_up_files: int = 0
    given_up_bytes: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    pending_files: int = 0
    pending_bytes: int = 0
    oldest_s: float = 0.0
    retry_s: float | None = None
    error: str = ""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """From that line. ValueError or TypeError where it is none."""
        return cls(**json.loads(text))

    def publish(self, metrics: SelfMetrics, now_ns: int) -> None:
        """Set the agent's own metrics from this report."""
        metrics.add(agent.UPLOAD_FILES, amount=self.sent_files)
        metrics.add(agent.UPLOAD_BYTES, amount=self.sent_bytes)
        metrics.add(agent.UPLOAD_GIVEN_UP_FILES, amount=self.given_up_files)
        metrics.add(agent.UPLOAD_GIVEN_UP_BYTES, amount=self.given_up_bytes)
        for cause, count in self.failures.items():
            metrics.add(agent.UPLOAD_FAILURES, cause, amount=count)
        metrics.set(agent.UPLOAD_PENDING_FILES, self.pending_files)
        metrics.set(agent.UPLOAD_PENDING_BYTES, self.pending_bytes)
        metrics.replace(agent.UPLOAD_OLDEST, {(): self.oldest_s} if self.pending_files else {})
        if self.sent_files and not self.failures:
            metrics.set(agent.UPLOAD_LAST_SUCCESS, now_ns / 1e9)


def scheme(url: str) -> str:
    """``s3``, ``gs``, ``az`` or ``directory``; ValueError where a URL is none of what is supported.

    >>> scheme("s3://bucket/a"), scheme("abfss://c@a.dfs.core.windows.net/x"), scheme("/mnt/share")
    ('s3', 'az', 'directory')
    """
    parts = urlsplit(url)
    kind = _SCHEMES.get(parts.scheme)
    if kind is None:
        raise ValueError(
            f"{url!r}: unknown scheme {parts.scheme}; there are s3, gs, az, abfss, or "
            "an absolute directory"
        )
    if parts.password or parts.query or (parts.username and kind != "az"):
        raise ValueError("a URL holds no credentials: they belong in a file")
    if kind == "directory" and (parts.netloc or not parts.path.startswith("/")):
        raise ValueError(f"{url!r}: a directory is given by its absolute path")
    if kind != "directory" and not parts.netloc:
        raise ValueError(f"{url!r}: names no bucket")
    return kind
