"""web.config.yml: the file in which every exporter of the Prometheus project takes
TLS, passwords and limits.

Format: prometheus/exporter-toolkit, docs/web-configuration.md. Where a value would protect less
than it says, it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec
import yaml

from collector.config.file import MAX_BYTES, unknown
from collector.config.raw_setting import ConfigError
from collector.config.units import Seconds
from collector.config.web.content import content

ClientAuth = Literal[
    "",
    "NoClientCert",
    "RequestClientCert",
    "RequireClientCert",
    "RequireAnyClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
]
Version = Literal["TLS10", "TLS11", "TLS12", "TLS13"]

# The only headers that exporter-toolkit lets a file set, and the values where they are a
# choice (web/handler.go).
HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",),
    "X-XSS-Protection": (),
    "Strict-Transport-Security": (),
}

# Modular crypt format of bcrypt: version, cost, 22 characters of salt, 31 of hash.
_BCRYPT = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
# 4 is bcrypt's least; each step doubles the work, and at 15 one check takes seconds
COSTS = range(4, 16)
_NULL, _TEXT = "tag:yaml.org,2002:null", "tag:yaml.org,2002:str"
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<where>.*)`)?$", re.DOTALL)


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    """A group of keys."""


class TlsServer(_Section, frozen=True):
    """Certificates, client certificates, and what a handshake may agree on."""

    cert: str = ""
    key: str = ""
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_auth_type: ClientAuth = ""
    client_ca_file: str = ""
    client_allowed_sans: tuple[str, ...] | None = None
    cipher_suites: tuple[str, ...] | None = None
    curve_preferences: tuple[str, ...] | None = None
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    prefer_server_cipher_suites: bool = True


class HttpServer(_Section, frozen=True):
    """Headers of every answer. ``http2`` is a permission that is not used: HTTP/1.1 is served."""

    http2: bool = True
    headers: dict[str, str] | None = None


class RateLimit(_Section, frozen=True):
    """A token bucket over all requests: one more each ``interval``, at most ``burst``
    saved up. 0 is no limit.
    """

    interval: str | int = 0
    burst: int = 0

    @property
    def seconds(self) -> float:
        """The interval."""
        return float(Seconds.parse(self.interval))


class WebConfig(_Section, frozen=True):
    """The whole file."""

    tls_server_config: TlsServer | None = None
    http_server_config: HttpServer | None = None
    basic_auth_users: dict[str, str] | None = None
    rate_limit: RateLimit | None = None


def read(file: Path, exposed: Callable[[str], None] | None = None) -> WebConfig:
    """The file's content; ConfigError with every problem, each beginning with file and key.

    ``exposed`` is reported where there are hashes or a key in it and everybody may read it.
    """
    said: list[str] = []
    config = parse(content(file, str(file), MAX_BYTES, exposed=said.append), str(file))
    if exposed is not None and (
        config.basic_auth_users or (config.tls_server_config or TlsServer()).key
    ):
        for text in said:
            exposed(text)
    return config


def parse(text: bytes, name: str) -> WebConfig:
    """As ``read``, for content that is here already."""
    try:
        loader = yaml.SafeLoader(text.decode())
        root = loader.get_single_node()
        problems = (
            [f"{name}{problem}" for problem in _keys(root, WebConfig, ())]
            if root is not None
            else []
        )
        if problems:
            raise ConfigError(*problems)
        if root is not None:
            _texts(root, WebConfig)
        given = loader.construct_document(root) if root is not None else None
        config = msgspec.convert({} if given is None else given, WebConfig)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: is not UTF-8 text") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: is nested too deeply") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(
            f"{name}{f':{mark.line + 1}' if mark else ''}: is not valid YAML"
        ) from error  # its text may hold a secret
    except msgspec.ValidationError as error:
        place = _PLACE.match(str(error))
        assert place is not None  # noqa: S101 - the pattern matches every text
        raise ConfigError(f"{name}: {place['where'] or 'the file'}: {place['what']}") from error
    if found := [f"{name}: {path}: {what}" for path, what in mistakes(config)]:
        raise ConfigError(*found)
    return config


def _keys(node: yaml.Node, kind: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Keys that do not exist or stand twice, which YAML itself lets pass; each as
    ``:line: path: problem``.
    """
    if not isinstance(node, yaml.MappingNode):
        return
    section = _section(kind)
    known = get_type_hints(section) if section else None
    seen: set[str] = set()
    for key_node, value in node.value:
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        where = f":{key_node.start_mark.line + 1}: {'.'.join((*path, key))}"
        if key in seen:
            yield f"{where}: is set twice"
        elif known is not None and key not in known:
            yield f"{where}: {unknown(key, set(known))}"
        elif known is not None:
            yield from _keys(value, known[key], (*path, key))
        seen.add(key)


def _texts(node: yaml.Node, kind: Any) -> None:
    """Let scalars be text where text is wanted, as they are written: ``X-XSS-Protection: 1`` is
    what exporter-toolkit's YAML library takes too. An absent value is empty text.
    """
    kinds = (kind, *get_args(kind))
    if isinstance(node, yaml.ScalarNode):
        if str in kinds and int not in kinds:
            node.tag, node.value = _TEXT, "" if node.tag == _NULL else node.value
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _texts(item, str if any(str in get_args(k) for k in kinds) else Any)
    elif isinstance(node, yaml.MappingNode):
        section = _section(kind)
        known = get_type_hints(section) if section else {}
        texts = any(get_args(k) == (str, str) for k in kinds)
        for key, value in node.value:
            if texts:
                _texts(key, str)
            _texts(value, str if texts else known.get(str(key.value), Any))


def _section(kind: Any) -> type[_Section] | None:
    """The section among the types that a value may have."""
    found = (k for k in (kind, *get_args(kind)) if isinstance(k, type))
    return next((k for k in found if issubclass(k, _Section)), None)


def mistakes(config: WebConfig) -> Iterator[tuple[str, str]]:
    """Path and problem of everything that types cannot say."""
    if config.tls_server_config is not None and config.tls_server_config != TlsServer():
        yield from _tls(config.tls_server_config)
    for name, value in ((config.http_server_config or HttpServer()).headers or {}).items():
        if problem := _header(name, value):
            yield f"http_server_config.headers.{name}", problem
    for user, hashed in (config.basic_auth_users or {}).items():
        match = _BCRYPT.fullmatch(hashed)
        if ":" in user or not user:
            yield (
                f"basic_auth_users.{user}",
                "a user's name is not empty and has no colon (RFC 7617)",
            )
        if match is None:
            yield (
                f"basic_auth_users.{user}",
                "is not a bcrypt hash such as `htpasswd -nBC 10 ''` makes",
            )
        elif int(match[1]) not in COSTS:
            yield (
                f"basic_auth_users.{user}",
                f"has cost {int(match[1])}; from {COSTS.start} to {COSTS.stop - 1} is served",
            )
    yield from _rate(config.rate_limit or RateLimit())


def _tls(tls: TlsServer) -> Iterator[tuple[str, str]]:
    at = "tls_server_config"
    for what in ("cert", "key"):
        given = [name for name in (what, f"{what}_file") if getattr(tls, name)]
        if len(given) != 1:
            yield (
                f"{at}.{what}_file",
                (
                    f"one of {what} and {what}_file is needed, "
                    f"{'both are' if given else 'neither is'} set"
                ),
            )
    if tls.client_ca and tls.client_ca_file:
        yield f"{at}.client_ca_file", "client_ca is set too"
    authority, policy = bool(tls.client_ca or tls.client_ca_file), tls.client_auth_type
    if policy in ("RequireAnyClientCert", "RequireClientCert"):
        yield (
            f"{at}.client_auth_type",
            f"{policy} accepts any self-signed certificate: use RequireAndVerifyClientCert",
        )
    elif policy in ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert") and not authority:
        yield (
            f"{at}.client_auth_type",
            f"{policy} needs client_ca_file: the CA whose certificates to accept",
        )
    elif policy in ("", "NoClientCert") and authority:
        yield (
            f"{at}.client_ca_file",
            "has no effect without client_auth_type: RequireAndVerifyClientCert",
        )
    if tls.client_allowed_sans is not None and policy != "RequireAndVerifyClientCert":
        yield f"{at}.client_allowed_sans", "needs client_auth_type: RequireAndVerifyClientCert"
    if tls.client_allowed_sans == ():
        yield f"{at}.client_allowed_sans", "is empty: no client would be accepted"
    for name in ("min_version", "max_version"):
        if getattr(tls, name) in ("TLS10", "TLS11"):
            yield (
                f"{at}.{name}",
                f"{getattr(tls, name)} is no longer supported (RFC 8996): TLS12 or TLS13",
            )
    if tls.min_version > tls.max_version:
        yield f"{at}.min_version", f"{tls.min_version} is above max_version ({tls.max_version})"


def _header(name: str, value: str) -> str:
    if name not in HEADERS:
        return f"cannot be set; allowed: {', '.join(HEADERS)}"
    if HEADERS[name] and value and value not in HEADERS[name]:
        return f"expected {' or '.join(HEADERS[name])}, got {value!r}"
    return "" if value.isascii() and value.isprintable() else "is not valid text for a header"


def _rate(limit: RateLimit) -> Iterator[tuple[str, str]]:
    try:
        seconds = limit.seconds
    except ValueError as error:
        yield "rate_limit.interval", str(error)
        return
    if seconds and limit.burst < 1:
        yield "rate_limit.burst", f"{limit.burst} would refuse every request: at least 1"
