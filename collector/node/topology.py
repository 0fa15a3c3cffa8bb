"""Where the node and its devices stand: cluster, rack, leaf, rail, NVLink domain,
as attributes of devices.

It comes from a file keyed by host (YAML, JSON or CSV), from a command that prints this host's entry
as JSON, or from node labels in a file of the Kubernetes downward API. An entry holds keys of the
site's choice, and below ``devices`` the same for single devices, by identity, RDMA device
(``mlx5_0``, ``mlx5_0/1``), net device or GPU (``gpu3``). The host ``*`` speaks for every host.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipeline import child
from pipeline.catalog import FACTS
from pipeline.frame import Device
from pipeline.gpu_parts import OF_GPU
from pipeline.observation import Reading

MAX_BYTES = 16 << 20
MAX_KEYS, MAX_DEVICES, MAX_VALUE = 16, 1024, 128
COMMAND_S = 10.0
EVERY_HOST = "*"

_KEY = re.compile(r"[a-z][a-z0-9_]{0,31}")
_RESERVED = {fact.name for fact in FACTS} | {"devices", "device", "host", "id", "kind"}
_LABEL = re.compile(r'([A-Za-z0-9._/-]{1,317})=("(?:[^"\\]|\\.)*")')

Pairs = Mapping[str, str]


class TopologyError(ValueError):
    """What is wrong, with the file and line or key."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Attributes of one host, and of single devices of it."""

    attributes: Pairs = field(default_factory=dict)
    devices: Mapping[str, Pairs] = field(default_factory=dict)

    def over(self, base: Entry) -> Entry:
        """Both together; where both speak, this one holds."""
        names = {*self.devices, *base.devices}
        devices = {
            name: {**base.devices.get(name, {}), **self.devices.get(name, {})} for name in names
        }
        return Entry({**base.attributes, **self.attributes}, devices)


class Topology:
    """Attributes by device.

    It is a source without frames: its ``read`` looks whether something changed and takes it over.

    A ``read`` that fails raises TopologyError or OSError and leaves what was known before in force.
    """

    name = "topology"

    def __init__(
        self, load: Callable[[], Entry], stamp: Callable[[], object] | None = None
    ) -> None:
        self._load = load
        self._stamp = stamp
        self._stamped: object = None
        self.entry = Entry()  # another object as soon as anything in it changed

    @classmethod
    def of_file(cls, path: Path, host: str) -> Topology:
        """From a file, read now: TopologyError or OSError says what is wrong with it."""
        topology = cls(lambda: read_file(path, host), lambda: _stat(path))
        topology.read()
        return topology

    @classmethod
    def of_labels(cls, path: Path, labels: Pairs) -> Topology:
        """From node labels, read now.

        ``labels``: attribute to label, such as rack to topology.example.com/rack.
        """
        topology = cls(lambda: parse_labels(_text(path), labels, str(path)), lambda: _stat(path))
        topology.read()
        return topology

    @classmethod
    def of_command(cls, argv: Sequence[str]) -> Topology:
        """From a command, run with every ``read`` and not before: an inventory that is down must
        not keep an agent from starting.
        """
        return cls(lambda: run_command(argv))

    def read(self) -> Reading:
        """Take over what changed."""
        stamp = self._stamp() if self._stamp else None
        if stamp is None or stamp != self._stamped:
            self.entry = self._load()
            self._stamped = stamp
        return Reading()

    def attributes(self, kind: str, device: Device) -> dict[str, str]:
        """What is known of the location of a device of a kind."""
        entry = self.entry
        found = dict(entry.attributes)
        if entry.devices:
            for name in _names(kind, device):
                found.update(entry.devices.get(name, {}))
        return found

    def with_topology(self, device: Device) -> Device:
        """The device with those attributes among its own; the same
        object where nothing is known.
        """
        found = self.attributes(device.kind, device)
        return (
            Device(device.host, device.kind, device.id, {**device.attributes, **found})
            if found
            else device
        )


def read_file(path: Path, host: str) -> Entry:
    """This host's entry in a file, by its suffix: .yaml, .yml, .json or .csv.

    The whole file is checked.
    """
    parsers = {".yaml": _yaml, ".yml": _yaml, ".json": _json}
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return parse_csv(_text(path), host, str(path))
    if suffix not in parsers:
        raise TopologyError(f"{path}: name must end in .yaml, .yml, .json or .csv")
    document = parsers[suffix](_text(path), str(path))
    entries = {name: _entry(body, f"{path}: {name}") for name, body in document.items()}
    return entries.get(host, Entry()).over(entries.get(EVERY_HOST, Entry()))


def parse_csv(text: str, host: str, where: str) -> Entry:
    """This host's entry in a table with columns ``host``, perhaps ``device``, and one per key;
    empty cells say nothing.
    """
    rows = csv.reader(text.splitlines(), strict=True)
    every, ours = Entry({}, {}), Entry({}, {})
    seen: set[tuple[str, str]] = set()
    header: list[str] | None = None
    try:
        for row in rows:
            at = f"{where}:{rows.line_num}"
            if not any(map(str.strip, row)) or row[0].startswith("#"):
                continue
            if header is None:
                header = _header(row, at)
                continue
            if len(row) != len(header):
                raise TopologyError(
                    f"{at}: {len(row)} cells, wanted {len(header)} as in the header"
                )
            cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
            name, device = cells.pop("host"), cells.pop("device", "")
            if not name or (name, device) in seen:
                raise TopologyError(
                    f"{at}: "
                    f"{'no host' if not name else f'a second row for {name} {device}'.strip()}"
                )
            seen.add((name, device))
            pairs = _pairs({key: cell for key, cell in cells.items() if cell}, at)
            _put(
                ours if name == host else every if name == EVERY_HOST else Entry({}, {}),
                device,
                pairs,
            )
    except csv.Error as error:
        raise TopologyError(f"{where}:{rows.line_num}: {error}") from None
    return ours.over(every)


def parse_labels(text: str, labels: Pairs, where: str) -> Entry:
    """Attributes from lines ``label="value"``.

    A label that the node does not bear is simply not known.
    """
    known: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LABEL.fullmatch(line.strip())
        if not found:
            raise TopologyError(f'{where}:{number}: not a line of the form label="value"')
        try:
            known[found[1]] = json.loads(found[2])
        except ValueError:
            raise TopologyError(
                f"{where}:{number}: value of {found[1]} is not a quoted string"
            ) from None
    return Entry(
        _pairs({key: known[label] for key, label in labels.items() if known.get(label)}, where)
    )


def run_command(argv: Sequence[str]) -> Entry:
    """This host's entry as a command prints it in JSON.

    TopologyError where it fails, hangs or prints something else.
    """
    where = " ".join(argv)
    try:
        finished = child.run(argv, timeout_s=COMMAND_S, max_bytes=MAX_BYTES)
    except OSError as error:
        raise TopologyError(f"{where}: {error.strerror or error}") from None
    if finished.timed_out or finished.truncated or finished.returncode != 0:
        last = finished.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
        ended = (
            "no end"
            if finished.timed_out
            else "too much output"
            if finished.truncated
            else f"exit {finished.returncode}"
        )
        raise TopologyError(f"{where}: {ended} within {COMMAND_S:g} s{': ' + last if last else ''}")
    return _entry(_json(finished.stdout.decode(errors="replace"), where), where)


def _names(kind: str, device: Device) -> Iterator[str]:
    """What a file may call a device, the vaguest first, so that the most exact name holds."""
    facts = device.attributes
    if kind in OF_GPU and "index" in facts:
        yield f"gpu{facts['index']}"
    for fact in ("net_device", "device", "gpu_uuid"):
        if facts.get(fact):
            yield facts[fact]
    if facts.get("device") and facts.get("port"):
        yield f"{facts['device']}/{facts['port']}"
    yield device.id


def _header(row: list[str], at: str) -> list[str]:
    header = [name.strip() for name in row]
    if "host" not in header or len(set(header)) != len(header):
        raise TopologyError(
            f"{at}: the first line names the columns, `host` among them and none twice"
        )
    _pairs(dict.fromkeys((name for name in header if name not in ("host", "device")), "x"), at)
    return header


def _put(entry: Entry, device: str, pairs: dict[str, str]) -> None:
    target = entry.devices if device else entry.attributes
    assert isinstance(target, dict)  # noqa: S101 - made in parse_csv
    target.update({device: pairs} if device else pairs)


def _entry(body: object, where: str) -> Entry:
    """One host's entry, checked."""
    if not isinstance(body, dict):
        raise TopologyError(f"{where}: wanted keys and values")
    devices = body.get("devices", {})
    if not isinstance(devices, dict) or len(devices) > MAX_DEVICES:
        raise TopologyError(
            f"{where}.devices: wanted at most {MAX_DEVICES} devices, each with keys and values"
        )
    own = {key: value for key, value in body.items() if key != "devices"}
    return Entry(
        _pairs(own, where),
        {name: _pairs(pairs, f"{where}.devices.{name}") for name, pairs in devices.items()},
    )


def _pairs(pairs: object, where: str) -> dict[str, str]:
    """Keys and values, checked: bounded, printable, and no name that belongs to the hardware."""
    if not isinstance(pairs, dict) or len(pairs) > MAX_KEYS:
        raise TopologyError(f"{where}: wanted at most {MAX_KEYS} keys with values")
    checked: dict[str, str] = {}
    for key, value in pairs.items():
        at = f"{where}.{key}"
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise TopologyError(
                f"{at[:200]}: a key is a lower-case word of letters, digits and _, "
                "32 characters at most"
            )
        if key in _RESERVED:
            raise TopologyError(f"{at}: this name is reserved for facts that the hardware reports")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TopologyError(f"{at}: wanted text or a whole number")
        text = str(value).strip()
        if not text or len(text) > MAX_VALUE or not text.isprintable():
            raise TopologyError(f"{at}: wanted 1 to {MAX_VALUE} printable characters")
        checked[key] = text
    return checked


def _yaml(text: str, where: str) -> dict[str, Any]:
    """A document with everything as text: `012` and `yes` are names, not numbers or truths."""
    try:
        root = yaml.compose(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise TopologyError(f"{where}{line}: {getattr(error, 'problem', None) or error}") from None
    return _plain_mapping(root, where, 0, set()) if root is not None else {}


def _plain_mapping(node: Any, where: str, depth: int, seen: set[int]) -> dict[str, Any]:
    at = f"{where}:{node.start_mark.line + 1}"
    if id(node) in seen:  # also what keeps a small file from becoming a huge document
        raise TopologyError(f"{at}: an alias of keys and values is not supported; write them out")
    seen.add(id(node))
    if not isinstance(node, yaml.MappingNode) or depth > 3:  # hosts, entry, devices, device
        raise TopologyError(
            f"{at}: wanted keys and values{' not as deep as this' if depth > 3 else ''}"
        )
    plain: dict[str, Any] = {}
    for key, value in node.value:
        line = f"{where}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode) or key.value in plain:
            raise TopologyError(f"{line}: expected a new name")
        if isinstance(value, yaml.ScalarNode) and depth:
            plain[key.value] = value.value
        else:
            plain[key.value] = _plain_mapping(value, where, depth + 1, seen)
    return plain


def _json(text: str, where: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise TopologyError(f"{where}: {key[:MAX_VALUE]} occurs twice")
            found[key] = value
        return found

    try:
        document = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise TopologyError(f"{where}:{error.lineno}: {error.msg}") from None
    except RecursionError:
        raise TopologyError(f"{where}: nested too deeply") from None
    if not isinstance(document, dict):
        raise TopologyError(f"{where}: wanted an object")
    return document


def _text(path: Path) -> str:
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise TopologyError(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    try:
        return raw.decode("utf-8-sig")  # spreadsheets write a mark in front
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: byte {error.start} is not UTF-8") from None


def _stat(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
