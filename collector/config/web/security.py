"""What protects the server now: made from a web configuration, and made again when the file, or
one that it names, changes.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collector.config.raw_setting import ConfigError
from collector.config.web import tls
from collector.config.web.rate_limit import Bucket
from collector.config.web.settings import HttpServer, RateLimit, TlsServer, WebConfig, read

log = logging.getLogger("tocsin.web")

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Security:
    """Who is let in, and how. The default lets everybody in, without TLS: what stands between is
    the address that is listened on.

    ``names`` are of client certificates, None takes any that the authority signed; ``users``
    maps names to bcrypt hashes.
    """

    context: ssl.SSLContext | None = None
    names: tuple[str, ...] | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    bucket: Bucket | None = None

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "http" if self.context is None else "https"


class WebFile:
    """A web configuration on disk. ConfigError where it is not good at the start; afterwards
    the last good one stays.

    ``notice`` gets, once each, what is served and should not be left so.
    """

    def __init__(self, file: Path, notice: Callable[[str], object] = log.warning) -> None:
        self._file, self._tell = file, notice
        self._config = WebConfig()
        self._stamps: dict[Path, _Stamp | None] = {}
        self._said: set[str] = set()
        self._limit = RateLimit()  # of the bucket in force
        self.error = ""
        self.security, self._limit = self._make()

    def look(self) -> bool:
        """True where another configuration came into force.

        Blocks on the disk; an error is logged once, and kept in ``error``.
        """
        if all(_stamp(file) == stamp for file, stamp in self._stamps.items()):
            return False
        try:
            made, limit = self._make()
            refuse_less(self.security, made, str(self._file))
        except ConfigError as error:
            if str(error) != self.error:
                log.error(
                    "new web configuration rejected, keeping the previous one: %s",
                    "; ".join(error.problems),
                )
            self.error = str(error)
            return False
        log.info("web configuration reloaded: %s", self._file)
        self.security, self._limit, self.error = made, limit, ""
        return True

    def _make(self) -> tuple[Security, RateLimit]:
        """What the files say, and the limit of its bucket.

        Each is stamped before it is read, so that a change in between is seen at the next look.
        """
        self._stamps = {self._file: _stamp(self._file)}
        config = read(self._file, self._notice)
        context, server = None, config.tls_server_config or TlsServer()
        if server != TlsServer():
            self._stamps |= {file: _stamp(file) for file in tls.files(server, self._file.parent)}
            context = tls.context(server, self._file.parent, self._notice)
        elif config.basic_auth_users:
            self._notice(
                f"{self._file}: basic_auth_users without tls_server_config: "
                "passwords travel in the clear"
            )
        limit = config.rate_limit or RateLimit()
        made = Security(
            context=context,
            names=server.client_allowed_sans,
            users=config.basic_auth_users or {},
            headers={
                k: v
                for k, v in ((config.http_server_config or HttpServer()).headers or {}).items()
                if v
            },
            bucket=self._bucket(limit),
        )
        return made, limit

    def _bucket(self, limit: RateLimit) -> Bucket | None:
        """The existing bucket, unless the limit has changed."""
        if limit == self._limit:
            return self.security.bucket if limit.seconds else None
        return Bucket(limit.seconds, limit.burst, now_s=time.monotonic()) if limit.seconds else None

    def _notice(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._tell(text)


def _stamp(file: Path) -> _Stamp | None:
    """What differs once a file was changed or another took its place; None where it cannot be seen
    (a ConfigMap in mid-swap).
    """
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def refuse_less(old: Security, new: Security, where: str) -> None:
    """ConfigError, beginning with ``where``, if ``new`` no longer asks of clients what ``old``
    does: what is half written looks just so.
    """
    if gone := _gone(old, new):
        raise ConfigError(
            f"{where}: {gone}; a half-written file would look the same: restart the agent"
        )


def _gone(old: Security, new: Security) -> str:
    """What a new configuration would no longer ask of clients; empty where it asks as much."""
    if old.context is not None and new.context is None:
        return "TLS is gone"
    if old.users and not new.users:
        return "passwords are gone"
    if (
        old.context is not None
        and new.context is not None
        and new.context.verify_mode < old.context.verify_mode
    ):
        return "client certificates are no longer requested"
    return "client_allowed_sans is gone" if old.names is not None and new.names is None else ""
