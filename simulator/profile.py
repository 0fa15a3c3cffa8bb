"""Profiles of simulated nodes: what hardware there is, read from a TOML file and checked whole."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

FOLDER = Path(__file__).with_name("profiles")
_T = TypeVar("_T")


BIOS_VERSION = "2.4.1"  # of every machine; vendors give it many forms


@dataclass(frozen=True, slots=True)
class Host:
    """The computer around the GPUs. ``cuda`` as NVML counts: 13000 is 13.0."""

    product: str
    kernel: str
    driver: str
    cuda: int
    sockets: int
    cores: int
    memory_gib: int
    ofed: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One model of GPU: limits, clocks, and the parameters of its thermal model
    (kelvin per watt, seconds).

    Margins count from ``max_operating_c``, as NVML's T.Limit does: -2 means hardware slows down at
    2 K above. ``pci`` is the address without function of each GPU.
    """

    count: int
    pci: list[str]
    numa: list[int]
    power_limit_w: float
    power_min_w: float
    idle_w: float
    memory_idle_w: float
    clock_max_mhz: int
    clock_idle_mhz: int
    clock_step_mhz: int
    memory_clock_mhz: int
    video_clock_max_mhz: int
    max_operating_c: int
    slowdown_margin_c: int
    shutdown_margin_c: int
    memory_max_c: int
    r_th: float
    tau_s: float
    inlet_c: float
    memory_mib: int
    reserved_mib: int
    bar1_mib: int
    banks: int
    sms: int
    pcie_generation: int
    pcie_width: int
    gpm: bool
    margins: bool


@dataclass(frozen=True, slots=True)
class NvLink:
    """The links of one GPU; bytes per second are those of one link in one direction."""

    links: int
    version: int
    gigabytes_per_second: float
    fabric: bool
    c2c_links: int


@dataclass(frozen=True, slots=True)
class Ports:
    """The InfiniBand ports, one per adapter.

    ``signalling`` is the rate bit errors are counted against (with coding and FEC).
    """

    devices: list[str]
    net: list[str]
    pci: list[str]
    numa: list[int]
    speed: str
    gigabits_per_second: int
    signalling_gigabits_per_second: float
    pcie_speed: str
    hca_type: str
    device_id: str
    firmware: str
    board: str


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of node: its hardware, and what NVML says of it.

    ``answers`` are fixed answers by question; ``unsupported`` are patterns (as in the shell) of
    questions that are answered with NOT_SUPPORTED, by reason.
    """

    name: str
    host: Host
    gpu: Gpu
    nvlink: NvLink
    ports: Ports
    answers: Mapping[str, str | int | float]
    unsupported: Mapping[str, tuple[str, ...]]
    mig: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def profile_names() -> list[str]:
    """Names of the profiles that come with the simulator."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def load_profile(name: str, folder: Path = FOLDER) -> Profile:
    """A profile by name.

    ValueError names the file and the key that is wrong, or lists the profiles there are.
    """
    table = _layered(name, folder)
    where = f"profile {name}"
    profile = Profile(
        name,
        _build(Host, _section(table, "host", where), f"{where}: [host]"),
        _build(Gpu, _section(table, "gpu", where), f"{where}: [gpu]"),
        _build(NvLink, _section(table, "nvlink", where), f"{where}: [nvlink]"),
        _build(Ports, _section(table, "ports", where), f"{where}: [ports]"),
        _section(table, "answers", where),
        {
            reason: tuple(patterns)
            for reason, patterns in _section(table, "unsupported", where).items()
        },
        {int(gpu): tuple(instances) for gpu, instances in table.get("mig", {}).items()},
    )
    if extra := set(table) - {"host", "gpu", "nvlink", "ports", "answers", "unsupported", "mig"}:
        raise ValueError(f"{where}: unknown section {min(extra)!r}")
    for section, count, lists in (
        ("gpu", profile.gpu.count, ("pci", "numa")),
        ("ports", len(profile.ports.devices), ("net", "pci", "numa")),
    ):
        for key in lists:
            if len(getattr(getattr(profile, section), key)) != count:
                raise ValueError(f"{where}: [{section}] {key} must have {count} entries")
    return profile


def _layered(name: str, folder: Path) -> dict[str, Any]:
    """The table of a profile over that of its base: sections are merged key by key."""
    file = folder / f"{name}.toml"
    if "/" in name or not file.is_file():
        raise ValueError(f"no profile {name!r}; there are {', '.join(profile_names())}")
    try:
        table = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: {error}") from error
    if "base" not in table:
        return table
    whole = _layered(table.pop("base"), folder)
    for section, values in table.items():
        whole[section] = {**whole.get(section, {}), **values}
    return whole


def _section(table: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    section = table.get(key)
    if not isinstance(section, dict):
        raise ValueError(f"{where}: section [{key}] is missing")  # noqa: TRY004 - the file is wrong, not the caller
    return section


def _build(cls: type[_T], values: Mapping[str, Any], where: str) -> _T:
    wanted = get_type_hints(cls)
    names = {f.name for f in fields(cls)}  # type: ignore[arg-type] # only dataclasses of this file come here
    for key in [*(names - set(values)), *(set(values) - names)]:
        raise ValueError(f"{where}: {'unknown key' if key in values else 'missing key'} {key!r}")
    for key, value in values.items():
        kind = wanted[key]
        plain = getattr(kind, "__origin__", kind)
        if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
            raise ValueError(f"{where}: {key} must be {plain.__name__}, not {value!r}")
    return cls(**values)
